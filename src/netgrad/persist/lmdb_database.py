"""lmdb: a folder that the LMDB library keeps. Needs the package `lmdb`.

What is written is one transaction of LMDB's, so that it must be closed by the thread that wrote it. A file is verified
before the library, which trusts what it maps into memory, gets to see it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

import lmdb
import lmdb.verify

from netgrad.persist.databases import Cursor, Database, Mode
from netgrad.persist.errors import StorageError, told_of

#: bytes of address space; a file takes what it needs of them
_MAP_SIZE = 1 << 40


class _Environment:
    """One open folder; the library lets a process open it once."""

    def __init__(self, path: str) -> None:
        _verify(path)
        with _told(path):
            self.env = lmdb.open(path, readonly=True, lock=False, max_readers=1024)

    def __del__(self) -> None:
        if env := self.__dict__.get("env"):
            env.close()


_open: WeakValueDictionary[str, _Environment] = WeakValueDictionary()
_opening = threading.Lock()


@contextmanager
def _told(source: str) -> Iterator[None]:
    with told_of(source):
        try:
            yield
        except lmdb.Error as error:
            raise StorageError(f"{source}: {error}") from None


def _verify(path: str, cure: str = "get a whole and unchanged copy") -> None:
    """Raises `StorageError` where the data are damaged. A writer may have been at work, so that it looks twice."""
    data = os.path.join(path, "data.mdb")
    if not os.path.isfile(data):
        raise StorageError(f"{path}: there is no lmdb: it would be a folder with a file data.mdb")
    with told_of(path):
        for last in (False, True):
            before = os.stat(data)
            try:
                problems = lmdb.verify.verify(path)
            except lmdb.verify.VerifyError as error:
                problems = [str(error)]
            if not problems:
                return
            after = os.stat(data)
            if last or (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size):
                raise StorageError(f"{path}: the file is damaged ({problems[0]}); {cure}")


class LMDB(Database):
    """A database in a folder."""

    def __init__(self, source: str, mode: Mode) -> None:
        super().__init__(source, mode)
        self._environment: _Environment | None = None
        self._env: Any = None
        self._transaction: Any = None
        self._temporary = ""
        if mode is Mode.read:
            path = os.path.realpath(source)
            with _opening:
                found = _open.get(path)
                if found is None:
                    found = _open[path] = _Environment(source)
                self._environment = found
            return
        folder = os.path.realpath(source)
        if os.path.exists(folder):
            if os.listdir(folder) if os.path.isdir(folder) else True:
                _verify(source, "delete the folder to write a new one" if mode is Mode.new else "get a whole copy")
        else:
            parent, name = os.path.split(folder)
            folder = self._temporary = os.path.join(parent, f".{name[:100]}.{secrets.token_hex(6)}.tmp")
            os.mkdir(folder)
        with _told(source):
            try:
                self._env = lmdb.open(folder, map_size=_MAP_SIZE)
                self._transaction = self._env.begin(write=True)
                if mode is Mode.new:
                    self._transaction.drop(self._env.open_db(txn=self._transaction), delete=False)
            except BaseException:
                self.abandon()
                raise

    def new_cursor(self) -> Cursor:
        self._require(Mode.read)
        if self._environment is None:
            raise StorageError(f"{self.source}: it was closed")
        return _Cursor(self.source, self._environment)

    def check_record(self, key: bytes, value: bytes) -> None:
        super().check_record(key, value)
        if self._env is not None and len(key) > self._env.max_key_size():
            raise StorageError(f"{self.source}: LMDB takes keys of up to {self._env.max_key_size()} bytes; "
                               f"{key[:80]!r}... has {len(key)}")

    def write(self, records: list[tuple[bytes, bytes]]) -> None:
        if self._transaction is None:
            raise StorageError(f"{self.source}: it was closed, or is only being read")
        with _told(self.source):
            for key, value in records:
                self._transaction.put(key, value)

    def close(self) -> None:
        self._environment = None
        if self._env is None:
            return
        with _told(self.source):
            try:
                self._transaction.commit()
                self._env.close()
                self._env = self._transaction = None
                if self._temporary:
                    os.rename(self._temporary, os.path.realpath(self.source))
                    self._temporary = ""
            finally:
                self.abandon()

    def abandon(self) -> None:
        self._environment = None
        if self._transaction is not None:
            self._transaction.abort()
        if self._env is not None:
            self._env.close()
        self._env = self._transaction = None
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = ""


class _Cursor(Cursor):
    def __init__(self, source: str, environment: _Environment) -> None:
        self._source = source
        self._environment = environment
        with _told(source):
            self._transaction = environment.env.begin()
            self._cursor = self._transaction.cursor()
            self._valid = self._cursor.first()

    def seek_to_first(self) -> None:
        with _told(self._source):
            self._valid = self._cursor.first()

    def next(self) -> None:
        if self._valid:
            with _told(self._source):
                self._valid = self._cursor.next()

    def seek(self, key: bytes) -> None:
        with _told(self._source):
            self._valid = self._cursor.set_range(key)

    def supports_seek(self) -> bool:
        return True

    def valid(self) -> bool:
        return bool(self._valid)

    def _here(self) -> None:
        if not self._valid:
            raise StorageError(f"{self._source}: there are no more records")

    def key(self) -> bytes:
        self._here()
        return bytes(self._cursor.key())

    def value(self) -> bytes:
        self._here()
        return bytes(self._cursor.value())
