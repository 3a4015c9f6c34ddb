"""Recurrent networks compute, and are differentiated, like the same operators written out, and finite differences."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import recurrent_models
from against_unrolled import compare

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
    compare(model.net, [str(output) for output in outputs], feeds, rng, backend,
            check=("data", "first_0", "encoded", "rnn/gates_t_w", "predictions", "crf_transitions"))


def _constants(model):
    workspace = Workspace(backend="numpy")
    workspace.run_net_once(model.param_init_net)
    return {name: workspace.fetch_blob(name) for name in workspace.names()
            if name in {i for op in model.net.Proto().op for i in op.input}
            and workspace.fetch_blob(name).dtype.kind == "i"}
