"""Loading, saving, databases, readers."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from netgrad.graph.arguments import Bool, Float, Int, Ints, Str, Strs
from netgrad.graph.declaration import In, Operator, Out, between
from netgrad.graph.rules import forbidden, no_gradient
from netgrad.graph.shapes import scalar
from netgrad.ops._strings import string_array
from netgrad.proto import caffe2_pb2

_DATABASE = [
    Str("db", "", "its path"), Str("db_type", "", "its kind: minidb, protodb, lmdb, ..."),
    Bool("absolute_path", False, "the path does not begin at the workspace's folder"),
]


class Save(Operator):
    """Writes blobs into a database."""

    inputs = [In("X", "any blobs", variadic=True)]
    arguments = [
        *_DATABASE, Str("strip_prefix", "", "left out of the names"), Strs("blob_name_overrides", (), "other names"),
        Int("chunk_size", None, "elements per record"),
    ]
    effects = {"io"}
    host = True
    gradient = forbidden("it has no output")


class Load(Operator):
    """Reads blobs from databases, or from readers given as inputs."""

    inputs = [In("X, Y, ...", "readers", variadic=True, optional=True)]
    outputs = [Out("blobs", variadic=True, optional=True)]
    arguments = [
        *_DATABASE, Strs("dbs", (), "several paths"), Str("add_prefix", "", "put before the names"),
        Str("strip_prefix", "", "left out of the names"), Strs("source_blob_names", (), "names in the database"),
        Int("keep_device", 0, "onto the device that the blob was saved from"),
        Bool("load_all", False, "whatever is there"),
        Bool("allow_incomplete", False, "blobs that are not there stay as they are"), Ints("shape", ()),
    ]
    effects = {"io", "blobs"}
    host = True
    gradient = no_gradient


_CHECKPOINT = [*_DATABASE, Int("every", 1, "runs between two of them")]


class Checkpoint(Operator):
    """Save, in every n-th run; %d in the path stands for the number of runs."""

    inputs = [In("X", "any blobs", variadic=True)]
    arguments = _CHECKPOINT
    effects = {"io", "state"}
    host = True
    gradient = forbidden("it has no output")


class Snapshot(Operator):
    """Checkpoint under an older name."""

    num_inputs = between(0, None)
    num_outputs = between(0, None)
    arguments = _CHECKPOINT
    effects = {"io", "state"}
    host = True
    gradient = forbidden("it has no output")


class CreateDB(Operator):
    """A reader of a database."""

    outputs = [Out("reader", "opaque")]
    arguments = [
        Str("db", "", "its path"), Str("db_type", "leveldb", "its kind"), Int("num_shards", 1), Int("shard_id", 0),
    ]
    effects = {"io"}
    host = True
    gradient = no_gradient


class DBExists(Operator):
    """Is there such a database?"""

    outputs = [Out("exists", "a scalar bool")]
    arguments = [Str("db_name", ""), Str("db_type", ""), Bool("absolute_path", False)]
    effects = {"io"}
    shape = scalar("bool")
    host = True
    gradient = forbidden()


class CreateBlobsQueueDB(Operator):
    """A reader of the records that go through a queue."""

    inputs = [In("queue", "opaque")]
    outputs = [Out("reader", "opaque")]
    arguments = [
        Int("key_blob_index", -1, "which blob of a record is its key; -1: none"),
        Int("value_blob_index", 0, "which blob is its value"), Float("timeout_secs", 0.0),
    ]
    effects = {"io", "state"}
    host = True
    gradient = forbidden()


class TensorProtosDBInput(Operator):
    """Reads records of tensors from a database, in batches."""

    inputs = [In("data", "a reader")]
    outputs = [Out("output", "(batch_size, ...)", variadic=True)]
    arguments = [Int("batch_size", 0, "0: single records, without the batch's dimension"), Bool("no_prefetch", False)]
    effects = {"io", "state"}
    host = True
    gradient = no_gradient


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
