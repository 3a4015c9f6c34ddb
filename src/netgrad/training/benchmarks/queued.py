"""Timing a net that takes its batches from a queue."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from netgrad.graph.net import Net
from netgrad.runtime.current import RunNet, RunNetOnce


def create_queues(names: Sequence[str], capacity: int) -> list[str]:
    """New queues for one blob each."""
    init = Net("create_queues")
    queues = [init.CreateBlobsQueue([], name, num_blobs=1, capacity=max(1, capacity)) for name in names]
    RunNetOnce(init)
    return [str(queue) for queue in queues]


def timed_runs(
    net: str, entries: Sequence[int], per_report: int, what: str, log: logging.Logger
) -> float:
    """Runs a net once for each batch that is queued, the first not counted, and says how fast.

    Args:
        entries: how many entries each batch has.
        per_report: runs between two reports.
        what: what an entry is called.

    Returns:
        Seconds for all but the first batch.
    """
    log.info("the first run, which is not counted")
    RunNet(net)
    begin = last = time.perf_counter()
    for iteration in range(1, len(entries), per_report):
        count = min(per_report, len(entries) - iteration)
        RunNet(net, count)
        now = time.perf_counter()
        speed = sum(entries[iteration:iteration + count]) / max(now - last, 1e-9)
        log.info("%d of %d: %.1f thousand %s per second", iteration, len(entries), speed / 1000, what)
        last = now
    seconds = time.perf_counter() - begin
    log.info("all: %.1f thousand %s per second", sum(entries[1:]) / max(seconds, 1e-9) / 1000, what)
    return seconds
