"""What the backward pass does, a test for each behaviour. Names in brackets are those of Caffe2's known faults.

The numbers of the second half are arithmetic, or central differences of the forward operators.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from small_nets import arrays, gradients, net, op, text

from netgrad.autodiff.errors import (
    DeviceMismatchError,
    GradientError,
    MissingOutputGradientError,
    MissingRuleError,
    NoGradientError,
    OverwrittenError,
    UnknownBlobError,
    YsTypeError,
)
from netgrad.autodiff.forward import Forward
from netgrad.autodiff.gradient_registry import IR, GetBackwardPass, GradientRegistry
from netgrad.graph.blob import BlobReference
from netgrad.graph.device import DeviceOption
from netgrad.graph.net import Net
from netgrad.graph.operator import CreateOperator, GradientSlice
from netgrad.graph.scope import DeviceScope, NameScope
from netgrad.proto import caffe2_pb2
from netgrad.runtime.numeric import check_gradient
from netgrad.runtime.workspace import Workspace

CHAIN = [op("FC", "x w b", "h"), op("Relu", "h", "r"), op("AveragedLoss", "r", "loss")]


def cuda(index: int):
    return DeviceOption(caffe2_pb2.CUDA, index)


# the argument ys


def test_a_list_of_ys_makes_ones():
    ops, gradient = GetBackwardPass(CHAIN, ["loss"])
    fill = ops[0]
    assert text([fill]) == ["loss_autogen_grad = ConstantFill(loss, value=1.0)"]
    assert not fill.is_gradient_op
    assert gradient["loss"] == "loss_autogen_grad"


def test_a_dict_of_ys_takes_the_given_gradients():
    ops, gradient = GetBackwardPass(CHAIN, {"loss": "mine"})
    assert [each.type for each in ops] == ["AveragedLossGradient", "ReluGradient", "FCGradient"]
    assert ops[0].input[1] == "mine" == gradient["loss"]


def test_none_in_a_dict_is_filled_with_ones():
    assert text(GetBackwardPass(CHAIN, {"loss": None})[0]) == text(GetBackwardPass(CHAIN, ["loss"])[0])


@pytest.mark.parametrize("ys", [("loss",), "loss", BlobReference("loss"), {"loss"}, 3, None])
def test_ys_of_another_type_are_a_type_error(ys):
    with pytest.raises(YsTypeError, match=r"either be a list or a dict, not \w+"):
        GetBackwardPass(CHAIN, ys)
    assert issubclass(YsTypeError, TypeError)


@pytest.mark.parametrize("ys", [[], {}])
def test_no_ys_give_nothing(ys):
    assert GetBackwardPass(CHAIN, ys) == ([], {})


def test_duplicates_in_ys_collapse_and_references_are_names():
    once = text(GetBackwardPass(CHAIN, ["loss"])[0])
    assert text(GetBackwardPass(CHAIN, ["loss", "loss", BlobReference("loss")])[0]) == once


def test_fills_come_first_in_the_order_of_ys():
    ops, _ = GetBackwardPass([op("Relu", "x", "a"), op("Tanh", "x", "b")], ["b", "a"])
    assert [each.output[0] for each in ops[:2]] == ["b_autogen_grad", "a_autogen_grad"]


def test_a_fill_takes_the_device_scope_of_the_moment_and_not_the_device_of_its_y():
    with DeviceScope(cuda(0)):
        ops, _ = GetBackwardPass([op("Relu", "x", "y", device_option=cuda(1))], ["y"])
    assert [each.device_option.device_id for each in ops] == [0, 1]


# frontier, usage, order


def test_a_y_is_the_latest_version_of_its_name(backend):
    forward = [op("Scale", "x", "y", scale=3.0), op("Sum", "y x", "y"), op("Scale", "y", "y", scale=5.0)]
    assert_array_equal(gradients(forward, ["y"], arrays(x=[1.0, -1.0]), backend)["x"], [20, 20])


def test_the_frontier_is_the_value_that_each_name_holds_in_the_end():
    forward = Forward([op("Relu", "x", "y"), op("Relu", "y", "y"), op("Copy", "x", "z")])
    assert forward.version(forward.current["y"]) == 1
    assert forward.version(forward.current["x"]) == forward.version(forward.current["z"]) == 0


def test_a_value_that_is_read_twice_by_one_operator_has_two_uses():
    forward = Forward([op("Mul", "x x", "y"), op("Copy", "y", "z"), op("Copy", "z", "y")])
    assert [forward.names[value] for value in forward.shared] == ["x"]
    ops, _ = GetBackwardPass([op("Mul", "x x", "y")], {"y": "dy"})
    assert [list(each.output) for each in ops] == [["x_grad", "_x_grad_autosplit_0"], ["x_grad"]]


def test_being_differentiated_is_one_more_use_of_a_y(backend):
    forward = [op("Scale", "x", "y", scale=2.0), op("Scale", "y", "z", scale=3.0)]
    found = gradients(forward, ["y", "z"], arrays(x=[1.0]), backend)
    assert_array_equal(found["y"], [4])
    assert_array_equal(found["x"], [8])


def test_gradient_operators_come_in_backward_order():
    ops, _ = GetBackwardPass(CHAIN, ["loss"])
    assert [each.type for each in ops] == ["ConstantFill", "AveragedLossGradient", "ReluGradient", "FCGradient"]


def test_operators_after_the_y_or_beside_the_path_are_left_alone():
    forward = [*CHAIN, op("NoSuchOperator", "r", "other")]
    assert [each.type for each in GetBackwardPass(forward, {"h": "dh"})[0]] == ["FCGradient"]


# versions


@pytest.mark.parametrize(
    "forward, blob",
    [
        ([op("Sqr", "x", "y"), op("Copy", "z", "x")], "x"),
        ([op("Sigmoid", "x", "h"), op("Scale", "h", "y", scale=2.0), op("Copy", "z", "h")], "h"),
        ([op("FC", "x w b", "y"), op("Scale", "w", "w", scale=0.5)], "w"),
    ],
)
def test_an_overwritten_version_is_never_read(forward, blob):
    with pytest.raises(OverwrittenError, match=f"needs version 0 of '{blob}'.*overwrote it"):
        GetBackwardPass(forward, ["y"])


def test_an_overwritten_version_that_nothing_needs_does_no_harm(backend):
    forward = [op("Scale", "x", "h", scale=2.0), op("Scale", "h", "y", scale=3.0), op("Copy", "z", "h")]
    assert_array_equal(gradients(forward, ["y"], arrays(x=[1.0], z=[9.0]), backend)["x"], [6])


def test_in_place_operators_keep_one_gradient_name():
    ops, gradient = GetBackwardPass([op("FC", "x w b", "h"), op("Relu", "h", "h")], ["h"])
    assert text(ops)[1:] == [
        "h_grad = ReluGradient(h, h_autogen_grad)",
        "w_grad, b_grad, x_grad = FCGradient(x, w, h_grad)",
    ]
    assert gradient["h"] == "h_grad"


# accumulation


def test_contributions_are_summed_the_first_keeping_its_name():
    ops, gradient = GetBackwardPass(
        [op("Relu", "x", "a"), op("Tanh", "x", "b"), op("Sigmoid", "x", "c")], {"a": "da", "b": "db", "c": "dc"}
    )
    assert [list(each.output) for each in ops] == [
        ["x_grad"],
        ["_x_grad_autosplit_0"],
        ["_x_grad_autosplit_1"],
        ["x_grad"],
    ]
    assert ops[-1].type == "Sum" and list(ops[-1].input) == ["x_grad", "_x_grad_autosplit_0", "_x_grad_autosplit_1"]
    assert gradient["x"] == "x_grad"


def test_accumulation(backend):
    check_gradient(
        [op("Sigmoid", "x", "a"), op("Tanh", "x", "b"), op("Mul", "a b", "c"), op("Add", "c x", "y")],
        {"x": np.array([0.3, -0.7])},
        backend=backend,
    )


def test_a_branch_without_gradient_does_not_erase_the_others(backend):
    forward = [
        op("Scale", "x", "a", scale=2.0),
        op("StopGradient", "x", "s"),
        op("Add", "a s", "b"),
        op("Shape", "x", "dims"),
        op("Scale", "x", "c", scale=5.0),
    ]
    assert_array_equal(gradients(forward, ["b", "c"], arrays(x=[1.0, 2.0]), backend)["x"], [7, 7])


@pytest.mark.parametrize("type", ["Mul", "Add", "Sub", "Div", "Max", "Sum", "Pow"])
def test_one_blob_as_both_operands(type, backend):
    check_gradient(op(type, "x x", "y"), {"x": np.array([0.5, 1.5])}, backend=backend)


def test_stop_gradient_stops_also_in_place(backend):
    forward = [op("Sqr", "x", "h"), op("StopGradient", "h", "h"), op("Mul", "h x", "y")]
    assert_array_equal(gradients(forward, ["y"], arrays(x=[3.0]), backend)["x"], [9])


def test_a_stop_gradient_that_nobody_reads_is_refused():
    with pytest.raises(ValueError, match=r"StopGradient #0 .*is read by no operator"):
        GetBackwardPass([op("StopGradient", "x", "s"), op("Relu", "x", "y")], ["y"])


def test_zero_gradient_supplies_zeros_where_nothing_arrives(backend):
    forward = [op("Split", "x", "a b", axis=0), op("ZeroGradient", "b", ""), op("Scale", "a", "y", scale=2.0)]
    assert_array_equal(gradients(forward, ["y"], arrays(x=[1.0, 2.0]), backend)["x"], [2, 0])


# slices


def test_gather_gives_a_slice():
    ops, gradient = GetBackwardPass([op("Gather", "table rows", "y")], {"y": "dy"})
    assert ops == []
    assert gradient["table"] == GradientSlice("rows", "dy")


def test_slices_are_concatenated(backend):
    forward = [op("Gather", "t i", "a"), op("Gather", "t j", "b"), op("Mul", "a b", "y")]
    feeds = {"t": np.array([[0.5, 1.0], [2.0, 3.0]]), "i": np.array([0, 1, 1]), "j": np.array([1, 1, 0])}
    ops, gradient = GetBackwardPass(forward, ["y"])
    assert [each.type for each in ops[-2:]] == ["Concat", "Concat"]
    assert gradient["t"] == GradientSlice("t_grad_indices_concat", "t_grad_values_concat")
    check_gradient(forward, feeds, wrt=["t"], backend=backend)


def test_a_given_slice_flows_on(backend):
    forward = [op("EnsureDense", "t", "u"), op("Scale", "u", "y", scale=2.0)]
    found = gradients(
        forward,
        {"y": GradientSlice("i", "v")},
        {**arrays(t=[1.0, 2.0, 3.0], v=[10.0, 20.0, 30.0]), "i": np.array([2, 0, 2])},
        backend,
    )
    assert_array_equal(found["t"], [40, 0, 80])


# the map


def test_the_map_has_every_blob_with_a_gradient_by_reference_or_name():
    gradient = net(*CHAIN).AddGradientOperators(["loss"])
    assert {str(blob): str(g) for blob, g in gradient.items()} == {
        "loss": "loss_autogen_grad",
        "r": "r_grad",
        "h": "h_grad",
        "w": "w_grad",
        "b": "b_grad",
        "x": "x_grad",
    }
    assert all(isinstance(blob, BlobReference) and isinstance(g, BlobReference) for blob, g in gradient.items())
    assert gradient["w"] == gradient[BlobReference("w")] == BlobReference("w_grad")
    assert "w" in gradient and "nothing" not in gradient and len(gradient) == 6


def test_the_map_of_operators_alone_is_a_dict_of_references_by_plain_names():
    _, gradient = GetBackwardPass(CHAIN, ["loss"])
    assert type(gradient) is dict and all(isinstance(g, BlobReference) for g in gradient.values())
    assert IR(CHAIN).GetBackwardPass(["loss"])[1] == gradient


def test_slices_in_the_map_are_slices_of_references():
    gradient = net(op("Gather", "t i", "y")).AddGradientOperators(["y"])
    assert isinstance(gradient["t"], GradientSlice) and isinstance(gradient["t"].values, BlobReference)


# A: where Caffe2 is silently wrong


def test_sqrt_and_a_second_use_of_its_input(backend):  # A1
    forward = [op("Sqrt", "x", "a"), op("Scale", "x", "b", scale=10.0), op("Add", "a b", "y")]
    assert_allclose(gradients(forward, ["y"], arrays(x=[4.0, 9.0]), backend)["x"], [10.25, 10 + 1 / 6])


def test_division_by_sqrt_and_a_second_use(backend):  # A1b
    forward = [op("Sqrt", "v", "s"), op("Div", "m s", "z"), op("Add", "z v", "y")]
    assert_allclose(gradients(forward, ["y"], arrays(v=[4.0], m=[1.0]), backend)["v"], [0.9375])


@pytest.mark.parametrize(
    "forward",
    [
        [op("Pow", "x w", "a"), op("Scale", "x", "b", scale=10.0), op("Add", "a b", "y")],
        [op("Pow", "x w", "a"), op("Mul", "w a", "y")],
        [op("Pow", "x x", "y")],
        [op("Pow", "x x", "a"), op("Mul", "x a", "y")],
    ],
)
def test_power_and_a_second_use_of_base_or_exponent(forward, backend):  # A1c
    feeds = {"x": np.array([0.5, 2.0]), "w": np.array([3.0, 1.5])}
    used = {name for each in forward for name in each.input}
    check_gradient(forward, {name: value for name, value in feeds.items() if name in used}, backend=backend)


def test_squares_under_a_sum_that_passes_its_gradient_on(backend):  # A2
    forward = [op("Sqr", "p", "a"), op("Sqr", "q", "b"), op("Sum", "a b", "y")]
    found = gradients(forward, ["y"], arrays(p=[3.0], q=[4.0]), backend)
    assert (found["p"], found["q"], found["a"], found["b"], found["y"]) == (6, 8, 1, 1, 1)


def test_a_square_beside_another_operand_of_a_sum(backend):  # A2b
    forward = [op("Scale", "z", "b", scale=1.0), op("Sqr", "x", "a"), op("Sum", "a b", "y")]
    found = gradients(forward, ["y"], arrays(x=[3.0], z=[1.0]), backend)
    assert (found["x"], found["z"]) == (6, 1)


def test_a_given_gradient_is_not_written_by_running(backend):  # A2c
    square = net(op("Sqr", "x", "y"))
    gradient = square.AddGradientOperators({"y": "given_dy"})
    workspace = Workspace(backend=backend)
    for name, value in arrays(x=[3.0], given_dy=[1.0]).items():
        workspace.feed_blob(name, value)
    workspace.create_net(square)
    for _ in range(3):
        workspace.run_net(square.Name())
        assert workspace.fetch_blob(str(gradient["x"])) == 6
        assert workspace.fetch_blob("given_dy") == 1


IN_PLACE = {
    "Sqr": ([op("Scale", "x", "a", scale=1.0), op("Sqr", "a", "a")], {"x": [3.0, 5.0]}, "x", [6, 10]),
    "Log": ([op("Scale", "x", "a", scale=1.0), op("Log", "a", "a")], {"x": [3.0, 5.0]}, "x", [1 / 3, 0.2]),
    "Mul": ([op("Scale", "x", "a", scale=1.0), op("Mul", "a b", "a")], {"x": [3.0, 5.0], "b": [2.0, 4.0]}, "b", [3, 5]),
    "Logit": ([op("Scale", "x", "a", scale=1.0), op("Logit", "a", "a")], {"x": [0.3, 0.6]}, "x", [1 / 0.21, 1 / 0.24]),
    "Max": ([op("Scale", "x", "a", scale=1.0), op("Max", "a b", "a")], {"x": [3.0, 5.0], "b": [2.0, 7.0]}, "x", [1, 0]),
    "WeightedSum": (
        [op("Scale", "x", "a", scale=1.0), op("WeightedSum", "a w1 b w2", "a", grad_on_w=1)],
        {"x": [3.0, 5.0], "b": [2.0, 4.0], "w1": [2.0], "w2": [3.0]},
        "w1",
        [8],
    ),
    "Softsign": (
        [op("Scale", "x", "a", scale=1.0), op("Softsign", "a", "a")],
        {"x": [1.0, -3.0]},
        "x",
        [1 / 4, 1 / 16],
    ),
    "PRelu": ([op("Scale", "x", "a", scale=1.0), op("PRelu", "a s", "a")], {"x": [1.0, -3.0], "s": [0.5]}, "s", [-3]),
}


@pytest.mark.parametrize("forward", [row[0] for row in IN_PLACE.values()], ids=IN_PLACE)
def test_in_place_where_the_gradient_needs_the_overwritten_value_is_refused_with_the_cure(forward):  # A3
    before = net(*forward)
    wire = before.Proto().SerializeToString()
    with pytest.raises(OverwrittenError, match=r"needs version 0 of 'a'(.|\n)*overwritten=.save"):
        before.AddGradientOperators(["a"])
    assert before.Proto().SerializeToString() == wire


@pytest.mark.parametrize("row", IN_PLACE.values(), ids=IN_PLACE)
def test_in_place_where_the_gradient_needs_the_overwritten_value_is_right_with_saving(row, backend):  # A3
    forward, feeds, blob, expected = row
    found = gradients(forward, ["a"], arrays(**feeds), backend, overwritten="save")
    assert_allclose(found[blob], expected)


@pytest.mark.parametrize("type", ["Add", "Sub", "Div"])
def test_in_place_arithmetic_is_right_or_refused(type, backend):  # A3
    forward = [op("Scale", "x", "a", scale=2.0), op(type, "a b", "a")]
    feeds = {"x": np.array([3.0, 5.0]), "b": np.array([2.0, 4.0])}
    check_gradient(forward, feeds, backend=backend)


def test_in_place_power_has_a_formula_of_its_own(backend):  # A3
    check_gradient(
        [op("Scale", "x", "a", scale=2.0), op("Pow", "a", "a", exponent=3.0)],
        {"x": np.array([1.0, 2.0])},
        backend=backend,
    )


def test_in_place_even_power_of_a_negative_number(backend):  # A3
    forward = [op("Scale", "x", "a", scale=1.0), op("Pow", "a", "a", exponent=2.0)]
    with pytest.raises(OverwrittenError):
        GetBackwardPass(forward, ["a"])
    assert_array_equal(gradients(forward, ["a"], arrays(x=[-2.0, 3.0]), backend, overwritten="save")["x"], [-4, 6])


def test_a_forward_blob_as_given_gradient_stays_an_operand_of_its_own(backend):
    found = gradients([op("Sqr", "x", "y")], {"y": "x"}, arrays(x=[3.0]), backend)
    assert found["x"] == 2 * 3 * 3
    assert found.values_after["x"] == 3


def test_a_passed_on_gradient_is_not_overwritten_by_a_later_one_of_its_name(backend):  # A4
    forward = [
        op("Scale", "A", "X", scale=2.0),
        op("Scale", "X", "Y", scale=3.0),
        op("Sum", "W Y", "X"),
        op("Scale", "X", "L", scale=1.0),
    ]
    found = gradients(forward, ["L"], arrays(A=[1.0], W=[1.0]), backend)
    assert (found["W"], found["A"]) == (1, 6)


@pytest.mark.parametrize("ys", [{"m2": "g", "m1": "g"}, {"m1": "g", "m2": "g"}, ["m1", "m2"], {"m1": "g", "m2": None}])
def test_a_given_gradient_counts_beside_those_from_further_down(ys, backend):  # A5
    forward = [op("Mul", "i two", "m1"), op("Mul", "m1 three", "m2")]
    found = gradients(forward, ys, arrays(i=[1.0], two=[2.0], three=[3.0], g=[1.0]), backend)
    assert (found["i"], found["m1"], found["m2"]) == (8, 4, 1)


def test_a_split_with_an_unused_output(backend):  # A6
    forward = [op("Split", "x", "a b", axis=1), op("Scale", "a", "y", scale=2.0)]
    assert_array_equal(gradients(forward, ["y"], arrays(x=[[1.0, 2.0, 3.0, 4.0]]), backend)["x"], [[2, 2, 0, 0]])


def test_an_operator_before_a_split_with_an_unused_output(backend):  # A6b
    forward = [op("Sigmoid", "d", "s"), op("Split", "s", "a b", axis=1), op("SumElements", "a", "loss")]
    found = gradients(forward, ["loss"], arrays(d=np.zeros((3, 2))), backend)
    assert_array_equal(found["d"], [[0.25, 0]] * 3)


def test_a_rebound_name_does_not_lead_to_its_older_producer(backend):  # A7
    forward = [op("Sum", "a c", "h"), op("Scale", "b", "h", scale=5.0), op("Scale", "h", "y", scale=1.0)]
    found = gradients(forward, ["y"], arrays(a=[1.0], b=[1.0], c=[1.0]), backend)
    assert "a" not in found and "c" not in found
    assert found["b"] == 5


def test_two_passes_over_one_net_keep_both_maps_right(backend):  # A9
    both = net(op("Scale", "w", "l1", scale=2.0), op("Scale", "w", "l2", scale=5.0))
    first, second = both.AddGradientOperators(["l1"]), both.AddGradientOperators(["l2"])
    workspace = Workspace(backend=backend)
    workspace.feed_blob("w", np.array([1.0]))
    workspace.run_net_once(both)
    assert workspace.fetch_blob(str(first["w"])) == 2
    assert workspace.fetch_blob(str(second["w"])) == 5


def test_the_map_says_which_results_are_shared():  # A10
    gradient = net(op("Sum", "p q", "y")).AddGradientOperators(["y"])
    assert gradient["p"] == gradient["q"]
    assert gradient.shared == {"y_autogen_grad": ["p", "q", "y"]} or {
        name: sorted(blobs) for name, blobs in gradient.shared.items()
    } == {"y_autogen_grad": ["p", "q", "y"]}
    assert net(op("Relu", "x", "y")).AddGradientOperators(["y"]).shared == {}


def test_results_are_copied_apart_on_request(backend):  # A10
    both = net(op("Sum", "p q", "y"))
    gradient = both.AddGradientOperators(["y"], share_results=False)
    assert gradient.shared == {}
    both.Scale([str(gradient["p"])], [str(gradient["p"])], scale=10.0)
    workspace = Workspace(backend=backend)
    for name in "pq":
        workspace.feed_blob(name, np.array([1.0]))
    workspace.run_net_once(both)
    assert [workspace.fetch_blob(str(gradient[name])) for name in "pqy"] == [10, 1, 1]


def test_a_users_blob_that_is_called_like_a_gradient(backend):  # A11
    forward = [
        op("Scale", "x", "h_grad", scale=7.0),
        op("Mul", "h_grad s", "q"),
        op("Scale", "x", "h", scale=2.0),
        op("Mul", "h k", "y"),
        op("Add", "q y", "z"),
    ]
    feeds = arrays(x=[3.0], s=[1.0], k=[1.0])
    found = gradients(forward, ["z"], feeds, backend)
    assert found["s"] == 21
    assert found.values_after["h_grad"] == 21


def test_one_operator_that_writes_one_name_twice(backend):  # A12
    found = gradients(
        [op("Split", "x", "a a", axis=0), op("Scale", "a", "y", scale=2.0)],
        ["y"],
        arrays(x=[1.0, 2.0, 3.0, 4.0]),
        backend,
    )
    assert_array_equal(found["x"], [0, 0, 2, 2])


def test_a_renamed_input_gradient_is_still_read_by_its_sibling(backend):  # A13
    @GradientRegistry.RegisterGradient("Twice")
    def twice(forward, given):
        return [
            CreateOperator("Scale", [given[0]], ["x_grad"], scale=2.0),
            CreateOperator("Scale", ["x_grad"], ["v_grad"], scale=10.0),
        ], ["x_grad", "v_grad"]

    forward = [op("Twice", "x v", "y"), op("Scale", "x", "z", scale=7.0)]
    ops, gradient = GetBackwardPass(forward, {"y": "dy", "z": "dz"})
    workspace = Workspace(backend=backend)
    for name in ("dy", "dz"):
        workspace.feed_blob(name, np.array([1.0]))
    for each in ops:
        workspace.run_operator(each)
    assert workspace.fetch_blob(gradient["x"]) == 9
    assert workspace.fetch_blob(gradient["v"]) == 20


def test_a_string_y_inside_a_name_scope_is_the_scoped_blob(backend):  # A14
    scoped = Net("net")
    with NameScope("s"):
        scoped.Relu("x", "loss")
        gradient = scoped.AddGradientOperators(["loss"])
    assert [each.type for each in scoped.Proto().op] == ["Relu", "ConstantFill", "ReluGradient"]
    assert gradient["s/x"] == "s/x_grad"


def test_a_given_gradient_of_another_shape_is_an_error(backend):  # A15
    for type in ("Relu", "Sigmoid", "Tanh", "Softmax", "Elu", "Abs", "Sin", "Mul", "Add", "Div"):
        inputs = "x x" if type in ("Mul", "Add", "Div") else "x"
        with pytest.raises(Exception, match=r"shape|size"):
            gradients([op(type, inputs, "y")], {"y": "g"}, arrays(x=np.ones((4, 3)), g=[1.0, 2.0]), backend)


def test_a_misspelt_y_is_an_error_with_a_hint():  # A16
    with pytest.raises(UnknownBlobError, match=r"'los' in ys does not occur .*did you mean 'loss'"):
        net(*CHAIN).AddGradientOperators(["los"])


# B, D, E, F: errors, what was missing, surprises


def test_a_missing_rule_names_operator_and_cure_in_one_short_message():  # B7
    with pytest.raises(MissingRuleError) as caught:
        GetBackwardPass([op("Relu", "x", "h"), op("Relx", "h", "y")], ["y"])
    message = str(caught.value)
    assert "Relx #1 (h -> y)" in message and "did you mean Relu" in message and "RegisterGradient" in message
    assert len(message) < 400


def test_a_given_gradient_may_have_a_name_of_two_characters():  # B8
    ops, gradient = GetBackwardPass(CHAIN, {"loss": "dl"})
    assert list(ops[0].input) == ["r", "dl"] and gradient["loss"] == "dl"


@pytest.mark.parametrize("type", ["Sum", "Add"])
def test_the_residual_idiom_in_place(type, backend):  # B9
    check_gradient(
        [op("Copy", "u", "x"), op("Tanh", "x", "f"), op(type, "x f", "x")],
        {"u": np.array([0.3, -1.0])},
        backend=backend,
    )


def test_a_slice_made_on_two_devices_is_no_name_error():  # B10
    @GradientRegistry.RegisterGradient("TwoDevices")
    def rule(forward, given):
        return [
            CreateOperator("Copy", [forward.input[1]], ["t_grad_indices"], device_option=cuda(0)),
            CreateOperator("Copy", [given[0]], ["t_grad_values"], device_option=cuda(1)),
        ], [GradientSlice("t_grad_indices", "t_grad_values"), None]

    forward = [op("TwoDevices", "t i", "y"), op("Gather", "t i", "z")]
    try:
        GetBackwardPass(forward, {"y": "dy", "z": "dz"})
    except GradientError as error:
        assert "device" in str(error)


def test_a_blob_off_the_path_is_a_key_error_that_says_why():  # B15
    gradient = net(*CHAIN, op("Relu", "w2", "unused")).AddGradientOperators(["loss"])
    with pytest.raises(NoGradientError, match=r"'w2' has no gradient: .*not connected"):
        gradient["w2"]
    assert issubclass(NoGradientError, KeyError)
    with pytest.raises(KeyError):
        gradient["never heard of"]
    assert gradient.get("w2") is None


def test_a_missing_output_gradient_names_zero_gradient_as_the_cure(backend):  # B16, D4
    forward = [op("Moments", "x", "mean var"), op("Scale", "mean", "y", scale=3.0)]
    with pytest.raises(MissingRuleError, match=r"'var'.*ZeroGradient\('var'"):
        GetBackwardPass(forward, ["y"])
    found = gradients(forward, ["y"], arrays(x=[1.0, 2.0, 3.0]), backend, overwritten="save")
    assert_allclose(found["x"], [1, 1, 1])
    with pytest.raises(MissingOutputGradientError, match="not provided"):
        GradientRegistry.GetGradientForOp(op("Moments", "x", "mean var"), ["dmean", None])


def test_a_rebound_name_that_has_nothing_to_do_with_the_loss_does_no_harm(backend):  # B17
    forward = [op("Sigmoid", "a", "h"), op("Scale", "b", "h", scale=5.0), op("Tanh", "h", "y")]
    found = gradients(forward, ["y"], arrays(a=[1.0], b=[0.0]), backend)
    assert "a" not in found and found["b"] == 5


def test_dense_and_sparse_contributions_add_up(backend):  # D2
    forward = [op("Gather", "t i", "a"), op("SumElements", "a", "p"), op("Sqr", "t", "b"), op("SumElements", "b", "q")]
    found = gradients(forward, ["p", "q"], {**arrays(t=[1.0, 2.0, 3.0]), "i": np.array([2, 2, 0])}, backend)
    assert_array_equal(found["t"], [3, 4, 8])


def test_uses_on_two_devices_are_refused_or_bridged(backend):  # D3
    forward = [
        op("Sigmoid", "x", "a", device_option=cuda(0)),
        op("Tanh", "x", "b", device_option=cuda(1)),
        op("Mul", "a b", "y", device_option=cuda(0)),
    ]
    with pytest.raises(DeviceMismatchError, match=r"'x'.*CUDA:\d and CUDA:\d"):
        GetBackwardPass(forward, ["y"])
    x = np.array([0.5, -1.0])
    found = gradients(forward, ["y"], {"x": x}, backend, overwritten="save")
    s, t = 1 / (1 + np.exp(-x)), np.tanh(x)
    assert_allclose(found["x"], s * (1 - s) * t + s * (1 - t * t))


SCRIPT = """
import sys
from netgrad.graph.net import Net
net = Net("net")
for k in range(6):
    net.FC([f"h{k}", "w", "b"], [f"h{k + 1}"])
    net.Mul([f"h{k + 1}", "scale"], [f"h{k + 1}"])
    net.Gather(["table", f"i{k}"], [f"e{k}"])
net.Sum([f"h{k}" for k in range(1, 7)] + [f"e{k}" for k in range(6)], "y")
net.AddGradientOperators(["y"], overwritten="save")
sys.stdout.buffer.write(net.Proto().SerializeToString())
"""


def test_the_hash_seed_changes_no_byte():  # E4
    found = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={"PYTHONHASHSEED": seed, "PATH": "", "PYTHONPATH": path},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "12345")
        for path in [str(Path(__file__).parents[2] / "src")]
    }
    assert len(found) == 1 and len(found.pop()) > 1000


def test_devices_of_different_types_are_different():  # E5
    other = DeviceOption(caffe2_pb2.IDEEP, 0)
    forward = [op("Relu", "x", "a", device_option=cuda(0)), op("Tanh", "x", "b", device_option=other)]
    with pytest.raises(DeviceMismatchError, match="CUDA:0"):
        GetBackwardPass(forward, {"a": "da", "b": "db"})


def test_a_registered_function_takes_no_effect_where_a_rule_exists():  # E9
    @GradientRegistry.RegisterGradient("Relu")
    def never(forward, given):
        raise AssertionError("asked although there is a rule")

    assert [each.type for each in GetBackwardPass([op("Relu", "x", "y")], {"y": "dy"})[0]] == ["ReluGradient"]
    with pytest.raises(MissingRuleError, match="does not pass its schema"):
        GetBackwardPass([op("Relu", "x", "y z")], {"y": "dy"})


def test_a_registered_function_overrides_on_request():  # D6
    @GradientRegistry.RegisterGradient("Relu", override=True)
    def straight_through(forward, given):
        return [], [given[0]]

    assert GetBackwardPass([op("Relu", "x", "y")], {"y": "dy"}) == ([], {"y": "dy", "x": "dy"})


def test_a_failing_registered_function_is_reported_with_its_own_error():
    @GradientRegistry.RegisterGradient("Fragile")
    def fails(forward, given):
        return {}["missing"]

    with pytest.raises(MissingRuleError, match=r"Fragile #0 .*test_seed_behaviours.py:\d+: KeyError: 'missing'"):
        GetBackwardPass([op("Fragile", "x", "y")], ["y"])


def test_power_without_exponent_is_an_error():  # F1
    with pytest.raises(MissingRuleError, match="exponent"):
        GetBackwardPass([op("Pow", "x", "y")], ["y"])


def test_a_registered_rule_for_two_inputs_that_are_one_blob(backend):
    @GradientRegistry.RegisterGradient("Mul", override=True)
    def product(forward, given):
        a, b = forward.input
        return [
            CreateOperator("Mul", [given[0], b], [f"{a}_grad"]),
            CreateOperator("Mul", [given[0], a], [f"{b}_grad"]),
        ], [f"{a}_grad", f"{b}_grad"]

    assert gradients([op("Mul", "x x", "y")], ["y"], arrays(x=[3.0]), backend)["x"] == 6
    assert gradients([op("Mul", "x w", "y")], ["y"], arrays(x=[3.0], w=[5.0]), backend)["x"] == 5


def test_a_registered_rule_that_writes_a_gradient_in_two_steps(backend):
    @GradientRegistry.RegisterGradient("Sin", override=True)
    def sine(forward, given):
        dx = f"{forward.input[0]}_grad"
        return [CreateOperator("Cos", [forward.input[0]], [dx]), CreateOperator("Mul", [dx, given[0]], [dx])], [dx]

    forward = [op("Sin", "x", "a"), op("Scale", "x", "b", scale=2.0), op("Add", "a b", "y")]
    assert_allclose(gradients(forward, ["y"], arrays(x=[0.5]), backend)["x"], 2 + np.cos(0.5))


def test_a_registered_rule_may_scale_the_given_gradient_in_place(backend):
    @GradientRegistry.RegisterGradient("Negative", override=True)
    def negative(forward, given):
        return [CreateOperator("Scale", [given[0]], [given[0]], scale=-1.0)], [given[0]]

    forward = [op("Negative", "p", "a"), op("Negative", "q", "b"), op("Sum", "a b", "y")]
    found = gradients(forward, ["y"], arrays(p=[1.0], q=[1.0]), backend)
    assert (found["p"], found["q"], found["y"]) == (-1, -1, 1)


def test_gradient_operators_come_from_the_line_of_their_forward_operator():
    made = Net("net")
    made.Sigmoid(["x"], ["h"])
    made.Sqr(["h"], ["h"])
    made.Tanh(["h"], ["y"])
    made.AddGradientOperators(["y"], overwritten="save")
    lines = {each.type: made.line_of(k)[1] for k, each in enumerate(made.Proto().op) if made.line_of(k)}
    assert lines["SigmoidGradient"] == lines["Sigmoid"] == lines["Tanh"] - 2
    assert lines["TanhGradient"] == lines["Tanh"]
    assert lines["Mul"] == lines["Sqr"] == lines["Sigmoid"] + 1


@pytest.mark.parametrize("overwritten", ["error", "save"])
def test_a_registered_rule_that_uses_forward_blobs_as_scratch_leaves_them_alone(overwritten, backend):
    @GradientRegistry.RegisterGradient("Tanh", override=True)
    def tangent(forward, given):
        x, y, dx = forward.input[0], forward.output[0], f"{forward.input[0]}_grad"
        return [
            CreateOperator("Scale", [x], [x], scale=5.0),
            CreateOperator("Sqr", [y], [y]),
            CreateOperator("Mul", [y, given[0]], [y]),
            CreateOperator("Sub", [given[0], y], [dx]),
        ], [dx]

    forward = [op("Sigmoid", "x", "h"), op("Tanh", "h", "y"), op("Sigmoid", "y", "z")]
    found = gradients(forward, ["y", "z"], arrays(x=[0.5]), backend, overwritten=overwritten)
    h = 1 / (1 + np.exp(-0.5))
    y = np.tanh(h)
    z = 1 / (1 + np.exp(-y))
    assert_allclose(found["x"], (1 + z * (1 - z)) * (1 - y * y) * h * (1 - h))
    assert_allclose([found.values_after["h"], found.values_after["y"]], [[h], [y]])


def test_two_look_ups_in_one_table_with_indices_of_two_types(backend):
    forward = [op("Gather", "t i", "a"), op("Gather", "t j", "b")]
    feeds = {"t": np.array([1.0, 2.0, 3.0]), "i": np.array([0, 1], np.int32), "j": np.array([1, 2, 2], np.int64)}
    assert_array_equal(gradients(forward, ["a", "b"], feeds, backend)["t"], [1, 2, 2])


def test_a_registered_rule_for_an_in_place_operator_tells_the_input_from_the_output(rules_registered_for_one_test):
    @GradientRegistry.RegisterGradient("SquareInPlace")
    def rule(op, gradients):
        return [CreateOperator("Mul", [gradients[0], op.input[0]], [op.input[0] + "_grad"])], [op.input[0] + "_grad"]

    with pytest.raises(OverwrittenError, match="version 0 of 'h'"):
        net(op("SquareInPlace", "h", "h")).AddGradientOperators(["h"])
    saved = net(op("SquareInPlace", "h", "h"))
    saved.AddGradientOperators(["h"], overwritten="save")
    assert list(saved.Proto().op[-1].input) == ["h_autogen_grad", "h_saved"]
    assert list(saved.Proto().op[-1].output) == ["h_grad"]


def test_an_engine_that_is_set_is_copied_even_if_it_is_empty():
    with_empty, without = CreateOperator("Relu", ["x"], ["y"]), CreateOperator("Relu", ["x"], ["y"])
    with_empty.engine = ""
    assert [GetBackwardPass([each], ["y"])[0][-1].HasField("engine") for each in (with_empty, without)] == [True, False]
