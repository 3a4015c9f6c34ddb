"""What kind of message some bytes are.

A protobuf message does not carry its type, and much of one type parses as another: a plan's nets pass for operators,
its steps for a string. What gives it away is the sense it makes; `oddities` collects the ways in which it makes none.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from .caffe2_pb2 import BlobProto, NetDef, OperatorDef, PlanDef, TensorProtos
from .metanet_pb2 import MetaNetDef
from .wire import holds_more_messages

# In the order in which they are tried: what is several of them (an empty file is) counts as the first.
KINDS: tuple[type[Message], ...] = (NetDef, PlanDef, MetaNetDef, TensorProtos, BlobProto)

# Messages within a message: some 5 GiB of memory. Real nets stay far below, and tensors are not made of messages.
MOST_MESSAGES = 32 << 20

# A sample tells; a net may have a hundred thousand operators.
_SAMPLE = 64

_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")

# A message in text form begins, after comments, with the name of a field.
_TEXT_START = re.compile(rb"(?:\s|#[^\n]*\n)*[A-Za-z_][A-Za-z0-9_]*\s*[:{<]")

# What other formats begin with.
_SIGNATURES = {
    b"PK\x03\x04": "a zip archive (a PyTorch checkpoint or TorchScript, NumPy's npz)",
    b"\x1f\x8b": "gzip-compressed data",
    b"\x93NUMPY": "a NumPy array",
    b"\x89HDF\r\n": "an HDF5 file",
    b"SQLite format 3\x00": "an SQLite database",
    b"\x80\x02": "a pickle",
    b"\x80\x03": "a pickle",
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
}


class TooManyMessages(ValueError):
    """Data that would take many times its size in memory."""


# All that protobuf's two parsers raise on hostile input, each in its C and its Python implementation.
PARSE_ERRORS = (DecodeError, text_format.ParseError, RecursionError, OverflowError, ValueError)


def looks_like_text(data: bytes) -> bool:
    """Whether the bytes begin as a message in text form does."""
    return _TEXT_START.match(data[:4096]) is not None


def parse(data: bytes, cls: type[Message], text: bool) -> Message:
    """Parse, whatever the message lacks; raises one of `PARSE_ERRORS`."""
    message = cls()
    if text:
        text_format.Parse(data.decode("utf-8"), message)
        return message
    # Each takes at least two bytes, so that most data need not be looked through.
    if len(data) > 2 * MOST_MESSAGES and holds_more_messages(data, cls, MOST_MESSAGES):
        raise TooManyMessages(f"more than {MOST_MESSAGES} operators, arguments and such, as no honest file has")
    message.ParseFromString(data)
    return message


UNKNOWN_FIELDS = "unknown fields"
UNTYPED_OPERATORS = "operators without a type"
CONTROL_CHARACTERS = "control characters in names"
NOT_UTF8 = "names that are not UTF-8"


def oddities(message: Message) -> set[str]:
    """In which ways a parsed message makes no sense, judged by its first submessages; empty where it does."""
    found = set()
    waiting = deque([message])
    for _ in range(_SAMPLE):
        if not waiting:
            break
        part = waiting.popleft()
        if len(UnknownFieldSet(part)):
            found.add(UNKNOWN_FIELDS)
        if isinstance(part, OperatorDef) and not part.HasField("type"):
            found.add(UNTYPED_OPERATORS)
        for field, value in part.ListFields():
            values = value[:_SAMPLE] if hasattr(value, "append") else [value]
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                waiting.extend(values)
            elif field.type == FieldDescriptor.TYPE_STRING:
                # Protobuf's C parser hands a string that is not UTF-8 out as the bytes it is.
                names = [name for name in values if isinstance(name, str)]
                if len(names) < len(values):
                    found.add(NOT_UTF8)
                if any(map(_CONTROL_CHARACTER.search, names)):
                    found.add(CONTROL_CHARACTERS)
    return found


def broken_text(message: Message) -> bytes | None:
    """A string of a parsed message, at any depth, that is not UTF-8; None where all are."""
    waiting = [message]
    while waiting:
        for field, value in waiting.pop().ListFields():
            if field.type in (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_STRING):
                for part in value if hasattr(value, "append") else [value]:
                    if isinstance(part, Message):
                        waiting.append(part)
                    elif not isinstance(part, str):  # protobuf's C parser hands it out as the bytes it is
                        return part
    return None


def rules_out(found: set[str]) -> bool:
    """Whether oddities are too many for a message of the type it was parsed as.

    One may be a mistake, or the work of a later version of the format. Names that are not UTF-8 are not even strings.
    """
    return len(found) > 1 or NOT_UTF8 in found


def kinds(data: bytes, text: bool) -> Iterator[type[Message]]:
    """The types of `KINDS` that the bytes make sense as."""
    return (cls for cls in KINDS if _makes_sense(data, cls, text))


def _makes_sense(data: bytes, cls: type[Message], text: bool) -> bool:
    try:
        message = parse(data, cls, text)
    except PARSE_ERRORS:
        return False
    return message.IsInitialized() and not oddities(message)


def diagnose(data: bytes, text: bool, detail: str) -> tuple[str, str]:
    """What bytes are that do not read as what was expected, in text or binary form, and what to do about it.

    `detail` is what made the reader give up.
    """
    for signature, name in _SIGNATURES.items():
        if data.startswith(signature):
            return name, "name the file that holds the message itself"
    for other in kinds(data, text):
        return f"a {other.DESCRIPTOR.name}", f"read it as one (cls={other.DESCRIPTOR.name})"
    if not text and looks_like_text(data):
        return "text", "read it as text (text=True, or a name that ends in .pbtxt)"
    if text and any(kinds(data, text=False)):
        return "binary data", "read it as such (text=False, or a name that ends in .pb)"
    return f"{len(data)} bytes that make none ({detail})", "get a whole and unchanged copy"
