"""Which device each blob lives on, and copies where an operator needs a blob that lives on another."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from netgrad.graph.blob import BlobReference
from netgrad.graph.device import CPU, IsGPUDeviceType, describe_device, device_option_equal
from netgrad.graph.net import Net
from netgrad.proto import caffe2_pb2

Device = caffe2_pb2.DeviceOption

#: inputs and outputs that live on the CPU whatever the operator's device is
_INPUTS_ON_CPU: dict[str, tuple[int, ...]] = {
    "Adam": (5,),
    "CopyCPUToGPU": (0,),
    "CopyFromCPUInput": (0,),
    "LearningRate": (0,),
    "RowWiseSparseAdam": (6,),
    "SparseAdam": (6,),
    "Split": (1,),
    "SplitByLengths": (1,),
    "WeightScale": (1,),
}
_OUTPUTS_ON_CPU: dict[str, tuple[int, ...]] = {
    "Concat": (1,),
    "CopyGPUToCPU": (0,),
    "EnsureCPUOutput": (0,),
}


def InferOpBlobDevices(op: Any) -> tuple[list[Device], list[Device]]:
    """The devices that an operator expects its inputs on and leaves its outputs on: its own, with few exceptions.

    Blobs of collective operators (NCCL) lie on the GPUs 0, 1, 2, ... in order.
    """
    if op.type.startswith("NCCL"):
        return ([_gpu(op, k) for k in range(len(op.input))], [_gpu(op, k) for k in range(len(op.output))])
    inputs, outputs = InferOpDeviceAsBlobDevices(op)
    for devices, positions in ((inputs, _INPUTS_ON_CPU.get(op.type, ())), (outputs, _OUTPUTS_ON_CPU.get(op.type, ()))):
        for k in positions:
            if k < len(devices):
                devices[k] = Device()
    return inputs, outputs


def _gpu(op: Any, k: int) -> Device:
    device = Device()
    device.CopyFrom(op.device_option)
    device.device_type, device.device_id = caffe2_pb2.PROTO_CUDA, k
    return device


def InferOpDeviceAsBlobDevices(op: Any) -> tuple[list[Device], list[Device]]:
    """The operator's device for every input and output."""

    def own() -> Device:
        device = Device()
        device.CopyFrom(op.device_option)
        return device

    return [own() for _ in op.input], [own() for _ in op.output]


def InferOpBlobDevicesAsDict(op: Any) -> tuple[dict[str, Device], dict[str, Device]]:
    """`InferOpBlobDevices` by the names of the blobs."""
    inputs, outputs = InferOpBlobDevices(op)
    return dict(zip(op.input, inputs, strict=True)), dict(zip(op.output, outputs, strict=True))


def InferBlobDevices(net: Net) -> dict[str, Device]:
    """The device of each blob that a net writes: that of the operator that writes it last."""
    return {blob: op.device_option for op in net.Proto().op for blob in op.output}


def copy_func_between_devices(src: Device, dst: Device) -> Callable[..., Any] | None:
    """A function (net, input, output) that writes the operator which copies from one device to another.

    Returns:
        None where both are one device.

    Raises:
        ValueError: no operator copies between the two.
    """
    if device_option_equal(src, dst):
        return None
    match IsGPUDeviceType(src.device_type), IsGPUDeviceType(dst.device_type):
        case True, True if src.device_type == dst.device_type:
            operator, device = "Copy", dst
        case True, False if dst.device_type == CPU:
            operator, device = "CopyGPUToCPU", src
        case False, True if src.device_type == CPU:
            operator, device = "CopyCPUToGPU", dst
        case _:
            raise ValueError(f"nothing copies from {describe_device(src)} to {describe_device(dst)}")

    def copy(net: Net, *args: Any, **kwargs: Any) -> Any:
        return getattr(net, operator)(*args, device_option=device, **kwargs)

    return copy


class RemapEntry:
    """A blob and a device to which it was copied: a key of ``blob_remap``."""

    def __init__(self, blob: str, device: Device) -> None:
        self.blob = blob
        self.device = device

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemapEntry) and self.blob == other.blob and self.device == other.device

    def __hash__(self) -> int:
        return hash((str(self.blob), self.device.SerializeToString(deterministic=True)))


def update_placeholder_op_output(op: Any, blob_to_device: dict[str, Device]) -> None:
    """Renames outputs of a placeholder (which runs on the CPU) where a blob of that name lives elsewhere."""
    for k, blob in enumerate(op.output):
        if blob in blob_to_device and blob_to_device[blob].device_type != CPU:
            op.output[k] = f"{blob}_cpu"


def InjectCrossDeviceCopies(
    net: Net,
    blob_to_device: dict[str, Device] | None = None,
    blob_remap: dict[RemapEntry, str] | None = None,
    placeHolderOps: Collection[str] | None = None,
) -> tuple[Net, dict[str, Device]]:
    """A copy of a net in which blobs are copied to the devices where they are needed.

    Args:
        blob_to_device: where blobs live that exist before the net runs; updated. External inputs that it does not name
            live on the net's device.
        blob_remap: copies that exist already; updated.
        placeHolderOps: types of operators without declaration, whose blobs all live on their device.

    Returns:
        The new net, and ``blob_to_device``.

    Raises:
        RuntimeError: two operators on different devices write one blob.
    """
    places = {} if blob_to_device is None else blob_to_device
    copies = {} if blob_remap is None else blob_remap
    placeholders = placeHolderOps or ()
    new_net = net.Clone(f"{net.Name()}_cross_device", keep_schema=True)
    del new_net.Proto().op[:]
    external = set(new_net.Proto().external_input)
    new_net.Proto().external_input.extend(
        [copy for entry, copy in copies.items() if entry.blob in external and copy not in external])

    for position, original in enumerate(net.Proto().op):
        op = caffe2_pb2.OperatorDef()
        op.CopyFrom(original)
        is_placeholder = op.type in placeholders
        needed, made = (InferOpDeviceAsBlobDevices if is_placeholder else InferOpBlobDevices)(op)
        for k, (device, blob) in enumerate(zip(needed, op.input, strict=True)):
            if blob not in places:
                if not net.is_external_input(blob):
                    raise AttributeError(f"operator {position}, {op.type}, reads {blob!r}, which nothing before "
                                         f"it writes, so "
                                         "its device is not known; declare it by AddExternalInput")
                places[blob] = net.Proto().device_option
            if not device_option_equal(places[blob], device):
                op.input[k] = _copied(new_net, blob, device, places, copies)
        if is_placeholder:
            update_placeholder_op_output(op, places)
        for device, blob in zip(made, op.output, strict=True):
            if blob in places and blob not in original.input and not device_option_equal(places[blob], device):
                raise RuntimeError(
                    f"operator {position}, {op.type}, writes blob {blob!r} on {describe_device(device)}, but it "
                    f"lives on "
                    f"{describe_device(places[blob])} already; give one of the two another name")
        read = list(original.input)
        for k, blob in enumerate(op.output):
            if blob in read:  # what was in place stays so
                op.output[k] = op.input[read.index(blob)]
        places.update(zip(op.output, made, strict=True))
        new_net.extend_ops([op])
    return new_net, places


def _copied(net: Net, blob: str, device: Device, places: dict[str, Device], copies: dict[RemapEntry, str]) -> str:
    """The name of the blob's copy on a device, which is made if there is none."""
    entry = RemapEntry(blob, device)
    name = copies.get(entry)
    if name is not None and device_option_equal(places.get(name), device):
        return name
    copy = copy_func_between_devices(places[blob], device)
    if copy is None:
        raise ValueError(f"blob {blob!r} is on {describe_device(device)} already")
    name = f"{blob}_cpu" if device.device_type == CPU else f"{blob}_gpu_{device.device_id}"
    copy(net, BlobReference(blob), BlobReference(name))
    copies[entry], places[name] = name, device
    return name


def InjectDeviceCopiesAmongNets(
    nets: list[Net], blob_to_device_init: dict[str, Device] | None = None,
) -> tuple[list[Net], dict[str, Device]]:
    """`InjectCrossDeviceCopies` for nets that run one after another: earlier copies serve later nets."""
    if not isinstance(nets, list) or not all(isinstance(net, Net) for net in nets):
        raise AssertionError(f"expected a list of Nets in the order in which they run, found {nets!r}")
    places = blob_to_device_init if blob_to_device_init is not None else {}
    copies: dict[RemapEntry, str] = {}
    return [InjectCrossDeviceCopies(net, places, copies)[0] for net in nets], places


def InjectDeviceCopiesAmongNetsWithoutB2D(
    nets: list[Net], blob_to_device_init: dict[str, Device] | None = None,
) -> list[Net]:
    """`InjectDeviceCopiesAmongNets`, the nets only."""
    return InjectDeviceCopiesAmongNets(nets, blob_to_device_init)[0]
