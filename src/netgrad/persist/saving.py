"""Blobs of a workspace into databases and out of them: what the operators Save, Load and Checkpoint do."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netgrad.persist import blobs, tensors
from netgrad.persist.blobs import Record
from netgrad.persist.databases import Cursor, Database, Mode, create_db
from netgrad.persist.errors import StorageError, told_of
from netgrad.persist.opaque import Parts
from netgrad.persist.tensors import Assembly
from netgrad.proto import FormatError, caffe2_pb2
from netgrad.runtime.errors import MissingBlob

if TYPE_CHECKING:
    from netgrad.persist.readers import DBReader
    from netgrad.runtime.workspace import Workspace

_PIECE = re.compile(rf"{blobs.SEPARATOR}\d+$")


def path_in(workspace: Workspace, path: str, absolute: bool) -> str:
    """Where a database lies: its path begins at the workspace's folder unless it is ``absolute``."""
    return path if absolute or not path else os.path.join(workspace.root_folder, path.lstrip("/"))


def without_prefix(name: str, prefix: str) -> str:
    """A name without the prefix and all that stands before it; a name that has no such part as it is."""
    _, found, rest = name.partition(prefix) if prefix else ("", "", "")
    return rest if found else name


def save(workspace: Workspace, names: Mapping[str, str], db_type: str, path: str,
         chunk_size: int = blobs.CHUNK) -> None:
    """Writes blobs into a new database, which is there whole or not at all.

    Args:
        names: blob -> its name in the database.
        chunk_size: values in one record; 0: all that a tensor has.

    Raises:
        MissingBlob: there is no such blob.
        BlobError: a blob cannot be saved.
        StorageError: the database cannot be written.
    """
    backend = workspace.backend
    for name in names:
        if name not in workspace.values:
            raise MissingBlob(f"there is no blob {name!r} to save; feed it, or run what makes it first")
    with create_db(db_type, path, Mode.new) as database:
        for name, saved_as in names.items():
            value = workspace.values[name]
            if database.holds_tensors:
                database.put(saved_as, blobs.tensor_record(saved_as, value, backend))
                continue
            for key, record in blobs.records(saved_as, value, backend, chunk_size):
                database.put(key, record)


@dataclass
class Loading:
    """What is being read from databases, until all of it is there.

    Args:
        wanted: name in the database (prefixes changed) -> blob; None: everything, by its own name.
        strip_prefix, add_prefix: taken from the names in the database, then put before them.
    """

    wanted: Mapping[str, str] | None = None
    strip_prefix: str = ""
    add_prefix: str = ""
    tensors: dict[str, Assembly] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    #: name -> which database it came from
    origin: dict[str, int] = field(default_factory=dict)
    #: names of which all is there
    whole: set[str] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        return self.wanted is not None and len(self.whole) >= len(self.wanted)

    def name_of(self, key: bytes) -> str:
        """The name that the blob of a record has."""
        name = _PIECE.sub("", key.decode("utf-8", "surrogateescape"))
        return self.add_prefix + without_prefix(name, self.strip_prefix)

    def read(self, database: Database, number: int, cursor: Cursor | None = None) -> None:
        """Takes the records of a database, from a cursor on, until all that is wanted is there."""
        cursor = database.new_cursor() if cursor is None else cursor
        while cursor.valid():
            key = cursor.key()
            name = self.name_of(key)
            if self.wanted is None or name in self.wanted:
                with told_of(f"{database.source}: record {key[:200].decode('utf-8', 'replace')!r}"):
                    if self.origin.setdefault(name, number) != number:
                        raise FormatError(f"another of the databases holds a blob {name!r} too")
                    self._take(name, cursor.value(), database.holds_tensors)
                if self.complete:
                    return
            cursor.next()

    def _take(self, name: str, value: bytes, is_tensor: bool) -> None:
        record = Record(name, "Tensor", Parts(value)) if is_tensor else blobs.parse(value)
        if name in self.others or (name in self.tensors and not record.is_tensor):
            raise FormatError(f"blob {name!r} is there twice")
        if not record.is_tensor:
            from netgrad.persist import opaque

            self.others[name] = opaque.decode(record.type, record.parts)
            self.whole.add(name)
            return
        segment = blobs.segment_of(record)
        if name in self.tensors:
            self.tensors[name].add(segment)
        else:
            self.tensors[name] = Assembly(segment)
        if self.tensors[name].complete:
            self.whole.add(name)

    def values(self, workspace: Workspace, device: caffe2_pb2.DeviceOption, keep_device: bool) -> dict[str, Any]:
        """What was read, as blobs, by their names in the workspace; raises `StorageError` where a part is missing."""
        found = dict(self.others)
        for name in list(self.tensors):
            with told_of(f"blob {name!r}"):
                array = self.tensors[name].array()
            assembly = self.tensors.pop(name)  # so that no more than one is in memory twice
            found[name] = blobs.placed(array, workspace.backend, assembly.device if keep_device else device)
        return {name if self.wanted is None else self.wanted[name]: value for name, value in found.items()}


def load(workspace: Workspace, loading: Loading, sources: Sequence[tuple[str, str] | DBReader], *,
         outputs: Collection[str] = (), device: caffe2_pb2.DeviceOption = tensors.CPU, keep_device: bool = False,
         allow_incomplete: bool = False) -> None:
    """Binds blobs to what databases hold of them; none is bound if anything is wrong.

    Args:
        sources: databases, each as its kind and path; or readers. A reader's database is read from where the reader
            stands, and from its beginning where that does not do; afterwards it stands at the last record needed.
        outputs: blobs that must be among what is read.
        device: where tensors go, unless they stay (``keep_device``) on the devices that they were saved from.
        allow_incomplete: blobs that are not there keep the value that they have.

    Raises:
        StorageError: a database is missing or damaged, or a blob is not in any, or in two.
    """
    names = []
    for number, source in enumerate(sources):
        with _opened(source) as (database, cursor, begin):
            names.append(database.source)
            if begin is None or loading.wanted is None:
                if begin is not None:
                    begin()
                loading.read(database, number, cursor)
            else:
                _read_on(loading, database, number, cursor, begin)
        if loading.complete:
            break
    found = loading.values(workspace, device, keep_device)
    missing = [name for name in outputs if name not in found]
    if missing and not allow_incomplete:
        by_output = {blob: name for name, blob in (loading.wanted or {}).items()}
        what = ", ".join(repr(by_output.get(name, name)) for name in missing[:8])
        more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        raise StorageError(f"{', '.join(names)}: of {len(outputs)} blobs, {len(found)} are there, and not "
                           f"{what}{more}; allow_incomplete=1 leaves those as they are")
    workspace.values.update(found) if type(workspace.values) is dict else _bind(workspace.values, found)


def _bind(values: MutableMapping[str, Any], found: Mapping[str, Any]) -> None:
    for name, value in found.items():
        values[name] = value


def _read_on(loading: Loading, database: Database, number: int, cursor: Cursor, begin: Any) -> None:
    """Reads what is wanted from where a reader stands; where not all of it is there, from the beginning."""
    before = dict(loading.tensors), dict(loading.others), dict(loading.origin), set(loading.whole)
    loading.read(database, number, cursor)
    if not loading.complete:
        loading.tensors, loading.others, loading.origin, loading.whole = before
        begin()
        loading.read(database, number, cursor)


@contextmanager
def _opened(source: tuple[str, str] | DBReader) -> Iterator[tuple[Database, Cursor, Any]]:
    """A database, a cursor, and for those of a reader how to move it to the beginning."""
    if isinstance(source, tuple):
        with create_db(*source, Mode.read) as database:
            yield database, database.new_cursor(), None
    else:
        with source.lock:
            yield source.database, source.cursor, source.cursor.seek_to_first
