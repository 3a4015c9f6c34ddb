"""Datasets in memory: tables whose columns are blobs, lists within lists included.

A column ``a:lengths`` says how long the lists are that the other columns below ``a:`` hold, one after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.data.readers import Reader, Writer
from netgrad.graph.blob import output_to_list
from netgrad.graph.net import Net
from netgrad.graph.plan import ExecutionStep, execution_step
from netgrad.graph.record_values import InitEmptyRecord
from netgrad.graph.records import Struct, from_blob_list, from_column_list
from netgrad.graph.scope import NameScope
from netgrad.runtime.current import FeedBlob


class DatasetReader(Reader):
    """Reads a dataset in order, in batches; its cursor is shared by all threads. `Dataset.reader` makes one."""

    def __init__(
        self, dataset: Dataset, name: str | None, batch_size: int = 1, enforce_batch_size: bool = False
    ) -> None:
        super().__init__(dataset.content())
        self.dataset = dataset
        self.name = name or f"{dataset.name}_cursor"
        self.batch_size = batch_size
        self.enforce_batch_size = enforce_batch_size
        self.cursor: Any = None

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        if self.cursor is None:
            self.cursor = init_net.CreateTreeCursor([], init_net.NextScopedBlob(self.name), fields=self.dataset.fields)

    def _require_cursor(self) -> None:
        if self.cursor is None:
            raise AssertionError(f"the reader {self.name!r} has no cursor yet; give it a net to make one in, by "
                                 "dataset.reader(init_net) or setup_ex")

    def read(self, read_net: Any) -> tuple[Any, Any]:
        self._require_cursor()
        return self._read(read_net, "ReadNextBatch", [self.cursor])

    def _read(self, net: Any, operator: str, before: list[Any], **arguments: Any) -> tuple[Any, Any]:
        content = self.dataset.content()
        with NameScope(net.NextName(self.name)):
            fields = output_to_list(getattr(net, operator)(
                before + content.field_blobs(), content.field_names(), batch_size=self.batch_size,
                enforce_batch_size=self.enforce_batch_size, **arguments))
            return net.IsEmpty([fields[0]]), fields

    def reset(self, net: Any) -> None:
        self._require_cursor()
        net.ResetCursor([self.cursor], [])


class RandomizedReader(DatasetReader):
    """Reads a dataset in another order, in batches. `Dataset.random_reader` makes one.

    Before it can be read, `computeoffset` has to be called, and `sort_and_shuffle` where no order was given.

    Args:
        indices: a blob with the order, int64; None: that of `sort_and_shuffle`.
        loop_over: whether it begins anew at the end.
    """

    def __init__(self, dataset: Dataset, name: str | None, indices: Any = None, batch_size: int = 1,
                 loop_over: bool = False, enforce_batch_size: bool = False) -> None:
        super().__init__(dataset, name, batch_size, enforce_batch_size)
        self.indices = indices
        self.offsets: Any = None
        self.loop_over = loop_over

    def computeoffset(self, net: Any) -> None:
        """Writes what finds where every example begins, from the dataset as it is when the net runs."""
        self.reset(net)
        self.offsets = net.ComputeOffset([self.cursor, *self.dataset.content().field_blobs()], "offsets")

    def sort_and_shuffle(
        self, net: Any, sort_by_field: str | None = None, shuffle_size: int = 1, batch_size: int = 1
    ) -> None:
        """Writes what draws an order: examples in blocks at random, sorted in a block, batches of it shuffled.

        Args:
            sort_by_field: the column to sort by; none if None.
            shuffle_size: of a block, in batches.
            batch_size: of a batch.
        """
        content = self.dataset.content()
        names = content.field_names()
        if sort_by_field and sort_by_field not in names:
            raise AssertionError(f"the dataset {self.dataset.name!r} has no column {sort_by_field!r} to sort by; it "
                                 f"has {names}")
        self.reset(net)
        self.indices = net.SortAndShuffle(
            [self.cursor, *content.field_blobs()], "indices",
            sort_by_field_idx=names.index(sort_by_field) if sort_by_field else -1,
            shuffle_size=shuffle_size, batch_size=batch_size)

    def read(self, read_net: Any) -> tuple[Any, Any]:
        self._require_cursor()
        if self.indices is None:
            raise AssertionError(f"the reader {self.name!r} has no order; call sort_and_shuffle, or give it indices")
        if self.offsets is None:
            raise AssertionError(f"the reader {self.name!r} does not know where examples begin; call its computeoffset")
        return self._read(read_net, "ReadRandomBatch", [self.cursor, self.indices, self.offsets],
                          loop_over=self.loop_over)


class DatasetWriter(Writer):
    """Adds batches to the end of a dataset, from any number of threads. `Dataset.writer` makes one."""

    #: Caffe2's, which tasks and blobs are called after
    name = "_DatasetWriter"

    def __init__(self, content: Any) -> None:
        self._content = content
        self.mutex: Any = None

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        if self.mutex is None:
            self.mutex = init_net.CreateMutex([])

    def write(self, writer_net: Any, fields: Any) -> None:
        """Writes the operators that check a batch, a list of one blob for each column, and add it."""
        if self.mutex is None:
            raise AssertionError("the writer of a dataset has no mutex yet; give it a net to make one in, by "
                                 "dataset.writer(init_net) or setup_ex")
        columns, names = self._content.field_blobs(), self._content.field_names()
        if len(fields) != len(columns):
            raise AssertionError(f"the dataset has {len(columns)} columns, {names}, but {len(fields)} blobs are to be "
                                 "written")
        writer_net.CheckDatasetConsistency(fields, [], fields=names)
        writer_net.AtomicAppend([self.mutex, *columns, *fields], columns)


def Const(net: Any, value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Feeds a value to a new external input of a net, now and in the current workspace; returns the blob.

    Args:
        name: what its name begins with.
    """
    if not isinstance(net, Net):
        raise AssertionError(f"expected a Net, not {net!r}")
    blob = net.AddExternalInput(net.NextName(prefix=name))
    FeedBlob(str(blob), np.array(value, dtype=dtype))
    return blob


def execution_step_with_progress(name: str, init_net: Any, substeps: Any, rows_read: Any) -> ExecutionStep:
    """Steps side by side, with the blob ``rows_read`` printed every five seconds."""
    report_net = Net("report_net")
    report_net.Print([rows_read], [])
    return execution_step(name, substeps, report_net=report_net, concurrent_substeps=True, report_interval=5)


class Dataset:
    """A table in memory, one blob for each column.

    It has to be filled: by `init_empty` and a `writer`, by `init_from_dataframe`, or from a record with blobs.

    Args:
        fields: a record (`netgrad.graph.records.Struct`), or names of columns such as ``["user", "likes:lengths"]``.
        name: what its blobs' names begin with.

    Attributes:
        fields: names of the columns.
        field_types: their dtypes; void where only names were given.
        field_blobs: their blobs; None so far.
    """

    def __init__(self, fields: Any, name: str | None = None) -> None:
        if not isinstance(fields, list | Struct):
            raise AssertionError(f"the columns of a dataset are a Struct or a list of names, not {fields!r}")
        record: Any = from_column_list(fields) if isinstance(fields, list) else fields
        self.schema = record
        self.fields = record.field_names()
        self.field_types = record.field_types()
        self.name = name or "dataset"
        self.field_blobs: Any = record.field_blobs() if record.has_blobs() else None

    def _require_blobs(self) -> None:
        if not self.field_blobs:
            raise AssertionError(f"the dataset {self.name!r} has no blobs yet; call init_empty or init_from_dataframe")

    def trim(self, net: Any, multiple_of: int) -> None:
        """Writes what drops examples at the end, so that their number is a multiple."""
        self._require_blobs()
        net.TrimDataset(self.field_blobs, self.field_blobs, fields=self.fields, multiple_of=multiple_of)

    def init_empty(self, init_net: Any) -> None:
        """Writes what makes all columns empty; they are new blobs."""
        self.field_blobs = InitEmptyRecord(init_net, self.schema.clone_schema()).field_blobs()

    def init_from_dataframe(self, net: Any, dataframe: Any) -> None:
        """Feeds the columns of a Pandas dataframe, now and in the current workspace; the net gets them as inputs."""
        if len(self.fields) != len(dataframe.columns):
            raise AssertionError(f"the dataset {self.name!r} has {len(self.fields)} columns, {self.fields}, the "
                                 f"dataframe {len(dataframe.columns)}")
        self.field_blobs = [Const(net, dataframe.iloc[:, k].to_numpy(), name=field)
                            for k, field in enumerate(self.fields)]

    def get_blobs(self) -> Any:
        """The columns' blobs; None so far."""
        return self.field_blobs

    def content(self) -> Any:
        """The whole dataset as a record of blobs."""
        self._require_blobs()
        return from_blob_list(self.schema, self.field_blobs)

    def field_names(self) -> list[str]:
        """Names of the columns."""
        return self.fields  # type: ignore[no-any-return]

    def reader(self, init_net: Any = None, cursor_name: str | None = None, batch_size: int = 1,
               enforce_batch_size: bool = False) -> DatasetReader:
        """Reads it in order. It must not be written to meanwhile.

        Args:
            init_net: where the cursor is made; None: by whoever uses the reader (as `pipe` does).
            cursor_name: of its blob.
            batch_size: examples in a batch; the last one may have fewer.
            enforce_batch_size: leaves a smaller last batch out.
        """
        self._require_blobs()
        reader = DatasetReader(self, cursor_name, batch_size, enforce_batch_size)
        if init_net is not None:
            reader.setup_ex(init_net, None)
        return reader

    def random_reader(self, init_net: Any = None, indices: Any = None, cursor_name: str | None = None,
                      batch_size: int = 1, loop_over: bool = False,
                      enforce_batch_size: bool = False) -> RandomizedReader:
        """Reads it in another order; see `RandomizedReader`. It must not be written to meanwhile."""
        self._require_blobs()
        reader = RandomizedReader(self, cursor_name, indices, batch_size, loop_over, enforce_batch_size)
        if init_net is not None:
            reader.setup_ex(init_net, None)
        return reader

    def writer(self, init_net: Any = None) -> DatasetWriter:
        """Adds to it. It must not be read meanwhile.

        Args:
            init_net: where the writer's mutex is made; None: by whoever uses the writer (as `pipe` does).
        """
        self._require_blobs()
        writer = DatasetWriter(self.content())
        if init_net is not None:
            writer.setup_ex(init_net, None)
        return writer
