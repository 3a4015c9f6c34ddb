"""Ending a process that hangs: a call that does not return in time says where it stands, and takes the process with it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator

logger = logging.getLogger("timeout_guard")

#: seconds between the request to stop and the end by force
GRACE = 10.0


class WatcherThread(threading.Thread):
    """Waits for a call to finish.

    If it does not, the stacks of all threads are printed and the process is interrupted, as by Ctrl-C; if it is still
    there after `GRACE` seconds, it is aborted.
    """

    def __init__(self, timeout_secs: float) -> None:
        super().__init__(daemon=True, name="timeout_guard")
        self.timeout_secs = timeout_secs
        self._done = threading.Event()

    @property
    def completed(self) -> bool:
        return self._done.is_set()

    @completed.setter
    def completed(self, value: bool) -> None:
        if value:
            self._done.set()
        else:
            self._done.clear()

    def run(self) -> None:
        if self._done.wait(self.timeout_secs):
            return
        logger.error("a call did not finish within %s s; process %d is stopped", self.timeout_secs, os.getpid())
        _print_stacks()
        os.kill(os.getpid(), signal.SIGINT)
        if self._done.wait(GRACE):
            return
        logger.error("process %d did not stop within %s s; it is aborted", os.getpid(), GRACE)
        _print_stacks()
        os.abort()


def _print_stacks() -> None:
    for file in (sys.stderr, sys.__stderr__):
        with contextlib.suppress(Exception):  # a standard error without a file, as in notebooks
            faulthandler.dump_traceback(file)  # type: ignore[arg-type]
            return


@contextlib.contextmanager
def CompleteInTimeOrDie(timeout_secs: float) -> Iterator[None]:
    """The process dies if the block takes longer. However the block ends, by an error too, the watch ends with it."""
    watcher = WatcherThread(timeout_secs)
    watcher.start()
    try:
        yield
    finally:
        watcher.completed = True


def EuthanizeIfNecessary(timeout_secs: float = 120) -> None:
    """The process dies if it is still there after so many seconds: for programs that hang when they end."""
    WatcherThread(timeout_secs).start()
