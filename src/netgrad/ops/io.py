"""Loading, saving, databases, readers."""

from __future__ import annotations

import itertools
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from netgrad.graph.arguments import Bool, Float, Int, Ints, Str, Strs
from netgrad.graph.declaration import In, Operator, Out, between
from netgrad.graph.example import Example, Step
from netgrad.graph.rules import forbidden, no_gradient
from netgrad.graph.shapes import scalar
from netgrad.ops._strings import string_array
from netgrad.proto import caffe2_pb2

_DATABASE = [
    Str("db", "", "its path"), Str("db_type", "", "its kind: minidb, protodb, lmdb"),
    Bool("absolute_path", False, "the path does not begin at the workspace's folder"),
]


def _distinct(names: Sequence[str], what: str) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ValueError(f"{what}: {', '.join(map(repr, twice))} {'is' if len(twice) == 1 else 'are'} there twice")


def _require_database(db: str, db_type: str) -> None:
    if not db or not db_type:
        raise ValueError(f"db is {db!r} and db_type {db_type!r}; say where the database is, and of which kind")


def _save(op: Any, db: str, db_type: str, absolute_path: bool, strip_prefix: str, overrides: Sequence[str],
          chunk_size: int) -> None:
    from netgrad.persist import blobs, saving

    _require_database(db, db_type)
    if overrides and (len(overrides) != len(op.inputs) or strip_prefix):
        raise ValueError(f"there are {len(overrides)} blob_name_overrides for {len(op.inputs)} inputs, and "
                         f"strip_prefix is {strip_prefix!r}; give one name for each, or none, and not both")
    if chunk_size < -1:
        raise ValueError(f"chunk_size is {chunk_size}; it is a number of values, 0 for all, or -1 for the usual")
    _distinct(op.inputs, "inputs")
    names = overrides or [saving.without_prefix(name, strip_prefix) for name in op.inputs]
    _distinct(names, "names of saved blobs")
    saving.save(op.workspace, dict(zip(op.inputs, names, strict=True)), db_type,
                saving.path_in(op.workspace, db, absolute_path), blobs.CHUNK if chunk_size == -1 else chunk_size)


_SAVED = [
    *_DATABASE, Str("strip_prefix", "", "left out of the names, and all before it"),
    Strs("blob_name_overrides", (), "other names"),
    Int("chunk_size", -1, "values per record; 0: all of a tensor in one; -1: a million"),
]


class Save(Operator):
    """Writes blobs into a new database, which is there whole or not at all."""

    inputs = [In("X", "any blobs that can be saved: tensors, strings, counters, maps, ...", variadic=True)]
    arguments = _SAVED
    effects = {"io"}
    host = True
    gradient = forbidden("it has no output")

    def kernel(xp: Any, *, db: str, db_type: str, absolute_path: bool, strip_prefix: str, blob_name_overrides: Any,
               chunk_size: int, op: Any) -> None:
        _save(op, db, db_type, absolute_path, strip_prefix, list(blob_name_overrides), chunk_size)


class Load(Operator):
    """Reads blobs from databases, or from readers given as inputs. None changes if anything is wrong."""

    inputs = [In("X, Y, ...", "readers", variadic=True, optional=True)]
    outputs = [Out("blobs", variadic=True, optional=True)]
    arguments = [
        *_DATABASE, Strs("dbs", (), "several paths"), Str("add_prefix", "", "put before the names"),
        Str("strip_prefix", "", "left out of the names, and all before it"),
        Strs("source_blob_names", (), "names in the database"),
        Bool("keep_device", False, "onto the device that the blob was saved from"),
        Bool("load_all", False, "whatever is there"),
        Bool("allow_incomplete", False, "blobs that are not there stay as they are"), Ints("shape", ()),
    ]
    effects = {"io", "blobs"}
    host = True
    gradient = no_gradient

    def kernel(xp: Any, *, db: str, db_type: str, absolute_path: bool, dbs: Any, add_prefix: str, strip_prefix: str,
               source_blob_names: Any, keep_device: bool, load_all: bool, allow_incomplete: bool, op: Any) -> None:
        from netgrad.persist import saving

        if source_blob_names and (len(source_blob_names) != len(op.outputs) or strip_prefix or load_all):
            raise ValueError(f"there are {len(source_blob_names)} source_blob_names for {len(op.outputs)} outputs, "
                             f"strip_prefix is {strip_prefix!r}, load_all is {load_all}; give one name for each "
                             "output, and neither of the others")
        _distinct(op.outputs, "outputs")
        names = list(source_blob_names) or list(op.outputs)
        _distinct(names, "source_blob_names")
        wanted = None if load_all else dict(zip(names, op.outputs, strict=True))
        saving.load(op.workspace, saving.Loading(wanted, strip_prefix, add_prefix),
                    _readers(op) if op.inputs else _paths(op, db, list(dbs), db_type, absolute_path),
                    outputs=op.outputs, device=op.definition.device_option, keep_device=keep_device,
                    allow_incomplete=allow_incomplete and not load_all)


def _paths(op: Any, db: str, dbs: list[str], db_type: str, absolute_path: bool) -> list[tuple[str, str]]:
    from netgrad.persist.saving import path_in

    for path in dbs or [db]:
        _require_database(path, db_type)
    _distinct(dbs, "dbs")
    return [(db_type, path_in(op.workspace, path, absolute_path)) for path in dbs or [db]]


def _readers(op: Any) -> list[Any]:
    return [_reader(name, op.workspace.values.get(name)) for name in op.inputs]


def _reader(name: str, value: Any) -> Any:
    from netgrad.persist.readers import DBReader

    if not isinstance(value, DBReader):
        raise ValueError(f"{name!r} is no reader of a database; make one with CreateDB")
    return value


class Checkpoint(Operator):
    """Save, whenever the first input is a multiple of ``every``; %d in the path stands for it."""

    inputs = [In("X", "one int64, the iteration; then any blobs that can be saved", variadic=True)]
    arguments = [*_SAVED, Int("every", 1, "iterations between two of them")]
    effects = {"io"}
    host = True
    gradient = forbidden("it has no output")

    def kernel(xp: Any, *, db: str, db_type: str, absolute_path: bool, strip_prefix: str, blob_name_overrides: Any,
               chunk_size: int, every: int, op: Any) -> None:
        _require_database(db, db_type)
        if every < 1:
            raise ValueError(f"every is {every}, expected a number of iterations, at least 1")
        iteration = _iteration(op)
        if iteration % every == 0:
            _save(op, _numbered(db, iteration), db_type, absolute_path, strip_prefix, list(blob_name_overrides),
                  chunk_size)


def _iteration(op: Any) -> int:
    if not op.inputs:
        raise ValueError("its first input is the iteration, and it has none")
    name = op.inputs[0]
    if not op.workspace.has_blob(name):
        raise ValueError(f"there is no blob {name!r}, the iteration")
    value = op.workspace.fetch_blob(name)
    if str(getattr(value, "dtype", "")) != "int64" or value.size == 0:
        raise ValueError(f"{name!r}, the first input, is the iteration: an int64 is expected")
    return int(value.reshape(-1)[0])


_NUMBER = re.compile(r"%([-+ 0#]*)(\d*)(?:ll|l|h|hh|j|z|t)?([diuxXo])|%(.?)", re.DOTALL)


def _numbered(pattern: str, iteration: int) -> str:
    """A path with the iteration in place of its (first) %d, written as C's printf does."""
    left = [iteration]

    def write(found: re.Match[str]) -> str:
        flags, width, kind, other = found.groups()
        if other == "%":
            return "%"
        if kind is None or not left or len(width) > 3:
            raise ValueError(f"the path {pattern!r} has {found.group()!r}; it may have one %d (or %05d, ...), and %%")
        return f"%{flags}{width}{kind}" % left.pop()

    return _NUMBER.sub(write, pattern)


class Snapshot(Checkpoint):
    """Checkpoint under an older name."""

    num_inputs = between(0, None)
    num_outputs = between(0, None)


class CreateDB(Operator):
    """A reader of a database: of its records, or of a share of them."""

    outputs = [Out("reader", "opaque")]
    arguments = [
        Str("db", "", "its path"), Str("db_type", "leveldb", "its kind"),
        Int("num_shards", 1, "readers that share the records"), Int("shard_id", 0, "which of them this is"),
    ]
    effects = {"io"}
    host = True
    gradient = no_gradient

    def kernel(xp: Any, *, db: str, db_type: str, num_shards: int, shard_id: int) -> Any:
        from netgrad.persist.readers import DBReader

        _require_database(db, db_type)
        return DBReader(db_type, db, num_shards, shard_id)


class DBExists(Operator):
    """Is there such a database?"""

    outputs = [Out("exists", "a scalar bool")]
    arguments = [Str("db_name", ""), Str("db_type", ""), Bool("absolute_path", False)]
    effects = {"io"}
    shape = scalar("bool")
    host = True
    gradient = forbidden()

    def kernel(xp: Any, *, db_name: str, db_type: str, absolute_path: bool, op: Any) -> Any:
        from netgrad.persist.databases import db_exists
        from netgrad.persist.saving import path_in

        _require_database(db_name, db_type)
        return xp.asarray(db_exists(db_type, path_in(op.workspace, db_name, absolute_path)))


class CreateBlobsQueueDB(Operator):
    """A reader of the records that go through a queue."""

    inputs = [In("queue", "opaque")]
    outputs = [Out("reader", "opaque")]
    arguments = [
        Int("key_blob_index", -1, "which blob of a record is its key; -1: none"),
        Int("value_blob_index", 0, "which blob is its value"), Float("timeout_secs", 0.0, "0: for ever"),
    ]
    effects = {"io", "state"}
    host = True
    gradient = forbidden()
    example = Example({}, {"reader": None}, before=(Step("CreateBlobsQueue", outputs=("queue",)),), inputs=("queue",))

    def kernel(xp: Any, queue: Any, *, key_blob_index: int, value_blob_index: int, timeout_secs: float, op: Any) -> Any:
        from netgrad.ops.queues import BlobsQueue
        from netgrad.persist.readers import QueueRecords

        if not isinstance(queue, BlobsQueue):
            raise ValueError(f"{op.inputs[0]!r} is no queue; make one with CreateBlobsQueue")
        return QueueRecords(queue, op.inputs[0], key_blob_index, value_blob_index, timeout_secs)


class TensorProtosDBInput(Operator):
    """Reads records of tensors from a database, in batches. The next batch is read while others compute."""

    inputs = [In("data", "a reader")]
    outputs = [Out("output", "(batch_size, ...)", variadic=True)]
    arguments = [
        Int("batch_size", 0, "0: single records, without the batch's dimension"),
        Bool("no_prefetch", False, "read when it runs, and not before"),
    ]
    effects = {"io", "state"}
    host = True
    gradient = no_gradient

    def kernel(xp: Any, reader: Any, *, batch_size: int, no_prefetch: bool, op: Any) -> Any:
        from netgrad.persist import batches
        from netgrad.persist.readers import RecordReader

        if batch_size < 0:
            raise ValueError(f"batch_size is {batch_size}; expected a number of records, or 0")
        if not isinstance(reader, RecordReader):
            raise ValueError(f"{op.inputs[0]!r} is no reader of records; make one with CreateDB or CreateBlobsQueueDB")
        return batches.next_batch(
            op.state, lambda: batches.read_batch(reader, batch_size, op.num_outputs, op.cancelled),
            ahead=reader.ahead and not no_prefetch)


class TextFileReader:
    """Reads the lines of a file, in turn, as many times as asked; threads may share it."""

    def __init__(self, filename: str, passes: int, field_types: Sequence[int]) -> None:
        kinds: dict[int, str] = {caffe2_pb2.TensorProto.FLOAT: "float32", caffe2_pb2.TensorProto.STRING: "string"}
        if passes < 1 or not field_types or not set(field_types) <= set(kinds):
            raise ValueError(f"num_passes is {passes} and field_types are {list(field_types)}: "
                             "expected at least one pass, and FLOAT or STRING for every field")
        if not Path(filename).is_file():
            raise ValueError(f"there is no file {filename!r}")
        self.kinds = [kinds[kind] for kind in field_types]
        self._lines = self._all(filename, passes)
        self._lock = threading.Lock()

    def _all(self, filename: str, passes: int) -> Iterator[list[bytes]]:
        for _ in range(passes):
            with open(filename, "rb") as file:
                for number, line in enumerate(file, 1):
                    fields = line.rstrip(b"\n").split(b"\t")
                    if len(fields) != len(self.kinds):
                        raise ValueError(f"line {number} of {filename!r} has {len(fields)} fields, "
                                         f"expected {len(self.kinds)}")
                    yield fields

    def read(self, most: int) -> list[list[bytes]]:
        """The next lines, fewer than ``most`` at the end; each a list of fields."""
        with self._lock:
            return list(itertools.islice(self._lines, most))


class CreateTextFileReader(Operator):
    """A reader of a text file with tabs between its fields."""

    outputs = [Out("handler", "opaque")]
    arguments = [
        Str("filename", ""), Int("num_passes", 1, "how often the file is read"), Ints("field_types", (), "data types"),
    ]
    effects = {"io"}
    host = True
    gradient = no_gradient

    def kernel(xp: Any, *, filename: str, num_passes: int, field_types: Any) -> Any:
        return TextFileReader(filename, num_passes, field_types)


class TextFileReaderRead(Operator):
    """The next lines of a text file, a tensor for each field."""

    inputs = [In("handler", "opaque")]
    outputs = [Out("fields", "(up to batch_size,)", variadic=True)]
    arguments = [Int("batch_size", 1)]
    effects = {"io", "state"}
    host = True
    gradient = no_gradient

    def kernel(xp: Any, reader: TextFileReader, *, batch_size: int) -> Any:
        lines = reader.read(batch_size)
        columns = zip(*lines, strict=True) if lines else [()] * len(reader.kinds)
        return tuple(string_array(column, (len(column),)) if kind == "string"
                     else xp.asarray([float(x) for x in column], dtype=xp.float32)
                     for column, kind in zip(columns, reader.kinds, strict=True))
