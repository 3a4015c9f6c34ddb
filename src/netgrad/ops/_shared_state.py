"""The opaque blobs that nets share among threads: counters, flags, locks, statistics, timers."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping


class Counter:
    """A number that threads may change."""

    def __init__(self, value: int = 0) -> None:
        self._lock = threading.Lock()
        self.value = value

    def add(self, step: int) -> int:
        """Adds, and returns the value before."""
        with self._lock:
            before = self.value
            self.value += step
            return before

    def exchange(self, value: int) -> int:
        """Sets, and returns the value before."""
        with self._lock:
            before, self.value = self.value, value
            return before


class Flag:
    """A truth value that threads may set."""

    def __init__(self) -> None:
        self.value = False


class Mutex:
    """A lock, for use in a with statement."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Registry:
    """Statistics: whole numbers by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, int] = {}
        self._first: dict[str, int] = {}

    def add(self, values: Mapping[str, int]) -> None:
        with self._lock:
            for name, value in values.items():
                self._values[name] = self._values.get(name, 0) + value

    def first(self, name: str, value: int) -> int:
        """The first value that was noted under the name."""
        with self._lock:
            return self._first.setdefault(name, value)

    def export(self, reset: bool) -> dict[str, int]:
        """All statistics; with ``reset`` they are zero afterwards."""
        with self._lock:
            found = dict(self._values)
            if reset:
                self._values = dict.fromkeys(self._values, 0)
            return found


_global = Registry()


def global_registry() -> Registry:
    """The statistics of this process."""
    return _global


class Timer:
    """Runs from when it is made."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._start = time.perf_counter_ns()

    def nanoseconds(self) -> int:
        return time.perf_counter_ns() - self._start

    def end(self, registry: Registry) -> int:
        """Adds the time so far to the statistics, and returns it."""
        passed = self.nanoseconds()
        registry.add({f"{self.name}/time_ns/sum": passed, f"{self.name}/time_ns/count": 1})
        return passed
