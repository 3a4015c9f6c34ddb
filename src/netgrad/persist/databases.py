"""Databases: files of records, each a key and a value, in the formats that Caffe2 has.

`create_db` opens one by the name of its kind. What is written takes its place when the database is closed, all of it;
until then, and for ever where the process dies, what was there before is there still.
"""

from __future__ import annotations

import enum
import importlib
import importlib.util
import os
import stat
from abc import ABC, abstractmethod
from contextlib import suppress
from types import TracebackType
from typing import BinaryIO, Self

from netgrad.persist.errors import StorageError, told_of
from netgrad.proto import FormatError


class Mode(enum.IntEnum):
    """How a database is opened: to read it, to add records, or to write a new one in its place."""

    read = 0
    write = 1
    new = 2


class Cursor(ABC):
    """A place among the records of a database, at the first one to begin with."""

    @abstractmethod
    def valid(self) -> bool:
        """Whether there is a record here; else it is past the last one."""

    @abstractmethod
    def key(self) -> bytes: ...

    @abstractmethod
    def value(self) -> bytes: ...

    @abstractmethod
    def next(self) -> None:
        """Goes to the next record. Raises `StorageError` where the file is damaged there."""

    @abstractmethod
    def seek_to_first(self) -> None: ...

    def seek(self, key: bytes) -> None:
        """Goes to the first record whose key is not less than this one, where `supports_seek`."""
        raise StorageError("databases of this kind cannot be searched; go through the records with next()")

    def supports_seek(self) -> bool:
        return False


class Transaction:
    """Records that are put into a database together, when it is committed or deleted."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._records: list[tuple[bytes, bytes]] = []

    def put(self, key: bytes | str, value: bytes | str) -> None:
        """Adds a record; raises `StorageError` where the database cannot hold it."""
        key, value = (item.encode() if isinstance(item, str) else bytes(item) for item in (key, value))
        self._database.check_record(key, value)
        self._records.append((key, value))

    def commit(self) -> None:
        waiting, self._records = self._records, []
        self._database.write(waiting)

    def __del__(self) -> None:
        if self.__dict__.get("_records"):
            with suppress(StorageError):  # the database was closed first
                self.commit()


class Database(ABC):
    """An open database; in a with statement, it is closed at the end, and what was written is left out on an error."""

    #: whether its values are tensors (TensorProto) and its keys their names
    holds_tensors = False

    def __init__(self, source: str, mode: Mode) -> None:
        self.source = source
        self.mode = mode

    @abstractmethod
    def new_cursor(self) -> Cursor:
        """Raises `StorageError` where it was not opened to read, or is damaged at its start."""

    @abstractmethod
    def write(self, records: list[tuple[bytes, bytes]]) -> None:
        """Writes records after those that are there."""

    def check_record(self, key: bytes, value: bytes) -> None:
        """Raises `StorageError` where it cannot hold such a record."""
        if not key:
            raise StorageError(f"{self.source}: a record needs a key")

    @abstractmethod
    def close(self) -> None:
        """What was written takes its place. May be called again."""

    @abstractmethod
    def abandon(self) -> None:
        """Closes it, and leaves out what was written."""

    def new_transaction(self) -> Transaction:
        self._require(Mode.write, Mode.new)
        return Transaction(self)

    def put(self, key: str, value: bytes) -> None:
        """Writes one record."""
        transaction = self.new_transaction()
        transaction.put(key.encode("utf-8", "surrogateescape"), value)
        transaction.commit()

    def _require(self, *modes: Mode) -> None:
        if self.mode not in modes:
            raise StorageError(f"{self.source}: it was opened with mode {self.mode.name}, where "
                               f"{' or '.join(mode.name for mode in modes)} is needed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close() if kind is None else self.abandon()

    def __del__(self) -> None:
        with suppress(Exception):  # where it could not even be opened, or the interpreter ends
            self.close()


def open_file(source: str) -> BinaryIO:
    """A file to read, if it is one: neither a folder nor a pipe or device, which may have no end.

    Raises:
        OSError: it cannot be opened.
        FormatError: it is something else.
    """
    number = os.open(source, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise FormatError("this is a folder, pipe or device, where a file is expected")
    return os.fdopen(number, "rb")


#: kind -> the class of its databases, and the package that it needs
_KINDS = {
    "minidb": ("netgrad.persist.minidb:MiniDB", ""),
    "protodb": ("netgrad.persist.protodb:ProtoDB", ""),
    "lmdb": ("netgrad.persist.lmdb_database:LMDB", "lmdb"),
}
_OTHER_NAMES = {"MiniDB": "minidb", "ProtoDB": "protodb", "LMDB": "lmdb", "LevelDB": "leveldb"}


def registered_dbs() -> list[str]:
    """The kinds of database that can be opened here."""
    here = {kind for kind, (_, package) in _KINDS.items() if not package or importlib.util.find_spec(package)}
    return sorted([*here, *(name for name, kind in _OTHER_NAMES.items() if kind in here)], key=str.lower)


def create_db(db_type: str, source: str, mode: Mode | int = Mode.read) -> Database:
    """Opens a database.

    Args:
        db_type: its kind, one of `registered_dbs`.
        source: its path.
        mode: what for.

    Raises:
        StorageError: there is no such kind, or the database cannot be opened so.
    """
    kind = _OTHER_NAMES.get(db_type, db_type)
    if kind not in _KINDS:
        more = ": no package for it is kept well; with Caffe2, copy its records into an lmdb or minidb" \
            if kind == "leveldb" else ""
        raise StorageError(f"{source}: databases of kind {db_type!r} cannot be opened here{more}; there are "
                           f"{', '.join(registered_dbs())}")
    where, package = _KINDS[kind]
    if package and not importlib.util.find_spec(package):
        raise StorageError(f"{source}: databases of kind {db_type!r} need the package {package}; "
                           "`pip install netgrad[data]`")
    if not source:
        raise StorageError(f"a database of kind {db_type!r} has no path; name its file")
    module, _, name = where.partition(":")
    with told_of(source):
        database: Database = getattr(importlib.import_module(module), name)(source, Mode(mode))
    return database


def db_exists(db_type: str, source: str) -> bool:
    """Whether a database can be opened to read; raises `StorageError` where that kind never can."""
    if _OTHER_NAMES.get(db_type, db_type) not in {_OTHER_NAMES.get(name, name) for name in registered_dbs()}:
        create_db(db_type, source)
    try:
        create_db(db_type, source).close()
    except StorageError:
        return False
    return True
