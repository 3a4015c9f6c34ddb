"""A recognised LSTM on torch computes what its step net does, step by step; other step nets are left alone."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2.python import core, rnn_cell
from caffe2.python.model_helper import ModelHelper
from netgrad.recurrent import fused_lstm
from netgrad.recurrent.execution import Steps
from netgrad.runtime.workspace import Workspace


def layer(lengths=True, outputs=(0, 1, 2, 3), **options):
    core.Net._net_names_used.clear()
    model = ModelHelper("model")
    results = rnn_cell.LSTM(model, "data", "lengths" if lengths else None, ["h0", "c0"], 4, 3, "rnn",
                            outputs_with_grads=list(outputs), **options)
    return model, [results[k] for k in outputs]


def values(model, results, backend, length, dtype, lengths=(0, 2, 5)):
    rng = np.random.default_rng(0)
    gradients = {}
    if not model.gradient_ops_added:
        weighted = [model.net.Mul([result, f"weight_{k}"], f"weighted_{k}") for k, result in enumerate(results)]
        loss = model.net.Sum([model.net.SumElements(blob, f"sum_{k}") for k, blob in enumerate(weighted)], "loss")
        model.AddGradientOperators([loss])
    gradients = [model.grad_map[name] for name in ("data", "h0", "c0", *map(str, model.params))]
    space = Workspace(backend=backend)
    start = Workspace(backend="numpy")
    start.run_net_once(model.param_init_net)
    feeds = {str(param): rng.standard_normal(start.fetch_blob(param).shape) for param in model.params}
    feeds |= {"data": rng.standard_normal((length, 3, 4)), "h0": rng.standard_normal((1, 3, 3)),
              "c0": rng.standard_normal((1, 3, 3))}
    feeds |= {f"weight_{k}": rng.standard_normal((length if str(result).endswith("_all") else 1, 3, 3))
              for k, result in enumerate(results)}
    for name, value in feeds.items():
        space.feed_blob(name, value.astype(dtype))
    space.feed_blob("lengths", np.array(lengths, dtype=np.int32))
    space.run_net_once(model.net)
    return [space.fetch_blob(name) for name in [*results, *gradients]], space


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize("options", [
    {}, {"lengths": False}, {"drop_states": True}, {"forget_bias": 0.75}, {"outputs": (1,)}, {"outputs": (0, 3)},
], ids=str)
def test_fused_is_step_by_step(options, length, dtype):
    model, results = layer(**options)
    fused, space = values(model, results, "torch", length, dtype)
    steps = space.values["rnn/step_workspaces"]
    assert isinstance(steps, Steps) and steps.activations is not None
    plain, other = values(model, results, "numpy", length, dtype)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    for found, expected in zip(fused, plain):
        assert found.dtype == expected.dtype and found.shape == expected.shape
        np.testing.assert_allclose(found, expected, atol=tolerance)
    theirs = other.values["rnn/step_workspaces"]
    for t in range(length):
        assert theirs.local[t].keys() - {"timestep"} == steps.local[t].keys()
        for name, value in steps.local[t].items():
            np.testing.assert_allclose(value.numpy(), theirs.local[t][name], atol=tolerance)


def test_no_steps():
    model, results = layer()
    fused, _ = values(model, results, "torch", 0, np.float64)
    plain, _ = values(model, results, "numpy", 0, np.float64)
    for found, expected in zip(fused, plain):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("change", ["Relu after", "another sum", "weights in place", "a link more"])
def test_what_is_no_lstm_is_not_taken_for_one(change):
    model, _ = layer()
    op = next(op for op in model.net.Proto().op if op.type == "RecurrentNetwork")
    arguments = {a.name: a for a in op.arg}
    step = arguments["step_net"].n
    links = list(zip(*([s.decode() for s in arguments[f"link_{part}"].strings] for part in ("internal", "external")),
                     arguments["link_offset"].ints, [1] * 5))
    states = [s.decode() for s in arguments["recurrent_states"].strings]
    assert fused_lstm.recognise(step, links, states, op.input[0], "timestep") is not None
    if change == "Relu after":
        step.op.add(type="Relu", input=["rnn/hidden_state"], output=["rnn/hidden_state"])
    elif change == "another sum":
        step.op[1].input.append("rnn/gates_t")
    elif change == "weights in place":
        step.op[1].output[0] = step.op[2].input[2] = "rnn/gates_t_w"
    else:
        links.append(("rnn/gates_t_w", op.input[0], 0, 1))
    assert fused_lstm.recognise(step, links, states, op.input[0], "timestep") is None


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("unit, gates, states", [("LSTMUnit", 4, 2), ("GRUUnit", 3, 1)])
def test_units_of_torch_are_those_of_the_reference(unit, gates, states, masked, drop):
    rng = np.random.default_rng(1)
    feeds = {"h": rng.standard_normal((1, 3, 5)), "c": rng.standard_normal((1, 3, 5)),
             "gates": rng.standard_normal((1, 3, 5 * gates)), "t": np.array([2], dtype=np.int32),
             "lengths": np.array([0, 2, 3] if masked else [3, 4, 9], dtype=np.int32)}
    net = core.Net("net")
    before, after = ["h", "c"][:states], ["h_next", "c_next"][:states]
    arguments = {"forget_bias": 0.5} if unit == "LSTMUnit" else {}
    getattr(net, unit)([*before, "gates", "lengths", "t"], after, drop_states=drop, **arguments)
    for k, name in enumerate(after):
        net.Scale(name, f"{name}_scaled", scale=float(k + 2))
    net.Sum([net.SumElements(f"{name}_scaled", f"{name}_sum") for name in after], "loss")
    found = net.AddGradientOperators(["loss"])
    results = []
    for backend in ("numpy", "torch"):
        space = Workspace(backend=backend)
        for name, value in feeds.items():
            space.feed_blob(name, value)
        space.run_net_once(net)
        results.append([space.fetch_blob(name) for name in [*after, found["gates"], *(found[name] for name in before)]])
    for ours, reference in zip(*results):
        np.testing.assert_allclose(ours, reference, atol=1e-12)
