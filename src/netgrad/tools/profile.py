"""Where the time of a net goes: each operator's time, operations and bytes, forward and backward side by side.

::

    found = profile(net, workspace, runs=10)
    print(found)                      # a table by operator type
    found.save_trace("trace.json")    # for chrome://tracing or Perfetto
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from netgrad.proto import caffe2_pb2, replace_file
from netgrad.runtime.costs import operator_cost, size_of
from netgrad.runtime.executor import BoundNet
from netgrad.runtime.inference import type_of
from netgrad.runtime.observers import Observer
from netgrad.runtime.workspace import Workspace, definition_of
from netgrad.tools.diagram import BACKWARD, FORWARD, UPDATE, lanes_and_partners

if TYPE_CHECKING:
    from rich.table import Table

    from netgrad.runtime.steps import Step

PHASES = {FORWARD: "forward", BACKWARD: "backward", UPDATE: "update"}
By = Literal["type", "operator"]


@dataclass(frozen=True)
class OperatorProfile:
    """One operator.

    Attributes:
        position: in the net.
        label: its first output, or its type where it has none.
        phase: "forward", "backward" or "update".
        partner: of a gradient operator, the position of the operator that it is the derivative of; else None.
        milliseconds: mean over the runs.
        fastest: the shortest run, in milliseconds.
        flops: floating-point operations, counted or estimated as `netgrad.runtime.costs` says.
        bytes_read, bytes_written: of its inputs and outputs, tensors alone.
    """

    position: int
    type: str
    label: str
    phase: str
    partner: int | None
    milliseconds: float
    fastest: float
    flops: int
    bytes_read: int
    bytes_written: int


@dataclass
class Row:
    """A row of the table: operators of one type, or an operator and its derivative. Times are milliseconds per run."""

    label: str
    count: int = 0
    forward: float = 0.0
    backward: float = 0.0
    update: float = 0.0
    flops: int = 0
    bytes: int = 0

    @property
    def milliseconds(self) -> float:
        return self.forward + self.backward + self.update

    def add(self, operator: OperatorProfile) -> None:
        self.count += operator.partner is None
        setattr(self, operator.phase, getattr(self, operator.phase) + operator.milliseconds)
        self.flops += operator.flops
        self.bytes += operator.bytes_read + operator.bytes_written


@dataclass(frozen=True)
class Profile:
    """What `profile` found.

    Attributes:
        net, backend: names.
        runs: how many runs were measured.
        milliseconds: of one run, mean.
        operators: in the order of the net.
        spans: of the last run: (position, start, duration) in seconds from its start.
    """

    net: str
    backend: str
    runs: int
    milliseconds: float
    operators: list[OperatorProfile]
    spans: list[tuple[int, float, float]] = field(repr=False)

    @cached_property
    def total(self) -> Row:
        total = Row("total")
        for operator in self.operators:
            total.add(operator)
        return total

    def rows(self, by: By = "type") -> list[Row]:
        """The slowest first. A gradient operator counts in the row of the operator that it is the derivative of."""
        found: dict[Any, Row] = {}
        for operator in self.operators:
            home = operator if operator.partner is None else self.operators[operator.partner]
            key, label = (home.type, home.type) if by == "type" else (
                home.position, f"{home.position} {home.type} {home.label}")
            found.setdefault(key, Row(label)).add(operator)
        return sorted(found.values(), key=lambda row: -row.milliseconds)

    def table(self, by: By = "type", rows: int | None = None) -> Table:
        """The table for `rich`; only the first ``rows``."""
        from rich.table import Table
        from rich.text import Text

        head = f"net {self.net}: {self.milliseconds:.3f} ms per run on {self.backend}, mean of {self.runs}"
        table = Table(title=Text(head), title_justify="left", box=None, pad_edge=False, show_footer=True)
        for name, end in zip(_COLUMNS, self._cells(self.total), strict=True):
            first = name == _COLUMNS[0]
            table.add_column(name, footer=end, justify="left" if first else "right", overflow="fold",
                             no_wrap=not first)
        for row in self.rows(by)[:rows]:
            table.add_row(*self._cells(row))
        return table

    def _cells(self, row: Row) -> list[str]:
        share = 100 * row.milliseconds / self.total.milliseconds if self.total.milliseconds else 0.0
        rate = f"{row.flops / row.milliseconds / 1e6:.1f}" if row.milliseconds and row.flops else ""
        times = (f"{ms:.3f}" if ms else "" for ms in (row.forward, row.backward, row.update))
        return [row.label, str(row.count or ""), *times, f"{share:.1f}", f"{row.flops / 1e6:.2f}" if row.flops else "",
                rate, f"{row.bytes / 1e6:.2f}"]

    def __str__(self) -> str:
        return self.text()

    def text(self, by: By = "type", rows: int | None = None, width: int = 120) -> str:
        """The table as plain text."""
        from rich.console import Console

        console = Console(width=width, color_system=None)
        with console.capture() as captured:
            console.print(self.table(by, rows))
        return "\n".join(line.rstrip() for line in captured.get().splitlines())

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {"net": self.net, "backend": self.backend, "runs": self.runs, "milliseconds": self.milliseconds,
                "operators": [asdict(operator) for operator in self.operators]}

    def trace(self) -> dict[str, Any]:
        """The last run in Chrome's trace format: forward, backward and updates are threads; times in microseconds."""
        lanes = list(PHASES.values())
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": f"net {self.net} ({self.backend})"}}]
        events += [{"ph": "M", "name": "thread_name", "pid": 0, "tid": k, "args": {"name": lane}}
                   for k, lane in enumerate(lanes)]
        for position, start, duration in self.spans:
            operator = self.operators[position]
            events.append({
                "ph": "X", "pid": 0, "tid": lanes.index(operator.phase), "name": operator.type, "cat": operator.phase,
                "ts": 1e6 * start, "dur": 1e6 * duration,
                "args": {"position": position, "output": operator.label, "flops": operator.flops,
                         "bytes read": operator.bytes_read, "bytes written": operator.bytes_written}})
        return {"traceEvents": events, "displayTimeUnit": "ms"}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `to_dict` as JSON."""
        _write(path, self.to_dict())

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes `trace` as JSON."""
        _write(path, self.trace())


_COLUMNS = ("operator", "n", "forward ms", "backward ms", "update ms", "%", "MFLOP", "GFLOP/s", "MB")


def _write(path: str | os.PathLike[str], value: Any) -> None:
    with replace_file(os.fspath(path)) as handle:
        handle.write(json.dumps(value).encode())


def profile(net: Any, workspace: Workspace | None = None, runs: int = 10, warmup: int = 1) -> Profile:
    """Runs a net and measures its operators.

    The net is bound anew, and runs ``warmup`` + ``runs`` times: counters advance, parameters are updated.

    Args:
        net: a `Net` or a NetDef.
        workspace: where it runs, which holds what it reads; by default the current one.
        runs: how many runs are measured.
        warmup: how many runs come before, at least one, in which bytes are counted.

    Raises:
        OperatorError: an operator cannot be made or failed.
        ValueError: ``runs`` or ``warmup`` is less than 1.
    """
    if runs < 1 or warmup < 1:
        raise ValueError(f"runs is {runs} and warmup is {warmup}; both must be at least 1")
    workspace = workspace or Workspace.current
    definition = definition_of(net, caffe2_pb2.NetDef)
    bound = BoundNet(definition, workspace)
    sizes, clock = _Sizes(bound), _Clock(bound)
    bound.observers = [sizes]
    bound.run()
    bound.observers = []
    for _ in range(warmup - 1):
        bound.run()
    bound.observers = [clock]
    for _ in range(runs):
        bound.run()
    operators = []
    for position, (op, (lane, partner)) in enumerate(zip(definition.op, lanes_and_partners(definition), strict=True)):
        flops, read, written = sizes.found[position]
        times = clock.times[position]
        operators.append(OperatorProfile(
            position, op.type, op.output[0] if op.output else op.type, PHASES[lane], partner,
            1e3 * sum(times) / runs, 1e3 * min(times), flops, read, written))
    return Profile(definition.name, workspace.backend.name, runs, 1e3 * clock.total / runs, operators, clock.spans)


class _Sizes(Observer):
    """Operations and bytes of each operator, from the tensors that are there when it runs."""

    def __init__(self, net: BoundNet) -> None:
        super().__init__(net)
        self.found = [(0, 0, 0)] * len(net.definition.op)

    def run_operator(self, position: int, step: Step, run: Callable[[], None]) -> None:
        op, values = self.net.definition.op[position], self.net.workspace.values
        inputs = [type_of(values.get(name)) for name in op.input]
        run()
        outputs = [type_of(values.get(name)) for name in op.output]
        self.found[position] = (operator_cost(op, inputs).flops, sum(size_of(t) or 0 for t in inputs),
                                sum(size_of(t) or 0 for t in outputs))


class _Clock(Observer):
    """Seconds of each operator in each run."""

    def __init__(self, net: BoundNet) -> None:
        super().__init__(net)
        self.times: list[list[float]] = [[] for _ in net.definition.op]
        self.spans: list[tuple[int, float, float]] = []
        self.total = self._began = 0.0

    def net_begins(self) -> None:
        self.spans = []
        self._began = time.perf_counter()

    def net_ends(self) -> None:
        self.total += time.perf_counter() - self._began

    def run_operator(self, position: int, step: Step, run: Callable[[], None]) -> None:
        start = time.perf_counter()
        run()
        self._wait(step.outputs)
        end = time.perf_counter()
        self.times[position].append(end - start)
        self.spans.append((position, start - self._began, end - start))

    def _wait(self, names: Iterable[str]) -> None:
        """Until a device has computed them: it works on after the operator has returned."""
        for name in names:
            value: Any = self.net.workspace.values.get(name)
            if str(getattr(value, "device", "cpu")) != "cpu" and math.prod(value.shape):
                self.net.workspace.backend.to_numpy(value.reshape(-1)[:1])
