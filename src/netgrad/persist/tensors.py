"""Tensors in Caffe2's wire form (TensorProto), byte for byte as Caffe2 writes them, whole or in segments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from google.protobuf.message import Message

from netgrad.persist import wire
from netgrad.proto import FormatError, caffe2_pb2
from netgrad.runtime import dtypes
from netgrad.runtime.errors import BackendError

# numbers of TensorProto's fields
_DIMS, _DATA_TYPE, _FLOATS, _INT32S, _BYTES, _STRINGS, _NAME, _DEVICE = range(1, 9)
_DOUBLES, _INT64S, _SEGMENT = 9, 10, 11
_RAW, _EXTERNAL, _FORMAT = 13, 14, 15

#: dtype -> the field of its values
_FIELDS = {"float32": _FLOATS, "float64": _DOUBLES, "int64": _INT64S, "string": _STRINGS}
_VALUE_FIELDS = {_FLOATS, _INT32S, _BYTES, _STRINGS, _DOUBLES, _INT64S, _RAW}
#: what Caffe2 may keep as bytes instead of as numbers
_AS_BYTES = {"uint8", "int8", "float16"}
#: `data_format` of float32 tensors of which the upper halves are kept
_BFLOAT16 = 1
#: what NumPy can have
MOST_DIMENSIONS = 64

_Message = TypeVar("_Message", bound=Message)

CPU = caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CPU)


@dataclass(frozen=True)
class Segment:
    """A tensor, or the part of one that a record holds.

    Attributes:
        name: the tensor's.
        dtype: its dtype's name, or "string".
        shape: the whole tensor's.
        begin, end: which of its values these are, row by row.
        values: 1-D; strings: an array of ``bytes`` objects.
        device: where it was; None where the record does not say.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int
    values: np.ndarray
    device: caffe2_pb2.DeviceOption | None = None

    @property
    def size(self) -> int:
        """How many values the whole tensor has."""
        return math.prod(self.shape)


def encode(array: np.ndarray, name: str = "", begin: int = 0, end: int | None = None,
           device: caffe2_pb2.DeviceOption | None = CPU) -> bytes:
    """The parts of `encoded` as one."""
    return b"".join(encoded(array, name, begin, end, device))


def encoded(array: np.ndarray, name: str = "", begin: int = 0, end: int | None = None,
            device: caffe2_pb2.DeviceOption | None = CPU) -> list[wire.Buffer]:
    """The TensorProto, in wire form, of the values ``begin`` to ``end`` of an array, by default of all; in parts.

    Args:
        array: any shape; strings: an array of ``bytes`` objects.
        name: the tensor's.
        device: where the tensor is, as is said in the record; None: not said, nor which segment it is.

    Raises:
        BackendError: the format has no such dtype.
    """
    dtype = "string" if array.dtype == object else array.dtype.name
    number = dtypes.number_of(dtype)
    end = array.size if end is None else end
    values = array.reshape(-1)[begin:end]
    field = _FIELDS.get(dtype, _INT32S)
    data: list[wire.Buffer] = []
    if dtype == "string":
        data = [caffe2_pb2.TensorProto(string_data=values.tolist()).SerializeToString()]
    elif values.size:
        numbers = _numbers(values)
        data = [wire.varint(field << 3 | wire.BYTES), wire.varint(len(numbers)), numbers]
    parts: list[wire.Buffer] = [wire.number_field(_DIMS, n) for n in array.shape]
    parts.append(wire.number_field(_DATA_TYPE, number))
    if field < _NAME:
        parts += data
    if name:
        parts.append(wire.bytes_field(_NAME, name.encode("utf-8", "surrogateescape")))
    if device is not None:
        parts.append(wire.bytes_field(_DEVICE, device.SerializeToString()))
    if field > _NAME:
        parts += data
    if device is not None:
        parts.append(wire.bytes_field(_SEGMENT, wire.number_field(1, begin), wire.number_field(2, end)))
    return parts


def _numbers(values: np.ndarray) -> wire.Buffer:
    if values.dtype in (np.float32, np.float64):
        return np.ascontiguousarray(values, values.dtype.newbyteorder("<")).view(np.uint8).data
    if values.dtype == np.float16:
        values = np.ascontiguousarray(values).view(np.uint16)
    return wire.packed(values)


def decode(data: wire.Buffer) -> Segment:
    """The tensor, or part of one, in a TensorProto in wire form.

    Raises:
        FormatError: the bytes are no TensorProto, or it says that it has other values than it holds.
    """
    dims: list[int] = []
    number, form, name, device, segment = 0, 0, b"", None, None
    found: list[tuple[int, int, wire.Buffer | int]] = []
    for field, kind, value in wire.fields(data):
        if field == _STRINGS:
            return _decode_strings(data)
        if field in _VALUE_FIELDS:
            found.append((field, kind, value))
        elif field == _DIMS:
            dims += [wire.signed(value)] if kind == wire.VARINT else wire.unpacked(_expect(value, "dims")).tolist()
            if len(dims) > MOST_DIMENSIONS:
                raise FormatError(f"a tensor has more than {MOST_DIMENSIONS} dimensions")
        elif field == _DATA_TYPE and kind == wire.VARINT:
            number = value
        elif field == _FORMAT and kind == wire.VARINT:
            form = value
        elif field == _NAME:
            name = bytes(_expect(value, "name"))
        elif field == _DEVICE:
            device = _message(caffe2_pb2.DeviceOption, _expect(value, "device_detail"))
        elif field == _SEGMENT:
            segment = _message(caffe2_pb2.TensorProto.Segment, _expect(value, "segment"))
        elif field == _EXTERNAL:
            raise FormatError("its values are in another file; load it where that is")
    text = name.decode("utf-8", "replace")
    return _segment(text, number, dims, segment, device, lambda dtype: _values(dtype, form, found, text))


def _decode_strings(data: wire.Buffer) -> Segment:
    """The same where there are strings, of which there may be many: by protobuf, which is quick with them."""
    message = _message(caffe2_pb2.TensorProto, data)
    name = message.name if isinstance(message.name, str) else repr(message.name)
    if message.data_type != caffe2_pb2.TensorProto.STRING or any(
            len(getattr(message, field)) for field in ("float_data", "int32_data", "byte_data", "double_data",
                                                       "int64_data", "raw_data")):
        raise FormatError(f"tensor {name!r} has strings and other values, or a dtype for others")
    if len(message.dims) > MOST_DIMENSIONS:
        raise FormatError(f"a tensor has more than {MOST_DIMENSIONS} dimensions")
    strings = np.empty(len(message.string_data), object)
    strings[:] = list(message.string_data)
    return _segment(name, message.data_type, list(message.dims), message.segment if message.HasField("segment") else
                    None, message.device_detail if message.HasField("device_detail") else None, lambda dtype: strings)


def _segment(name: str, number: int, dims: list[int], segment: caffe2_pb2.TensorProto.Segment | None,
             device: caffe2_pb2.DeviceOption | None, values_of: Callable[[str], np.ndarray]) -> Segment:
    """A segment, if what is said of it goes together."""
    shape = tuple(dims)
    if any(n < 0 for n in shape):
        raise FormatError(f"tensor {name!r} has shape {shape}; no dimension may be negative")
    try:
        dtype = dtypes.name_of(number)
    except BackendError as error:
        raise FormatError(f"tensor {name!r}: {error}") from None
    size = math.prod(shape)
    begin, end = (0, size) if segment is None else (segment.begin, segment.end)
    if not 0 <= begin <= end <= size:
        raise FormatError(f"tensor {name!r} has {size} values, shape {shape}; its record says that it holds those from "
                          f"{begin} to {end}")
    values = values_of(dtype)
    if len(values) != end - begin:
        where = "" if segment is None else f", {end - begin} of its values here"
        raise FormatError(f"tensor {name!r} says it has shape {shape}{where}, but holds {len(values)} values")
    return Segment(name, dtype, shape, begin, end, values, device)


def _expect(value: wire.Buffer | int, what: str) -> wire.Buffer:
    if isinstance(value, int):
        raise FormatError(f"the {what} of a tensor is a number")
    return value


def _message(cls: type[_Message], data: wire.Buffer) -> _Message:
    try:
        message = cls.FromString(bytes(data))
    except Exception as error:  # DecodeError, or what protobuf's other implementations raise
        raise FormatError(f"the {cls.__name__} of a tensor is garbled: {error}") from None
    return message


def _values(dtype: str, form: int, found: Sequence[tuple[int, int, wire.Buffer | int]], name: str) -> np.ndarray:
    """The values in the fields that were found: all have to be in the one that the dtype has them in."""
    found = [entry for entry in found if isinstance(entry[2], int) or len(entry[2])]
    used = {field for field, _, _ in found}
    field = used.pop() if used else _FIELDS.get(dtype, _INT32S)
    if used:
        raise FormatError(f"tensor {name!r} has values in several fields")
    if dtype == "string" and not found:
        return np.empty(0, object)
    if field == _RAW or (field == _BYTES and dtype in _AS_BYTES):
        if dtype == "string":
            raise FormatError(f"tensor {name!r} has strings as plain bytes, which do not say where one ends")
        raw = b"".join(_expect(value, "values") for _, _, value in found)
        if form == _BFLOAT16 and dtype == "float32":
            return (_fixed(raw, "<u2", name).astype(np.uint32) << np.uint32(16)).view(np.float32)
        if dtype == "bool":
            return _fixed(raw, "u1", name) != 0
        return _fixed(raw, np.dtype(dtype).newbyteorder("<"), name).astype(dtype, copy=False)
    if field != _FIELDS.get(dtype, _INT32S) or form != 0:
        raise FormatError(f"tensor {name!r} of {dtype} has its values in a field for others (format {form})")
    if field in (_FLOATS, _DOUBLES):
        raw = b"".join(_expect(value, "values") for _, _, value in found)
        return _fixed(raw, np.dtype(dtype).newbyteorder("<"), name).astype(dtype, copy=False)
    pieces = [np.array([wire.signed(value)], np.int64) if isinstance(value, int) else wire.unpacked(value)
              for _, _, value in found]
    numbers = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, np.int64), *pieces])
    if dtype == "bool":
        return numbers != 0
    if dtype == "float16":
        return _narrowed(numbers, "uint16", name).view(np.float16)
    return _narrowed(numbers, dtype, name)


def _fixed(raw: bytes, dtype: str | np.dtype, name: str) -> np.ndarray:
    width = np.dtype(dtype).itemsize
    if len(raw) % width:
        raise FormatError(f"tensor {name!r} has {len(raw)} bytes of values, each of which takes {width}")
    return np.frombuffer(raw, dtype)


def _narrowed(numbers: np.ndarray, dtype: str, name: str) -> np.ndarray:
    narrow = numbers.astype(dtype)
    if narrow.dtype != np.int64 and not (narrow == numbers).all():
        raise FormatError(f"tensor {name!r} has values that {dtype} cannot have")
    return narrow


class Assembly:
    """A tensor that is put together from its segments, which may come in any order.

    Nothing is allocated for values that have not come.
    """

    def __init__(self, first: Segment) -> None:
        self._segments = [first]
        self._had = first.end - first.begin

    @property
    def complete(self) -> bool:
        return self._had >= self._segments[0].size

    @property
    def device(self) -> caffe2_pb2.DeviceOption | None:
        return self._segments[0].device

    def add(self, segment: Segment) -> None:
        first = self._segments[0]
        if (segment.dtype, segment.shape) != (first.dtype, first.shape):
            raise FormatError(f"its records disagree: {first.dtype} {first.shape} and {segment.dtype} {segment.shape}")
        if self.complete:
            raise FormatError("it is there twice")
        self._segments.append(segment)
        self._had += segment.end - segment.begin

    def array(self) -> np.ndarray:
        """The tensor; it may share its values with the segments.

        Raises:
            FormatError: values are missing, or there twice.
        """
        segments = sorted(self._segments, key=lambda segment: (segment.begin, segment.end))
        first, at = segments[0], 0
        for segment in segments:
            if segment.begin < at:
                raise FormatError(f"its values {segment.begin} to {min(at, segment.end)} are there twice")
            if segment.begin > at:
                break
            at = segment.end
        if at < first.size:
            raise FormatError(f"of its {first.size} values, shape {first.shape}, those from {at} on are not there")
        values = first.values if len(segments) == 1 else np.concatenate([s.values for s in segments])
        try:
            return values.reshape(first.shape)
        except ValueError as error:  # no values, and dimensions that no array can have
            raise FormatError(f"no tensor can have shape {first.shape}: {error}") from None
