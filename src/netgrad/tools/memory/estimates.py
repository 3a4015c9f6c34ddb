"""How many bytes the blobs of nets take."""

from __future__ import annotations

import logging
from collections import defaultdict, namedtuple
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import NetError
from netgrad.runtime.workspace import Workspace
from netgrad.tools.memory.assignment import Assignment

logger = logging.getLogger("memonger")

_TensorProto = caffe2_pb2.TensorProto
#: bytes of an element
_BYTES: dict[int, int] = {
    _TensorProto.DOUBLE: 8, _TensorProto.FLOAT: 4, _TensorProto.FLOAT16: 2, _TensorProto.INT32: 4,
    _TensorProto.INT8: 1, _TensorProto.UINT8: 1, _TensorProto.UINT16: 2, _TensorProto.INT16: 2,
    _TensorProto.BOOL: 1, _TensorProto.INT64: 8, _TensorProto.BYTE: 1,
}

#: bytes of all blobs, without and with sharing
Statistics = namedtuple("Statistics", ["baseline_nbytes", "optimized_nbytes"])


def estimate_memory_usage(protos: Iterable[caffe2_pb2.NetDef], shapes: Mapping[str, Sequence[int]],
                          types: Mapping[str, int], devicescope: Any) -> tuple[int, int, dict[str, int]]:
    """An estimate of what nets that run one after another allocate on one device.

    Args:
        protos: the nets.
        shapes, types: of blobs, as `InferShapesAndTypes` finds them; blobs without are warned of and count nothing.
        devicescope: only operators with this DeviceOption count, and Free and Alias.

    Returns:
        Bytes allocated in all, the most at a time, and type of operator -> bytes that its outputs needed.
    """
    total = now = most = 0
    by_type: dict[str, int] = defaultdict(int)
    held: dict[str, int] = {}
    for net in protos:
        for op in net.op:
            if op.type in ("Free", "Alias"):
                now -= sum(held.pop(name, 0) for name in op.output)
            elif op.device_option == devicescope:
                for name in op.output:
                    if name not in held:
                        held[name] = size = _expected_bytes(name, shapes, types)
                        total, now = total + size, now + size
                        most = max(most, now)
                        by_type[op.type] += size
    return total, most, by_type


def _expected_bytes(name: str, shapes: Mapping[str, Sequence[int]], types: Mapping[str, int]) -> int:
    if name not in shapes or name not in types:
        logger.warning("shape or type of blob %r is not known; it is not counted", name)
        return 0
    if types[name] not in _BYTES:
        raise NetError(f"blob {name!r} has elements of type {types[name]}, whose size is not known")
    return _BYTES[types[name]] * prod(int(n) for n in shapes[name])


def blob_nbytes(blob: Any) -> int:
    """Bytes of a tensor in the current workspace; 0, with a warning, for what is none."""
    try:
        return int(Workspace.current.fetch_blob(str(blob)).nbytes)
    except (NetError, AttributeError):
        logger.warning("blob %r is no tensor that could be fetched; it counts as 0 bytes", str(blob))
        return 0


def compute_statistics(assignments: Iterable[Assignment]) -> Statistics:
    """Bytes of the blobs in the current workspace: alone, and sharing as assigned."""
    sizes = [[blob_nbytes(blob) for blob, _ in assignment] for assignment in assignments]
    return Statistics(sum(map(sum, sizes)), sum(max(group) for group in sizes if group))


def collect_blob_sizes(net: caffe2_pb2.NetDef) -> dict[str, int]:
    """Bytes of each blob of a net in the current workspace, in which the net has run."""
    return {name: blob_nbytes(name) for name in dict.fromkeys(
        name for op in net.op for name in (*op.input, *op.output))}
