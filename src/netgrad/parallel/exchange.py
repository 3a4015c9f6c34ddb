"""Operators that carry values between the devices of a model: copies from the first to the others, and sums of all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from netgrad.graph.device import DeviceOption, IsGPUDeviceType
from netgrad.graph.operator import GradientSlice
from netgrad.graph.scope import DeviceScope
from netgrad.parallel.devices import (
    ParallelError,
    _IsGPUBlob,
    device_of_group,
    reference,
)
from netgrad.runtime.devices import GetGpuPeerAccessPattern


def _Broadcast(devices: Sequence[int], model: Any, net: Any, param: str, use_nccl: bool = False) -> None:
    """Copies a blob of the first device to the others."""
    group = model._device_grouped_blobs[param]
    first, *others = devices
    if use_nccl and _IsGPUBlob(model, param):
        with DeviceScope(DeviceOption(model._device_type, first)):
            net.NCCLBroadcast(list(group.values()), list(group.values()), root=0)
        return
    for device in others:
        with DeviceScope(device_of_group(model, param, device)):
            net.Copy(group[first], group[device])


def _AllReduce(devices: Sequence[int], model: Any, net: Any, param: str, use_nccl: bool = False,
               control_input: Any = None) -> None:
    """Adds up a dense blob over all devices, and gives each the sum."""
    group = model._device_grouped_blobs[param]
    blobs = [group[device] for device in devices]
    if use_nccl and IsGPUDeviceType(model._device_type):
        with DeviceScope(DeviceOption(model._device_type, devices[0])):
            net.NCCLAllreduce(blobs, blobs, control_input=control_input)
        return
    if not IsGPUDeviceType(model._device_type):
        _sum(model, net, param, devices, blobs)
    else:
        count = len(devices)
        if count & (count - 1):
            _sum(model, net, param, devices, blobs)
        step = 1
        while step < count and not count & (count - 1):  # pairs, pairs of pairs, ...
            for k in range(0, count, 2 * step):
                _sum(model, net, param, [devices[k], devices[k + step]], [blobs[k], blobs[k + step]])
            step *= 2
    if not model._shared_model:
        _Broadcast(devices, model, net, param)


def _sum(model: Any, net: Any, param: str, devices: Sequence[int], blobs: Sequence[Any]) -> None:
    """Adds blobs into the first, on its device; copies there what it cannot reach."""
    access = GetGpuPeerAccessPattern() if IsGPUDeviceType(model._device_type) else None
    with DeviceScope(device_of_group(model, param, devices[0])):
        near = [blobs[0]]
        for device, blob in zip(devices[1:], blobs[1:]):
            if access is not None and max(devices) < len(access) and not access[devices[0], device]:
                blob = net.Copy(blob, f"{model._device_prefix}_{devices[0]}/{param}_gpu{device}_copy")
            near.append(blob)
        net.Sum(near, [blobs[0]], **({} if access is None else {"name": "dpm"}))


def _AllReduceBlobs(blob_names: Iterable[str], devices: Sequence[int], model: Any, net: Any, use_nccl: bool) -> None:
    """Adds up each group of gradients over the devices; sparse ones are put one behind the other."""
    if len(devices) == 1:
        return
    gathered: set[str] = set()
    last: Any = None
    for name in blob_names:
        group = model._device_grouped_blobs[name]
        if len(group) == 1:
            continue
        if set(group) != set(devices):
            raise ParallelError(f"gradient {name!r} exists on the devices {sorted(group)}, expected on all of "
                                f"{list(devices)}: the builder functions must build the same on each")
        if any(isinstance(grad, GradientSlice) for grad in group.values()):
            _gather(devices, model, net, name, gathered)
        else:
            _AllReduce(devices, model, net, name, use_nccl, last if use_nccl else None)
            last = group[devices[0]]


def _gather(devices: Sequence[int], model: Any, net: Any, name: str, gathered: set[str]) -> None:
    """Gives each device the indices and values of all; indices that several gradients have in common once."""
    group = model._device_grouped_blobs[name]
    slices = [group[device] for device in devices]
    if not all(isinstance(grad, GradientSlice) for grad in slices):
        raise ParallelError(f"gradient {name!r} is sparse on some devices only")
    values_first = [("val", [grad.values for grad in slices])]
    indices_known = any(str(grad.indices) in gathered for grad in slices)
    for word, blobs in ([] if indices_known else [("index", [grad.indices for grad in slices])]) + values_first:
        prefix = f"{model._device_prefix}_{devices[0]}/{name}_{word}"
        with DeviceScope(device_of_group(model, str(blobs[0]), devices[0])):
            joined, _ = net.Concat(blobs, [f"{prefix}_concat", f"{prefix}_splitinfo"], axis=0,
                                   name="note:data_parallel_model")
        for device, blob in zip(devices, blobs):
            with DeviceScope(device_of_group(model, str(blobs[0]), device)):
                net.Copy(joined, blob)
    gathered.update(str(grad.indices) for grad in slices)


def _SyncAllParams(devices: Sequence[int], model: Any, net: Any, unique_param_names: Iterable[str]) -> None:
    """Copies blobs of the first device to the others."""
    for name in dict.fromkeys(unique_param_names):
        _Broadcast(devices, model, net, name)


def AddBlobSync(model: Any, blobs: Iterable[str], net: Any = None) -> None:
    """Adds operators that copy blobs of the first device to the others.

    Args:
        blobs: names without the device's scope.
        net: where the operators go; None: ``model.net``.
    """
    blobs = [str(blob) for blob in blobs]
    for blob in blobs:
        if blob.startswith(f"{model._device_prefix}_") and "/" in blob:
            raise ParallelError(f"blob {blob!r} is one device's; give its name without the device's scope")
        model._device_grouped_blobs[blob] = {device: reference(model, device, blob) for device in model._devices}
    _SyncAllParams(model._devices, model, model.net if net is None else net, blobs)


def AddDistributedBlobSync(model: Any, blobs: Iterable[Any]) -> None:
    """Blobs are the same in all processes: with one process there is nothing to do."""


def _BroadcastComputedParams(devices: Sequence[int], model: Any, use_nccl: bool = False) -> None:
    """The computed parameters (running means) of the first device go to the others."""
    for name in model._computed_param_names if len(devices) > 1 else ():
        _Broadcast(devices, model, model.net, name, use_nccl)
