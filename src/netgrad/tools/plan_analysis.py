"""Whether plans, tasks and jobs read only blobs that something made before, and make none in two places at once."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from netgrad.control.task import Task, TaskGroup, WorkspaceType
from netgrad.graph.net import Net
from netgrad.graph.plan import ExecutionStep, Plan
from netgrad.proto.caffe2_pb2 import OperatorDef
from netgrad.tools.visiting import Job, Visitor

#: a serialized task must be smaller, as protobuf's readers refuse larger messages
LARGEST_TASK = 1 << 26


class Analyzer(Visitor):
    """Walks through what would run, and remembers which blobs there are.

    Attributes:
        workspaces: node -> how often each blob is written in its workspace.
    """

    #: blobs whose names begin so come from outside
    PREFIXES_TO_IGNORE = frozenset({"distributed_ctx_init"})

    def __init__(self) -> None:
        self.workspaces: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.workspace_ctx: list[Counter[str]] = []

    @property
    def workspace(self) -> Counter[str]:
        """The blobs that can be seen now."""
        return self.workspace_ctx[-1]

    @contextmanager
    def set_workspace(self, node: Any = None, ws: Counter[str] | None = None,
                      do_copy: bool = False) -> Iterator[Counter[str]]:
        """Goes on in another workspace: ``ws``, that of a node, or the current one; in a copy if asked."""
        if ws is None:
            ws = self.workspace if node is None else self.workspaces[str(node)]
        self.workspace_ctx.append(copy.copy(ws) if do_copy else ws)
        try:
            yield self.workspace
        finally:
            self.workspace_ctx.pop()

    def define_blob(self, blob: str) -> None:
        self.workspace[blob] += 1

    def need_blob(self, blob: str) -> None:
        """Raises AssertionError unless the blob was defined."""
        if not any(blob.startswith(prefix) for prefix in self.PREFIXES_TO_IGNORE) and blob not in self.workspace:
            raise AssertionError(f"Blob undefined: {blob}")


@Analyzer.register(OperatorDef)
def analyze_op(analyzer: Analyzer, op: OperatorDef) -> None:
    for name in op.input:
        analyzer.need_blob(name)
    for name in op.output:
        analyzer.define_blob(name)


@Analyzer.register(Net)
def analyze_net(analyzer: Analyzer, net: Net) -> None:
    for op in net.Proto().op:
        analyzer(op)


@Analyzer.register(ExecutionStep)
def analyze_step(analyzer: Analyzer, step: ExecutionStep) -> None:
    proto = step.Proto()
    made_beside: set[str] = set()
    with analyzer.set_workspace(do_copy=proto.create_workspace):
        if proto.report_net:
            with analyzer.set_workspace(do_copy=True):
                analyzer(step.get_net(proto.report_net))
        for substep in [*step.Substeps(), *map(step.get_net, proto.network)]:
            with analyzer.set_workspace(do_copy=proto.concurrent_substeps) as inside:
                analyzer(substep)
                if proto.should_stop_blob:
                    analyzer.need_blob(proto.should_stop_blob)
            if proto.concurrent_substeps:
                made = set(inside) - set(analyzer.workspace)
                if twice := sorted(made & made_beside):
                    raise AssertionError(f"Error: Blobs created by multiple parallel steps: {', '.join(twice)}")
                made_beside |= made
    for name in made_beside:
        analyzer.define_blob(name)


@Analyzer.register(Task)
def analyze_task(analyzer: Analyzer, task: Task) -> None:
    step = task.get_step()
    plan = Plan(str(task.node))
    plan.AddStep(step)
    size = plan.Proto().ByteSize()
    if size >= LARGEST_TASK:
        raise AssertionError(f"task {task.name} has {size} bytes; protobuf allows less than {LARGEST_TASK}: keep data "
                             "out of its nets")
    with analyzer.set_workspace(do_copy=task.workspace_type() != WorkspaceType.GLOBAL):
        analyzer(step)


@Analyzer.register(TaskGroup)
def analyze_task_group(analyzer: Analyzer, group: TaskGroup) -> None:
    for task in group.tasks_by_node().tasks():
        with analyzer.set_workspace(node=task.node):
            analyzer(task)


@Analyzer.register(Job)
def analyze_job(analyzer: Analyzer, job: Any) -> None:
    analyzer(job.init_group)
    analyzer(job.epoch_group)


def analyze(obj: Any) -> None:
    """Goes through all steps of a job or group of tasks.

    Raises AssertionError where one reads a blob that nothing made before, or steps that run side by side make blobs of
    one name.
    """
    Analyzer()(obj)
