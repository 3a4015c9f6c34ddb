"""One copy of the parameters for all devices: on the host they need not be copied."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from netgrad.parallel.devices import stripBlobName
from netgrad.proto import caffe2_pb2


def prune(model: Any) -> None:
    """Leaves the first device's parameters to the model, so that only these are updated."""
    model.params = model.GetParams(f"{model._device_prefix}_{model._devices[0]}/")
    kept = set(map(str, model.params))
    model.param_to_grad = {param: grad for param, grad in model.param_to_grad.items() if str(param) in kept}
    model.weights = [param for param in model.weights if str(param) in kept]
    model.biases = [param for param in model.biases if str(param) in kept]


def remap(model: Any, all_params: Collection[str]) -> None:
    """Lets all devices read the first one's parameters; what would fill the others' is removed."""
    prefix = f"{model._device_prefix}_{model._devices[0]}/"
    others = set(all_params) - set(map(str, model.GetParams("")))
    for net in (model.param_init_net, model.net):
        proto = net.Proto()
        kept = [caffe2_pb2.OperatorDef.FromString(op.SerializeToString()) for op in proto.op
                if others.isdisjoint(op.output)]
        for op in kept:
            op.input[:] = [prefix + stripBlobName(name) if name in others else name for name in op.input]
        del proto.op[:]
        proto.op.extend(kept)
        net.refresh()
