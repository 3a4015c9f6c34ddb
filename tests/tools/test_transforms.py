"""Transforms by name, and operators as functions."""

import numpy as np
import pytest

from caffe2.python import core, workspace
from caffe2.python.functional import Functional
from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import NetError
from netgrad.tools import transforms


def convolutions():
    net = core.Net("c")
    net.Conv(["x", "w", "b"], "y", kernel=3, engine="CUDNN")
    net.Conv(["y", "w", "b"], "z", kernel=3, device_option=core.DeviceOption(caffe2_pb2.CUDA, 0))
    return net.Proto()


def test_a_transform_changes_a_copy():
    net = convolutions()
    assert [o.engine for o in workspace.ApplyTransform("ConvToNNPack", net).op] == ["NNPACK", ""]
    assert net.op[0].engine == "CUDNN"
    with pytest.raises(NetError, match="no transform 'nope'; there are"):
        workspace.ApplyTransform("nope", net)


def test_the_faster_net_is_kept():
    slow, init = core.Net("n"), core.Net("i")
    init.ConstantFill([], "x", shape=[4], value=1.0)
    for k in range(300):
        slow.Relu("x", f"y{k}")

    @transforms.register_transform("Shorter")
    def shorter(net):
        del net.op[1:]

    try:
        kept = workspace.ApplyTransformIfFaster("Shorter", slow.Proto(), init.Proto(), main_runs=3)
        same = workspace.ApplyTransformIfFaster("Shorter", slow.Proto(), init.Proto(), improvement_threshold=1e9)
        assert len(kept.op) == 1 and len(same.op) == 300
    finally:
        del transforms._transforms["Shorter"]


def test_operators_as_functions():
    x = np.array([-1.0, 2.0], np.float32)
    result = Functional.Relu(x)
    assert result[0].tolist() == [0, 2] and result["output_0"] is result[0]
    joined, sizes = Functional.Concat(x, x, axis=0)
    assert joined.shape == (4,) and sizes.tolist() == [2, 2]
    assert [part.tolist() for part in Functional.Split(joined, num_output=2, axis=0)] == [x.tolist()] * 2
    with pytest.raises(ValueError, match="any number of outputs"):
        Functional.Split(x)
    with pytest.raises(ValueError, match="inputs, expected"):
        Functional.Relu(x, x)
    with pytest.raises(AttributeError, match="did you mean"):
        Functional.Rellu(x)
