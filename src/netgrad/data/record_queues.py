"""A queue of records that steps fill and empty, made at once in the current workspace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.data.readers import Reader, Writer
from netgrad.graph.net import Net
from netgrad.graph.plan import ExecutionStep, execution_step
from netgrad.graph.records import Field, Struct, from_column_list
from netgrad.graph.scope import NameScope
from netgrad.runtime.current import RunNetOnce


class RecordQueueReader(Reader):
    """Reads a `RecordQueue` until it is closed and empty."""

    def __init__(self, blobs_queue: Any, schema: Field, name: str | None = None) -> None:
        super().__init__(schema)
        self.blobs_queue = blobs_queue
        self.name = name

    def read(self, read_net: Any) -> tuple[Any, Any]:
        with NameScope(read_net.NextName(self.name)):
            status = read_net.NextName()
            *fields, status = read_net.SafeDequeueBlobs(self.blobs_queue, [*self.schema().field_names(), status])
            return status, fields


class RecordQueueWriter(Writer):
    """Writes into a `RecordQueue`."""

    #: Caffe2's, which tasks and blobs are called after
    name = "_QueueWriter"

    def __init__(self, blobs_queue: Any, schema: Field) -> None:
        self.blobs_queue = blobs_queue
        self._schema = schema
        self._columns = schema.field_names()

    def write(self, writer_net: Any, fields: Any) -> Any:
        """Writes what checks a batch and puts it into the queue; returns the blob that says whether it was closed."""
        blobs = fields.field_blobs() if isinstance(fields, Field) else list(fields)
        writer_net.CheckDatasetConsistency(blobs, [], fields=self._columns)
        status = writer_net.NextName()
        writer_net.SafeEnqueueBlobs([self.blobs_queue, *blobs], [*blobs, status])
        return status


class RecordQueue:
    """Between steps that produce records and steps that use them.

    Args:
        fields: a record, or names of columns.
        capacity: most records in it.
        enforce_unique_name: whether a queue of that name must not be there yet.
        num_threads: how many steps of `build` fill it.

    Attributes:
        reader, writer: its ends.
        exit_step: closes it.
    """

    def __init__(self, fields: Any, name: str | None = None, capacity: int = 1, enforce_unique_name: bool = False,
                 num_threads: int = 1) -> None:
        if not isinstance(fields, list | Struct):
            raise AssertionError(f"the columns of a queue are a Struct or a list of names, not {fields!r}")
        schema: Any = from_column_list(fields) if isinstance(fields, list) else fields
        self.schema = schema
        self.name = name or "queue"
        self.num_threads = num_threads
        init_net = Net(f"{self.name}/init_net")
        self.blobs_queue = init_net.CreateBlobsQueue([], 1, capacity=capacity, num_blobs=len(schema.field_names()),
                                                     enforce_unique_name=enforce_unique_name)
        RunNetOnce(init_net)
        self.writer = RecordQueueWriter(self.blobs_queue, schema)
        self.reader = RecordQueueReader(self.blobs_queue, schema, f"{self.name}_reader")
        exit_net = Net(f"{self.name}/exit_net")
        exit_net.CloseBlobsQueue(self.blobs_queue, 0)
        self.exit_step = execution_step(f"{exit_net}_close_step", exit_net)

    def build(
        self, reader: Reader, process: Callable[[Any, Any], Any] | None = None
    ) -> tuple[RecordQueueReader, ExecutionStep, ExecutionStep, Any]:
        """Steps that fill the queue from a reader.

        Args:
            process: called with a net and the record read; writes operators, returns the record to put into the queue.

        Returns:
            The queue's reader; the step that fills it, to be run beside the one that reads; the step that closes it, to
            be run after the former; the schema.
        """
        producers = []
        for k in range(self.num_threads):
            read_net = Net(f"reader_{k}")
            should_stop, fields = reader.read_record(read_net)
            write_net = Net(f"queue_writer{k}")
            record = process(write_net, fields) if process else fields
            closed = self.writer.write(write_net, record.field_blobs())
            write_net.Or([should_stop, closed], [should_stop])  # nobody reads any more
            producers.append(execution_step(
                f"producer_{k}",
                [execution_step(f"reader_{k}", read_net), execution_step(f"queue_writer{k}", write_net)],
                should_stop_blob=should_stop))
        producer_step = execution_step("producers", producers, concurrent_substeps=True)
        return self.reader, producer_step, self.exit_step, self.schema
