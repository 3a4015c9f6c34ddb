"""Measuring: every contender in a process of its own, all of a net's at one time, a round each in turn.

All begin with the same parameters and data, and nothing is timed before their first losses agree. Ratios are of rounds
that followed one another, since the speed of machines drifts.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.rivals import OURS, Contender

ROOT = Path(__file__).parent.parent


class Failed(Exception):
    """A contender's process ended, or said something that it should not."""


@dataclass
class Measured:
    """What one contender showed on one net.

    Attributes:
        ms: milliseconds of a step, one number per round.
        losses: of the first steps.
        planning_ms: milliseconds that creating the net took.
        first_ms: milliseconds of the first step.
        operators: how many the net has; None where it has none.
        peak_mb: the largest resident set of its process.
        why: why there are no times; None where there are.
    """

    ms: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    planning_ms: float = 0.0
    first_ms: float = 0.0
    operators: int | None = None
    peak_mb: float = 0.0
    why: str | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.ms)


Results = dict[str, dict[str, Measured]]
"""Net -> contender -> what was measured."""


def ratio(ours: Measured, rival: Measured) -> float | None:
    """The median, over rounds, of our time by the rival's; None if either has none."""
    pairs = [a / b for a, b in zip(ours.ms, rival.ms)]
    return statistics.median(pairs) if pairs else None


class Process:
    """A contender at work on a net."""

    def __init__(self, contender: Contender, net: str, beginning: Path, threads: int, quick: bool,
                 processor_time: bool = False) -> None:
        self.name = contender.name
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed at the end)
        command = [contender.python, "-W", "ignore", "-m", "benchmarks.process", contender.name, net, str(beginning)]
        command += ["--quick"] * quick + ["--processor-time"] * processor_time
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, cwd=ROOT,
            env=environment(threads) | dict(contender.environment))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._errors):
            if file is not None:
                file.close()

    def hear(self) -> Mapping[str, Any]:
        """The next line that it says.

        Raises `Failed` with the error that ended it, if it says none.
        """
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                said: Mapping[str, Any] = json.loads(line)
                return said
        self._errors.seek(0)
        said_last = [line for line in self._errors.read().splitlines() if line and not line[0].isspace()][-1:]
        raise Failed(said_last[0] if said_last else f"its process ended with {self._process.wait()}")

    def ask(self, what: str) -> Mapping[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(what + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        return self.hear()


def environment(threads: int) -> dict[str, str]:
    """This process's environment, with a number of threads; switches of plans and backends are each contender's."""
    own = {k: v for k, v in os.environ.items() if k not in ("NETGRAD_PASSES", "NETGRAD_BACKEND")}
    return own | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "TF_CPP_MIN_LOG_LEVEL": "3"}


def agree(ours: Sequence[float], theirs: Sequence[float], tolerance: tuple[float, float]) -> bool:
    """Whether losses of the first steps are the same, to a tolerance before any update and one after."""
    allowed = [tolerance[0]] + [tolerance[1]] * (len(ours) - 1)
    return len(ours) == len(theirs) and all(
        abs(a - b) <= limit * max(abs(a), 1e-3) for a, b, limit in zip(ours, theirs, allowed))


def measure(net: str, contenders: Sequence[Contender], rounds: int, threads: int = 2, quick: bool = False,
            progress: Callable[[str], None] = lambda text: None, processor_time: bool = False) -> dict[str, Measured]:
    """All contenders on one net.

    Args:
        contenders: ourselves first, whose losses the others' are compared with.
        rounds: how often each is timed.
        quick: with small sizes and steps of a round, to see that all runs.
        progress: hears what goes on.
        processor_time: time that all threads of a process spent computing, instead of time that passed; with one
            thread a fair measure on a machine that others keep busy.
    """
    results = {contender.name: Measured() for contender in contenders}
    with tempfile.TemporaryDirectory() as folder:
        beginning = Path(folder) / "beginning.npz"
        command = [sys.executable, "-m", "benchmarks.process", "beginning", net, str(beginning)]
        progress(f"{net}: initial parameters")
        subprocess.run(command + ["--quick"] * quick, cwd=ROOT, env=environment(threads), check=True)
        processes: dict[str, Process] = {}
        try:
            for contender in contenders:
                progress(f"{net}: {contender.name} begins")
                found = results[contender.name]
                process = Process(contender, net, beginning, threads, quick, processor_time)
                processes[contender.name] = process
                try:
                    said = process.hear()
                except Failed as failed:
                    found.why = str(failed)
                    continue
                found.losses, found.planning_ms, found.first_ms, found.operators = (
                    said[key] for key in ("losses", "planning_ms", "first_ms", "operators"))
                expected = results[OURS].losses
                if expected and not agree(expected, found.losses, contender.tolerance):
                    found.why = f"its losses {found.losses} are not ours, {expected}"
            for k in range(rounds):
                progress(f"{net}: round {k + 1} of {rounds}")
                for name, process in processes.items():
                    if results[name].why is None:
                        _ask(process, "round", results[name])
            for name, process in processes.items():
                if results[name].why is None:
                    _ask(process, "end", results[name])
        finally:
            for process in processes.values():
                process.__exit__(None, None, None)
    return results


def _ask(process: Process, what: str, found: Measured) -> None:
    try:
        said = process.ask(what)
    except Failed as failed:
        found.why, found.ms = str(failed), []
        return
    if "ms" in said:
        found.ms.append(said["ms"])
    else:
        found.peak_mb = said["peak_mb"]
