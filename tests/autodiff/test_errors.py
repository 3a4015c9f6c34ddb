"""What an error of differentiation says, and that the net is as it was."""

from __future__ import annotations

import pytest
from small_nets import net, op

from netgrad.autodiff.errors import (
    DeviceMismatchError,
    GradientError,
    IgnoredGradientWarning,
    MissingRuleError,
    OverwrittenError,
    UnknownBlobError,
)
from netgrad.autodiff.gradient_registry import GradientRegistry
from netgrad.autodiff.python_rules import ForeignBlobError
from netgrad.graph.device import DeviceOption
from netgrad.graph.net import Net
from netgrad.graph.operator import CreateOperator
from netgrad.proto import caffe2_pb2


def overwritten_net():
    made = Net("made")
    made.Sigmoid(["x"], ["h"])
    made.Relu(["h"], ["h"])
    made.FC(["h", "w", "b"], ["y"])
    return made


def message(made, ys, error, **options) -> str:
    with pytest.raises(error) as caught:
        made.AddGradientOperators(ys, **options)
    return str(caught.value)


def test_an_overwritten_value_is_told_whole():
    text = message(overwritten_net(), ["y"], OverwrittenError)
    assert "SigmoidGradient of Sigmoid #0 (x -> h" in text  # who needs it
    assert "needs version 0 of 'h'" in text  # what
    assert "Relu #1 (h -> h" in text and "overwrote it" in text  # who spoilt it
    assert "History of 'h'" in text and "version 1: written by operator #1 (Relu)" in text
    assert "test_errors.py:" in text  # where it was written
    assert 'overwritten="save"' in text and "another output name" in text  # cures
    assert isinstance(OverwrittenError(), RuntimeError)


def test_each_cure_cures():
    made = overwritten_net()
    made.AddGradientOperators(["y"], overwritten="save")
    renamed = net(op("Sigmoid", "x", "h"), op("Relu", "h", "r"), op("FC", "r w b", "y"))
    renamed.AddGradientOperators(["y"])


def test_several_overwritten_values_are_reported_at_once():
    square = [op("Sqr", "a", "p"), op("Sqr", "b", "q"), op("Mul", "p q", "y")]
    made = net(*square, op("Copy", "z", "a"), op("Copy", "z", "b"))
    text = message(made, ["y"], OverwrittenError)
    assert "'a'" in text and "'b'" in text


def test_all_missing_rules_come_in_one_report():
    made = Net("made")
    made.Floor(["x"], ["f"])
    made.Proto().op.extend([op("NotAnOperator", "f", "g"), op("Accuracy", "g label", "acc"), op("Relu", "u", "v")])
    made.Sum(["g", "acc", "v"], ["y"])
    text = message(made, ["y"], MissingRuleError)
    assert "3 operators on the path have no gradient" in text
    lines = [line.split() for line in text.splitlines() if line.startswith("  no gradient for ")]
    assert [words[3:5] for words in lines] == [["Accuracy", "#2"], ["NotAnOperator", "#1"], ["Floor", "#0"]]
    assert "test_errors.py:" in text
    assert "RegisterGradient" in text


def test_a_schema_violation_says_what_was_found_and_expected():
    text = message(net(op("FC", "x w", "y")), ["y"], MissingRuleError)
    assert "FC #0 (x, w -> y)" in text and "2" in text and "3" in text


def test_devices_are_named_with_blob_and_cure():
    cuda = [DeviceOption(caffe2_pb2.CUDA, number) for number in range(2)]
    made = net(op("Relu", "x", "a", device_option=cuda[0]), op("Tanh", "x", "b", device_option=cuda[1]))
    text = message(made, {"a": "da", "b": "db"}, DeviceMismatchError)
    assert "'x'" in text and "CUDA:0" in text and "CUDA:1" in text and "Copy" in text and 'overwritten="save"' in text


@pytest.mark.parametrize("options", [{}, {"wrt": ["typo"]}])
def test_an_unknown_blob_says_where_it_was_asked_for(options):
    made = net(op("Relu", "x", "y"))
    text = message(made, ["y"] if options else ["typo"], UnknownBlobError, **options)
    assert "'typo' in wrt" in text if options else "'typo' in ys" in text
    for kind in (KeyError, ValueError, RuntimeError):
        assert issubclass(UnknownBlobError, kind)


def test_overwritten_takes_two_words():
    with pytest.raises(ValueError, match="overwritten must be one of error, save, not 'maybe'"):
        net(op("Relu", "x", "y")).AddGradientOperators(["y"], overwritten="maybe")


def test_a_foreign_blob_in_a_registered_rule_is_named():
    @GradientRegistry.RegisterGradient("Foreign")
    def rule(forward, given):
        return [CreateOperator("Mul", ["elsewhere", given[0]], ["x_grad"])], ["x_grad"]

    text = message(net(op("Foreign", "x", "y")), ["y"], ForeignBlobError)
    assert "'elsewhere'" in text and "Foreign" in text and "Mul" in text


def test_a_gradient_into_an_output_without_a_term_is_never_dropped_in_silence():
    made = net(op("LayerNorm", "x", "y mean std"), op("Sqr", "mean", "z"))
    with pytest.warns(IgnoredGradientWarning, match=r"LayerNorm #0 .*'mean' is ignored"):
        made.AddGradientOperators(["y", "z"])


RAISING = {
    "overwritten": (overwritten_net, ["y"], {}),
    "missing rule": (lambda: net(op("Relu", "x", "h"), op("Floor", "h", "y")), ["y"], {}),
    "unknown y": (lambda: net(op("Relu", "x", "y")), ["z"], {}),
    "unknown wrt": (lambda: net(op("Relu", "x", "y")), ["y"], {"wrt": ["z"]}),
    "ys": (lambda: net(op("Relu", "x", "y")), ("y",), {}),
    "orphan": (lambda: net(op("StopGradient", "x", "y")), ["y"], {}),
    "missing output gradient": (lambda: net(op("Moments", "x", "m v"), op("Relu", "m", "y")), ["y"], {}),
    "saving does not help": (lambda: net(op("Sqr", "x", "h"), op("Sqr", "h", "h"), op("Floor", "h", "y")), ["y"],
                             {"overwritten": "save"}),
    "failing rule": (lambda: net(op("Fails", "x", "y")), ["y"], {}),
}  # fmt: skip


@pytest.mark.parametrize("make, ys, options", RAISING.values(), ids=RAISING)
def test_a_call_that_raises_changes_nothing(make, ys, options):
    @GradientRegistry.RegisterGradient("Fails")
    def rule(forward, given):
        raise ZeroDivisionError("on purpose")

    made = make()
    before = made.Proto().SerializeToString(deterministic=True)
    with pytest.raises((GradientError, TypeError, ValueError)):
        made.AddGradientOperators(ys, **options)
    assert made.Proto().SerializeToString(deterministic=True) == before


def test_after_an_error_the_net_can_be_mended_and_differentiated():
    made = net(op("Relu", "x", "h"), op("Floor", "h", "y"))
    with pytest.raises(MissingRuleError):
        made.AddGradientOperators(["y"])
    made.Proto().op[1].type = "Tanh"
    assert made.AddGradientOperators(["y"])["x"] == "x_grad"
