"""Sums of one blob per GPU, in every GPU's memory, written as operators of a net. Caffe2's `muji`.

Blobs are added in pairs, pairs of pairs, and so on, and the sum takes the same way back; so each step is between two
GPUs. Where GPUs cannot reach each other's memory, blobs are copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.graph.device import CPU, DeviceOption
from netgrad.runtime.devices import GetGpuPeerAccessPattern, GpuDeviceType


def OnGPU(gpu_id: int) -> Any:
    """The DeviceOption of a GPU."""
    return DeviceOption(GpuDeviceType, gpu_id)


def OnCPU() -> Any:
    return DeviceOption(CPU)


def Allreduce(net: Any, blobs: Sequence[Any], reduced_affix: str = "_reduced",
              gpu_indices: Sequence[int] | None = None) -> Sequence[Any]:
    """Adds operators that sum blobs.

    Args:
        net: where they go.
        blobs: one per GPU, of one shape.
        reduced_affix: put behind each name for the blob with the sum; empty: in its place.
        gpu_indices: the GPUs; None: 0, 1, 2, ...

    Returns:
        The blobs with the sum, in order.
    """
    indices = _indices(blobs, gpu_indices)
    access = GetGpuPeerAccessPattern()

    def reach(*groups: range) -> bool:
        return all(max(group) < len(access) and access[min(group):max(group) + 1, min(group):max(group) + 1].all()
                   for group in groups)

    if len(blobs) == 2 and reach(range(2)):
        return Allreduce2(net, blobs, reduced_affix, indices)
    if len(blobs) == 4 and reach(range(4)):
        return Allreduce4(net, blobs, reduced_affix, indices)
    if len(blobs) == 4 and reach(range(2), range(2, 4)):
        return Allreduce4Group2(net, blobs, reduced_affix, indices)
    if len(blobs) == 8 and reach(range(8)):
        return Allreduce8(net, blobs, reduced_affix, indices)
    return AllreduceFallback(net, blobs, reduced_affix, indices)


def _indices(blobs: Sequence[Any], gpu_indices: Sequence[int] | None, count: int | None = None) -> list[int]:
    indices = list(range(len(blobs)) if gpu_indices is None else gpu_indices)
    if len(indices) != len(blobs):
        raise RuntimeError(f"there are {len(blobs)} blobs on {len(indices)} GPUs; expected one on each")
    if count is not None and len(blobs) != count:
        raise RuntimeError(f"there are {len(blobs)} blobs; this order of sums is for {count}")
    return indices


def _tree(net: Any, blobs: Sequence[Any], affix: str, gpus: Sequence[int], count: int, group: int) -> list[Any]:
    """Sums by pairs; between groups of ``group`` GPUs, which do not reach each other, by copies."""
    gpus = _indices(blobs, gpus, count)
    found: list[Any] = list(blobs)
    names = [f"{blob}{affix}" for blob in blobs]
    step = 1
    while step < count:
        for k in range(0, count, 2 * step):
            other = found[k + step]
            if step >= group:
                other = net.Copy(other, f"{other}_copy", device_option=OnGPU(gpus[k]))
            found[k] = net.Add([found[k], other], names[k], device_option=OnGPU(gpus[k]))
        step *= 2
    while step > 1:
        step //= 2
        for k in range(0, count, 2 * step):
            found[k + step] = net.Copy(found[k], names[k + step], device_option=OnGPU(gpus[k + step]))
    return found


def Allreduce2(net: Any, blobs: Sequence[Any], reduced_affix: str, gpu_indices: Sequence[int]) -> tuple[Any, ...]:
    """For two GPUs that reach each other."""
    return tuple(_tree(net, blobs, reduced_affix, gpu_indices, 2, 2))


def Allreduce4(net: Any, blobs: Sequence[Any], reduced_affix: str, gpu_indices: Sequence[int]) -> tuple[Any, ...]:
    """For four GPUs that all reach each other."""
    return tuple(_tree(net, blobs, reduced_affix, gpu_indices, 4, 4))


def Allreduce4Group2(net: Any, blobs: Sequence[Any], reduced_affix: str,
                     gpu_indices: Sequence[int]) -> tuple[Any, ...]:
    """For four GPUs of which the first two and the last two reach each other."""
    return tuple(_tree(net, blobs, reduced_affix, gpu_indices, 4, 2))


def Allreduce8(net: Any, blobs: Sequence[Any], reduced_affix: str, gpu_indices: Sequence[int]) -> list[Any]:
    """For eight GPUs of which the first four and the last four reach each other."""
    return _tree(net, blobs, reduced_affix, gpu_indices, 8, 4)


def AllreduceFallback(net: Any, blobs: Sequence[Any], reduced_affix: str, gpu_indices: Sequence[int]) -> list[Any]:
    """For any number of GPUs, none of which need reach another: all is copied to the first, and back."""
    first, *others = _indices(blobs, gpu_indices)
    names = [f"{blob}{reduced_affix}" for blob in blobs]
    total = net.Copy(blobs[0], names[0], device_option=OnGPU(first)) if reduced_affix else blobs[0]
    for blob in blobs[1:]:
        near = net.Copy(blob, f"{names[0]}_temp_copy", device_option=OnGPU(first))
        total = net.Add([near, total], total, device_option=OnGPU(first))
    return [total, *(net.Copy(total, name, device_option=OnGPU(gpu)) for name, gpu in zip(names[1:], others))]
