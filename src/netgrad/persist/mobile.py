"""A net and its parameters as two nets: one that makes the parameters, values and all, and one that predicts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from netgrad.graph.argument_values import MakeArgument
from netgrad.graph.operator import CreateOperator
from netgrad.graph.ssa import get_ssa
from netgrad.proto import caffe2_pb2

#: kind of array -> the operator that makes it
_FILLS = {
    "float32": "GivenTensorFill", "float64": "GivenTensorDoubleFill", "int16": "GivenTensorInt16Fill",
    "int32": "GivenTensorIntFill", "int64": "GivenTensorInt64Fill", "bool": "GivenTensorBoolFill",
    "uint8": "GivenTensorByteStringToUInt8Fill", "object": "GivenTensorStringFill",
}


def add_tensor(net: caffe2_pb2.NetDef, name: str, blob: Any) -> None:
    """Appends to a net the operator that makes a tensor.

    Args:
        blob: an array; of objects: ``bytes``.

    Raises:
        ValueError: no operator makes such a tensor.
    """
    kind = str(getattr(blob, "dtype", type(blob).__name__))
    if kind not in _FILLS:
        raise ValueError(f"{name!r} is {kind}, which no operator makes out of its arguments; cast it to one of "
                         f"{', '.join(_FILLS)}")
    if kind == "object" and not all(isinstance(item, bytes) for item in blob.reshape(-1)):
        raise ValueError(f"{name!r} holds objects that are no bytes")
    values = [blob.tobytes()] if kind == "uint8" else blob  # one string is shorter than as many numbers
    net.op.append(CreateOperator(_FILLS[kind], [], [name],
                                 arg=[MakeArgument("shape", blob.shape), MakeArgument("values", values)]))


def Export(workspace: Any, net: Any, params: Iterable[Any]) -> tuple[caffe2_pb2.NetDef, caffe2_pb2.NetDef]:
    """What a Predictor needs of a net.

    Args:
        workspace: has the parameters: whatever has ``FetchBlob``.
        net: a Net or NetDef; it is not changed.
        params: the blobs that it reads and that are to be kept.

    Returns:
        A net that makes the parameters, and a placeholder of shape (1, 1) for each input; and the net that predicts,
        whose external outputs are the blobs that it makes and does not read.
    """
    proto = net if isinstance(net, caffe2_pb2.NetDef) else net.Proto()
    names = [str(param) for param in params]
    ssa, versions = get_ssa(net)
    read = {name for inputs, _ in ssa for name, _ in inputs}
    given = [name for name, version in versions.items() if version == 0 and name not in names]
    made = [name for name, version in versions.items() if version != 0 and name not in read]

    init_net, predict_net = caffe2_pb2.NetDef(), caffe2_pb2.NetDef()
    for name in names:
        add_tensor(init_net, name, workspace.FetchBlob(name))
    for name in given:
        add_tensor(init_net, name, np.zeros((1, 1), np.float32))
    predict_net.CopyFrom(proto)
    predict_net.external_input[:] = dict.fromkeys([*given, *proto.external_input])
    predict_net.external_output[:] = made
    return init_net, predict_net
