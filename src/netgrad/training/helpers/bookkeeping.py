"""What training needs beside layers: a counter, accuracy, weight decay."""

from __future__ import annotations

from typing import Any

from netgrad.graph import scope
from netgrad.graph.device import CPU, DeviceOption, IsGPUDeviceType
from netgrad.proto.caffe2_pb2 import TensorProto


def iter(model: Any, blob_out: Any, **kwargs: Any) -> Any:
    """A counter of runs, int64 [1], on the CPU."""
    kwargs.pop("device_option", None)
    model.param_init_net.ConstantFill(
        [], blob_out, shape=[1], value=0, dtype=TensorProto.INT64, device_option=DeviceOption(CPU, 0), **kwargs
    )
    return model.net.Iter(blob_out, blob_out, **kwargs)


def accuracy(model: Any, blob_in: Any, blob_out: Any, top_k: int = 1, device_option: Any = None, **kwargs: Any) -> Any:
    """The share of rows whose label is among the ``top_k`` largest: ``blob_in`` is [scores (N, D), labels (N)]."""
    device = device_option or scope.CurrentDeviceScope()
    arguments: dict[str, Any] = {"top_k": top_k} if top_k != 1 else {}
    if top_k > 1 and device is not None and IsGPUDeviceType(device.device_type):
        blob_in = [model.net.CopyGPUToCPU(blob, blob + "_host") for blob in blob_in]
        arguments["device_option"] = DeviceOption(CPU, 0)
    return model.net.Accuracy(blob_in, blob_out, **arguments)


def add_weight_decay(model: Any, weight_decay: float) -> None:
    """Adds ``weight_decay`` times each weight of the current name scope to its gradient."""
    if weight_decay <= 0.0:
        return
    decay = model.param_init_net.ConstantFill([], "wd", shape=[1], value=weight_decay)
    one = model.param_init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
    namescope = scope.CurrentNameScope()
    for weight in model.weights:
        if not namescope or weight.GetNameScope() == namescope:
            gradient = model.param_to_grad[weight]
            model.net.WeightedSum([gradient, one, weight, decay], gradient)
