"""Models come out as Caffe2's do: helpers, parameters, gradients, updates, operator by operator."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path

import pytest
from google.protobuf import text_format

from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, model_helper, optimizer

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("golden", HERE / "golden.py")
golden = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(golden)


@pytest.fixture(scope="module")
def build():
    made = {}

    def build(name):
        if name not in made:
            core.Net._net_names_used.clear()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made[name] = golden.MODELS[name](brew, core, model_helper, optimizer)
        return made[name]

    return build


@pytest.mark.parametrize("part", ["init", "net"])
@pytest.mark.parametrize("name", golden.MODELS)
def test_model_has_the_nets_of_caffe2(build, name, part):
    model = build(name)
    expected = text_format.Parse((HERE / "golden_nets" / f"{name}.{part}.pbtxt").read_text(), caffe2_pb2.NetDef())
    found = caffe2_pb2.NetDef()
    found.CopyFrom((model.param_init_net if part == "init" else model.net).Proto())
    assert _text(found) == _text(expected)


def _text(net):
    for op in net.op:
        op.ClearField("debug_info")
        if not op.name:
            op.ClearField("name")  # an empty name is none
        for argument in list(op.arg):  # two that Caffe2's helpers misspell, to no effect
            if op.type == "ConstantFill" and argument.name == "values":
                argument.name = "value"
            elif op.type == "DepthSplit" and argument.name == "dimensions":
                op.arg.remove(argument)
    return text_format.MessageToString(net)
