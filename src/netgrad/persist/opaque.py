"""Blobs that are no tensors and that Caffe2's files can hold: strings, 8-bit tensors, counters, locks, maps, indexes,
places in datasets, readers of databases. The names of types are those of Caffe2's C++ classes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from netgrad.ops._shared_state import Counter, Mutex
from netgrad.ops._strings import string_array
from netgrad.ops.datasets import Cursor, Records, Tree
from netgrad.ops.dictionaries import Index, Map
from netgrad.persist import tensors, wire
from netgrad.persist.readers import DBReader
from netgrad.persist.tensors import Segment
from netgrad.proto import FormatError, caffe2_pb2
from netgrad.runtime import dtypes
from netgrad.runtime.int8 import Int8Tensor

#: numbers of BlobProto's fields
NAME, TYPE, TENSOR, CONTENT, QTENSOR, CHUNKS = 1, 2, 3, 4, 5, 6


@dataclass(frozen=True)
class Parts:
    """What a record holds of a blob, each in wire form."""

    tensor: wire.Buffer | None = None
    content: wire.Buffer | None = None
    qtensor: wire.Buffer | None = None

    def segment(self) -> Segment:
        if self.tensor is None:
            raise FormatError("its tensor is missing")
        segment = tensors.decode(self.tensor)
        if segment.end - segment.begin != segment.size:
            raise FormatError("its tensor is not whole")
        return segment

    def text(self) -> str:
        return bytes(self.content or b"").decode("utf-8", "replace")


@dataclass(frozen=True)
class Kind:
    """A kind of blob: its class here, Caffe2's name of it, and how it is written and read."""

    cls: type
    type: str
    write: Callable[[Any, str], bytes]
    read: Callable[[Parts], Any]


def _content(data: bytes) -> bytes:
    return wire.bytes_field(CONTENT, data)


def _tensor(array: np.ndarray, name: str = "", device: Any = tensors.CPU) -> bytes:
    return wire.bytes_field(TENSOR, tensors.encode(array, name, device=device))


def _read_string(parts: Parts) -> bytes:
    return bytes(parts.content or b"")


def _write_counter(counter: Counter, name: str) -> bytes:
    return _tensor(np.array([counter.value], np.int64), name, None)


def _read_counter(parts: Parts) -> Counter:
    segment = parts.segment()
    if segment.dtype != "int64" or segment.size != 1:
        raise FormatError(f"a counter has {segment.dtype} {segment.shape}, where one int64 is expected")
    return Counter(int(segment.values[0]))


def _write_index(index: Index, name: str) -> bytes:
    keys = index.keys()
    array = string_array(keys, (len(keys),)) if index.dtype == "object" else np.array(keys, index.dtype)
    return _tensor(array) + _content(f"{index.most} {int(index.frozen)}".encode())


def _read_index(parts: Parts) -> Index:
    segment = parts.segment()
    if segment.dtype not in ("int32", "int64", "string"):
        raise FormatError(f"an index has keys of {segment.dtype}; int32, int64 or strings are expected")
    words = parts.text().split()
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        raise FormatError(f"an index says {parts.text()!r}, where its size and whether it is frozen are expected")
    index = Index("object" if segment.dtype == "string" else segment.dtype, int(words[0][:20]))
    try:
        index.load(segment.values.tolist())
    except ValueError as error:
        raise FormatError(str(error)) from None
    index.frozen = words[1] != "0"
    return index


_MAP_NAMES = {"int32": "int32_t", "int64": "int64_t"}


def _write_map(map: Map, name: str) -> bytes:
    columns = np.array(list(map), map.key_dtype), np.array(list(map.values()), map.value_dtype)
    return _content(b"".join(wire.bytes_field(1, tensors.encode(column)) for column in columns))


def _map_reader(key_dtype: str, value_dtype: str) -> Callable[[Parts], Map]:
    def read(parts: Parts) -> Map:
        columns = [tensors.decode(value) for field, kind, value in wire.fields(parts.content or b"")
                   if field == 1 and kind == wire.BYTES]
        if [column.dtype for column in columns] != [key_dtype, value_dtype] or columns[0].size != columns[1].size or \
                any(column.end - column.begin != column.size for column in columns):
            raise FormatError(f"a map holds {', '.join(f'{c.dtype} {c.shape}' for c in columns) or 'nothing'}, where "
                              f"keys of {key_dtype} and as many values of {value_dtype} are expected")
        return Map(zip(columns[0].values.tolist(), columns[1].values.tolist()), key_dtype, value_dtype)

    return read


def _write_cursor(cursor: Cursor, name: str) -> bytes:
    offsets = np.array(cursor.offsets, np.int64)
    return (_tensor(offsets) if offsets.any() else b"") + _content(
        b"".join(field.encode() + b" " for field in cursor.tree.fields))


def _read_cursor(parts: Parts) -> Cursor:
    cursor = Cursor(Tree(parts.text().split()))
    if parts.tensor is not None:
        segment = parts.segment()
        if segment.dtype != "int64" or segment.size != len(cursor.offsets):
            raise FormatError(f"a place in a dataset has {segment.size} offsets of {segment.dtype}; its fields need "
                              f"{len(cursor.offsets)} of int64")
        cursor.offsets = segment.values.tolist()
    return cursor


def _write_reader(reader: DBReader, name: str) -> bytes:
    return _content(caffe2_pb2.DBReaderProto(
        name=name, source=reader.source, db_type=reader.db_type).SerializeToString())


def _read_reader(parts: Parts) -> DBReader:
    try:
        proto = caffe2_pb2.DBReaderProto.FromString(bytes(parts.content or b""))
    except Exception as error:  # DecodeError, or what protobuf's other implementations raise
        raise FormatError(f"a reader is garbled: {error}") from None
    return DBReader(proto.db_type, proto.source)


def _write_int8(tensor: Int8Tensor, name: str) -> bytes:
    return wire.bytes_field(
        QTENSOR, *(wire.number_field(1, n) for n in tensor.data.shape), wire.number_field(2, 8), b"\x19",
        struct.pack("<d", tensor.scale), b"\x21", struct.pack("<d", tensor.zero_point), wire.number_field(5, 0),
        wire.bytes_field(6, wire.packed(tensor.data)) if tensor.data.size else b"", wire.bytes_field(7, name.encode()),
        wire.number_field(8, dtypes.number_of(tensor.data.dtype.name)))


def _read_int8(parts: Parts) -> Int8Tensor:
    """Parsed by protobuf, which takes no more than some times the bytes that are there."""
    try:
        proto = caffe2_pb2.QTensorProto.FromString(bytes(parts.qtensor or b""))
    except Exception as error:  # DecodeError, or what protobuf's other implementations raise
        raise FormatError(f"an 8-bit tensor is garbled: {error}") from None
    dtype, shape = dtypes.NAMES.get(proto.data_type), tuple(proto.dims)
    if dtype not in ("uint8", "int32") or len(shape) > tensors.MOST_DIMENSIONS or any(n < 0 for n in shape) or \
            math.prod(shape) != len(proto.data):
        raise FormatError(f"an 8-bit tensor of {dtype or proto.data_type} {shape} has {len(proto.data)} values")
    if not (math.isfinite(proto.scale) and math.isfinite(proto.bias) and abs(proto.bias) < 2 ** 31):
        raise FormatError(f"an 8-bit tensor has scale {proto.scale} and zero point {proto.bias}")
    data = np.fromiter(proto.data, np.int64, len(proto.data))
    narrow = data.astype(dtype)
    if not (narrow == data).all():
        raise FormatError(f"an 8-bit tensor has values that {dtype} cannot have")
    try:
        return Int8Tensor(narrow.reshape(shape), proto.scale, int(proto.bias))
    except ValueError as error:
        raise FormatError(str(error)) from None


KINDS = (
    Kind(bytes, "std::string", lambda value, name: _content(value), _read_string),
    Kind(Int8Tensor, "Int8TensorCPU", _write_int8, _read_int8),
    Kind(Counter, "std::unique_ptr<Counter<int64_t>>", _write_counter, _read_counter),
    Kind(Mutex, "std::unique_ptr<std::mutex>", lambda value, name: _content(b""), lambda parts: Mutex()),
    Kind(Index, "std::unique_ptr<caffe2::IndexBase>", _write_index, _read_index),
    Kind(Cursor, "std::unique_ptr<TreeCursor>", _write_cursor, _read_cursor),
    Kind(DBReader, "DBReader", _write_reader, _read_reader),
    # a file keeps that there were packed records, not what was in them: as in Caffe2, who collects them begins anew
    Kind(Records, "std::shared_ptr<std::vector<TensorCPU>>", lambda value, name: _content(b""),
         lambda parts: Records()),
    *(Kind(Map, f"(std::unordered_map<{_MAP_NAMES[k]}, {_MAP_NAMES[v]}>)", _write_map, _map_reader(k, v))
      for k in _MAP_NAMES for v in _MAP_NAMES),
)


def encode(value: Any, name: str) -> bytes | None:
    """The BlobProto, in wire form, of a blob that is no tensor; None where there is none for its kind."""
    for kind in KINDS:
        if isinstance(value, kind.cls):
            type = kind.type
            if isinstance(value, Map):
                type = f"(std::unordered_map<{_MAP_NAMES[value.key_dtype]}, {_MAP_NAMES[value.value_dtype]}>)"
            return wire.bytes_field(NAME, name.encode("utf-8", "surrogateescape")) + \
                wire.bytes_field(TYPE, type.encode()) + kind.write(value, name)
    return None


def decode(type: str, parts: Parts) -> Any:
    """The blob of a kind that is no tensor.

    Raises:
        FormatError: there is no such kind, or the record is not what one needs.
    """
    for kind in KINDS:
        if kind.type == type:
            return kind.read(parts)
    raise FormatError(f"there are no blobs of type {type!r} here; there are Tensor, "
                      f"{', '.join(kind.type for kind in KINDS)}")
