"""Queues of records as pipes: written by some tasks or steps, read by others; and queues by hand."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from netgrad.control.task import TaskGroup
from netgrad.data.readers import Pipe, Reader, Writer
from netgrad.graph.net import Net
from netgrad.graph.plan import ExecutionStep, execution_step
from netgrad.graph.records import Field

logger = logging.getLogger(__name__)


class QueueReader(Reader):
    """Reads a queue until it is closed and empty; closes it at the end, so that writers stop."""

    #: Caffe2's, which tasks and blobs are called after
    name = "_QueueReader"

    def __init__(self, wrapper: QueueWrapper, num_dequeue_records: int = 1) -> None:
        super().__init__(wrapper.schema())
        self._wrapper = wrapper
        self._num_dequeue_records = num_dequeue_records

    def schema(self) -> Any:
        if self._schema is None:  # a writer may have come since
            self._schema = self._wrapper.schema()
        if self._schema is None:
            raise AssertionError(f"the queue {str(self._wrapper.queue())!r} has no schema; give it one, or write the "
                                 "task that fills it first")
        return self._schema

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        finish_net.CloseBlobsQueue([self._wrapper.queue()], 0)

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> tuple[list[Net], Any, Any]:
        self._wrapper._new_reader(local_init_net)
        net = Net("dequeue")
        should_stop, fields = self._dequeue(net)
        return [net], should_stop, fields

    def read(self, read_net: Any) -> tuple[Any, Any]:
        self._wrapper._new_reader(read_net)
        return self._dequeue(read_net)

    def _dequeue(self, net: Any) -> tuple[Any, Any]:
        names = self.schema().field_names()
        fields, status = dequeue(net, self._wrapper.queue(), len(names), field_names=names,
                                 num_records=self._num_dequeue_records)
        return status, fields


class QueueWriter(Writer):
    """Writes into a queue until it is closed; closes it at the end, so that readers stop when they have all."""

    name = "_QueueWriter"

    def __init__(self, wrapper: QueueWrapper) -> None:
        self._wrapper = wrapper

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        finish_net.CloseBlobsQueue([self._wrapper.queue()], 0)

    def write(self, writer_net: Any, fields: Any) -> Any:
        self._wrapper._new_writer(self.schema(), writer_net)
        return enqueue(writer_net, self._wrapper.queue(), fields)

    def write_ex(self, fields: Any, local_init_net: Any, local_finish_net: Any, stop_blob: Any) -> list[Net]:
        self._wrapper._new_writer(self.schema(), local_init_net)
        net = Net("enqueue")
        enqueue(net, self._wrapper.queue(), fields, stop_blob)
        return [net]


class QueueWrapper(Pipe):
    """A queue that is there already, as a pipe.

    Args:
        handler: the blob with the queue.
        schema: of its records; that of the first writer if None.
        num_dequeue_records: how many records a reader takes at once, joined along the first axis.
    """

    def __init__(self, handler: Any, schema: Field | None = None, num_dequeue_records: int = 1) -> None:
        super().__init__(schema, TaskGroup.LOCAL_SETUP)
        self._queue = handler
        self._num_dequeue_records = num_dequeue_records

    def reader(self) -> QueueReader:
        return QueueReader(self, num_dequeue_records=self._num_dequeue_records)

    def writer(self) -> QueueWriter:
        return QueueWriter(self)

    def queue(self) -> Any:
        """The blob with the queue."""
        return self._queue


class Queue(QueueWrapper):
    """A queue that is made before the tasks that use it run.

    Args:
        capacity: most records in it.
        schema: of its records; that of the first writer if None.
        num_dequeue_records: as for `QueueWrapper`.
    """

    def __init__(
        self, capacity: int, schema: Field | None = None, name: str = "queue", num_dequeue_records: int = 1
    ) -> None:
        net = Net(name)  # for a name that no other queue has
        super().__init__(net.AddExternalInput(net.NextName("handler")), schema, num_dequeue_records)
        self.capacity = capacity
        self._setup_done = False

    def setup(self, global_init_net: Any) -> None:
        if not self._schema:
            raise AssertionError(f"the queue {str(self._queue)!r} has no schema; give it one, or write into it")
        self._setup_done = True
        names = self._schema.field_names()
        global_init_net.CreateBlobsQueue([], [self._queue], capacity=self.capacity, num_blobs=len(names),
                                         field_names=names)


def enqueue(net: Any, queue: Any, data_blobs: Sequence[Any], status: Any = None) -> Any:
    """Writes what puts a record into a queue; returns the boolean blob that says whether the queue was closed.

    A blob that the record holds twice is copied, since each needs an output of its own.
    """
    if status is None:
        status = net.NextName("status")
    blobs: list[Any] = []
    for blob in data_blobs:
        if blob in blobs:
            logger.warning("blob %s is in a record twice; it is copied to be put into the queue", blob)
            blob = net.Copy(blob)
        blobs.append(blob)
    return net.SafeEnqueueBlobs([queue, *blobs], [*blobs, status])[-1]


def dequeue(net: Any, queue: Any, num_blobs: int, status: Any = None, field_names: Sequence[str] | None = None,
            num_records: int = 1) -> tuple[list[Any], Any]:
    """Writes what takes a record from a queue.

    Args:
        num_blobs: how many blobs a record has.
        status: the name of the blob that says whether the queue is closed and empty; a new one if None.
        field_names: what names of the blobs begin with.
        num_records: records to join along the first axis.

    Returns:
        The blobs, and the status.
    """
    if field_names is None:
        names = [net.NextName("data", k) for k in range(num_blobs)]
    elif len(field_names) != num_blobs:
        raise AssertionError(f"{len(field_names)} names are given for the {num_blobs} blobs of a record")
    else:
        names = [net.NextName(name) for name in field_names]
    if status is None:
        status = net.NextName("status")
    *fields, status = net.SafeDequeueBlobs(queue, [*names, status], num_records=num_records)
    return fields, status


def close_queue(step: ExecutionStep, *queues: Any) -> ExecutionStep:
    """A step, and then the closing of queues."""
    net = Net("close_queue_net")
    for queue in queues:
        net.CloseBlobsQueue([queue], 0)
    return execution_step(f"{net}_wraper_step", [step, execution_step(f"{net}_step", net)])
