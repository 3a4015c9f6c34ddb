"""What losses have in common: labels of the right type, and weights of examples."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.graph.record_values import data_type_for_dtype
from netgrad.proto.caffe2_pb2 import TensorProto


def float_weights(net: Any, field: Any) -> Any:
    """The blob of a column of weights, as float32."""
    weight = field()
    if field.field_type().base == np.float32:
        return weight
    return net.Cast(weight, weight + "_float32", to=TensorProto.FLOAT)


def weighted(net: Any, loss: Any, record: Any, name: str) -> Any:
    """The losses of examples times their weights, through which no gradient flows; as they are without ``weight``."""
    if "weight" not in record.fields:
        return loss
    weight = net.StopGradient([float_weights(net, record.weight)], [net.NextScopedBlob("weight_stop_gradient")])
    if record.weight.field_type().shape:  # (batch, 1), the losses are (batch,)
        weight = net.FlattenToVec([weight], [net.NextScopedBlob("flat_weight")])
    return net.Mul([loss, weight], net.NextScopedBlob(name))


def label_like(net: Any, record: Any) -> Any:
    """The label, in the type of the prediction."""
    label = record.label.field_blobs()
    wanted = record.prediction.field_type()
    if record.label.field_type().base == wanted.base:
        return label
    return net.Cast(label, net.NextScopedBlob("cast_label"), to=data_type_for_dtype(wanted))


def as_type(net: Any, field: Any, wanted: Any, name: str) -> Any:
    """The blob of a column, cast under that name where it is of another type."""
    if field.field_type().base == wanted:
        return field()
    return net.Cast([field()], [net.NextScopedBlob(name)], to=data_type_for_dtype(np.dtype(wanted)))
