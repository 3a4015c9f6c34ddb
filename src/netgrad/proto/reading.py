"""Reading messages whose form, text or binary, is not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError


def TryReadProtoWithClass(cls: type[Any], s: str | bytes) -> Any:
    """A message of that class from its text or binary form; raises DecodeError if it is neither."""
    try:
        return text_format.Parse(s, cls())
    except (text_format.ParseError, UnicodeDecodeError):
        return cls.FromString(s if isinstance(s, bytes) else s.encode("latin-1", "replace"))


def GetContentFromProto(obj: Any, function_map: Mapping[type[Any], Callable[[Any], Any]]) -> Any:
    """What the function for the message's class makes of it; None if there is no such function."""
    function = function_map.get(type(obj))
    return None if function is None else function(obj)


def GetContentFromProtoString(s: str | bytes, function_map: Mapping[type[Any], Callable[[Any], Any]]) -> Any:
    """What the first function makes of the message whose class can read it; raises DecodeError if none can."""
    for cls, function in function_map.items():
        try:
            message = TryReadProtoWithClass(cls, s)
        except DecodeError:
            continue
        return function(message)
    raise DecodeError(f"the content is no {' or '.join(cls.__name__ for cls in function_map)}")


def ConvertProtoToBinary(proto_class: type[Any], filename: str, out_filename: str) -> None:
    """Writes the binary form of a file that holds a message of that class."""
    Path(out_filename).write_bytes(TryReadProtoWithClass(proto_class, Path(filename).read_bytes()).SerializeToString())
