"""Running plans: nets in steps, repeated, until a blob says stop, one after the other or side by side."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import NetError
from netgrad.runtime.workspace import Workspace


def run_plan(plan: caffe2_pb2.PlanDef, workspace: Workspace) -> bool:
    """Creates the nets of a plan and runs its steps in order. The first error ends it, and is raised."""
    for net in plan.network:
        workspace.create_net(net, overwrite=True)
    nets = {net.name: net for net in plan.network}
    stop = threading.Event()
    for step in [_Step(step, nets, stop) for step in plan.execution_step]:
        step.run(workspace)
    return True


class _Step:
    """An execution step of a plan.

    Args:
        nets: those of the plan, for steps that run in a workspace of their own.
        stop: set when a step that runs beside this one has failed.
    """

    def __init__(self, step: caffe2_pb2.ExecutionStep, nets: Mapping[str, caffe2_pb2.NetDef],
                 stop: threading.Event) -> None:
        if step.network and step.substep:
            raise NetError(f"step {step.name!r} has both nets and substeps; give it one of them")
        self.definition = step
        self.nets = nets
        self.stop = stop
        self.substeps = [_Step(substep, nets, stop) for substep in step.substep]
        self.ran = False

    def run(self, workspace: Workspace) -> None:
        step = self.definition
        if step.only_once and self.ran:
            return
        self.ran = True
        if step.create_workspace:
            workspace = Workspace(workspace)
            for name in self._networks():
                workspace.create_net(self.nets[name])
        actions: list[Callable[[], Any]] = [functools.partial(substep.run, workspace) for substep in self.substeps]
        actions += [workspace.net(name).run for name in step.network]
        for _ in self._rounds():
            if step.concurrent_substeps and self.substeps:
                self._side_by_side(actions * max(1, step.num_concurrent_instances))
            else:
                for action in actions:
                    action()
                    if self._should_stop(workspace):
                        return
            if self._should_stop(workspace):
                return

    def _networks(self) -> set[str]:
        """The plan's nets that this step runs."""
        return {n for n in self.definition.network if n in self.nets}.union(*(s._networks() for s in self.substeps))

    def _rounds(self) -> Iterable[int]:
        if self.definition.HasField("num_iter"):
            return range(self.definition.num_iter)
        return itertools.count() if self.definition.should_stop_blob else range(1)

    def _should_stop(self, workspace: Workspace) -> bool:
        if self.stop.is_set():
            return True
        name = self.definition.should_stop_blob
        return bool(name) and workspace.values.get(name) is not None and bool(workspace.fetch_blob(name).all())

    def _side_by_side(self, actions: list[Callable[[], Any]]) -> None:
        """Each in a thread of its own; when one fails the others stop after their current net."""
        errors: list[BaseException] = []

        def guarded(action: Callable[[], Any]) -> None:
            try:
                action()
            except BaseException as error:
                errors.append(error)
                self.stop.set()

        threads = [threading.Thread(target=guarded, args=(action,), daemon=True) for action in actions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
