"""Queues of records of blobs, between threads. The queues are opaque."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from netgrad.graph.arguments import Bool, Float, Floats, Int, Strs
from netgrad.graph.declaration import In, Operator, Out, between
from netgrad.graph.example import Example, Step
from netgrad.graph.rules import no_gradient
from netgrad.ops._axes import side_by_side

#: seconds after which one who waits looks whether the run was cancelled
_GLANCE = 0.05


class BlobsQueue:
    """A queue of records, each a tuple of ``width`` blobs; both ends wait, until it is closed."""

    def __init__(self, capacity: int, width: int) -> None:
        if capacity < 1 or width < 1:
            raise ValueError(f"capacity is {capacity} and num_blobs {width}: expected at least 1 of each")
        self.capacity, self.width = capacity, width
        self.closed = False
        self._records: deque[tuple[Any, ...]] = deque()
        self._change = threading.Condition()

    def __len__(self) -> int:
        return len(self._records)

    def _wait(self, ready: Callable[[], Any], cancelled: threading.Event | None, seconds: float | None = None) -> None:
        """Waits under the lock until ``ready()``, at most so long; raises `ValueError` when the run is cancelled."""
        end = None if seconds is None else time.monotonic() + seconds
        while not ready():
            if cancelled is not None and cancelled.is_set():
                raise ValueError("the run was cancelled while it waited for the queue")
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return
            self._change.wait(left if cancelled is None else _GLANCE if left is None else min(left, _GLANCE))

    def put(self, records: list[tuple[Any, ...]], cancelled: threading.Event | None = None) -> bool:
        """Appends records, waiting for room; False if the queue is or gets closed."""
        for record in records:
            if len(record) != self.width:
                raise ValueError(f"a record has {len(record)} blobs, but those of the queue have {self.width}")
        with self._change:
            for record in records:
                self._wait(lambda: self.closed or len(self._records) < self.capacity, cancelled)
                if self.closed:
                    return False
                self._records.append(record)
                self._change.notify_all()
        return True

    def take(self, most: int = 1, timeout: float | None = None,
             cancelled: threading.Event | None = None) -> list[tuple[Any, ...]]:
        """The next records, at least one and at most ``most``; none if it is closed and empty, or at a timeout."""
        with self._change:
            self._wait(lambda: self.closed or self._records, cancelled, timeout or None)
            found = [self._records.popleft() for _ in range(min(most, len(self._records)))]
            self._change.notify_all()
            return found

    def close(self) -> None:
        with self._change:
            self.closed = True
            self._change.notify_all()


class _Queue(Operator, abstract=True):
    """What operators on queues share."""

    host = True
    effects = {"state"}
    gradient = no_gradient


class CreateBlobsQueue(_Queue):
    """A queue of records of ``num_blobs`` blobs."""

    outputs = [Out("queue", "opaque")]
    arguments = [
        Int("capacity", 1, "most records in it"), Int("num_blobs", 1, "of a record"),
        Bool("enforce_unique_name", False, "no other blob may have the name"),
        Strs("field_names", (), "one per blob; for statistics"),
    ]
    example = Example({}, {"queue": None}, {"capacity": 2, "num_blobs": 1})

    def kernel(xp: Any, *, capacity: int, num_blobs: int, enforce_unique_name: bool, op: Any) -> Any:
        if enforce_unique_name and isinstance(op.workspace.values.get(op.outputs[0]), BlobsQueue):
            raise ValueError(f"there is a queue {op.outputs[0]!r} already")
        return BlobsQueue(capacity, num_blobs)


_QUEUE = In("queue", "opaque")


class EnqueueBlobs(_Queue):
    """Appends a record; waits for room. Fails if the queue is closed."""

    inputs = [_QUEUE, In("blobs", "the record", variadic=True)]
    outputs = [Out("blobs", "the inputs", variadic=True)]
    num_inputs_outputs = staticmethod(lambda inputs, outputs: inputs == outputs + 1)
    inplace_required = side_by_side(1)
    example = Example(
        {"x": [1.0]},
        {"x": None},
        before=(Step("CreateBlobsQueue", outputs=("queue",), arguments={"capacity": 2, "num_blobs": 1}),),
        inputs=("queue", "x"))

    def kernel(xp: Any, queue: BlobsQueue, *blobs: Any, op: Any) -> Any:
        if not queue.put([blobs], op.cancelled):
            raise ValueError("the queue is closed")
        return tuple(blobs)


class SafeEnqueueBlobs(_Queue):
    """Appends a record; waits for room. The last output says whether the queue was closed."""

    inputs = [_QUEUE, In("blobs", "the record", variadic=True)]
    outputs = [Out("blobs", "the inputs", variadic=True), Out("status", "a scalar bool: was it closed?")]
    num_inputs_outputs = staticmethod(lambda inputs, outputs: inputs == outputs)
    inplace_required = side_by_side(1)
    example = Example(
        {"x": [1.0]},
        {"x": None, "status": False},
        before=(Step("CreateBlobsQueue", outputs=("queue",), arguments={"capacity": 2, "num_blobs": 1}),),
        inputs=("queue", "x"))

    def kernel(xp: Any, queue: BlobsQueue, *blobs: Any, op: Any) -> Any:
        return (*blobs, xp.asarray(not queue.put([blobs], op.cancelled), dtype=xp.bool))


class DequeueBlobs(_Queue):
    """The next record; waits for it. Fails if the queue is closed and empty, or after timeout_secs."""

    inputs = [_QUEUE]
    outputs = [Out("blobs", "the record", variadic=True)]
    arguments = [Float("timeout_secs", 0.0, "0: for ever")]
    example = Example(
        {},
        {"y": [1.0, 2.0]},
        before=(Step("CreateBlobsQueue", outputs=("queue",), arguments={"capacity": 2, "num_blobs": 1}),
         Step("GivenTensorFill", outputs=("x",), arguments={"shape": [2], "values": [1.0, 2.0]}),
         Step("EnqueueBlobs", ("queue", "x"), ("x",))),
        inputs=("queue",))

    def kernel(xp: Any, queue: BlobsQueue, *, timeout_secs: float, op: Any) -> Any:
        records = queue.take(1, timeout_secs, op.cancelled)
        if not records:
            raise ValueError("the queue is closed and empty" if queue.closed else f"nothing came in {timeout_secs} s")
        return records[0]


def _joined(xp: Any, records: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(xp.concat(parts, axis=0) for parts in zip(*records, strict=True))


class SafeDequeueBlobs(_Queue):
    """The next record, or several joined; the last output says whether there are no more."""

    inputs = [_QUEUE]
    outputs = [Out("blobs", "the record", variadic=True), Out("status", "a scalar bool: is it closed and empty?")]
    num_outputs = between(2, None)
    arguments = [Int("num_records", 1, "records to join along the first axis")]
    example = Example(
        {},
        {"y": [1.0, 2.0], "status": False},
        before=(Step("CreateBlobsQueue", outputs=("queue",), arguments={"capacity": 2, "num_blobs": 1}),
         Step("GivenTensorFill", outputs=("x",), arguments={"shape": [2], "values": [1.0, 2.0]}),
         Step("EnqueueBlobs", ("queue", "x"), ("x",))),
        inputs=("queue",))

    def kernel(xp: Any, queue: BlobsQueue, *, num_records: int, op: Any) -> Any:
        records: list[tuple[Any, ...]] = []
        while len(records) < num_records:
            found = queue.take(num_records - len(records), cancelled=op.cancelled)
            if not found:
                break
            records += found
        over = xp.asarray(not records, dtype=xp.bool)
        if not records:
            before = (op.workspace.values.get(name) for name in op.outputs[:-1])
            return (*(xp.zeros((0,), dtype=xp.float32) if blob is None else blob for blob in before), over)
        return (*(records[0] if num_records == 1 else _joined(xp, records)), over)


class WeightedSampleDequeueBlobs(_Queue):
    """The next record of one of several queues, drawn by weight; queues that are closed and empty drop out."""

    inputs = [In("queues", "opaque", variadic=True)]
    outputs = [Out("blobs", "the record", variadic=True), Out("status", "a scalar bool: are all closed and empty?")]
    num_outputs = between(2, None)
    arguments = [
        Floats("weights", (), "one per queue"), Int("table_idx_blob", -1, "which output takes the number of the queue"),
    ]
    effects = {"state", "random"}
    example = Example(
        {},
        {"y": [1.0, 2.0], "status": False},
        {"weights": [1.0]},
        before=(Step("CreateBlobsQueue", outputs=("queue",), arguments={"capacity": 2, "num_blobs": 1}),
         Step("GivenTensorFill", outputs=("x",), arguments={"shape": [2], "values": [1.0, 2.0]}),
         Step("EnqueueBlobs", ("queue", "x"), ("x",))),
        inputs=("queue",))

    def kernel(xp: Any, *queues: BlobsQueue, weights: Any, table_idx_blob: int, op: Any) -> Any:
        if len(weights) != len(queues) or min(weights) < 0 or not sum(weights):
            raise ValueError(f"weights are {list(weights)} for {len(queues)} queues: expected one each, not all zero")
        left = op.state.setdefault("left", list(range(len(queues))))
        while left and sum(weights[k] for k in left) > 0:
            drawn = float(op.rng.uniform()) * sum(weights[k] for k in left)
            for k in left:
                drawn -= weights[k]
                if drawn < 0:
                    break
            found = queues[k].take(cancelled=op.cancelled)
            if found:
                blobs = list(found[0])
                if table_idx_blob >= 0:
                    blobs.insert(table_idx_blob, xp.asarray([k], dtype=xp.int32))
                return (*blobs, xp.asarray(False, dtype=xp.bool))
            left.remove(k)
        empty = [xp.zeros((0,), dtype=xp.float32) for _ in range(op.num_outputs - 1)]
        return (*empty, xp.asarray(True, dtype=xp.bool))


class CloseBlobsQueue(_Queue):
    """Ends a queue: nothing more comes in, what is in it may be taken."""

    inputs = [_QUEUE]
    example = Example(
        {},
        {},
        before=(Step("CreateBlobsQueue", outputs=("queue",), arguments={"capacity": 2, "num_blobs": 1}),),
        inputs=("queue",))

    def kernel(xp: Any, queue: BlobsQueue) -> Any:
        queue.close()
        return ()


class CreateRebatchingQueue(_Queue):
    """A queue of examples, which go in and come out in batches of any size."""

    outputs = [Out("queue", "opaque")]
    arguments = [Int("num_blobs", 1, "of an example"), Int("capacity", 1, "most examples in it")]
    example = Example({}, {"queue": None}, {"capacity": 4, "num_blobs": 1})

    def kernel(xp: Any, *, num_blobs: int, capacity: int) -> Any:
        return BlobsQueue(capacity, num_blobs)


class EnqueueRebatchingQueue(_Queue):
    """Appends an example, or with enqueue_batch one for each row."""

    inputs = [_QUEUE, In("tensors", "the example, or a row for each", variadic=True)]
    arguments = [Bool("enqueue_batch", False)]
    example = Example(
        {"x": [1.0]},
        {},
        before=(Step("CreateRebatchingQueue", outputs=("queue",), arguments={"capacity": 4, "num_blobs": 1}),),
        inputs=("queue", "x"))

    def kernel(xp: Any, queue: BlobsQueue, *tensors: Any, enqueue_batch: bool, op: Any) -> Any:
        if enqueue_batch and (any(t.ndim == 0 for t in tensors) or len({t.shape[0] for t in tensors}) > 1):
            raise ValueError(f"shapes {', '.join(str(t.shape) for t in tensors)}: expected one number of rows")
        examples = list(zip(*tensors, strict=True)) if enqueue_batch else [tensors]
        if not queue.put([tuple(map(xp.asarray, example)) for example in examples], op.cancelled):
            raise ValueError("the queue is closed")
        return ()


class DequeueRebatchingQueue(_Queue):
    """The next ``num_elements`` examples as a batch, or as many as are left when the queue is closed."""

    inputs = [_QUEUE]
    outputs = [Out("tensors", "(examples, ...)", variadic=True)]
    arguments = [Int("num_elements", 1)]
    example = Example(
        {},
        {"y": [1.0, 2.0]},
        {"num_elements": 2},
        before=(Step("CreateRebatchingQueue", outputs=("queue",), arguments={"capacity": 4, "num_blobs": 1}),
         Step("GivenTensorFill", outputs=("x",), arguments={"shape": [2], "values": [1.0, 2.0]}),
         Step("EnqueueRebatchingQueue", ("queue", "x"), arguments={"enqueue_batch": 1})),
        inputs=("queue",))

    def kernel(xp: Any, queue: BlobsQueue, *, num_elements: int, op: Any) -> Any:
        examples: list[tuple[Any, ...]] = []
        while len(examples) < num_elements:
            found = queue.take(num_elements - len(examples), cancelled=op.cancelled)
            if not found:
                break
            examples += found
        if not examples:
            raise ValueError("the queue is closed and empty")
        return tuple(xp.stack(parts) for parts in zip(*examples, strict=True))


class CloseRebatchingQueue(_Queue):
    """Ends a queue of examples."""

    inputs = [_QUEUE]
    example = Example(
        {},
        {},
        before=(Step("CreateRebatchingQueue", outputs=("queue",), arguments={"capacity": 4, "num_blobs": 1}),),
        inputs=("queue",))

    def kernel(xp: Any, queue: BlobsQueue) -> Any:
        queue.close()
        return ()
