"""Protobuf's wire form, as far as tensors need it: fields without an object per value, packed numbers as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from netgrad.proto import FormatError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Buffer = bytes | memoryview

#: how many numbers, or bytes of them, are worked on at once
_BLOCK = 1 << 17

_SMALL = [bytes([number]) for number in range(0x80)]

_LONG = "a number has more than ten bytes"


def varint(value: int) -> bytes:
    """A number in wire form; a negative one takes ten bytes."""
    if 0 <= value < 0x80:
        return _SMALL[value]
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number_field(field: int, value: int) -> bytes:
    return varint(field << 3 | VARINT) + varint(value)


def bytes_field(field: int, *parts: Buffer) -> bytes:
    """A field of bytes, a string, or a message: the parts one after the other."""
    return b"".join((varint(field << 3 | BYTES), varint(sum(map(len, parts))), *parts))


def _read_varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, position
        shift += 7
    raise FormatError("a number is cut off, or has more than ten bytes")


def fields(data: Buffer) -> Iterator[tuple[int, int, Any]]:
    """The fields of a message: number, wire type, and an int (a number) or a memoryview (everything else).

    Raises:
        FormatError: the bytes are no message: cut off, or garbled.
    """
    data = memoryview(data)
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        number, kind = tag >> 3, tag & 7
        if number == 0 or number >= 1 << 29:
            raise FormatError(f"there is no field {number}")
        if kind == VARINT:
            value, position = _read_varint(data, position)
            yield number, kind, value
            continue
        if kind == BYTES:
            size, position = _read_varint(data, position)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise FormatError(f"field {number} is of wire type {kind}, which these messages do not have")
        if size > len(data) - position:
            raise FormatError(f"field {number} has {size} bytes, of which {len(data) - position} are there")
        yield number, kind, data[position:position + size]
        position += size


def signed(value: int) -> int:
    """A number from `fields` as the signed one that it stands for."""
    return value - (1 << 64) if value >> 63 else value


def packed(values: np.ndarray) -> bytes:
    """Integers as varints, one after the other."""
    flat = values.reshape(-1)
    return b"".join(_pack(flat[k:k + _BLOCK]) for k in range(0, len(flat), _BLOCK))


def _pack(values: np.ndarray) -> bytes:
    """A table with a row of bytes for each number; those that are used, in order."""
    numbers = values.astype(np.int64).view(np.uint64)
    largest = int(numbers.max())
    if largest < 0x80:
        return numbers.astype(np.uint8).tobytes()
    rest = numbers.astype(np.uint32) if largest < 1 << 32 else numbers
    width = (largest.bit_length() + 6) // 7
    table = np.empty((len(rest), width), np.uint8)
    used = np.empty((len(rest), width), bool)
    used[:, 0] = True
    for k in range(width):
        low = rest.astype(np.uint8)
        rest = rest >> rest.dtype.type(7)
        more = rest != 0
        table[:, k] = np.where(more, low | np.uint8(0x80), low & np.uint8(0x7F))
        if k + 1 < width:
            used[:, k + 1] = more
    return table[used].tobytes()


def unpacked(data: Buffer) -> np.ndarray:
    """The varints in some bytes, as int64.

    Raises:
        FormatError: the last one is cut off, or one has more than ten bytes.
    """
    raw = np.frombuffer(data, np.uint8)
    last = raw < 0x80
    if last.all():
        return raw.astype(np.int64)
    if not last[-1]:
        raise FormatError("a list of numbers is cut off")
    values = np.empty(np.count_nonzero(last), np.int64)
    begin = had = 0
    while begin < len(raw):
        end = min(begin + _BLOCK, len(raw))
        while not last[end - 1]:
            end -= 1
            if end == begin:
                raise FormatError(_LONG)
        found = _unpack(raw[begin:end], last[begin:end])
        values[had:had + len(found)] = found
        begin, had = end, had + len(found)
    return values


def _unpack(raw: np.ndarray, last: np.ndarray) -> np.ndarray:
    ends = np.flatnonzero(last) + 1
    starts = np.concatenate(([0], ends[:-1]))
    sizes = ends - starts
    width = int(sizes.max())
    if width > 10:
        raise FormatError(_LONG)
    padded = np.concatenate((raw, np.zeros(width, np.uint8)))
    values = np.zeros(len(ends), np.uint64)
    for k in range(width):
        part = (padded[starts + k] & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * k)
        part[sizes <= k] = 0
        values |= part
    return values.view(np.int64)
