"""Why a blob has the gradient that it has, or none."""

from __future__ import annotations

import pytest
from small_nets import net, op

from netgrad.autodiff.errors import NoGradientError, UnknownBlobError
from netgrad.autodiff.explanation import HAS, UNCONNECTED, UNDEFINED, ZERO, explain
from netgrad.graph.net import Net

NET = [
    op("FC", "x w b", "h"),
    op("Relu", "h", "r"),
    op("StopGradient", "r", "s"),
    op("Sum", "r s", "u"),
    op("AveragedLoss", "u", "loss"),
    op("Floor", "other", "f"),
    op("Sum", "f u", "g"),
    op("Relu", "aside", "nowhere"),
    op("StopGradient", "still", "stopped"),
    op("Mul", "stopped u", "v"),
]


def test_a_blob_with_a_gradient_shows_the_path():
    found = explain(net(*NET), "w", ["loss"])
    assert found.outcome == HAS
    assert [step.split(" (")[0] for step in found.path] == ["FC #0", "Relu #1", "Sum #3", "AveragedLoss #4"]
    assert "'w' has a gradient" in str(found) == repr(found)


def test_a_zero_gradient_names_where_every_path_ends():
    found = explain(net(*NET), "still", ["v"])
    assert found.outcome == ZERO
    assert len(found.ends) == 1 and found.ends[0].startswith("StopGradient #8 (still -> stopped)")
    assert "is zero" in str(found) and found.cure


def test_a_blob_that_is_not_connected():
    found = explain(net(*NET), "aside", ["loss"])
    assert found.outcome == UNCONNECTED and found.path == [] and found.ends == []
    assert "'loss'" in found.cure and "misspelt" in found.cure


def test_an_undefined_gradient_names_the_operator_the_reason_and_the_cure():
    found = explain(net(*NET), "other", ["g"])
    assert found.outcome == UNDEFINED
    assert any("Floor #5" in end for end in found.ends)
    assert "register a gradient for Floor" in found.cure


def test_an_overwritten_value_makes_a_gradient_undefined():
    found = explain(net(op("Sqr", "x", "y"), op("Copy", "z", "x")), "x", ["y"])
    assert found.outcome == UNDEFINED and "overwrote it" in found.ends[0]


@pytest.mark.parametrize("type, inputs, blob", [("Gather", "t i", "i"), ("SoftmaxWithLoss", "x label", "label")])
def test_an_input_through_which_nothing_flows(type, inputs, blob):
    made = net(op(type, inputs, "y" if type == "Gather" else "p y"))
    assert explain(made, blob, ["y"]).outcome == ZERO
    assert explain(made, inputs.split()[0], ["y"]).outcome == HAS


def test_the_explanation_agrees_with_the_map():
    made = net(*NET)
    gradients = made.AddGradientOperators(["loss"])
    for blob in ("x", "w", "b", "h", "r", "u", "s", "loss", "aside", "still", "other"):
        assert (explain(made, blob, ["loss"]).outcome == HAS) == (blob in gradients), blob


def test_without_ys_the_pass_in_the_net_counts_or_else_the_last_outputs():
    made = net(op("Relu", "x", "y"), op("Relu", "z", "w"))
    assert explain(made, "z").outcome == HAS
    made.AddGradientOperators(["y"])
    assert explain(made, "z").outcome == UNCONNECTED
    assert explain(made, "x").outcome == HAS


def test_operators_lists_and_nets_are_explained_alike():
    assert explain(NET, "w", ["loss"]) == explain(net(*NET).Proto(), "w", ["loss"]) == explain(net(*NET), "w", ["loss"])


def test_the_python_line_is_part_of_the_path():
    made = Net("made")
    made.Relu(["x"], ["y"])
    assert "test_explanation.py:" in explain(made, "x", ["y"]).path[0]


def test_an_unknown_blob():
    with pytest.raises(UnknownBlobError, match="'no' does not occur"):
        explain(net(*NET), "no", ["loss"])
    with pytest.raises(UnknownBlobError, match="'no', which is to be differentiated"):
        explain(net(*NET), "w", ["no"])


def test_nets_offer_it_as_a_method():
    made = net(*NET)
    assert "FC #0" in str(made.ExplainGradient("w"))


def test_the_map_explains_with_what_was_differentiated():
    made = net(op("FC", "x w b", "h"), op("FC", "h w2 b2", "y"))
    with pytest.raises(NoGradientError, match="'w2' is not connected"):
        made.AddGradientOperators({"h": "dh"})["w2"]


def test_the_map_says_that_a_gradient_was_not_asked_for():
    gradient = net(op("FC", "x w b", "h")).AddGradientOperators(["h"], wrt=["w"])
    with pytest.raises(NoGradientError, match=r"'x' has no gradient: it was not asked for \(wrt=\['w'\]\)"):
        gradient["x"]


def test_zeros_supplied_by_zero_gradient_are_a_gradient():
    unused = net(op("Scale", "x", "y"), op("Scale", "z", "u"), op("ZeroGradient", "u", ""))
    assert explain(unused, "z", ["y"]).outcome == HAS
    assert "z" in unused.AddGradientOperators(["y"])
