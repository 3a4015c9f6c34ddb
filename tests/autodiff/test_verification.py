"""Finding what is wrong with a backward pass that is there, without running it."""

from __future__ import annotations

import pytest
from small_nets import net, op

from netgrad.autodiff.gradient_registry import GradientRegistry
from netgrad.autodiff.verification import verify
from netgrad.graph.operator import CreateOperator
from netgrad.proto import caffe2_pb2

FORWARD = [op("FC", "x w b", "h"), op("Relu", "h", "r"), op("Mul", "r h", "m"), op("Gather", "t i", "e"),
           op("Gather", "t j", "f"), op("Sum", "m e f", "s"), op("AveragedLoss", "s", "loss")]  # fmt: skip


def finished(*forward, ys=("loss",), **options):
    made = net(*(forward or FORWARD))
    made.AddGradientOperators(list(ys), **options)
    return made.Proto()


def position(proto, type: str, output: str | None = None) -> int:
    """The last operator of a type (that writes this)."""
    return max(k for k, each in enumerate(proto.op) if each.type == type and (output is None or output in each.output))


def test_a_right_pass_has_no_findings():
    assert verify(finished()) == []
    assert verify(finished(), ["loss"]) == []


def test_other_names_are_as_good():
    proto = finished()
    for each in proto.op:
        for names in (each.input, each.output):
            names[:] = [name.replace("_grad", "_cotangent") if name != "loss_autogen_grad" else name for name in names]
    assert verify(proto) == []


def test_another_order_of_a_sums_operands_is_as_good():
    proto = finished()
    each = proto.op[position(proto, "Sum")]
    each.input[:] = list(each.input)[::-1]
    assert verify(proto) == []


def test_operators_after_the_pass_are_left_alone():
    proto = finished()
    proto.op.extend([op("WeightedSum", "w one w_grad lr", "w")])
    assert verify(proto) == []


def test_an_overwritten_blob_is_found():
    proto = finished()
    tail = [caffe2_pb2.OperatorDef.FromString(each.SerializeToString()) for each in proto.op[7:]]
    del proto.op[7:]
    proto.op.extend([op("Copy", "other", "r"), *tail])
    found = verify(proto)
    assert len(found) == 1 and "'r'" in str(found[0]) and "overwrote it" in str(found[0])


def test_a_gradient_that_is_overwritten_in_between_is_found():
    proto = finished()
    k = position(proto, "MulGradient")
    tail = [caffe2_pb2.OperatorDef.FromString(each.SerializeToString()) for each in proto.op[k + 1 :]]
    del proto.op[k + 1 :]
    spoiler = op("Scale", "r_grad", "r_grad", scale=3.0)
    spoiler.is_gradient_op = True
    proto.op.extend([spoiler, *tail])
    texts = [str(each) for each in verify(proto)]
    assert any("ReluGradient" in text and "'r_grad'" in text for text in texts)
    assert any("Scale" in text and "not part of the derivative" in text for text in texts)


@pytest.mark.parametrize(
    "type, k, name",
    [("MulGradient", 1, "h"), ("ReluGradient", 0, "h"), ("FCGradient", 0, "r"), ("FCGradient", 2, "r_grad")],
)
def test_a_wrong_operand_is_found_with_operator_and_blob(type, k, name):
    proto = finished()
    where = position(proto, type)
    proto.op[where].input[k] = name
    found = verify(proto)
    assert found[0].position == where
    assert f"{type} #{where}" in str(found[0]) and repr(name) in str(found[0])


def test_a_wrong_summand_is_found():
    proto = finished()
    where = position(proto, "Sum", "h_grad")
    proto.op[where].input[1] = "r_grad"
    assert any("Sum" in str(each) and "'r_grad'" in str(each) for each in verify(proto))


def test_a_missing_operator_is_found():
    proto = finished()
    del proto.op[position(proto, "ReluGradient")]
    assert any("needs ReluGradient" in str(each) for each in verify(proto))


def test_a_changed_argument_is_found():
    proto = finished(op("Scale", "x", "y", scale=2.0), ys=["y"])
    assert verify(proto) == []
    proto.op[-1].arg[0].f = 3.0
    assert verify(proto)


def test_a_lost_entry_of_the_map_is_no_matter_of_the_dataflow():
    """What Caffe2 emits for X = Sum(W, Y) over an older X: the blob that its map names for W is overwritten."""
    forward = [op("Scale", "A", "X", scale=2.0), op("Scale", "X", "Y", scale=3.0), op("Sum", "W Y", "X"),
               op("Scale", "X", "L", scale=1.0)]  # fmt: skip
    made = finished(*forward, ys=["L"])
    assert verify(made) == []
    bad = [op("ConstantFill", "L", "L_autogen_grad", value=1.0), op("Scale", "L_autogen_grad", "X_grad", scale=1.0),
           op("Scale", "X_grad", "X_grad", scale=3.0), op("Scale", "X_grad", "A_grad", scale=2.0)]  # fmt: skip
    for each in bad[1:]:
        each.is_gradient_op = True
    assert verify([*forward, *bad]) == []


@pytest.mark.parametrize(
    "forward, ys, options",
    [
        ([op("Sigmoid", "x", "h"), op("Sqr", "h", "h"), op("Mul", "h h", "h")], ["h"], {"overwritten": "save"}),
        ([op("Sum", "p q", "y")], ["y"], {"share_results": False}),
        ([op("Moments", "x", "m v"), op("Sqr", "m", "y")], ["y"], {"overwritten": "save"}),
        ([op("Gather", "t i", "a"), op("SumElements", "a", "p"), op("SumElements", "t", "q")], ["p", "q"], {}),
        ([op("Alias", "x", "y")], ["y"], {}),
        ([op("Sum", "x x", "y")], ["y"], {}),
    ],
    ids=["saved", "unshared", "zeros", "mixed", "passed on", "passed on twice"],
)  # fmt: skip
def test_every_way_of_asking_gives_a_pass_without_findings(forward, ys, options):
    assert verify(finished(*forward, ys=ys, **options), ys) == []


def test_a_restricted_pass_is_verified_as_such():
    proto = finished(wrt=["w"])
    assert verify(proto, wrt=["w"]) == []
    assert verify(proto)


def test_given_gradients_must_be_said():
    made = net(*FORWARD)
    made.AddGradientOperators({"loss": "dloss"})
    assert "say which blobs are differentiated" in str(verify(made)[0])
    assert verify(made, {"loss": "dloss"}) == []
    assert verify(made, {"loss": "other"})


def test_a_net_without_a_pass():
    assert "no backward pass" in str(verify(net(*FORWARD))[0])
    assert verify(net(*FORWARD), ["loss"])


def test_operators_of_a_registered_rule_belong_to_the_pass_though_they_bear_no_mark():
    @GradientRegistry.RegisterGradient("Mine")
    def mine(forward, given):
        return [CreateOperator("Scale", [given[0]], ["x_grad"], scale=3.0)], ["x_grad"]

    proto = finished(op("Mine", "x", "h"), op("Relu", "h", "y"), ys=["y"])
    assert verify(proto) == []
    proto.op[-1].input[0] = "y_autogen_grad"
    assert "Scale" in str(verify(proto)[0])


def test_two_passes_in_one_net_are_each_laid_beside_their_own_derivation():
    both = net(op("Scale", "w", "l1", scale=2.0), op("Scale", "w", "l2", scale=5.0))
    both.AddGradientOperators(["l1"])
    both.AddGradientOperators(["l2"])
    assert verify(both) == []
    both.Proto().op[-1].output[0] = "w_grad"
    assert [str(finding) for finding in verify(both)] and "writes over 'w_grad'" in str(verify(both)[0])


def test_a_pass_that_writes_over_a_given_gradient_is_found():
    square = net(op("Sqr", "x", "y"))
    square.AddGradientOperators({"y": "dy"})
    for each in square.Proto().op[1:]:
        for names in (each.input, each.output):
            for k, name in enumerate(names):
                if name == "dy_1":
                    names[k] = "dy"
    assert "writes over 'dy'" in str(verify(square, {"y": "dy"})[0])


def test_gradients_under_each_others_names_are_found():
    layer = net(op("FC", "x w b", "y"), op("AveragedLoss", "y", "loss"))
    layer.AddGradientOperators(["loss"])
    names = layer.Proto().op[-1].output
    assert list(names) == ["w_grad", "b_grad", "x_grad"]
    names[0], names[2] = "x_grad", "w_grad"
    assert "'x_grad' holds the gradient of 'w', not that of 'x'" in str(verify(layer)[0])


def test_what_follows_from_one_wrong_read_is_not_reported_again():
    chain = net(op("FC", "x w b", "h"), op("Relu", "h", "r"), op("FC", "r v c", "y"), op("AveragedLoss", "y", "loss"))
    chain.AddGradientOperators(["loss"])
    relu = next(each for each in chain.Proto().op if each.type == "ReluGradient")
    relu.input[0] = "x"
    assert [str(finding).split(" #")[0] for finding in verify(chain)] == ["ReluGradient"]
