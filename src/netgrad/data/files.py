"""Readers of files: of saved columns, kept as a cache where wanted, and of text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from netgrad.control.task import Cluster, TaskGroup
from netgrad.data.dataset import Dataset, RandomizedReader
from netgrad.data.pipeline import pipe
from netgrad.data.readers import Reader
from netgrad.graph.blob import ScopedBlobReference, output_to_list
from netgrad.graph.net import Net
from netgrad.graph.plan import ExecutionStep, execution_step
from netgrad.graph.record_values import data_type_for_dtype
from netgrad.graph.records import Field, Scalar, Struct, from_column_list
from netgrad.graph.scope import NameScope
from netgrad.persist.databases import create_db, registered_dbs
from netgrad.persist.saving import Loading


class DBFileReader(Reader):
    """Reads a database of columns, which `CachedReader` or the operator Save wrote, in an order drawn at random.

    The whole file is read into memory when the reader is set up.

    Args:
        db_path: of the database.
        db_type: its kind; one of `netgrad.persist.databases.registered_dbs`.
        name: what names of its blobs begin with; from the path if None.
        batch_size: examples in a batch.
        loop_over: whether it begins anew at the end.
        field_names: names of the columns in the order of the schema; those in the file, sorted, if None.
    """

    default_name_suffix = "db_file_reader"

    def __init__(self, db_path: str, db_type: str, name: str | None = None, batch_size: int = 100,
                 loop_over: bool = False, field_names: Sequence[str] | None = None) -> None:
        if db_path is None:
            raise AssertionError("db_path is None; name the file of the database")
        if db_type not in registered_dbs():
            raise AssertionError(f"databases of kind {db_type!r} cannot be opened here; there are "
                                 f"{', '.join(registered_dbs())}")
        self.db_path = os.path.expanduser(db_path)
        self.db_type = db_type
        self.name = name or f"{self._extract_db_name_from_db_path()}_{self.default_name_suffix}"
        self.batch_size = batch_size
        self.loop_over = loop_over
        super().__init__(self._init_reader_schema(field_names))
        self.ds = Dataset(self._schema, f"{self.name}_dataset")
        self.ds_reader: RandomizedReader | None = None

    def _init_reader_schema(self, field_names: Sequence[str] | None = None) -> Any:
        return from_column_list(list(field_names) if field_names else self._columns())

    def _columns(self) -> list[str]:
        """Names of the columns in the file, of which only the keys are looked at; raises `StorageError`."""
        loading, found = Loading(), set()
        with create_db(self.db_type, self.db_path) as database:
            cursor = database.new_cursor()
            while cursor.valid():
                found.add(loading.name_of(cursor.key()))
                cursor.next()
        return sorted(found)

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        if self.ds_reader is not None:  # the columns have their blobs; new ones would be others
            self.ds_reader.setup_ex(init_net, finish_net)
            return
        self._init_field_blobs_as_empty(init_net)
        self._feed_field_blobs_from_db_file(init_net)
        self.ds_reader = self.ds.random_reader(init_net, batch_size=self.batch_size, loop_over=self.loop_over)
        self.ds_reader.sort_and_shuffle(init_net)
        self.ds_reader.computeoffset(init_net)

    def read(self, read_net: Any) -> tuple[Any, Any]:
        if self.ds_reader is None:
            raise AssertionError(f"the reader {self.name!r} has to be set up (setup_ex) before it is read")
        return self.ds_reader.read(read_net)

    def _init_field_blobs_as_empty(self, init_net: Any) -> None:
        with NameScope(self.name):
            self.ds.init_empty(init_net)

    def _feed_field_blobs_from_db_file(self, net: Any) -> None:
        net.Load([], self.ds.get_blobs(), db=self.db_path, db_type=self.db_type, absolute_path=True,
                 source_blob_names=self.ds.field_names())

    def _extract_db_name_from_db_path(self) -> str:
        return os.path.basename(self.db_path).rsplit(".", 1)[0]


class CachedReader(DBFileReader):
    """Another reader, read once into a file, and from there ever after::

        cached = CachedReader(reader, "/tmp/cache.minidb")
        session.run(cached.build_cache_step())
        with TaskGroup() as group:
            pipe(cached, writer)
        session.run(group)

    Args:
        original_reader: must know its schema. It is not read where the file is there.
        db_path: of the file.
        db_type: its kind.
        name, batch_size, loop_over: as for `DBFileReader`.
    """

    default_name_suffix = "cached_reader"

    def __init__(self, original_reader: Reader, db_path: str, db_type: str = "minidb", name: str | None = None,
                 batch_size: int = 100, loop_over: bool = False) -> None:
        if original_reader is None:
            raise AssertionError("original_reader is None; give the reader that fills the cache")
        self.original_reader = original_reader
        super().__init__(db_path, db_type, name, batch_size, loop_over)

    def _init_reader_schema(self, field_names: Sequence[str] | None = None) -> Any:
        return self.original_reader.schema()

    def build_cache_step(self, overwrite: bool = False) -> ExecutionStep:
        """The step that fills the file from the original reader; one that does nothing where the file is there.

        Args:
            overwrite: whether a file that is there is replaced.
        """
        if os.path.exists(self.db_path) and not overwrite:
            return execution_step("build_step", [])
        init_net = Net("init")
        self._init_field_blobs_as_empty(init_net)
        with Cluster(), NameScope(self.name), TaskGroup() as group:
            pipe(self.original_reader, self.ds.writer(), num_threads=16)
            copy_step = group.to_task().get_step()
        save_net = Net("save")
        self._save_field_blobs_to_db_file(save_net)
        return execution_step("build_cache", [init_net, copy_step, save_net])

    def _save_field_blobs_to_db_file(self, net: Any) -> None:
        net.Save(self.ds.get_blobs(), [], db=self.db_path, db_type=self.db_type,
                 blob_name_overrides=self.ds.field_names(), absolute_path=True)


class TextFileReader(Reader):
    """Reads lines of a text file with tabs between the fields; strings and float32.

    Args:
        init_net: where the operator that opens the file is written.
        schema: one Scalar for each field of a line.
        num_passes: how often the file is read.
        batch_size: lines in a batch.
    """

    def __init__(self, init_net: Any, filename: str, schema: Field, num_passes: int = 1, batch_size: int = 1) -> None:
        if not isinstance(schema, Struct):
            raise AssertionError(f"the schema of a text file is a Struct, not {schema!r}")
        for name, child in schema.get_children():
            if not isinstance(child, Scalar):
                raise AssertionError(f"field {name!r} of a text file is {child!r}; a line holds nothing but Scalars")
        super().__init__(schema)
        self._reader = init_net.CreateTextFileReader(
            [], filename=filename, num_passes=num_passes,
            field_types=[data_type_for_dtype(dtype) for dtype in schema.field_types()])
        self._batch_size = batch_size

    def read(self, read_net: Any) -> tuple[Any, Any]:
        blobs = output_to_list(read_net.TextFileReaderRead([self._reader], len(self.schema().field_names()),
                                                           batch_size=self._batch_size))
        return read_net.IsEmpty([blobs[0]], ScopedBlobReference(read_net.NextName("should_stop"))), blobs
