"""Nets, plans and models in files, binary and text; and writing any file so that it is there whole or not at all.

`.pb` is binary; `.pbtxt`, `.prototxt` and `.txt` are protobuf's text form; any other name is decided by the content.
Reading executes nothing. What cannot be read raises `FormatError`, whatever is wrong with it; errors of the file system
(`FileNotFoundError` and so on) pass through as they are.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, TypeVar, cast, overload

from google.protobuf import text_format
from google.protobuf.message import EncodeError, Message

from . import recognition
from .caffe2_pb2 import NetDef, PlanDef
from .metanet_pb2 import MetaNetDef

Program = TypeVar("Program", NetDef, PlanDef, MetaNetDef)
AnyMessage = TypeVar("AnyMessage", bound=Message)
FilePath = str | os.PathLike[str]

# Protobuf's own bound on the size of a message; and one on text, which is parsed in Python.
LIMIT = 2 << 30
TEXT_LIMIT = 256 << 20

_PIECE = 16 << 20

_BINARY_SUFFIXES = {".pb"}
_TEXT_SUFFIXES = {".pbtxt", ".prototxt", ".txt"}


class FormatError(ValueError):
    """Data that is not what it should be: says where, what was expected, what was found, what to do."""


@overload
def read_net(path: FilePath, *, text: bool | None = None, limit: int | None = None) -> NetDef: ...
@overload
def read_net(path: FilePath, cls: type[Program], *, text: bool | None = None, limit: int | None = None) -> Program: ...
def read_net(
    path: FilePath, cls: type[Message] = NetDef, *, text: bool | None = None, limit: int | None = None
) -> Message:
    """Read a `NetDef`, or the `PlanDef` or `MetaNetDef` that `cls` asks for.

    `text` overrules the suffix. A file longer than `limit` bytes is refused (`LIMIT`, or `TEXT_LIMIT` for text), and
    so is one that holds more operators, arguments and so on than any honest net, before it is parsed.

    A binary file says neither its type nor its length: another type is told by the content, a cut by the last field,
    and a cut between two fields not at all.

    Raises:
        FormatError: the file is too long, cut off, garbled, of another type, or lacks required fields.
    """
    data, text = _read(path, text, limit)
    return _program(data, cls, text, os.fspath(path))


def read_any(path: FilePath, *, text: bool | None = None, limit: int | None = None) -> NetDef | PlanDef | MetaNetDef:
    """Read a net, a plan or a model, whichever the file holds; otherwise like `read_net`."""
    data, text = _read(path, text, limit)
    programs = (NetDef, PlanDef, MetaNetDef)
    cls = next((cls for cls in recognition.kinds(data, text) if cls in programs), NetDef)
    return cast(NetDef | PlanDef | MetaNetDef, _program(data, cls, text, os.fspath(path)))


def read_message(data: bytes, cls: type[AnyMessage], *, text: bool = False, source: str = "<bytes>") -> AnyMessage:
    """Parse a message of any type. `source` is what errors call the data.

    Raises:
        FormatError: the data is cut off or garbled, lacks required fields, or holds too many messages to be honest.
    """
    try:
        message = recognition.parse(data, cls, text)
    except recognition.TooManyMessages as error:
        raise FormatError(f"{source}: expected a {cls.DESCRIPTOR.name}, found {error}; do not use it") from None
    except recognition.PARSE_ERRORS as error:
        raise _refusal(data, cls, text, source, _first_line(error)) from None
    if not message.IsInitialized():
        raise _refusal(data, cls, text, source, f"as one they lack {_unset(message)}")
    return cast(AnyMessage, message)


def write_net(net: NetDef | PlanDef | MetaNetDef, path: FilePath, *, text: bool | None = None) -> None:
    """Write a net, plan or model, atomically; as text where the suffix or `text` says so, else binary.

    The text form drops fields that this version of the format does not know; the binary form keeps them.

    Raises:
        FormatError: required fields are not set, or the message is too large for protobuf (2 GiB).
    """
    if text is None:
        text = _suffix(path) in _TEXT_SUFFIXES
    source = os.fspath(path)
    if not net.IsInitialized():
        raise FormatError(
            f"{source}: expected a complete {net.DESCRIPTOR.name}, found one without {_unset(net)}; set them"
        )
    try:
        data = text_format.MessageToString(net).encode() if text else net.SerializeToString()
    except (EncodeError, ValueError) as error:
        raise FormatError(
            f"{source}: cannot write this {net.DESCRIPTOR.name} ({_first_line(error)}); keep tensors in a database or "
            "in files of their own"
        ) from None
    with replace_file(path) as file:
        file.write(data)


@contextmanager
def replace_file(path: FilePath) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of `path` when the block ends, and vanishes when it raises.

    Whoever reads `path` meanwhile, or after a crash, finds the old content or the new, never a part. A link is
    followed; the permissions of a file that was there are kept.

    Raises:
        OSError: it cannot be made; `filename` is the folder where that is missing, else the file that was asked for.
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        opened = open(temporary, "xb")  # noqa: SIM115 (closed below; its own errors need other words)
    except OSError as error:
        raise OSError(error.errno, error.strerror, target if os.path.isdir(folder) else folder) from None
    try:
        with opened as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _read(path: FilePath, text: bool | None, limit: int | None) -> tuple[bytes, bool]:
    """The content of a file, and whether it is text."""
    with open(path, "rb") as file:
        pieces = [file.read(_PIECE)]
        if text is None:
            suffix = _suffix(path)
            unsure = suffix not in _BINARY_SUFFIXES | _TEXT_SUFFIXES
            text = recognition.looks_like_text(pieces[0]) if unsure else suffix in _TEXT_SUFFIXES
        if limit is None:
            limit = TEXT_LIMIT if text else LIMIT
        # What a file says of its size may not hold: a pipe has none, and a file may be growing.
        read = len(pieces[0])
        size = max(read, os.fstat(file.fileno()).st_size)
        while size <= limit and (piece := file.read(_PIECE)):
            pieces.append(piece)
            read += len(piece)
            size = max(size, read)
    if size > limit:
        raise FormatError(
            f"{os.fspath(path)}: expected at most {limit} bytes, found {size} or more; pass a higher limit= if the "
            "file is meant to be that long"
        )
    return b"".join(pieces), text


def _program(data: bytes, cls: type[Message], text: bool, source: str) -> Message:
    name = cls.DESCRIPTOR.name
    if not data:
        raise FormatError(f"{source}: expected a {name}, found an empty file; write it again")
    program = read_message(data, cls, text=text, source=source)
    oddities = set() if text else recognition.oddities(program)
    if recognition.rules_out(oddities) or (oddities and any(recognition.kinds(data, text))):
        raise _refusal(data, cls, text, source, f"as one they have {' and '.join(sorted(oddities))}")
    return program


def _refusal(data: bytes, cls: type[Message], text: bool, source: str, detail: str) -> FormatError:
    found, cure = recognition.diagnose(data, text, detail)
    form = "text" if text else "binary"
    return FormatError(f"{source}: expected a {cls.DESCRIPTOR.name} in {form} form, found {found}; {cure}")


def _unset(message: Message) -> str:
    missing = message.FindInitializationErrors()  # type: ignore[attr-defined]
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return f"required fields ({', '.join(missing[:3])}{more})"


def _suffix(path: FilePath) -> str:
    return os.path.splitext(os.fspath(path))[1].lower()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
