"""Running plans of Caffe2 (PlanDef): nets in steps, repeated, until a blob says stop, in turn or side by side."""

from __future__ import annotations

import functools
import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping

from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import Cancelled, NetError
from netgrad.runtime.executor import BoundNet
from netgrad.runtime.planning.planner import planned
from netgrad.runtime.workspace import Workspace

log = logging.getLogger("netgrad")
Action = Callable[[], object]


def run_plan(plan: caffe2_pb2.PlanDef, workspace: Workspace) -> bool:
    """Creates the nets of a plan and runs its steps in order. The first error ends it, and is raised.

    So does Ctrl-C, which threads of the plan see too: they end after their current operators.
    """
    nets = {net.name: net for net in plan.network}
    private = {name for step in plan.execution_step for name in _networks(step)} - _own_networks(plan.execution_step)
    for name, net in nets.items():
        if name not in private:  # its blobs would be shared by all workspaces below this one
            workspace.create_net(net, overwrite=True)
    stop = _Stop()
    for step in [_Step(step, nets, stop, workspace) for step in plan.execution_step]:
        step.run()
    return True


class _Stop:
    """Ends the steps of a plan that run side by side, when one has failed."""

    def __init__(self) -> None:
        self.is_set = False
        self._nets: set[BoundNet] = set()
        self._lock = threading.Lock()

    def run(self, net: BoundNet) -> None:
        """Runs a net that is cancelled when the others stop."""
        with self._lock:
            if self.is_set:
                return
            self._nets.add(net)
        try:
            net.run()
        finally:
            with self._lock:
                self._nets.discard(net)

    def set(self) -> None:
        with self._lock:
            self.is_set = True
            for net in self._nets:
                net.cancel()


class _Reporter:
    """Runs something every so many seconds while a step runs, and once after it. What it raises is logged."""

    def __init__(self, action: Action, seconds: float) -> None:
        self._action, self._seconds = action, seconds
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        over = False
        while not over:
            over = self._done.wait(self._seconds)
            try:
                self._action()
            except Exception:
                log.exception("a reporter failed; the plan goes on")


class _Step:
    """An execution step of a plan.

    Args:
        nets: those of the plan, for steps that run in a workspace or instance of their own.
        stop: set when a step that runs beside this one has failed.
        alone: whether its nets are its own, since others run nets of the same names at the same time.
    """

    def __init__(self, step: caffe2_pb2.ExecutionStep, nets: Mapping[str, caffe2_pb2.NetDef], stop: _Stop,
                 workspace: Workspace, alone: bool = False) -> None:
        if step.network and step.substep:
            raise NetError(f"step {step.name!r} has both nets and substeps; give it one of them")
        self.definition = step
        self.stop = stop
        self.nets = nets
        self.outside = workspace
        self.alone = alone
        self.substeps: list[_Step] = []
        self.reporters: list[_Step] = []
        if not step.create_workspace:
            self._prepare(workspace)

    def _prepare(self, workspace: Workspace) -> None:
        """Makes what it runs, in the workspace in which it runs."""
        step = self.definition
        self.workspace = workspace
        name = step.should_stop_blob
        if name and name not in workspace.values:
            raise NetError(f"step {step.name!r} stops when blob {name!r} is true, and there is no such blob; feed it, "
                           "or let a net of the plan make it")
        self.actions: list[Action] = [functools.partial(self.stop.run, self._net(name)) for name in step.network]
        instances = max(1, step.num_concurrent_instances)
        self.substeps, self.reporters = [], []
        for substep in step.substep:
            if substep.run_every_ms:
                self.reporters.append(_Step(substep, self.nets, self.stop, workspace, self.alone))
            else:
                self.substeps += [_Step(substep, self.nets, self.stop, workspace, self.alone or k > 0)
                                  for k in range(instances)]

    def _net(self, name: str) -> BoundNet:
        if name not in self.nets or not (self.alone or self.definition.create_workspace):
            return self.workspace.net(name)
        return BoundNet(self.nets[name], self.workspace, planner=planned)

    def run(self) -> None:
        step = self.definition
        if step.create_workspace:
            inside = Workspace(self.outside)
            own = {*step.network, *([step.report_net] if step.report_net else ())} | _own_networks(step.substep)
            for name, net in self.nets.items():
                if name in own:
                    inside.create_net(net)
            self._prepare(inside)
        reports = [_Reporter(reporter.run, reporter.definition.run_every_ms / 1e3) for reporter in self.reporters]
        if step.report_net:
            report = self._net(step.report_net)
            reports.append(_Reporter(report.run, max(1, step.report_interval)))
        self._with(reports)

    def _with(self, reports: list[_Reporter]) -> None:
        if reports:
            with reports[0]:
                self._with(reports[1:])
        else:
            self._run_rounds()

    def _run_rounds(self) -> None:
        actions = self.actions or [substep.run for substep in self.substeps]
        side_by_side = self.definition.concurrent_substeps or self.definition.num_concurrent_instances > 1
        for _ in self._rounds():
            if side_by_side and len(actions) > 1:
                self._side_by_side(actions)
            else:
                for action in actions:
                    action()
                    if self._should_stop():
                        return
            if self._should_stop():
                return

    def _rounds(self) -> Iterable[int]:
        if self.definition.HasField("num_iter"):
            return range(self.definition.num_iter)
        if self.definition.should_stop_blob and not self.definition.only_once:
            return itertools.count()
        return range(1)

    def _should_stop(self) -> bool:
        if self.stop.is_set:
            return True
        name = self.definition.should_stop_blob
        if not name or self.workspace.values.get(name) is None:
            return False
        value = self.workspace.fetch_blob(name)
        if str(getattr(value, "dtype", "")) != "bool" or value.size != 1:
            raise NetError(f"step {self.definition.name!r} stops when blob {name!r} is true; that is one value of type "
                           f"bool, not {getattr(value, 'dtype', type(value).__name__)} of shape "
                           f"{getattr(value, 'shape', ())}")
        return bool(value.all())

    def _side_by_side(self, actions: list[Action]) -> None:
        """Each in a thread of its own; when one fails the others stop after their current operator."""
        errors: list[BaseException] = []

        def guarded(action: Action) -> None:
            try:
                action()
            except BaseException as error:
                if not (self.stop.is_set and isinstance(error, Cancelled)):
                    errors.append(error)
                self.stop.set()

        threads = [threading.Thread(target=guarded, args=(action,), daemon=True) for action in actions]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:  # Ctrl-C
            self.stop.set()
            for thread in threads:
                thread.join(timeout=5)
            raise
        if errors:
            raise errors[0]


def _networks(step: caffe2_pb2.ExecutionStep) -> set[str]:
    """Names of the nets that a step runs, reporters included."""
    return {*step.network, *([step.report_net] if step.report_net else ())}.union(*map(_networks, step.substep))


def _own_networks(steps: Iterable[caffe2_pb2.ExecutionStep]) -> set[str]:
    """Names of the nets that steps run in the workspace that they are given, and not in one of their own."""
    return set().union(*(
        {*step.network, *([step.report_net] if step.report_net else ())} | _own_networks(step.substep)
        for step in steps if not step.create_workspace))
