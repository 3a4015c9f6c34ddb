"""Which blob belongs to which device.

A model that is spread over devices has the same blobs on each, in name scopes ``gpu_0/``, ``gpu_1/``, ... (``cpu_``,
``ideep_``). What is left of a blob's name without that scope groups those that belong together.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from netgrad.graph import scope
from netgrad.graph.blob import BlobReference
from netgrad.graph.device import DeviceOption, IsGPUDeviceType
from netgrad.graph.operator import GradientSlice
from netgrad.graph.scope import _NAMESCOPE_SEPARATOR, DeviceScope, NameScope
from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import NetError

#: name without the device's scope -> device -> blob or sparse gradient
Groups = dict[str, dict[int, Any]]


class ParallelError(NetError, AssertionError):
    """A model cannot be spread over devices as asked."""


class NeedsSeveralProcesses(NetError, NotImplementedError):
    """Something was asked for that takes several processes."""


def check_rendezvous(rendezvous: Any) -> None:
    """Raises `NeedsSeveralProcesses` for more than one shard."""
    shards = 1 if rendezvous is None else int(rendezvous["num_shards"])
    if shards > 1:
        raise NeedsSeveralProcesses(
            f"rendezvous has num_shards={shards}: training in several processes is not part of netgrad yet; leave "
            "rendezvous out to train on the devices of this process")


def check_no_device_scope() -> None:
    current = scope.CurrentDeviceScope()
    if current is not None and current.device_type != caffe2_pb2.CPU:
        raise ParallelError("Parallelize places operators on devices itself; call it outside a device scope, not in "
                            f"that of {current}")


@contextmanager
def on_device(model: Any, device: int, named: bool = True) -> Iterator[None]:
    """The device scope of one device of a model, and its name scope."""
    with DeviceScope(DeviceOption(model._device_type, device)):
        if named:
            with NameScope(f"{model._device_prefix}_{device}"):
                yield
        else:
            yield


def _ForEachDevice(devices: Iterable[int], f: Callable[..., Any], device_type: int, device_prefix: str,
                   scoped: bool = False, *args: Any, **kwargs: Any) -> None:
    """Calls ``f(device, ...)`` in the scope of each device."""
    for device in devices:
        with DeviceScope(DeviceOption(device_type, device)):
            if scoped:
                with NameScope(f"{device_prefix}_{device}"):
                    f(device, *args, **kwargs)
            else:
                f(device, *args, **kwargs)


def stripBlobName(param: Any) -> str:
    """A blob's name without its first scope; for a sparse gradient ``indices:values``."""
    if isinstance(param, GradientSlice):
        return f"{stripBlobName(param.indices)}:{stripBlobName(param.values)}"
    first, separator, rest = str(param).partition(_NAMESCOPE_SEPARATOR)
    if not separator:
        raise ParallelError(f"blob {first!r} is in no name scope; blobs of a device are in that of the device")
    return rest


def device_of(model: Any, blob: Any) -> int:
    """The device in whose name scope a blob is."""
    prefix = f"{model._device_prefix}_"
    first, separator, _ = str(blob).partition(_NAMESCOPE_SEPARATOR)
    number = first.removeprefix(prefix)
    if not separator or not first.startswith(prefix) or not number.isdecimal():
        raise ParallelError(f"blob {str(blob)!r} is in no device's name scope; expected {prefix}<device>/...: what "
                            "the builder functions make must stay in the name scope in which they are called")
    return int(number)


def _GroupByDevice(model: Any, devices: Sequence[int], params: Sequence[Any], non_data_params: Sequence[Any]) -> Groups:
    """Blobs and sparse gradients by name and device, in order.

    Args:
        non_data_params: as many blobs at the beginning of ``params`` belong to no device, and are left out.
    """
    grouped: Groups = {}
    for param in params[len(non_data_params):]:
        if isinstance(param, GradientSlice):
            device = device_of(model, param.indices)
            if device_of(model, param.values) != device:
                raise ParallelError(f"the sparse gradient {param} has its indices and values on different devices")
        else:
            device = device_of(model, param)
        grouped.setdefault(stripBlobName(param), {})[device] = param
    return grouped


def _ValidateParams(params: Sequence[Any]) -> None:
    """Raises AssertionError where a parameter occurs twice."""
    names = [str(param) for param in params]
    if twice := sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else ():
        raise ParallelError(f"parameters occur more than once: {', '.join(twice)}")


def _InferBlobDevice(model: Any) -> None:
    """Notes in ``model._blob_to_device`` the device of each blob: that of the operator that names it first."""
    mapping: dict[str, caffe2_pb2.DeviceOption] = {}
    cpu = caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CPU)

    def note(net: Any) -> None:
        for op in net.op:
            device = cpu if op.type in ("Iter", "AtomicIter") else op.device_option
            for name in (*op.input, *op.output):
                mapping.setdefault(name, device)
            if op.type.startswith("RecurrentNetwork"):
                for argument in op.arg:
                    if argument.name.endswith("step_net"):
                        note(argument.n)

    note(model.param_init_net.Proto())
    note(model.net.Proto())
    model._blob_to_device = mapping


def device_type_of(model: Any, name: str) -> int:
    """The type of device that a group's blobs lie on."""
    for blob in (name, f"{model._device_prefix}_{model._devices[0]}/{name}"):
        if blob in model._blob_to_device:
            return int(model._blob_to_device[blob].device_type)
    return int(model._device_type)


def _IsGPUBlob(model: Any, blob_name: str) -> bool:
    return IsGPUDeviceType(device_type_of(model, blob_name))


def _IsIDEEPBlob(model: Any, blob_name: str) -> bool:
    return device_type_of(model, blob_name) == caffe2_pb2.IDEEP


def device_of_group(model: Any, name: str, device: int) -> caffe2_pb2.DeviceOption:
    """Where an operator on a group's blob of one device runs."""
    kind = device_type_of(model, name)
    return DeviceOption(kind, device if IsGPUDeviceType(kind) else 0)


def _AnalyzeOperators(model: Any) -> None:
    """Raises `ParallelError` where an operator on a GPU uses another GPU's blobs, exchange between them excepted."""
    prefix = f"{model._device_prefix}_"
    for position, op in enumerate(model.Proto().op):
        exchanges = any(word in op.type for word in ("NCCL", "Copy", "Concat")) or (op.type, op.name) == ("Sum", "dpm")
        if exchanges or not IsGPUDeviceType(op.device_option.device_type):
            continue
        own = f"{prefix}{op.device_option.device_id}/"
        for name in (*op.input, *op.output):
            if name.startswith(prefix) and not name.startswith(own):
                raise ParallelError(f"operator {position}, {op.type}, runs on device {op.device_option.device_id} and "
                                    f"uses {name!r} of another one; expected {own}...")


def ConvertNetForDevice(net: Any, device: Any = None) -> Any:
    """A copy of a net with all blobs in a device's name scope and all operators on it.

    Builder functions use it to take in a net that exists: ``model.net.AppendNet(ConvertNetForDevice(other.net))``.

    Args:
        device: a DeviceOption; None: that of the current device scope.

    Raises:
        NotImplementedError: the net has recurrent operators, whose step nets are not renamed.
    """
    device = scope.CurrentDeviceScope() if device is None else device
    if device is None:
        raise ParallelError("ConvertNetForDevice needs a device; give one, or call it in a device scope")
    gpu, ideep = IsGPUDeviceType(device.device_type), device.device_type == caffe2_pb2.IDEEP
    prefix = f"{'gpu' if gpu else 'ideep' if ideep else 'cpu'}_{device.device_id}{_NAMESCOPE_SEPARATOR}"
    converted = copy.deepcopy(net)
    proto = converted.Proto()
    for position, op in enumerate(proto.op):
        if "RecurrentNetwork" in op.type:
            raise NotImplementedError(f"operator {position}, {op.type}: nets with recurrent networks cannot be moved "
                                      "to a device; build them in its scope")
        for names in (op.input, op.output, op.control_input):
            names[:] = [prefix + name for name in names]
        op.device_option.CopyFrom(device)
    for names in (proto.external_input, proto.external_output):
        names[:] = [prefix + name for name in names]
    converted.refresh()
    return converted


def reference(model: Any, device: int, name: str) -> BlobReference:
    """The blob of that name on one device."""
    return BlobReference(f"{model._device_prefix}_{device}{_NAMESCOPE_SEPARATOR}{name}")
