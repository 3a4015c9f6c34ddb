"""How many messages some bytes hold, told before they are parsed."""

from __future__ import annotations

import re
from functools import cache
from typing import cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

_LENGTH_DELIMITED = 2

# Any run of numbers in fields 1 to 15: varints, eight bytes, four bytes. Possessive, as a list may have millions.
_NUMBERS = re.compile(
    rb"(?:(?:[%b][\x80-\xff]{0,9}+[\x00-\x7f])++|(?:[%b].{8})++|(?:[%b].{4})++)*+"
    % tuple(re.escape(bytes(field << 3 | wire_type for field in range(1, 16))) for wire_type in (0, 1, 5)),
    re.DOTALL,
)


@cache
def _submessages(descriptor: Descriptor) -> dict[int, Descriptor]:
    """Type of each field that holds messages, by the field's number."""
    return {field.number: field.message_type for field in descriptor.fields if field.message_type}


def holds_more_messages(data: bytes, cls: type[Message], most: int) -> bool:
    """Whether a message in binary form has more than `most` messages within it, at any depth.

    An empty message takes two bytes of a file and some eighty times that in memory; nothing else grows as much. Bytes
    that are not well formed are left to the parser.
    """
    count = position = 0
    open_messages = [(len(data), _submessages(cast(Descriptor, cls.DESCRIPTOR)))]
    try:
        while open_messages:
            end, submessages = open_messages[-1]
            position = _NUMBERS.match(data, position, end).end()  # type: ignore[union-attr]
            if position >= end:
                open_messages.pop()
                continue
            tag, position = _varint(data, position)
            if tag & 7 != _LENGTH_DELIMITED:
                return False
            size = data[position]
            if size < 0x80:
                position += 1
            else:
                size, position = _varint(data, position)
            submessage = submessages.get(tag >> 3)
            if submessage is None:
                position += size
                continue
            count += 1
            if count > most:
                return True
            open_messages.append((position + size, _submessages(submessage)))
    except IndexError:
        return False
    return False


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """The number that begins at a position, and where it ends."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
