"""protodb: a TensorProtos message in a file. The values are tensors, the keys their names."""

from __future__ import annotations

import os

from netgrad.persist import wire
from netgrad.persist.databases import Cursor, Database, Mode, open_file
from netgrad.persist.errors import StorageError, told_of
from netgrad.persist.replacing import Replacement
from netgrad.proto import FormatError, caffe2_pb2, read_message
from netgrad.proto.files import LIMIT
from netgrad.proto.recognition import looks_like_text

_PROTOS, _NAME = 1, 7


class ProtoDB(Database):
    """Tensors in one file."""

    holds_tensors = True

    def __init__(self, source: str, mode: Mode) -> None:
        super().__init__(source, mode)
        self._records: list[tuple[bytes, bytes]] = []
        self._new: Replacement | None = None
        self._closed = False
        if mode is not Mode.new and (mode is Mode.read or os.path.exists(source)):
            self._records = _read(source)
        if mode is not Mode.read:
            self._new = Replacement(source)

    def new_cursor(self) -> Cursor:
        self._require(Mode.read)
        if self._closed:
            raise StorageError(f"{self.source}: it was closed")
        return _Cursor(self.source, self._records)

    def check_record(self, key: bytes, value: bytes) -> None:
        super().check_record(key, value)
        with told_of(f"{self.source}: record {key[:80]!r}"):
            name = _name(value)
        if name != key:
            raise StorageError(f"{self.source}: the tensor of record {key!r} is called {name!r}; keys of this kind of "
                               "database are the names of their tensors")

    def write(self, records: list[tuple[bytes, bytes]]) -> None:
        if self._new is None or self._new.closed:
            raise StorageError(f"{self.source}: it was closed, or is only being read")
        self._records += records

    def close(self) -> None:
        self._closed = True
        if self._new is not None and not self._new.closed:
            with told_of(self.source):
                try:
                    for _, tensor in self._records:
                        self._new.file.write(wire.bytes_field(_PROTOS, tensor))
                except BaseException:
                    self._new.abandon()
                    raise
                self._new.close()

    def abandon(self) -> None:
        if self._new is not None:
            self._new.abandon()


def _read(source: str) -> list[tuple[bytes, bytes]]:
    with open_file(source) as file:
        size = os.fstat(file.fileno()).st_size
        if size > LIMIT:
            raise FormatError(f"it has {size} bytes, more than a message may have")
        data = file.read()
    try:
        return _records(data)
    except FormatError:
        if not looks_like_text(data):
            raise
    return _records(read_message(data, caffe2_pb2.TensorProtos, text=True, source=source).SerializeToString())


def _records(data: bytes) -> list[tuple[bytes, bytes]]:
    return [(_name(value), bytes(value)) for field, kind, value in wire.fields(data) if _is_tensor(field, kind)]


def _is_tensor(field: int, kind: int) -> bool:
    if (field, kind) != (_PROTOS, wire.BYTES):
        raise FormatError(f"this is no list of tensors: it has a field {field}; get a whole and unchanged copy")
    return True


def _name(tensor: wire.Buffer) -> bytes:
    """The name that a tensor in wire form has; raises `FormatError` where it is no message."""
    name = b""
    for field, kind, value in wire.fields(tensor):
        if (field, kind) == (_NAME, wire.BYTES):
            name = bytes(value)
    return name


class _Cursor(Cursor):
    def __init__(self, source: str, records: list[tuple[bytes, bytes]]) -> None:
        self._source = source
        self._records = records
        self._at = 0

    def seek_to_first(self) -> None:
        self._at = 0

    def next(self) -> None:
        self._at = min(self._at + 1, len(self._records))

    def valid(self) -> bool:
        return self._at < len(self._records)

    def _here(self) -> tuple[bytes, bytes]:
        if not self.valid():
            raise StorageError(f"{self._source}: there are no more records")
        return self._records[self._at]

    def key(self) -> bytes:
        return self._here()[0]

    def value(self) -> bytes:
        return self._here()[1]
