"""Layers write Caffe2's nets: parameters, training with gradients and updates, evaluation, prediction."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format

from caffe2.proto import caffe2_pb2
from caffe2.python import core, layer_model_helper, layer_model_instantiator, optimizer

FOLDER = Path(__file__).parent / "layer_nets"
NAMES = sorted({path.name.split(".")[0] for path in FOLDER.iterdir()})


@pytest.fixture(scope="module", params=NAMES)
def made(request, layer_models):
    core.Net._net_names_used.clear()
    np.random.seed(0)
    make = getattr(layer_models, request.param)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = layer_models.build(make, layer_model_helper, optimizer)
        return request.param, layer_models.nets(model, layer_model_instantiator)


@pytest.mark.parametrize("kind", sorted({path.name.split(".")[1] for path in FOLDER.iterdir()}))
def test_layers_write_the_nets_of_caffe2(made, kind):
    name, nets = made
    assert (kind in nets) == (FOLDER / f"{name}.{kind}.pbtxt").exists()
    if kind not in nets:
        return
    expected = text_format.Parse((FOLDER / f"{name}.{kind}.pbtxt").read_text(), caffe2_pb2.NetDef())
    found = caffe2_pb2.NetDef()
    found.CopyFrom(nets[kind].Proto())
    if kind == "init":  # Caffe2 lists parameters that its net fills itself as inputs
        expected.ClearField("external_input")
        found.ClearField("external_input")
    assert _lines(found) == _lines(expected)


def test_every_model_is_recorded(layer_models):
    assert NAMES == sorted(make.__name__ for make in layer_models.MODELS)


def _lines(net):
    for op in net.op:
        op.ClearField("debug_info")
        if not op.name:
            op.ClearField("name")  # an empty name is none
    ops = [text_format.MessageToString(op) for op in net.op]
    # the order of Caffe2's backward operators depends on the hash seed
    backward = next((k for k, op in enumerate(net.op) if "_grad" in "".join(op.output)), len(ops))
    ops[backward:] = sorted(ops[backward:])
    del net.op[:]
    return [*ops, text_format.MessageToString(net)]
