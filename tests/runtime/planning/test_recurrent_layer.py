"""LSTM layers by oneDNN: every blob as the operators leave it, on random nets, whatever is read, fed and asked for."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caffe2.python import core, optimizer, rnn_cell
from caffe2.python.model_helper import ModelHelper
from netgrad.recurrent.execution import Steps
from netgrad.runtime import backends
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.planning import planner
from netgrad.runtime.planning.recurrent import Layer, LayerBackward
from netgrad.runtime.workspace import Workspace

pytestmark = pytest.mark.skipif("torch" not in backends.available(), reason="oneDNN comes with torch")
T, N, C = 4, 3, 5


def stack(dims=(4,), outputs=(0,), lengths=True, train=True, update=None, reads=(), **options):
    """LSTM layers on top of each other; a weighted sum of some outputs as loss, its gradient, updates."""
    core.Net._net_names_used.clear()
    model = ModelHelper("model")
    x, width, results, weighted = "data", C, (), 0
    for k, dim in enumerate(dims):
        last = k == len(dims) - 1
        results = rnn_cell.LSTM(model, x, "lengths" if lengths else None, [f"h{k}", f"c{k}"], width, dim, f"layer{k}",
                                outputs_with_grads=list(outputs) if last else [0], forward_only=not train, **options)
        x, width = results[0], dim
    for name in reads:
        model.net.Scale(name, name + "_seen", scale=2.0)
    if train:
        losses = []
        for weighted in outputs:
            product = model.net.Mul([results[weighted], f"weight_{weighted}"], f"weighted_{weighted}")
            losses.append(model.net.SumElements(product, f"sum_{weighted}"))
        model.AddGradientOperators([model.net.Sum(losses, "loss")])
        if update:
            update(model, base_learning_rate=0.01)
    return model


def feeds_for(model, dims, dtype=np.float32, lengths=None, seed=0, length=T, shape=lambda d: (1, N, d)):
    rng = np.random.default_rng(seed)
    start = Workspace(backend="numpy")
    start.run_net_once(model.param_init_net)
    feeds = {}
    for name in start.names():
        value = start.fetch_blob(name)
        if isinstance(value, np.ndarray):
            random = name in map(str, model.params)
            feeds[name] = rng.standard_normal(value.shape).astype(dtype) if random else value
    feeds["data"] = rng.standard_normal((length, N, C)).astype(dtype)
    feeds["lengths"] = np.full(N, length, np.int32) if lengths is None else np.array(lengths, np.int32)
    for k, dim in enumerate(dims):
        feeds |= {f"{s}{k}": rng.standard_normal(shape(dim)).astype(dtype) for s in "hc"}
    for k in range(4):
        feeds[f"weight_{k}"] = rng.standard_normal((1 if k % 2 else length, N, dims[-1])).astype(dtype)
    return feeds


def created(model, feeds, passes, backend="torch"):
    space = Workspace(backend=backend)
    for name, value in feeds.items():
        space.feed_blob(name, value)
    for op in model.param_init_net.Proto().op:
        if op.type == "CreateMutex":
            space.run(op)
    with planner.passes(passes):
        return space, space.create_net(model.net.Proto())


def layers(bound):
    return [sum(isinstance(step, kind) for step in bound.plan.steps) for kind in (Layer, LayerBackward)]


def same(found, expected, tolerance=1e-5):
    assert found.names() == expected.names()
    for name in expected.names():
        ours, theirs = found.fetch_blob(name), expected.fetch_blob(name)
        if isinstance(theirs, np.ndarray) and theirs.dtype.kind in "fiu":
            assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, name
            size = max(1.0, float(np.abs(theirs).max(initial=0)))
            np.testing.assert_allclose(ours, theirs, atol=tolerance * size, rtol=tolerance, err_msg=name)
            continue
        ours, theirs = found.values[name], expected.values[name]
        if isinstance(theirs, Steps):
            for t, left in theirs.local.items():
                for blob in ours.local[t]:
                    np.testing.assert_allclose(np.asarray(ours.local[t][blob]), np.asarray(left[blob]), atol=tolerance)


def run_all(model, feeds, expected, runs=2, **more):
    """Runs planned, plainly on torch, and step by step on NumPy; all blobs must agree."""
    name = model.net.Proto().name
    spaces = [created(model, feeds, passes, backend) for passes, backend in (
        ("all", "torch"), ("none", "torch"), ("none", "numpy"))]
    assert layers(spaces[0][1]) == list(expected)
    for run in range(runs):
        for space, _ in spaces:
            space.run_net(name)
        if run == 0:
            for space, _ in spaces[1:]:
                same(spaces[0][0], space, **more)
    same(spaces[0][0], spaces[1][0], **more)
    return spaces[0][0]


@pytest.mark.parametrize("options", [
    {}, {"lengths": False}, {"drop_states": True}, {"forget_bias": 0.75}, {"outputs": (1,)}, {"outputs": (3,)},
    {"outputs": (0, 1, 3)}, {"dims": (4, 3, 6)}, {"dims": (1,)}, {"update": optimizer.build_adam},
    {"update": optimizer.build_sgd, "dims": (4, 2)},
], ids=str)
def test_a_layer_is_its_operators(options):
    dims = options.get("dims", (4,))
    model = stack(**options)
    space = run_all(model, feeds_for(model, dims), (len(dims), len(dims)))
    space.run_net(model.net.Proto().name)
    waiting = {name for k in range(len(dims)) for name in (
        f"layer{k}/i2h", f"layer{k}/i2h_grad", f"layer{k}/cell_state_all", f"layer{k}/step_workspaces")}
    assert {name for name in space.names() if space.values.is_pending(name)} == waiting


def test_forward_alone():
    model = stack(train=False, dims=(4, 2))
    run_all(model, feeds_for(model, (4, 2)), (2, 0))


@pytest.mark.parametrize("shape", [lambda d: (d,), lambda d: (N, d), lambda d: (1, N, d)], ids=["D", "ND", "1ND"])
@pytest.mark.parametrize("length", [1, 5])
def test_first_states_and_lengths(shape, length):
    model = stack(outputs=(0, 3))
    run_all(model, feeds_for(model, (4,), shape=shape, length=length), (1, 1))


@pytest.mark.parametrize("change", ["ended", "double", "two first rows", "no steps", "one state for all"])
def test_what_onednn_does_not_compute_runs_step_by_step(change):
    model = stack()
    feeds = feeds_for(model, (4,), dtype=np.float64 if change == "double" else np.float32,
                      length=0 if change == "no steps" else T, lengths=(1, 4, 2) if change == "ended" else None)
    if change == "one state for all":
        feeds["h0"] = feeds["h0"][0, 0]
    if change == "two first rows":
        feeds["c0"] = np.repeat(feeds["c0"], 2, axis=0)
        pair = [created(model, feeds, passes)[0] for passes in ("all", "none")]
        with contextlib.suppress(OperatorError):
            pair[1].run_net("model")
        with contextlib.suppress(OperatorError):
            pair[0].run_net("model")
        assert pair[0].last_failed == pair[1].last_failed
        return
    run_all(model, feeds, (1, 1))


def test_runs_may_change_from_one_to_the_other():
    model = stack(update=optimizer.build_adam)
    feeds = feeds_for(model, (4,))
    (fast, bound), (plain, _) = (created(model, feeds, passes) for passes in ("all", "none"))
    assert layers(bound) == [1, 1]
    rng = np.random.default_rng(3)
    for length, ended in ((4, False), (4, True), (2, False), (6, True), (6, False)):
        new = {"data": rng.standard_normal((length, N, C)).astype(np.float32),
               "weight_0": rng.standard_normal((length, N, 4)).astype(np.float32),
               "lengths": np.array([1, length, 2] if ended else [length, length + 3, length], np.int32)}
        for space in (fast, plain):
            for name, value in new.items():
                space.feed_blob(name, value)
            space.run_net("model")
        same(fast, plain)


@pytest.mark.parametrize("reads", [("layer0/cell_state_all",), ("layer0/i2h",)])
def test_a_net_that_reads_what_would_be_left_out_runs_its_operators(reads):
    model = stack(reads=reads)
    run_all(model, feeds_for(model, (4,)), (0, 0))


@pytest.mark.parametrize("outputs", [(2,), (0, 2)])
def test_gradients_of_the_cells_of_all_steps_run_the_operators(outputs):
    model = stack(outputs=outputs)
    run_all(model, feeds_for(model, (4,)), (0, 0))


def test_what_is_looked_at_later_is_that_of_the_run():
    model = stack(update=optimizer.build_adam)
    feeds = feeds_for(model, (4,))
    (fast, _), (plain, _) = (created(model, feeds, passes) for passes in ("all", "none"))
    for space in (fast, plain):
        space.run_net("model", 3)
        for name in ("data", "layer0/i2h_w", "layer0/gates_t_w", "h0", "weight_0"):
            space.feed_blob(name, np.zeros_like(feeds[name]))
    same(fast, plain)


@pytest.mark.parametrize("blob,shape", [
    ("layer0/i2h_w", (16, 4)), ("layer0/gates_t_b", (15,)), ("data", (T, N)), ("lengths", (2,)),
    ("weight_0", (T, N, 3)), ("h0", (1, 2, 4))])
def test_errors_are_those_of_the_operators(blob, shape):
    model = stack()
    feeds = feeds_for(model, (4,))
    errors = []
    for passes in ("all", "none"):
        space, _ = created(model, feeds, passes)
        space.run_net("model")
        space.feed_blob(blob, np.zeros(shape, feeds[blob].dtype))
        with pytest.raises(OperatorError) as caught:
            space.run_net("model")
        errors.append((str(caught.value), space.last_failed))
    assert errors[0] == errors[1]


def test_switched_off_by_name_and_in_bfloat16_the_operators_run():
    model = stack()
    feeds = feeds_for(model, (4,))
    for passes, expected in (("-recurrent", [0, 0]), ("recurrent", [1, 1]), ("recurrent,bfloat16", [0, 0])):
        assert layers(created(model, feeds, passes)[1]) == expected


@settings(max_examples=25, deadline=None)
@given(dims=st.lists(st.integers(1, 9), min_size=1, max_size=3), length=st.integers(1, 6),
       outputs=st.sets(st.sampled_from((0, 1, 3)), min_size=1), lengths=st.booleans(),
       forget_bias=st.sampled_from((0.0, 1.0)), drop=st.booleans(), seed=st.integers(0, 9), ended=st.booleans())
def test_random_stacks(dims, length, outputs, lengths, forget_bias, drop, seed, ended):
    model = stack(dims, sorted(outputs), lengths, forget_bias=forget_bias, drop_states=drop)
    feeds = feeds_for(model, dims, seed=seed, length=length, lengths=[length, max(1, length - 2), 1] if ended else None)
    run_all(model, feeds, (len(dims), len(dims)), runs=1, tolerance=3e-5)
