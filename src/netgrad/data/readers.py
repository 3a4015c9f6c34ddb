"""Readers, writers and pipes: objects that write the operators which read or write one batch of data.

A batch is a list of blobs, one for each column of a schema (`netgrad.graph.records`). What these objects write must be
atomic: the nets are copied for the threads that run them side by side.

A reader or writer is used in three places of a task: ``setup_ex(init_net, finish_net)`` once for the task,
``read_ex(local_init_net, local_finish_net)`` once for each copy; the nets that the latter returns run for each batch.
"""

from __future__ import annotations

from typing import Any

from netgrad.graph.net import Net
from netgrad.graph.plan import ExecutionStep, execution_step
from netgrad.graph.records import Field, from_blob_list


class Reader:
    """Reads batches until there are no more. A subclass says how, in `read` (operators) or `read_ex` (several nets).

    Args:
        schema: what a batch is like; None where it is not known yet.
    """

    def __init__(self, schema: Field | None = None) -> None:
        if schema is not None and not isinstance(schema, Field):
            raise AssertionError(f"the schema of a reader is a Field, such as a Struct, not {schema!r}")
        self._schema = schema

    def schema(self) -> Any:
        """What a batch is like; raises AssertionError where the reader was not told."""
        if self._schema is None:
            raise AssertionError(f"this {type(self).__name__} has no schema; give it one when it is made")
        return self._schema

    def _set_schema(self, schema: Any) -> None:
        self._schema = schema

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        """Writes what runs once before, and once after, all that reads."""

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> tuple[list[Net], Any, Any]:
        """The nets that read a batch.

        Args:
            local_init_net, local_finish_net: nets that run once before and after, in each thread.

        Returns:
            The nets; the boolean blob that says, once they have run, that there was no batch; the batch's blobs.
        """
        net = Net("reader_body")
        should_stop, fields = self.read(net)
        return [net], should_stop, fields

    def read_record_ex(self, local_init_net: Any, local_finish_net: Any) -> tuple[list[Net], Any, Any]:
        """`read_ex`, with the batch as a record where there is a schema."""
        nets, should_stop, fields = self.read_ex(local_init_net, local_finish_net)
        return nets, should_stop, self._as_record(fields)

    def read(self, read_net: Any) -> tuple[Any, Any]:
        """Writes the operators that read a batch into a net.

        Returns:
            The boolean blob that says, once the net has run, that there was no batch; the batch's blobs.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot read into a single net; say how in its method read, "
                                  "or use read_ex")

    def reset(self, net: Any) -> None:
        """Writes the operators that go back to the first batch."""
        raise NotImplementedError(f"{type(self).__name__} cannot go back to its first batch")

    def read_record(self, read_net: Any) -> tuple[Any, Any]:
        """`read`, with the batch as a record where there is a schema."""
        should_stop, fields = self.read(read_net)
        return should_stop, self._as_record(fields)

    def _as_record(self, fields: Any) -> Any:
        return from_blob_list(self._schema, fields) if self._schema else fields

    def execution_step(
        self, reader_net_name: str | None = None, external_should_stop: Any = None
    ) -> tuple[ExecutionStep, Any]:
        """A step that reads all batches; what is done with each is to be added to it.

        Args:
            external_should_stop: a boolean blob that ends it earlier.

        Returns:
            The step, and the batch, as a record where there is a schema.
        """
        net = Net(reader_net_name or "reader")
        should_stop, fields = self.read_record(net)
        if external_should_stop is not None:
            should_stop = net.Or([external_should_stop, should_stop])
        return execution_step(f"{reader_net_name}_step", net, should_stop_blob=should_stop), fields


class Writer:
    """Writes batches. A subclass says how, in `write` (operators) or `write_ex` (several nets)."""

    _schema: Any = None

    def schema(self) -> Any:
        """What the record that was written last is like; None so far."""
        return self._schema

    def write(self, writer_net: Any, fields: Any) -> Any:
        """Writes the operators that write a batch, a list of blobs, into a net."""
        raise NotImplementedError(f"{type(self).__name__} cannot write from a single net; say how in its method write, "
                                  "or use write_ex")

    def write_record(self, writer_net: Any, fields: Any) -> None:
        """`write` for a record (or a list of blobs)."""
        self.write(writer_net, self._as_blobs(fields))

    def _as_blobs(self, fields: Any) -> Any:
        if not isinstance(fields, Field):
            return fields
        self._schema = fields
        return fields.field_blobs()

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        """Writes what runs once before, and once after, all that writes."""
        self.commit(finish_net)

    def write_ex(self, fields: Any, local_init_net: Any, local_finish_net: Any, stop_blob: Any) -> list[Net]:
        """The nets that write a batch; they may set ``stop_blob`` when no more can be written."""
        net = Net("write_net")
        self.write(net, fields)
        return [net]

    def write_record_ex(
        self, fields: Any, local_init_net: Any, local_finish_net: Any, stop_blob: Any = None
    ) -> tuple[list[Net], Any]:
        """`write_ex` for a record (or a list of blobs); returns the nets and the stop blob, a new one if None."""
        blobs = self._as_blobs(fields)
        if stop_blob is None:
            stop_blob = local_init_net.NextName("dequeue_status")
        return self.write_ex(blobs, local_init_net, local_finish_net, stop_blob), stop_blob

    def commit(self, finish_net: Any) -> None:
        """Writes the operators that say that nothing more will be written."""


class ReaderBuilder:
    """Makes readers of one source of data, one for each place that reads it."""

    def schema(self) -> Any:
        raise NotImplementedError(f"say what its batches are like in {type(self).__name__}.schema")

    def setup(self, **kwargs: Any) -> Any:
        """Is called once, before the first `new_reader`; may return the blobs that tell that data ended, by name."""
        raise NotImplementedError(f"say what is to be done before the first reader in {type(self).__name__}.setup")

    def new_reader(self, **kwargs: Any) -> Any:
        """A `Reader`, or what has one (``reader()``)."""
        raise NotImplementedError(f"say how a reader is made in {type(self).__name__}.new_reader")


class PipedReaderBuilder(ReaderBuilder):
    """Readers of another builder, each with something behind it.

    Args:
        builder: makes the readers.
        piper: called with ``reader=`` and the arguments of `new_reader`; returns a reader, or what has one::

            PipedReaderBuilder(builder, lambda reader, **_: pipe(reader, processor=mine))
    """

    def __init__(self, builder: ReaderBuilder, piper: Any) -> None:
        self._builder = builder
        self._piper = piper

    def schema(self) -> Any:
        return self._builder.schema()

    def setup(self, **kwargs: Any) -> Any:
        return self._builder.setup(**kwargs)

    def new_reader(self, **kwargs: Any) -> Any:
        return reader_of(self._piper(reader=self._builder.new_reader(**kwargs), **kwargs))


class Pipe:
    """What is written at one end and read at the other.

    Args:
        schema: of its records; that of the first writer if None.
        obj_key: the attribute (see `netgrad.control.task.get_setup_nets`) as which it is kept by the nets that use it,
            so that its own set-up runs.
    """

    def __init__(self, schema: Field | None = None, obj_key: str | None = None) -> None:
        self._num_writers = 0
        self._num_readers = 0
        self._schema = schema
        self._obj_key = obj_key

    def schema(self) -> Any:
        return self._schema

    def setup(self, global_init_net: Any) -> Any:
        """Writes what runs once, before all tasks that use it."""

    def reader(self) -> Reader:
        raise NotImplementedError(f"say how a {type(self).__name__} is read in its method reader")

    def writer(self) -> Writer:
        raise NotImplementedError(f"say how a {type(self).__name__} is written in its method writer")

    def num_readers(self) -> int:
        return self._num_readers

    def num_writers(self) -> int:
        return self._num_writers

    def _new_writer(self, writer_schema: Any, writer_init_net: Any) -> None:
        if writer_schema is not None and self._schema is None:
            self._schema = writer_schema
        self._num_writers += 1
        self._keep_by(writer_init_net)

    def _new_reader(self, reader_init_net: Any) -> None:
        self._num_readers += 1
        self._keep_by(reader_init_net)

    def _keep_by(self, net: Any) -> None:
        if self._obj_key is not None:
            net.add_attribute(self._obj_key, self)


def reader_of(source: Any) -> Reader:
    """A reader as it is, or that of something that has one; raises ValueError for anything else."""
    if isinstance(source, Reader):
        return source
    if hasattr(source, "reader"):
        return source.reader()  # type: ignore[no-any-return]
    raise ValueError(f"expected a Reader, or something with a method reader (a queue, a dataset), not {source!r}")
