"""Observers: what watches a created net while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from netgrad.runtime.errors import NetError
from netgrad.runtime.workspace import Workspace

if TYPE_CHECKING:
    from netgrad.runtime.executor import BoundNet
    from netgrad.runtime.steps import Step


class Observer:
    """Watches a net. Subclass it, give it a name in `kinds`, and ``net.AddObserver(name)`` makes one.

    A net that has observers calls `run_operator` for each of its operators, which must run it.
    """

    kinds: ClassVar[dict[str, Callable[[BoundNet], Observer]]] = {}

    def __init__(self, net: BoundNet) -> None:
        self.net = net

    def net_begins(self) -> None:
        """Called before a run."""

    def net_ends(self) -> None:
        """Called after a run, failed ones included."""

    def run_operator(self, position: int, step: Step, run: Callable[[], None]) -> None:
        """Runs the operator at a position: ``run()`` does, other observers included."""
        run()

    def average_time(self) -> float:
        raise NetError(f"{type(self).__name__} measures no time; TimeObserver does")

    def average_time_children(self) -> float:
        raise NetError(f"{type(self).__name__} measures no time; TimeObserver does")

    def debug_info(self) -> str:
        return "Not implemented."


class TimeObserver(Observer):
    """Milliseconds: of the runs of the net, and of the runs of its operators."""

    def __init__(self, net: BoundNet) -> None:
        super().__init__(net)
        self._runs = self._operators = 0
        self._total = self._inside = self._began = 0.0

    def net_begins(self) -> None:
        self._began = time.perf_counter()

    def net_ends(self) -> None:
        self._total += time.perf_counter() - self._began
        self._runs += 1

    def run_operator(self, position: int, step: Step, run: Callable[[], None]) -> None:
        began = time.perf_counter()
        run()
        self._inside += time.perf_counter() - began
        self._operators += 1

    def average_time(self) -> float:
        """Milliseconds of a run of the net."""
        return 1e3 * self._total / max(1, self._runs)

    def average_time_children(self) -> float:
        """Milliseconds of a run of one of its operators."""
        return 1e3 * self._inside / max(1, self._operators)


class RunCountObserver(Observer):
    """How many operators have run, over all runs of the net; those of recurrent networks' steps are counted, too."""

    def __init__(self, net: BoundNet) -> None:
        super().__init__(net)
        self.count = 0

    def run_operator(self, position: int, step: Step, run: Callable[[], None]) -> None:
        run()
        inside = None if step.call is None else step.call.inside
        self.count += 1 + getattr(inside, "operators_run", 0)

    def debug_info(self) -> str:
        return f"{self.count} operators have run."


class ProfileObserver(Observer):
    """Milliseconds and number of runs of each operator, by position in the net."""

    def __init__(self, net: BoundNet) -> None:
        super().__init__(net)
        self.times = [0.0] * len(net.definition.op)
        self.counts = [0] * len(net.definition.op)

    def run_operator(self, position: int, step: Step, run: Callable[[], None]) -> None:
        began = time.perf_counter()
        run()
        self.times[position] += 1e3 * (time.perf_counter() - began)
        self.counts[position] += 1

    def debug_info(self) -> str:
        rows = [f"{position:5} {op.type:32} {total / max(1, count):10.4f} ms x {count}" for position, (op, total, count)
                in enumerate(zip(self.net.definition.op, self.times, self.counts))]
        return "\n".join(rows)


Observer.kinds.update(TimeObserver=TimeObserver, RunCountObserver=RunCountObserver, ProfileObserver=ProfileObserver)


def AddObserverToNet(net_name: str, kind: str) -> Observer:
    """Makes an observer of that kind watch a created net of the current workspace.

    Raises `NetNotFound`, or `NetError` where there is no such kind.
    """
    net = Workspace.current.net(net_name)
    if kind not in Observer.kinds:
        raise NetError(f"there is no observer {kind!r}; there are {', '.join(sorted(Observer.kinds))}")
    made = Observer.kinds[kind](net)
    net.observers.append(made)
    return made


def RemoveObserverFromNet(net_name: str, observer: Observer) -> None:
    """Ends what `AddObserverToNet` began; raises `NetError` where that observer does not watch the net."""
    observers = Workspace.current.net(net_name).observers
    if observer not in observers:
        raise NetError(f"that observer does not watch net {net_name!r}")
    observers.remove(observer)


def NumObserversOnNet(net_name: str) -> int:
    return len(Workspace.current.net(net_name).observers)
