"""recurrent_net on small step nets: what Caffe2 gets wrong or refuses, ends of sequences, step blobs, errors."""

from __future__ import annotations

import random

import numpy as np
import pytest
from against_unrolled import compare, run

from caffe2.python import core, recurrent, workspace
from netgrad.autodiff.errors import MissingRuleError
from netgrad.recurrent.execution import Steps
from netgrad.runtime.errors import BadShape, MissingBlob
from netgrad.runtime.workspace import Workspace

B = core.BlobReference


def network(write, states=("h",), firsts=None, **options):
    """A net with one RecurrentNetwork; ``write(step)`` writes the step, which reads x and <state>_prev."""
    core.Net._net_names_used.clear()
    net, step = core.Net("net"), core.Net("step")
    step.AddExternalInputs("x", *(f"{state}_prev" for state in states))
    write(step)
    step.AddExternalOutputs(*(B(state) for state in states))
    firsts = firsts or [f"{state}0" for state in states]
    net.AddExternalInputs("data", *dict.fromkeys(firsts))
    recurrent.recurrent_net(
        net, step, [(B("x"), B("data"))], [(B(f"{state}_prev"), B(first)) for state, first in zip(states, firsts)],
        {f"{state}_prev": B(state) for state in states}, scope="rnn", **options)
    return net


def feeds_of(rng, length=3, batch=2, **more):
    feeds = {"data": (length, batch, 3), "h0": (1, batch, 3), "c0": (1, batch, 3), "w": (3, 3), "b": (3,), **more}
    return {name: rng.standard_normal(shape) for name, shape in feeds.items()}


def used(net, feeds):
    read = {name for op in net.Proto().op for name in op.input}
    return {name: value for name, value in feeds.items() if name in read}


def passes_on(step):
    step.Sum(["x", "h_prev"], "h")


def passes_on_twice(step):
    step.Sum(["x", "x", "h_prev"], "h")


def swaps(step):
    step.Copy("c_prev", "h")
    step.Sum(["h_prev", "x"], "c")


def one_reads_the_other(step):
    step.Tanh(step.FC(["h_prev", "w", "b"], "f", axis=2), "h")
    step.Mul(["h", step.Sum(["c_prev", "h"], "s")], "m")
    step.Sum(["m", "x"], "c")


def updates_in_place(step):
    step.FC(["h_prev", "w", "b"], "f", axis=2)
    step.Sum(["f", "x"], "f")
    step.Sigmoid("f", "f")
    step.Mul(["f", "h_prev"], "h")


def looks_up(step):
    step.Add([step.Sum(["x", "h_prev"], "both"), step.Gather(["w", "ids"], "rows")], "s", broadcast=1)
    step.Tanh("s", "h")


def reads_a_first_value(step):
    step.Mul(["h_prev", step.Tanh("h0", "t")], "m")
    step.Sum(["m", "x"], "h")


def keeps_a_state(step):
    step.Mul(["h_prev", "x"], "h")
    step.Proto().external_output.append("c_prev")


def hands_on_what_it_was_given(step):
    """The next h is the input, the next c is the last h: no operator makes either."""
    step.Mul(["h_prev", "c_prev"], "unused")


def passes_on_before_it_writes(step):
    step.FC(["h_prev", "w", "b"], "h", axis=2)
    step.Sigmoid("h", "h")
    step.Sum(["h", "x"], "h")


def adds_what_it_made_twice(step):
    step.FC(["x", "w", "b"], "h", axis=2)
    step.Sum(["h", "h_prev"], "s")
    step.Sum(["h", "s"], "h")


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("write, made", [
    (keeps_a_state, ("h", "c_prev")), (hands_on_what_it_was_given, ("x", "h_prev")),
    (passes_on_before_it_writes, ("h", "x")), (adds_what_it_made_twice, ("h", "h_prev"))])
def test_steps_that_hand_on_what_they_were_given_or_passed_on(write, made, backend):
    rng = np.random.default_rng(6)
    every = [f"{name}_{what}" for name in made for what in ("all", "last")]
    for outputs in (every[:1], every[2:3], every):
        core.Net._net_names_used.clear()
        net, step = core.Net("net"), core.Net("step")
        step.AddExternalInputs("x", "h_prev", "c_prev")
        write(step)
        net.AddExternalInputs("data", "h0", "c0")
        recurrent.recurrent_net(
            net, step, [(B("x"), B("data"))], [(B("h_prev"), B("h0")), (B("c_prev"), B("c0"))],
            {"h_prev": B(made[0]), "c_prev": B(made[1])}, scope="rnn", overwritten="save")
        compare(net, outputs, used(net, feeds_of(rng)), rng, backend, check=("data", "h0", "c0"))


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("write, states", [
    (passes_on, "h"), (passes_on_twice, "h"), (swaps, "hc"), (one_reads_the_other, "hc"), (updates_in_place, "h"),
    (looks_up, "h"), (reads_a_first_value, "h"),
], ids=lambda value: getattr(value, "__name__", None))
def test_steps(write, states, backend):
    for length, batch in ((3, 2), (1, 1)):
        rng = np.random.default_rng(1)
        net = network(write, states)
        feeds = used(net, feeds_of(rng, length, batch))
        if write is looks_up:
            feeds["ids"] = np.array([2, 0][:batch], dtype=np.int32)
        compare(net, [f"{state}_all" for state in states[:1]], feeds, rng, backend, check=tuple(feeds))


@pytest.mark.parametrize("outputs", [
    ["h_last"], ["c_all"], ["h_all", "c_last"], ["h_all", "h_last", "c_all", "c_last"]])
def test_gradients_that_flow_back_need_not_be_those_declared(outputs):
    rng = np.random.default_rng(2)
    net = network(one_reads_the_other, "hc", outputs_with_grads=(0,))
    compare(net, outputs, used(net, feeds_of(rng)), rng, "numpy", check=("data", "c0"))


@pytest.mark.parametrize("shape", [(2, 3), (3,)])
def test_first_values_of_fewer_dimensions(shape):
    rng = np.random.default_rng(3)
    net = network(one_reads_the_other, "hc")
    compare(net, ["h_all"], used(net, feeds_of(rng, h0=shape)), rng, "numpy", check=("h0",))


def test_one_first_value_for_two_states():
    rng = np.random.default_rng(4)
    net = network(one_reads_the_other, "hc", firsts=["h0", "h0"])
    compare(net, ["h_all", "c_all"], used(net, feeds_of(rng)), rng, "numpy", check=("h0",))


def test_recomputed_blobs_are_not_kept():
    rng = np.random.default_rng(5)
    net = network(updates_in_place, recompute_blobs_on_backward=["f"])
    compare(net, ["h_all"], used(net, feeds_of(rng)), rng, "numpy", check=("w",))
    space = Workspace(backend="numpy")
    for name, value in used(net, feeds_of(rng)).items():
        space.feed_blob(name, value)
    space.run_operator(next(op for op in net.Proto().op if op.type == "RecurrentNetwork"))
    steps = space.values["rnn/step_workspaces"]
    assert isinstance(steps, Steps) and "f" not in steps.local[0] and "h" in steps.local[0]


def test_the_gradient_reads_what_the_forward_run_read():
    rng = np.random.default_rng(6)
    net = network(updates_in_place)
    feeds = used(net, feeds_of(rng))
    net.SumElements("h_all", "loss")
    gradients = net.AddGradientOperators(["loss"])
    expected = run(net, feeds, [gradients["data"], gradients["w"]], "numpy")
    ops = list(net.Proto().op)
    position = next(k for k, op in enumerate(ops) if op.type == "RecurrentNetworkGradient")
    changed = core.Net("changed")
    changed.Proto().op.extend(ops[:position])
    for name in ("w", "data"):
        changed.Scale(B(name), B(name), scale=0.0)
    changed.Proto().op.extend(ops[position:])
    for found, value in zip(run(changed, feeds, [gradients["data"], gradients["w"]], "numpy"), expected):
        np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_no_steps_at_all(backend):
    rng = np.random.default_rng(7)
    net = network(updates_in_place, outputs_with_grads=(0, 1))
    feeds = used(net, feeds_of(rng, length=0))
    net.SumElements("h_all", "sum")
    net.SumElements("h_last", "loss")
    gradients = net.AddGradientOperators(["sum", "loss"])
    names = ["h_all", "h_last", gradients["data"], gradients["h0"], gradients["w"]]
    every, last, of_data, of_first, of_w = run(net, feeds, names, backend)
    assert every.shape == of_data.shape == (0, 2, 3)
    np.testing.assert_array_equal(last, feeds["h0"])
    np.testing.assert_array_equal(of_first, np.ones((1, 2, 3)))
    np.testing.assert_array_equal(of_w, np.zeros((3, 3)))


def test_a_window_that_reaches_the_row_of_the_step_itself():
    """A moving sum over the last three inputs, which the step itself makes rows of a state."""
    net, step = core.Net("net"), core.Net("step")
    step.AddExternalInputs("x", "recent")
    step.Scale("x", "row", scale=2.0)
    step.ReduceFrontSum("recent", "flat", num_reduce_dim=1)
    step.ExpandDims("flat", "moving", dims=[0])
    net.RecurrentNetwork(
        ["data", "past", "zero"], ["rows_all", "moving_all", "steps"], alias_src=["rows", "sums"],
        alias_dst=["rows_all", "moving_all"], alias_offset=[2, 1], recurrent_states=["rows", "sums"],
        initial_recurrent_state_ids=[1, 2], link_internal=["x", "recent", "row", "moving"],
        link_external=["data", "rows", "rows", "sums"], link_offset=[0, 0, 2, 1], link_window=[1, 3, 1, 1],
        step_net=step.Proto(), timestep="t")
    data, past = np.arange(8.0).reshape(4, 2, 1), -np.ones((2, 2, 1))
    feeds = {"data": data, "past": past, "zero": np.zeros((1, 2, 1))}
    rows = np.concatenate([past, 2 * data])
    every, moving = run(net, feeds, ["rows_all", "moving_all"], "numpy")
    np.testing.assert_array_equal(every, 2 * data)
    np.testing.assert_array_equal(moving, rows[:-2] + rows[1:-1] + rows[2:])


def test_a_step_may_update_what_it_finds_outside():
    net = network(lambda step: (step.Add(["count", "one"], "count"), step.Sum(["x", "h_prev"], "h")), forward_only=True)
    feeds = {**feeds_of(np.random.default_rng(8)), "count": np.zeros(1), "one": np.ones(1)}
    assert run(net, feeds, ["count"], "numpy")[0] == 3


def test_step_blobs_can_be_fetched():
    workspace.ResetWorkspace()
    net = network(passes_on)
    for name, value in feeds_of(np.random.default_rng(9)).items():
        workspace.FeedBlob(name, value)
    workspace.RunNetOnce(net)
    names = [name.decode() for name in recurrent.retrieve_step_blobs(net, "seen")]
    assert {"seen_x0", "seen_h2", "seen_h_prev1"} <= set(names)
    np.testing.assert_array_equal(workspace.FetchBlob("seen_h2"), workspace.FetchBlob("h_last"))


def test_link_and_accumulation_operators():
    space = Workspace(backend="numpy")
    rows = np.arange(8.0).reshape(4, 2)
    for name, value in {"t": np.array([1], dtype=np.int32), "rows": rows, "of_output": rows[:3] * 10}.items():
        space.feed_blob(name, value)
    space.run_operator(core.CreateOperator(
        "rnn_internal_apply_link", ["t", "rows"], ["view", "rows"], offset=1, window=2))
    np.testing.assert_array_equal(space.fetch_blob("view"), rows[2:4])
    space.run_operator(core.CreateOperator(
        "rnn_internal_accumulate_gradient_input", ["t", "of_output", "rows"], ["rows"], offset=1))
    expected = rows.copy()
    expected[2] += 10 * rows[1]
    np.testing.assert_array_equal(space.fetch_blob("rows"), expected)


def test_errors_name_what_is_wrong():
    feeds = feeds_of(np.random.default_rng(10))
    with pytest.raises(BadShape, match=r"first value 'h0' .* \(1, 5, 3\).* batch\s+of 2"):
        run(network(passes_on), {**feeds, "h0": np.ones((1, 5, 3))}, [], "numpy")
    with pytest.raises(MissingBlob, match="'w'"):
        run(network(updates_in_place), {name: feeds[name] for name in ("data", "h0", "b")}, [], "numpy")
    with pytest.raises(BadShape, match=r"made 'h' of shape \(1, 2, 6\)"):
        run(network(lambda step: step.Concat(["x", "x"], ["h", "_"], axis=2), forward_only=True), feeds, [], "numpy")
    net = network(passes_on, forward_only=True)
    net.SumElements("h_all", "loss")
    with pytest.raises(MissingRuleError, match="forward-only"):
        net.AddGradientOperators(["loss"])


def test_step_nets_that_overwrite_what_is_needed():
    def write(step):
        step.Tanh("h_prev", "t")
        step.Sum(["t", "x"], "t")
        step.Mul(["t", "h_prev"], "h")

    with pytest.raises(RuntimeError, match="overwrote"):
        network(write)
    rng = np.random.default_rng(11)
    net = network(write, overwritten="save")
    compare(net, ["h_all"], used(net, feeds_of(rng)), rng, "numpy", check=("h0",))


def random_step(rng, states):
    """Writes a step of some operators on whatever is at hand, in place at times."""
    def write(step):
        known = ["x", *(f"{state}_prev" for state in states)]
        for k in range(rng.randint(2, 6)):
            a, b = rng.choice(known), rng.choice(known)
            out = f"t{k}"
            kind = rng.randrange(6)
            if kind == 0:
                step.Sum([a, b], out)
            elif kind == 1:
                step.Mul([a, b], out)
            elif kind == 2:
                step.Tanh(a, out)
            elif kind == 3:
                step.FC([a, "w", "b"], out, axis=2)
            elif kind == 4:
                step.Sum([step.Sigmoid(a, out), b], out)
            else:
                step.Add([a, "b"], out, broadcast=1)
            known.append(out)
        for state in states:
            if rng.random() < 0.3:
                step.Copy(rng.choice(known), state)
            else:
                step.Sum([rng.choice(known), rng.choice(known)], state)
            known.append(state)
    return write


@pytest.mark.parametrize("seed", [*range(30), 1098, 1300, 1523])
def test_random_steps(seed):
    chance = random.Random(seed)
    states = ["h", "c"][:chance.randint(1, 2)]
    length, batch = chance.randint(1, 4), chance.randint(1, 3)
    write = random_step(chance, states)
    net = network(write, states, overwritten="save")
    rng = np.random.default_rng(seed)
    feeds = {name: 0.5 * value for name, value in used(net, feeds_of(rng, length, batch)).items()}
    outputs = [name for state in states for name in (f"{state}_all", f"{state}_last") if chance.random() < 0.6]
    compare(net, outputs or ["h_all"], feeds, rng, "numpy", check=("data",))
