"""Threads that do something again and again until they are told to stop.

::

    coordinator = init_workers(my_function, num_worker_threads=4)    # my_function(worker_id)
    coordinator.start()
    ...
    coordinator.stop()

A worker whose function raises stops the others that `init_workers` made with it. What still runs when Python ends is
stopped.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

log = logging.getLogger("parallel_workers")

#: seconds that `stop` waits for threads, all together
PATIENCE = 5.0


class Metrics:
    """Sums of what was measured, by name, for loggers with a method ``log(dict)``."""

    def __init__(self, external_loggers: Iterable[Any] | None = None) -> None:
        self._external_loggers = list(external_loggers or ())
        self._lock = threading.Lock()
        self.reset_metrics()

    def reset_metrics(self) -> None:
        self._metrics: defaultdict[str, float] = defaultdict(int)

    def log_metrics(self) -> None:
        """Hands the sums to all loggers; one that fails is told of, and the others go on."""
        for logger in self._external_loggers:
            try:
                logger.log(self._metrics)
            except Exception:
                log.exception("the logger %r failed", logger)

    def put_metric(self, key: str, value: float, count: bool = True) -> None:
        """Adds to a sum, and 1 to ``<key>_count`` if wanted."""
        with self._lock:
            self._metrics[key] += value
            if count:
                self._metrics[f"{key}_count"] += 1


class State:
    """What belongs to a group of workers: is started before them, stopped with them, cleaned up when all have ended."""

    def start(self) -> None:
        return

    def stop(self) -> None:
        return

    def cleanup(self) -> None:
        return


class WorkerCoordinator:
    """A group of threads.

    Args:
        worker_name: of the group.
        worker_ids: of its workers.
        init_fun: called as ``init_fun(coordinator, global_coordinator)`` before the threads start.
        shutdown_fun: called when they are stopped.
    """

    def __init__(self, worker_name: str, worker_ids: list[int], init_fun: Callable[[Any, Any], object] | None,
                 state: State | None = None, shutdown_fun: Callable[[], object] | None = None) -> None:
        self._active = True
        self._started = False
        self._workers: list[threading.Thread] = []
        self._worker_name = worker_name
        self._worker_ids = worker_ids
        self._init_fun = init_fun
        self._state = state
        self._shutdown_fun = shutdown_fun
        self._stopping = threading.RLock()

    def is_active(self) -> bool:
        """Whether workers are to go on."""
        return self._active

    def init(self, global_coordinator: Any) -> None:
        if self._init_fun and not self._started:
            self._init_fun(self, global_coordinator)

    def _start(self) -> None:
        if self._started:
            return
        self._active = self._started = True
        if self._state:
            self._state.start()
        for worker in self._workers:
            worker.daemon = True
            worker.start()

    def _stop(self, reason: str | None = None) -> None:
        with self._stopping:
            self._active = False
            if reason is not None:
                log.error("workers %r stop: %s", self._worker_name, reason)
            started, self._started = self._started, False
            try:
                if self._shutdown_fun and started:
                    self._shutdown_fun()
            finally:
                if self._state:
                    self._state.stop()

    def _wait_finish(self, cleanup: Any = None, until: float | None = None) -> bool:
        """Waits for the threads, `PATIENCE` seconds at most, since they may be busy; returns whether all have ended."""
        until = time.monotonic() + PATIENCE if until is None else until
        own = [worker for worker in self._workers if worker.ident and worker is not threading.current_thread()]
        for worker in own:
            worker.join(max(0.0, until - time.monotonic()))
        alive = [worker.name for worker in own if worker.is_alive()]
        if alive:
            log.warning("workers %r: %s did not end in time", self._worker_name, ", ".join(alive))
        elif self._state:
            self._state.cleanup()
        return not alive

    def get_worker_ids(self) -> list[int]:
        return self._worker_ids


class GlobalWorkerCoordinator:
    """All groups of threads, which it starts and stops together."""

    def __init__(self) -> None:
        self._coordinators: list[WorkerCoordinator] = []
        self._fetcher_id_seq = 0
        self._worker_ids: list[int] = []
        self.register_shutdown_handler()

    def add(self, coordinator: WorkerCoordinator) -> None:
        self._coordinators.append(coordinator)

    def get_new_worker_id(self) -> int:
        worker_id = self._fetcher_id_seq
        self._worker_ids.append(worker_id)
        self._fetcher_id_seq += 1
        return worker_id

    def get_worker_ids(self) -> list[int]:
        return self._worker_ids

    def start(self) -> None:
        """Starts what has not been started: first all init functions, one after the other, then the threads."""
        for coordinator in self._coordinators:
            coordinator.init(self)
        for coordinator in self._coordinators:
            coordinator._start()

    def stop(self) -> bool:
        """Stops all groups and forgets them; returns whether all their threads have ended."""
        coordinators, self._coordinators = self._coordinators, []
        return self._end(coordinators)

    def stop_coordinator(self, worker_name: str) -> bool:
        """Stops the groups of a name and forgets them; returns whether all their threads have ended."""
        own = [c for c in self._coordinators if c._worker_name == worker_name]
        self._coordinators = [c for c in self._coordinators if c._worker_name != worker_name]
        return self._end(own)

    @staticmethod
    def _end(coordinators: list[WorkerCoordinator]) -> bool:
        for coordinator in coordinators:
            coordinator._stop()
        until = time.monotonic() + PATIENCE
        ended = [coordinator._wait_finish(until=until) for coordinator in coordinators]  # all of them
        return all(ended)

    def register_shutdown_handler(self) -> None:
        atexit.register(self.stop)


class Worker:
    """What one thread does.

    Args:
        worker_fun: called as ``worker_fun(worker_id)``.
    """

    def __init__(self, coordinator: WorkerCoordinator, worker_id: int, worker_fun: Callable[..., Any] | None = None,
                 metrics: Metrics | None = None) -> None:
        self._coordinator = coordinator
        self._worker_id = worker_id
        self._worker_fun = worker_fun
        self._metrics = metrics if metrics is not None else Metrics()
        self._start_time = 0.0

    def start(self) -> None:
        self._start_time = time.time()

    def run(self) -> None:
        assert self._worker_fun is not None
        self._worker_fun(self._worker_id)

    def handle_exception(self, e: Exception) -> None:
        log.error("worker %s failed", self._worker_id, exc_info=e)
        self._coordinator._stop(f"worker {self._worker_id} raised {type(e).__name__}: {e}")

    def finish(self) -> None:
        self._metrics.put_metric("worker_time", time.time() - self._start_time)
        self._metrics.log_metrics()


global_coordinator = GlobalWorkerCoordinator()


def run_worker(coordinator: WorkerCoordinator, worker: Worker) -> None:
    """What a thread runs: the worker, until its group is stopped."""
    while coordinator.is_active():
        worker.start()
        try:
            worker.run()
        except Exception as e:
            worker.handle_exception(e)
        finally:
            worker.finish()


def init_workers(
    worker_fun: Callable[[int], object], num_worker_threads: int = 2, worker_name: str = "train",
    init_fun: Callable[[Any, Any], object] | None = None, external_loggers: Iterable[Any] | None = None,
    shutdown_fun: Callable[[], object] | None = None,
) -> GlobalWorkerCoordinator:
    """A group of threads that call a function with their number, again and again.

    Args:
        worker_name: of the group.
        init_fun: called as ``init_fun(coordinator, global_coordinator)`` before the threads start.
        external_loggers: are told how long workers worked; see `Metrics`.
        shutdown_fun: called when they are stopped.

    Returns:
        The coordinator of all groups, always the same; ``start()`` it.
    """
    metrics = Metrics(external_loggers)
    ids = [global_coordinator.get_new_worker_id() for _ in range(num_worker_threads)]
    coordinator = WorkerCoordinator(worker_name, ids, init_fun, shutdown_fun=shutdown_fun)
    coordinator._workers = [
        threading.Thread(target=run_worker, name=f"parallel_workers worker id {worker_id}",
                         args=(coordinator, Worker(coordinator, worker_id, worker_fun, metrics)))
        for worker_id in ids]
    global_coordinator.add(coordinator)
    return global_coordinator
