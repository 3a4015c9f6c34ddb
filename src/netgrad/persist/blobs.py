"""Blobs in Caffe2's wire form (BlobProto), byte for byte; tensors in pieces where they are large."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from netgrad.persist import tensors, wire
from netgrad.persist.errors import StorageError, told_of
from netgrad.persist.opaque import CHUNKS, CONTENT, NAME, QTENSOR, TENSOR, TYPE, Parts
from netgrad.persist.tensors import Assembly, Segment
from netgrad.proto import FormatError, caffe2_pb2
from netgrad.runtime import lending
from netgrad.runtime.backends import Backend
from netgrad.runtime.blobs import Strings, describe
from netgrad.runtime.errors import BlobError

#: values in one record, unless said otherwise
CHUNK = 1_000_000
#: what stands between a tensor's name and the number of its piece, in the key of a record
SEPARATOR = "#%"


def records(name: str, value: Any, backend: Backend, chunk_size: int = CHUNK) -> Iterator[tuple[str, bytes]]:
    """The records of a blob, by key: ``name#%k`` for the k-th piece of a tensor, ``name`` for others.

    Args:
        value: what the blob holds.
        chunk_size: values in one piece; 0: all of them.

    Raises:
        BlobError: such blobs are not saved: never filled, or opaque in a way that no file can hold.
    """
    array, device = _tensor_of(value, backend)
    if array is None:
        from netgrad.persist import opaque

        if value is None:
            raise BlobError(f"blob {name!r} was never filled: there is nothing to save")
        record = opaque.encode(value, name)
        if record is None:
            raise BlobError(f"{describe(name, value)}, which cannot be saved; save what it was made from")
        yield name, record
        return
    step = chunk_size or max(1, array.size)
    for k, begin in enumerate(range(0, max(1, array.size), step)):
        tensor = tensors.encoded(array, name, begin, min(begin + step, array.size), device)
        yield f"{name}{SEPARATOR}{k}", _tensor_blob(name, tensor)


def serialize(name: str, value: Any, backend: Backend) -> bytes:
    """The one record of a blob, whatever its size; raises `BlobError` where it cannot be saved."""
    return next(record for _, record in records(name, value, backend, 0))


def tensor_record(name: str, value: Any, backend: Backend) -> bytes:
    """The TensorProto of a blob, in wire form; raises `BlobError` where that is no tensor."""
    array, device = _tensor_of(value, backend)
    if array is None:
        raise BlobError(f"{describe(name, value)}, where a database of this kind holds tensors alone")
    return tensors.encode(array, name, device=device)


def _tensor_of(value: Any, backend: Backend) -> tuple[np.ndarray | None, caffe2_pb2.DeviceOption]:
    """The values of a tensor and where it is; None where it is none."""
    if isinstance(value, lending.Lent):
        value = lending.current(value)
    device = getattr(value, "device", None)
    where = tensors.CPU
    if getattr(device, "type", "cpu") == "cuda":
        where = caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CUDA, device_id=device.index or 0)  # type: ignore
    if isinstance(value, Strings):
        return value.view(np.ndarray), where
    if isinstance(value, backend.array_type):
        return backend.to_numpy(value), where
    return None, where


def _tensor_blob(name: str, tensor: list[wire.Buffer]) -> bytes:
    return b"".join((wire.bytes_field(NAME, name.encode("utf-8", "surrogateescape")),
                     wire.bytes_field(TYPE, b"Tensor"), wire.varint(TENSOR << 3 | wire.BYTES),
                     wire.varint(sum(map(len, tensor))), *tensor))


@dataclass(frozen=True)
class Record:
    """A BlobProto whose parts are not yet read.

    Attributes:
        name: the blob's, when it was saved.
        type: Caffe2's name of its kind.
    """

    name: str
    type: str
    parts: Parts

    @property
    def is_tensor(self) -> bool:
        return self.type == "Tensor"


def parse(data: wire.Buffer) -> Record:
    """A record; raises `FormatError` where the bytes are no BlobProto."""
    found: dict[int, Any] = {}
    for field, kind, value in wire.fields(data):
        if field in (NAME, TYPE, TENSOR, CONTENT, QTENSOR):
            if kind != wire.BYTES:
                raise FormatError("it is no blob")
            found[field] = value
        elif field == CHUNKS and value != 1:
            raise FormatError(f"its content is in {value} records, which cannot be put together here")
    if TYPE not in found:
        raise FormatError("it is no blob: it has no type")
    name, type = (bytes(found.get(field, b"")).decode("utf-8", "replace") for field in (NAME, TYPE))
    return Record(name, type, Parts(found.get(TENSOR), found.get(CONTENT), found.get(QTENSOR)))


def segment_of(record: Record) -> Segment:
    if record.parts.tensor is None:
        raise FormatError("it says that it is a tensor, and holds none")
    return tensors.decode(record.parts.tensor)


def placed(array: np.ndarray, backend: Backend, device: caffe2_pb2.DeviceOption | None) -> Any:
    """A tensor that was read, as a blob on that device."""
    if array.dtype == object:
        return array.view(Strings)
    return backend.from_numpy(array, None if device is None else backend.device(device))


def deserialize(name: str, data: bytes, backend: Backend) -> Any:
    """What a blob holds, from its one record; tensors go to the device that it names.

    Raises:
        StorageError: the bytes are no record of a whole blob.
    """
    with told_of(f"the serialized blob {name!r}"):
        record = parse(data)
        if not record.is_tensor:
            from netgrad.persist import opaque

            return opaque.decode(record.type, record.parts)
        segment = segment_of(record)
        return placed(Assembly(segment).array(), backend, segment.device)


__all__ = ["CHUNK", "SEPARATOR", "Record", "StorageError", "deserialize", "parse", "placed", "records", "segment_of",
           "serialize", "tensor_record"]
