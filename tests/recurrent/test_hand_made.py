"""RecurrentNetwork operators written by hand: outputs in any order, states among them, gradients by default names."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from against_unrolled import add_loss, compare, run

from caffe2.python import core
from netgrad.runtime.errors import BadArgument

B = core.BlobReference
ALIASES = [("rows", "all", 1), ("rows", "last", -1)]


def elman(outputs, aliases=ALIASES, **more):
    """h = tanh(h_prev W + b + x) as an operator whose every argument is spelled out."""
    core.Net._net_names_used.clear()
    step, net = core.Net("step"), core.Net("net")
    step.FC(["h_prev", "w", "b"], "s", axis=2)
    step.Tanh(step.Sum(["s", "x"], "s"), "h")
    ops, _ = core.GradientRegistry.GetBackwardPass(step.Proto().op, {"h": "h_grad"})
    backward = core.Net("backward")
    backward.Proto().op.extend(ops)
    links = [("h_prev", "rows", 0), ("h", "rows", 1), ("x", "data", 0)]
    back = [("h_prev_grad", "rows_grad", 0), ("h_grad", "rows_grad", 1), ("s_grad", "data_grad", 0)]
    arguments = {f"link_{what}": value for what, value in zip(("internal", "external", "offset"), zip(*links))}
    arguments.update({f"backward_link_{what}": value
                      for what, value in zip(("internal", "external", "offset"), zip(*back))})
    arguments.update({f"alias_{what}": value for what, value in zip(("src", "dst", "offset"), zip(*aliases))})
    net.AddExternalInputs("data", "unused", "w", "b", "h0")
    net.RecurrentNetwork(
        ["data", "unused", "w", "b", "h0"], [*map(B, outputs), "left"], recurrent_states=["rows"],
        initial_recurrent_state_ids=[4], param=[2, 3], step_net=step.Proto(), backward_step_net=backward.Proto(),
        outputs_with_grads=[0], **arguments, **more)
    return net


def feeds_of(rng, length=3):
    shapes = {"data": (length, 2, 3), "w": (3, 3), "b": (3,), "h0": (1, 2, 3), "unused": (2,)}
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("outputs", [
    order for count in (1, 2, 3) for order in itertools.permutations(["rows", "all", "last"], count)])
def test_an_output_is_what_its_name_says(outputs, backend):
    rng = np.random.default_rng(1)
    feeds = feeds_of(rng)
    hidden = [feeds["h0"][0]]
    for row in feeds["data"]:
        hidden.append(np.tanh(hidden[-1] @ feeds["w"].T + feeds["b"] + row))
    expected = {"rows": hidden, "all": hidden[1:], "last": hidden[-1:]}
    for name, found in zip(outputs, run(elman(outputs), feeds, outputs, backend)):
        np.testing.assert_allclose(found, expected[name], rtol=1e-12)
    for output in outputs:  # each alone has the gradients of the net written out
        compare(elman(outputs), [output], dict(feeds), rng, backend, check=("data", "h0", "w"))


def test_renamed_outputs_are_taken_by_their_positions():
    rng = np.random.default_rng(2)
    compare(elman(["mine", "ours"]), ["mine", "ours"], feeds_of(rng), rng, "numpy", check=("h0",))


def test_outputs_that_were_overwritten_since_do_not_count():
    rng = np.random.default_rng(3)
    feeds = feeds_of(rng)
    found = []
    for overwriting in (False, True):
        net, values, draw = elman(["last", "rows", "all"]), dict(feeds), np.random.default_rng(4)
        loss = add_loss(net, [("rows", (4, 2, 3))], draw, values)
        if overwriting:
            net.Scale("rows", "rows", scale=7.0)
            net.Scale("last", "last", scale=7.0)
        gradients = net.AddGradientOperators([loss], overwritten="save")
        found.append(run(net, values, [gradients[name] for name in ("data", "w", "b", "h0")], "numpy"))
    for one, other in zip(*found):
        np.testing.assert_array_equal(one, other)


def test_an_output_that_is_nothing_is_refused():
    with pytest.raises(BadArgument, match=r"output 2, 'other', is neither one of alias_dst \(all, last\) nor a state"):
        run(elman(["all", "last", "other"]), feeds_of(np.random.default_rng(5)), ["all"], "numpy")
