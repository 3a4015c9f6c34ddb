"""Threads of Python that feed the inputs of a net.

::

    coordinator = init_data_input_workers(model, ["data", "label"], fetch, batch_size=32)    # fetch(worker_id, 32)
    coordinator.start()
    ...
    coordinator.stop()

Fetchers return one array for each input, of any number of examples. Their chunks wait in a queue; another thread makes
batches of them and puts these into a queue of the workspace for each input, where the net takes them. When a fetcher
raises, all of them stop, and so does the net, at the end of what is in the queues.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from netgrad.data.workers import GlobalWorkerCoordinator, Metrics, State, Worker, WorkerCoordinator, run_worker
from netgrad.graph import scope
from netgrad.graph.blob import BlobReference, ScopedBlobReference
from netgrad.graph.operator import CreateOperator
from netgrad.ops.queues import BlobsQueue
from netgrad.proto import caffe2_pb2
from netgrad.runtime.workspace import Workspace

log = logging.getLogger("data_workers")
#: seconds between two reports
LOG_INT_SECS = 60
#: seconds after which one who waits looks whether it is to stop
_GLANCE = 0.5
#: batches that wait for the net, for each input
_CAPACITY = 4

Chunk = list[np.ndarray]


def get_worker_ids(num_workers: int) -> list[int]:
    return list(range(num_workers))


class BatchFeeder(State):
    """Makes batches of what fetchers return, and feeds them to the queues that a net reads.

    Args:
        net: a net or model, which gets the operators that take the batches.
        queue: where chunks wait.
        dont_rebatch: whether chunks are batches as they are.
        batch_columns: of each input the axis along which examples lie; 0 if None.
        timeout: seconds after which the net fails when no batch comes.
    """

    def __init__(
        self, net: Any, input_blob_names: Sequence[Any], batch_size: int, device_option: Any, namescope: str,
        input_source_name: str, queue: queue.Queue[Chunk], metrics: Metrics, dont_rebatch: bool,
        batch_columns: Sequence[int] | None, timeout: float = 600,
    ) -> None:
        if not input_blob_names:
            raise ValueError("there are no inputs to feed; name at least one blob")
        if batch_size < 1 and not dont_rebatch:
            raise ValueError(f"batch_size is {batch_size}; expected at least 1")
        self._input_blob_names = list(input_blob_names)
        self._batch_size = batch_size
        self._batch_columns = [0] * len(self._input_blob_names) if batch_columns is None else list(batch_columns)
        if len(self._batch_columns) != len(self._input_blob_names):
            raise ValueError(f"batch_columns has {len(self._batch_columns)} axes for {len(self._input_blob_names)} "
                             "inputs")
        self._internal_queue = queue
        self._device_option = device_option
        self._namescope = namescope
        self._timeout = timeout
        self._input_source_name = input_source_name
        self._dont_rebatch = dont_rebatch
        self._metrics = metrics
        self._workspace = Workspace.current  # the thread's, whatever the main thread switches to
        self._queues: list[BlobReference] = []
        self._handles: list[BlobsQueue] = []
        self._create_caffe2_queues()
        self._create_caffe2_ops(net)
        #: chunks, or the rest of one, that the next batch begins with
        self._waiting: list[Chunk] = []
        self._inputs = 0
        self._prev_seconds = self._last_warning = time.time()
        self._stopped = threading.Event()

    def start(self) -> None:
        self._inputs = 0
        self._prev_seconds = time.time()

    def stop(self) -> None:
        """Closes the queues: the net takes what is in them, and fails then."""
        self._stopped.set()
        for handle in self._handles:
            handle.close()
        self._log_inputs_per_interval(0, force=True)

    def put(self, chunk: Any, data_input_coordinator: WorkerCoordinator) -> None:
        """Adds what a fetcher returned, waiting for room; None and no examples are passed over.

        Raises:
            TypeError, ValueError: it is not one array for each input, of one number of examples.
        """
        arrays = self._validated(chunk)
        if arrays is None:
            return
        while data_input_coordinator.is_active():
            try:
                self._internal_queue.put(arrays, timeout=_GLANCE)
            except queue.Full:
                continue
            self._log_inputs_per_interval(arrays[0].shape[self._batch_columns[0]] if arrays[0].ndim else 1)
            return

    def _validated(self, chunk: Any) -> Chunk | None:
        if chunk is None:
            log.warning("a fetcher of %r returned None", self._input_source_name)
            return None
        arrays = list(chunk)
        if len(arrays) != len(self._input_blob_names):
            raise ValueError(f"the fetcher of {self._input_source_name!r} returned {len(arrays)} arrays for the "
                             f"{len(self._input_blob_names)} inputs {[str(name) for name in self._input_blob_names]}")
        for name, array in zip(self._input_blob_names, arrays, strict=True):
            if not isinstance(array, np.ndarray):
                raise TypeError(f"the fetcher of {self._input_source_name!r} returned a {type(array).__name__} for "
                                f"input {str(name)!r}; expected a NumPy array")
        if self._dont_rebatch:
            return arrays
        counts = []
        for name, array, axis in zip(self._input_blob_names, arrays, self._batch_columns, strict=True):
            if not -array.ndim <= axis < array.ndim:
                raise ValueError(f"the fetcher of {self._input_source_name!r} returned an array of shape {array.shape} "
                                 f"for input {str(name)!r}, which has no axis {axis} of examples")
            counts.append(array.shape[axis])
        if len(set(counts)) > 1:
            raise ValueError(f"the fetcher of {self._input_source_name!r} returned {counts} examples for its inputs; "
                             "expected one number")
        return arrays if counts[0] else None

    def _get(self, data_input_coordinator: WorkerCoordinator) -> Chunk | None:
        """The next chunk; None when it is to stop."""
        began = warned = time.time()
        while data_input_coordinator.is_active():
            try:
                return self._internal_queue.get(timeout=_GLANCE)
            except queue.Empty:
                if time.time() - warned > 10:
                    log.warning("no data from %r in %.0f seconds", self._input_source_name, time.time() - began)
                    warned = time.time()
        return None

    def _next_batch(self, data_input_coordinator: WorkerCoordinator) -> Chunk | None:
        """The next batch; None when it is to stop."""
        if self._dont_rebatch:
            return self._get(data_input_coordinator)
        axis = self._batch_columns[0]
        while sum(chunk[0].shape[axis] for chunk in self._waiting) < self._batch_size:
            chunk = self._get(data_input_coordinator)
            if chunk is None:
                return None
            self._waiting.append(chunk)
        batch, rest = [], []
        for axis, parts in zip(self._batch_columns, zip(*self._waiting, strict=True), strict=True):
            whole = np.concatenate(parts, axis=axis)
            first, other = np.split(whole, [self._batch_size], axis=axis)
            batch.append(first)
            rest.append(other)
        self._waiting = [rest] if rest[0].shape[self._batch_columns[0]] else []
        return batch

    def _enqueue_batch(self, data_input_coordinator: WorkerCoordinator) -> None:
        batch = self._next_batch(data_input_coordinator)
        if batch is None:
            return
        began = time.time()
        try:
            for handle, array in zip(self._handles, batch, strict=True):
                handle.put([(np.ascontiguousarray(array),)], self._stopped)
        except ValueError:
            if not self._stopped.is_set():
                raise
        finally:
            self._metrics.put_metric("enqueue_time", time.time() - began)

    def _create_caffe2_queues(self) -> None:
        for name in self._input_blob_names:
            queue_name = f"{name}_c2queue_{self._input_source_name}"
            self._workspace.run_operator(
                CreateOperator("CreateBlobsQueue", [], [queue_name], num_blobs=1, capacity=_CAPACITY))
            blob = ScopedBlobReference(queue_name)
            self._queues.append(blob)
            self._handles.append(self._workspace.values[str(blob)])

    def _create_caffe2_ops(self, net: Any) -> None:
        for handle, name in zip(self._queues, self._input_blob_names, strict=True):
            net.DequeueBlobs(handle, name, timeout_secs=float(self._timeout))

    def _log_inputs_per_interval(self, inputs: int, force: bool = False) -> None:
        self._inputs += inputs
        now = time.time()
        seconds = now - self._prev_seconds
        if seconds < LOG_INT_SECS and not force:
            return
        per_second = int(self._inputs / max(seconds, 1e-9))
        waiting = self._internal_queue.qsize()
        log.info("%s/%s: %d inputs/s, %d chunks wait", self._input_source_name, self._namescope, per_second, waiting)
        if waiting < 2 and not force:
            log.warning("fetchers of %r do not keep up: %d chunks wait", self._input_source_name, waiting)
        self._metrics.put_metric("inputs_per_sec", per_second, False)
        self._metrics.put_metric("queue_size", waiting, False)
        self._metrics.put_metric("time_elapsed", seconds, False)
        self._metrics.log_metrics()
        self._metrics.reset_metrics()
        self._inputs = 0
        self._prev_seconds = now


class GlobalCoordinator(GlobalWorkerCoordinator):
    """All groups of fetchers, and the queues where their chunks wait, one for each source."""

    def __init__(self) -> None:
        super().__init__()
        self._queues: dict[str, queue.Queue[Chunk]] = {}

    def get_queue(self, queue_name: str, max_buffered_batches: int) -> queue.Queue[Chunk]:
        if not isinstance(max_buffered_batches, int):
            raise AssertionError(f"max_buffered_batches is {max_buffered_batches!r}; expected a number of chunks")
        if queue_name not in self._queues:
            self._queues[queue_name] = queue.Queue(maxsize=max_buffered_batches)
        return self._queues[queue_name]

    def reset_data_input(self, namescope: str, name: str, net: Any, batch_size: int) -> None:
        """Lets another net read a source, in batches of another size."""
        log.info("%s is read in batches of %d now", name, batch_size)
        for coordinator in self._coordinators:
            state = coordinator._state
            if coordinator._worker_name == name and isinstance(state, BatchFeeder) and state._namescope == namescope:
                state._batch_size = batch_size
                state._create_caffe2_ops(net)

    @staticmethod
    def _end(coordinators: list[WorkerCoordinator]) -> bool:
        ended = GlobalWorkerCoordinator._end(coordinators)
        for coordinator in coordinators:
            if isinstance(coordinator._state, BatchFeeder):
                _empty(coordinator._state._internal_queue)
        return ended


def _empty(waiting: queue.Queue[Chunk]) -> None:
    try:
        while True:
            waiting.get_nowait()
    except queue.Empty:
        return


class DataWorker(Worker):
    """A fetcher: ``worker_fun(worker_id, batch_size)``."""

    def __init__(self, coordinator: WorkerCoordinator, worker_id: int, worker_fun: Callable[[int, int], Any],
                 metrics: Metrics, batch_size: int, batch_feeder: BatchFeeder) -> None:
        super().__init__(coordinator, worker_id, worker_fun, metrics)
        self._batch_size = batch_size
        self._batch_feeder = batch_feeder

    def run(self) -> None:
        assert self._worker_fun is not None
        self._batch_feeder.put(self._worker_fun(self._worker_id, self._batch_size), self._coordinator)

    def finish(self) -> None:
        self._metrics.put_metric("fetcher_time", time.time() - self._start_time)


global_coordinator = GlobalCoordinator()


def enqueuer(coordinator: WorkerCoordinator, batch_feeder: BatchFeeder) -> None:
    """What the thread that makes batches runs."""
    try:
        while coordinator.is_active():
            batch_feeder._enqueue_batch(coordinator)
    except Exception as e:
        log.exception("batches of %r cannot be made", batch_feeder._input_source_name)
        coordinator._stop(f"{type(e).__name__}: {e}")


def init_data_input_workers(
    net: Any, input_blob_names: Sequence[Any], fetch_fun: Callable[[int, int], Any], batch_size: int,
    num_worker_threads: int = 2, input_source_name: str = "train", max_buffered_batches: int = 800,
    init_fun: Callable[[Any, Any], object] | None = None, external_loggers: Iterable[Any] | None = None,
    dont_rebatch: bool = False, batch_columns: Sequence[int] | None = None, timeout: float = 600,
) -> GlobalCoordinator:
    """Threads that feed a net; see the top of this file. For several devices, call it in the scope of each.

    Args:
        net: a net or model, which gets the operators that take the batches.
        input_blob_names: what they write.
        fetch_fun: called as ``fetch_fun(worker_id, batch_size)`` by several threads; returns a list of one array for
            each input. The number of examples is its own choice.
        batch_size: examples in a batch.
        input_source_name: what keeps the data of several sources apart that feed blobs of the same names.
        max_buffered_batches: most chunks that wait.
        init_fun: called as ``init_fun(coordinator, global_coordinator)`` before the threads start.
        external_loggers: are told about speed; see `netgrad.data.workers.Metrics`.
        dont_rebatch: whether what a fetcher returns is a batch as it is.
        batch_columns: of each input the axis along which examples lie; 0 if None.
        timeout: seconds after which the net fails when no batch comes.

    Returns:
        The coordinator of all groups, always the same; ``start()`` it.
    """
    device = scope.CurrentDeviceScope()
    metrics = Metrics(external_loggers)
    feeder = BatchFeeder(
        net, input_blob_names, batch_size,
        caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CPU) if device is None else device, scope.CurrentNameScope(),
        input_source_name, global_coordinator.get_queue(input_source_name, max_buffered_batches), metrics, dont_rebatch,
        batch_columns, timeout=timeout)
    ids = [global_coordinator.get_new_worker_id() for _ in range(num_worker_threads)]
    coordinator = WorkerCoordinator(input_source_name, ids, init_fun, feeder)
    coordinator._workers = [
        threading.Thread(target=run_worker, name=f"data_workers fetcher id {worker_id}",
                         args=(coordinator, DataWorker(coordinator, worker_id, fetch_fun, metrics, batch_size, feeder)))
        for worker_id in ids]
    coordinator._workers.append(threading.Thread(
        target=enqueuer, name=f"Enqueuer {input_source_name} {scope.CurrentNameScope()}", args=(coordinator, feeder)))
    global_coordinator.add(coordinator)
    return global_coordinator
