"""minidb, Caffe2's own database: records one after the other, each two little-endian int32 lengths, key and value."""

from __future__ import annotations

import os
import struct
from typing import BinaryIO

from netgrad.persist.databases import Cursor, Database, Mode, open_file
from netgrad.persist.errors import StorageError, told_of
from netgrad.persist.replacing import Replacement

_LENGTHS = struct.Struct("<ii")
_MOST = 2 ** 31 - 1


class MiniDB(Database):
    """A database in one file."""

    def __init__(self, source: str, mode: Mode) -> None:
        super().__init__(source, mode)
        self._file: BinaryIO | None = None
        self._new: Replacement | None = None
        if mode is Mode.read:
            self._file = open_file(source)
        else:
            self._new = Replacement(source, keep=mode is Mode.write)

    def new_cursor(self) -> Cursor:
        self._require(Mode.read)
        if self._file is None:
            raise StorageError(f"{self.source}: it was closed")
        return _Cursor(self.source, self._file)

    def check_record(self, key: bytes, value: bytes) -> None:
        super().check_record(key, value)
        if len(key) > _MOST or len(value) > _MOST:
            raise StorageError(f"{self.source}: a record may have 2 GiB, and that of {key[:80]!r} has {len(value)} "
                               "bytes; save it in smaller pieces (chunk_size)")

    def write(self, records: list[tuple[bytes, bytes]]) -> None:
        if self._new is None or self._new.closed:
            raise StorageError(f"{self.source}: it was closed, or is only being read")
        with told_of(self.source):
            for key, value in records:
                self._new.file.write(_LENGTHS.pack(len(key), len(value)))
                self._new.file.write(key)
                self._new.file.write(value)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._new is not None:
            with told_of(self.source):
                self._new.close()

    def abandon(self) -> None:
        if self._new is not None:
            self._new.abandon()
        self.close()


class _Cursor(Cursor):
    """Reads at places of its own, so that several may share the file."""

    def __init__(self, source: str, file: BinaryIO) -> None:
        self._source = source
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self.seek_to_first()

    def seek_to_first(self) -> None:
        self._go(0)

    def next(self) -> None:
        if self._at < self._size:
            self._go(self._value_at + self._value_size)

    def _go(self, position: int) -> None:
        self._at, self._key = position, b""
        self._value_at = self._value_size = 0
        if position >= self._size:
            return
        left = self._size - position - _LENGTHS.size
        if left < 0:
            self._refuse(f"ends within the lengths of a record at byte {position}")
        key, value = _LENGTHS.unpack(self._read(position, _LENGTHS.size))
        if key <= 0 or value < 0:
            self._refuse(f"is no minidb at byte {position}: it has a key of {key} bytes and a value of {value} there")
        if key + value > left:
            self._refuse(f"is cut off: the record at byte {position} has {key + value} bytes, of which {left} are "
                         "there")
        self._key = self._read(position + _LENGTHS.size, key)
        self._value_at, self._value_size = position + _LENGTHS.size + key, value

    def _refuse(self, what: str) -> None:
        self._at = self._size
        raise StorageError(f"{self._source}: the file {what}; get a whole and unchanged copy")

    def _read(self, position: int, size: int) -> bytes:
        if self._file.closed:
            raise StorageError(f"{self._source}: it was closed")
        with told_of(self._source):
            data = os.pread(self._file.fileno(), size, position)
            while 0 < len(data) < size and (more := os.pread(self._file.fileno(), size - len(data),
                                                             position + len(data))):
                data += more
        if len(data) < size:
            self._refuse("has become shorter while it was read")
        return data

    def valid(self) -> bool:
        return self._at < self._size

    def _here(self) -> None:
        if not self.valid():
            raise StorageError(f"{self._source}: there are no more records")

    def key(self) -> bytes:
        self._here()
        return self._key

    def value(self) -> bytes:
        self._here()
        return self._read(self._value_at, self._value_size)
