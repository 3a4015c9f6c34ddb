"""Created nets: what CreateNet makes and RunNet runs, one operator after the other.

Everything that can be found out before the run was found by the plan (`netgrad.runtime.planning`).
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NoReturn

from netgrad.proto import caffe2_pb2
from netgrad.runtime import checks
from netgrad.runtime.errors import Cancelled, NetBusy, OperatorError, Place
from netgrad.runtime.locating import Origins, located, place_of, raise_located
from netgrad.runtime.planning.fused import Fused
from netgrad.runtime.planning.plan import CannotPlan, Plan, plain

if TYPE_CHECKING:
    from netgrad.runtime.observers import Observer
    from netgrad.runtime.steps import Step
    from netgrad.runtime.workspace import Workspace

Planner = Callable[[caffe2_pb2.NetDef, "Workspace", "Collection[str] | None"], Plan]


class BoundNet:
    """A net that was created in a workspace: all operators bound, ready to run any number of times.

    Args:
        origins: knows the Python lines of its operators.
        known: names that may be read besides the blobs that are there; None: any.
        planner: makes the plan; the plain one unless given, which is best for what runs once.
    """

    def __init__(self, definition: caffe2_pb2.NetDef, workspace: Workspace, origins: Origins | None = None,
                 known: Collection[str] | None = (), planner: Planner = plain) -> None:
        self.definition = definition
        self.origins = origins
        self.name = definition.name
        #: what the net was made from, to notice edits
        self.source = definition.SerializeToString()
        self.workspace = workspace
        #: what watches its runs
        self.observers: list[Observer] = []
        self._running = threading.Lock()
        self._cancelled = False
        self._left: list[Step | Fused] = []
        try:
            self.plan = planner(definition, workspace, known)
        except CannotPlan as failed:
            workspace.last_failed = failed.position
            raise located(failed.error, self._place(failed.position)) from None
        for operator in definition.op:
            for name in operator.output:
                if name:
                    workspace.values.setdefault(name, None)

    def run(self) -> bool:
        """Runs all operators once, in order; raises the failing one's error, and then later ones have not run.

        Raises `NetBusy` where it runs already, in another thread or in an operator of its own.
        """
        if not self._running.acquire(blocking=False):
            raise NetBusy(f"net {self.name!r} is running already; wait for that run, or create the net once more under "
                          "another name")
        try:
            watched = bool(self.observers or checks.wanted())
            with self.workspace.backend.running():
                if watched:
                    steps = self.plan.reference.copy()
                    self._left = steps  # type: ignore[assignment]
                    self._run_watched(steps)
                else:
                    self._left = self.plan.steps.copy()
                    self._run_steps(self._left)
        except OperatorError:  # an operator that gave up waiting
            if not self._cancelled:
                raise
        finally:
            cancelled = self._cancelled
            if cancelled:
                self._forget_cancelling()
            self._running.release()
        if cancelled:
            raise Cancelled(f"the run of net {self.name!r} was cancelled; the operators that had not begun did not run")
        return True

    def _run_steps(self, steps: list[Step | Fused]) -> None:
        k = 0
        try:
            for k, step in enumerate(steps):  # noqa: B007 (read when one fails)
                step.run()
        except Exception as error:
            self._fail(error, self.plan.blamed(k))

    def cancel(self) -> None:
        """Ends a run that is under way, in another thread, after its current operator; the run raises `Cancelled`.

        Operators that wait (for a queue) look at ``op.cancelled`` and give up.
        """
        if self._running.locked():
            self._cancelled = True
            self._left.clear()
            for step in self.plan.reference:
                if step.call is not None:
                    step.call.cancelled.set()

    def _forget_cancelling(self) -> None:
        self._cancelled = False
        for step in self.plan.reference:
            if step.call is not None:
                step.call.cancelled.clear()

    def _fail(self, error: Exception, position: int) -> NoReturn:
        self.workspace.last_failed = position
        raise_located(error, self._place(position))

    def _run_watched(self, steps: list[Step]) -> None:
        """The plain plan under the eyes of the observers, and with the checks that flags ask for."""
        for observer in self.observers:
            observer.net_begins()
        try:
            for k, step in enumerate(steps):
                run = functools.partial(checks.run, step)
                for observer in self.observers:
                    run = functools.partial(observer.run_operator, k, step, run)
                try:
                    run()
                except Exception as error:
                    self._fail(error, k)
        finally:
            for observer in self.observers:
                observer.net_ends()

    def time_operators(self, rounds: int) -> list[float]:
        """Milliseconds that each operator takes, over several runs of the net."""
        totals = [0.0] * len(self.definition.op)
        with self.workspace.backend.running():
            for _ in range(rounds):
                for position, step in enumerate(self.plan.reference):
                    start = time.perf_counter()
                    step.run()
                    totals[position] += time.perf_counter() - start
        return [total / rounds * 1e3 for total in totals]

    def _place(self, position: int) -> Place:
        return place_of(self.definition.op[position], self.workspace.values, position, self.name, self.origins)
