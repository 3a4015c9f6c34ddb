"""Recurrent networks compute, and are differentiated, like the same operators written out, and finite differences."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
import recurrent_models
from unroll import unrolled

from caffe2.python import attention, brew, core, crf, gru_cell, rnn_cell
from caffe2.python.model_helper import ModelHelper
from netgrad.runtime.workspace import Workspace

BACKENDS = ["numpy", "torch"]
WITH_GRADIENT = [name for name in recurrent_models.MODELS if "forward" not in name and "unrolled" not in name
                 and name not in ("lstm_layered", "crf_decoded", "residual_dropout")]
#: these make float32 constants
SINGLE = ("crf", "attention_coverage")


def build(name):
    core.Net._net_names_used.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return recurrent_models.MODELS[name](brew, core, ModelHelper, rnn_cell, gru_cell, attention, crf)


def values_for(model, length, batch, rng):
    """A float64 value for each blob that the model does not make."""
    nested = any(op.type == "RecurrentNetwork" and op.output[0].startswith("outer/") for op in model.net.Proto().op)
    shapes = {"data": (length, batch, 3 if nested else 4), "encoded": (5, batch, 5), "weighted": (5, batch, 5),
              "h0": (1, batch, 3), "c0": (1, batch, 3), "a0": (1, batch, 5), "predictions": (length, 3)}
    fixed = {"lengths": np.array(([0, length, 1, length + 1] * batch)[:batch], dtype=np.int32),
             "encoded_lengths": np.array(([5, 2, 3] * batch)[:batch], dtype=np.int32),
             "labels": np.array(([1, 0, 2] * length)[:length], dtype=np.int32)}
    start = Workspace(backend="numpy")
    start.run_net_once(model.param_init_net)
    found = {}
    for blob in model.net.Proto().external_input:
        if blob in start.values:
            value = start.fetch_blob(blob)
            found[blob] = value if value.dtype.kind == "i" else rng.standard_normal(value.shape)
        else:
            found[blob] = fixed[blob] if blob in fixed else rng.standard_normal(shapes[blob] if blob in shapes else
                                                                                _shape_of_state(model, blob, batch))
    return found


def _shape_of_state(model, blob, batch):
    """(1, N, D) of a state, by the width of what it is made into."""
    op = next(op for op in model.net.Proto().op if op.type == "RecurrentNetwork")
    position = list(op.input).index(blob) - 1
    widths = {"outer": [3] * 6 + [5], "layers": [3, 3, 2, 2, 3, 3]}
    kind = "outer" if op.output[0].startswith("outer/") else "layers"
    return (1, batch, widths[kind][position])


def add_loss(net, outputs, rng, feeds):
    terms = []
    for k, (output, shape) in enumerate(outputs):
        kind = np.float64 if all(v.dtype != np.float32 for v in feeds.values()) else np.float32
        feeds[f"weight_{k}"] = rng.standard_normal(shape).astype(kind)
        product = net.Mul([core.BlobReference(str(output)), f"weight_{k}"], f"weighted_{k}")
        terms.append(net.SumElements(product, f"term_{k}"))
    return net.Sum(terms, "loss") if len(terms) > 1 else net.Copy(terms, "loss")


def run(net, feeds, names, backend):
    workspace = Workspace(backend=backend)
    for name, value in feeds.items():
        workspace.feed_blob(name, value)
    workspace.run_net_once(net)
    return [workspace.fetch_blob(name) for name in names]


def close(found, expected, what):
    assert found.shape == expected.shape and found.dtype == expected.dtype, what
    tolerance = 1e-9 if found.dtype == np.float64 else 1e-4
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=what)


def compare(net, outputs, feeds, length, batch, rng, backend, check=()):
    """Values and gradients of a net equal those of the net written out, and finite differences."""
    plain = unrolled(net, length, batch)
    expected = run(plain, feeds, outputs, backend)
    for name, found, value in zip(outputs, run(net, feeds, outputs, backend), expected):
        close(found, value, str(name))
    results = [(output, value.shape) for output, value in zip(outputs, expected)]
    maps = []
    for each in (net, plain):
        state = rng.bit_generator.state
        loss = add_loss(each, results, rng, feeds)
        maps.append(each.AddGradientOperators([loss], **({} if each is net else {"overwritten": "save"})))
        rng.bit_generator.state = state
    floats = [name for name, value in feeds.items() if value.dtype.kind == "f" and not name.startswith("weight_")
              and name in maps[1]]
    assert [name for name in floats if name not in maps[0]] == []
    ours = dict(zip(floats, run(net, feeds, [maps[0][name] for name in floats], backend)))
    theirs = dict(zip(floats, run(plain, feeds, [maps[1][name] for name in floats], backend)))
    for name in floats:
        close(ours[name], theirs[name], f"gradient of {name}")
    for name in [name for name in floats if name in check]:
        size, bound = (1e-6, 1e-5) if feeds[name].dtype == np.float64 else (1e-2, 1e-1)
        for index in random.Random(1).sample(list(np.ndindex(feeds[name].shape)), 2):
            losses = []
            for sign in (1, -1):
                moved = feeds[name].copy()
                moved[index] += sign * size
                losses.append(run(net, {**feeds, name: moved}, ["loss"], backend)[0])
            slope = (losses[0] - losses[1]) / 2 / size
            assert abs(slope - ours[name][index]) < bound * max(1, abs(slope)), f"gradient of {name}"
    return ours


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("length, batch", [(3, 3), (1, 1), (4, 1)])
@pytest.mark.parametrize("name", WITH_GRADIENT)
def test_like_unrolled(name, length, batch, backend):
    if name == "crf":
        batch = 1
    model, outputs = build(name)
    rng = np.random.default_rng(5)
    feeds = values_for(model, length, batch, rng)
    feeds.update(_constants(model))
    if name in SINGLE:
        feeds = {blob: value.astype(np.float32) if value.dtype.kind == "f" else value for blob, value in feeds.items()}
    steps = length + 1 if name == "crf" else length  # the beginning and the end are added, and the first is no step
    compare(model.net, [str(output) for output in outputs], feeds, steps, batch, rng, backend,
            check=("data", "first_0", "encoded", "rnn/gates_t_w", "predictions", "crf_transitions"))


def _constants(model):
    workspace = Workspace(backend="numpy")
    workspace.run_net_once(model.param_init_net)
    return {name: workspace.fetch_blob(name) for name in workspace.names()
            if name in {i for op in model.net.Proto().op for i in op.input}
            and workspace.fetch_blob(name).dtype.kind == "i"}
