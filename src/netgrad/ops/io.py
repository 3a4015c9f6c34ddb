"""Loading, saving, databases, readers."""

from __future__ import annotations

from netgrad.graph.arguments import Bool, Float, Int, Ints, Str, Strs
from netgrad.graph.declaration import In, Operator, Out, between
from netgrad.graph.rules import forbidden, no_gradient
from netgrad.graph.shapes import scalar

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


class CreateTextFileReader(Operator):
    """A reader of a text file with tabs between its fields."""

    outputs = [Out("handler", "opaque")]
    arguments = [
        Str("filename", ""), Int("num_passes", 1, "how often the file is read"), Ints("field_types", (), "data types"),
    ]
    effects = {"io"}
    host = True
    gradient = no_gradient


class TextFileReaderRead(Operator):
    """The next lines of a text file, a tensor for each field."""

    inputs = [In("handler", "opaque")]
    outputs = [Out("fields", "(up to batch_size,)", variadic=True)]
    arguments = [Int("batch_size", 1)]
    effects = {"io", "state"}
    host = True
    gradient = no_gradient
