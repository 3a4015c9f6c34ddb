"""Tasks: execution steps that run on a node, what they return, and what runs before and after them.

A `TaskGroup` holds tasks that run side by side, each on its `Node`. Objects kept as attributes of their nets may ask
for set-up: nets or steps that run once for each node of the group (`TaskGroup.LOCAL_SETUP`), once for the task
(`Task.TASK_SETUP`), or once for each of its instances (`Task.TASK_INSTANCE_SETUP`), before and after.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, Self

from netgrad.graph.context import DefaultManaged, Managed
from netgrad.graph.net import Net
from netgrad.graph.plan import ExecutionStep, execution_step, to_execution_step
from netgrad.graph.records import Field, from_blob_list
from netgrad.proto.caffe2_pb2 import TensorProto


class Cluster(DefaultManaged):
    """The names of the nodes in use. There is always one: the first `Node` makes it where nobody else has."""

    def __init__(self) -> None:
        self._nodes: list[str] = []
        self._node_kwargs: dict[str, dict[str, Any]] = {}

    def add_node(self, node: Node) -> None:
        """Notes a node; what was said first about a name counts."""
        name = str(node)
        if name not in self._nodes:
            self._nodes.append(name)
        self._node_kwargs[name] = {**node.kwargs(), **self._node_kwargs.get(name, {})}

    def nodes(self) -> list[str]:
        """The names, in the order of first use."""
        return self._nodes

    def node_kwargs(self) -> dict[str, dict[str, Any]]:
        """What the nodes were made with, by name."""
        return self._node_kwargs

    def __repr__(self) -> str:
        return f"Cluster(nodes={self.nodes()}, node_kwargs={self.node_kwargs()})"


class Node(DefaultManaged):
    """Where the tasks made in its ``with`` block run. Nodes of one name are one node, whose tasks share blobs.

    Args:
        node: the name.
        kwargs: properties, for whatever runs the tasks.
    """

    def __init__(self, node: Any = "local", **kwargs: Any) -> None:
        self._name = str(node)
        self._kwargs = kwargs
        Cluster.current().add_node(self)

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"Node(name={self._name}, kwargs={self._kwargs})"

    def kwargs(self) -> dict[str, Any]:
        return self._kwargs


class WorkspaceType(StrEnum):
    """Whether a task runs in a workspace of its own, gone after the run, or in that of the node, which stays."""

    PRIVATE = "private"
    GLOBAL = "global"


def get_setup_nets(key: str, steps_or_nets: Iterable[Any], target: Any) -> tuple[list[Any], list[Any]]:
    """What is to run before and after some steps.

    The objects kept in their nets under a name are asked for it, each once: ``setup(init_net)`` and ``exit(exit_net)``
    may write operators into the given net and may return a net, a step, or a list of them.

    Args:
        key: the name under which the nets keep the objects.
        target: the task or group that asks; objects with another ``_setup_target`` are passed over.

    Returns:
        The nets and steps to run before, and those to run after.

    Raises:
        TypeError: one of the objects returned something else.
    """
    init_net, exit_net = Net(key + "/init"), Net(key + "/exit")
    before: list[Any] = []
    after: list[Any] = []
    objects: list[Any] = []
    for step_or_net in steps_or_nets:
        kept = getattr(step_or_net, "get_all_attributes", None) or getattr(step_or_net, "get_attributes", None)
        objects += kept(key) if kept else []
    for obj in objects:
        if getattr(obj, "_setup_used", False) or getattr(obj, "_setup_target", target) != target:
            continue
        for hook, net, nets in (("setup", init_net, before), ("exit", exit_net, after)):
            if hasattr(obj, hook):
                nets += _as_list(obj, hook, getattr(obj, hook)(net))
                obj._setup_used = True
    return [init_net] * bool(init_net.Proto().op) + before, [exit_net] * bool(exit_net.Proto().op) + after


def _as_list(obj: Any, hook: str, nets: Any) -> list[Any]:
    if nets is None:
        return []
    if isinstance(nets, Net | ExecutionStep):
        return [nets]
    if isinstance(nets, list | tuple):
        return list(nets)
    raise TypeError(f"{type(obj).__name__}.{hook} returned {nets!r}; expected a net, a step, a list of them, or None")


def add_setup_steps(
    step: ExecutionStep, init_nets: Sequence[Any], exit_nets: Sequence[Any], name: str,
) -> ExecutionStep:
    """The step with others before and after it, or the step itself if there are none."""
    if not init_nets and not exit_nets:
        return step
    steps = [step]
    if init_nets:
        steps.insert(0, execution_step(f"{name}:init", list(init_nets)))
    if exit_nets:
        steps.append(execution_step(f"{name}:exit", list(exit_nets)))
    return execution_step(name, steps)


class TaskGroup(Managed):
    """Tasks that start together. The group has finished when its last task has.

    Tasks made in its ``with`` block belong to it. Those of one `Node` share blobs; those of different nodes do not.

    Args:
        workspace_type: where its tasks run if they do not say; None: as the first that says, else privately.
    """

    LOCAL_SETUP = "local_setup"

    def __init__(self, workspace_type: str | None = None) -> None:
        self._tasks: list[Task] = []
        self._tasks_to_add: list[Task] = []
        self._already_used = False
        self._report_nets: dict[str, tuple[Net, float]] = {}
        self._report_steps: list[tuple[str, ExecutionStep]] = []
        self._workspace_type = workspace_type
        self._tasks_by_node: tuple[TaskGroup, dict[str, str]] | None = None
        self._remote_nets: list[Any] = []

    def add_remote_net(self, net: Any) -> None:
        self._remote_nets.append(net)

    def remote_nets(self) -> list[Any]:
        return self._remote_nets

    def add(self, task: Task) -> None:
        """Adds a task, which cannot change from then on.

        Raises:
            AssertionError: the group was used already, or task and group disagree about their workspaces.
        """
        if self._already_used:
            raise AssertionError(f"task {task.name!r} comes too late: its group was used already; make a new group")
        own, asked = self._workspace_type, task._workspace_type
        if own is not None and asked is not None and own != asked:
            raise AssertionError(f"task {task.name!r} asks for a {asked} workspace, its group for a {own} one")
        task._workspace_type = asked or own or WorkspaceType.PRIVATE
        self._workspace_type = own or task._workspace_type
        task._notify_used()
        self._tasks.append(task)

    def tasks(self) -> list[Task]:
        """All tasks; none can be added after this."""
        for task in self._tasks_to_add:
            self.add(task)
        self._tasks_to_add = []
        self._already_used = True
        return self._tasks

    def num_registered_tasks(self) -> int:
        return len(self._tasks_to_add) + len(self._tasks)

    def used_nodes(self) -> list[str]:
        """The names of the tasks' nodes, in the order of first use."""
        return list(dict.fromkeys(task.node for task in self._tasks + self._tasks_to_add))

    def report_step(self, step: Any = None, node: Any = None, interval_ms: int = 1000) -> None:
        """Adds what runs at intervals for as long as the group does, and once more after the node's last task.

        Args:
            step: a step, a net, a list of either, or a net builder.
            node: where; on the current node if None.
        """
        step = to_execution_step(step)
        step.RunEveryMillis(interval_ms)
        self._report_steps.append((str(node or Node.current()), step))

    def report_net(self, net: Net | None = None, node: Any = None, report_interval: float = 5) -> Net:
        """The net that runs every so many seconds on a node; one per node. `report_step` has replaced it."""
        node = str(node or Node.current())
        if node in self._report_nets:
            if net is not None:
                raise AssertionError(f"node {node!r} has the report net {self._report_nets[node][0].Name()!r} already")
        else:
            self._report_nets[node] = (net or Net(f"{node}/reporter"), report_interval)
        return self._report_nets[node][0]

    def tasks_by_node(self, node_remap: Callable[[str], str] | None = None) -> TaskGroup:
        """A group with one task for each node, which does all that this group does there.

        Args:
            node_remap: from a node's name to the one that takes its place.

        Raises:
            AssertionError: it was called before with other names (set-up can be given out only once).
            KeyError: a report was asked for on a node that has no task.
        """
        node_map = {task.node: node_remap(task.node) if node_remap else task.node for task in self.tasks()}
        if self._tasks_by_node is not None:
            grouped, earlier = self._tasks_by_node
            if earlier != node_map:
                raise AssertionError(f"the tasks were grouped by node already, as {earlier}; now as {node_map}")
            return grouped

        for node, (net, interval) in self._report_nets.items():
            self.report_step(net, node=node, interval_ms=int(interval * 1000))
        self._report_nets = {}

        tasks: dict[str, list[Task]] = defaultdict(list)
        for task in self.tasks():
            tasks[node_map[task.node]].append(task)
        reports: dict[str, list[ExecutionStep]] = defaultdict(list)
        for node, step in self._report_steps:
            if node not in node_map:
                raise KeyError(f"step {step.Name()!r} reports on node {node!r}, where no task of the group runs; "
                               f"its tasks run on {self.used_nodes()}")
            reports[node_map[node]].append(step)

        grouped = TaskGroup()
        for node in tasks:
            self._group(node, tasks[node], reports[node], grouped)
        self._tasks_by_node = (grouped, node_map)
        return grouped

    def _group(self, node: str, tasks: list[Task], reports: list[ExecutionStep], grouped: TaskGroup) -> None:
        """Adds to a group the task that runs these ones of mine together."""
        before, after = get_setup_nets(self.LOCAL_SETUP, [task.get_step() for task in tasks] + reports, self)
        steps = list(reports)
        for task in tasks:
            step = task.get_step()
            step.SetCreateWorkspace(task.workspace_type() == WorkspaceType.PRIVATE)
            steps.append(step)
        body = steps[0] if len(steps) == 1 else execution_step(f"{node}:body", steps, concurrent_substeps=True)
        shared = any(task.workspace_type() == WorkspaceType.GLOBAL for task in tasks)
        Task(
            node=node,
            step=add_setup_steps(body, before, after, node),
            outputs=[output for task in tasks for output in task.outputs()],
            name="grouped_by_node",
            group=grouped,
            workspace_type=WorkspaceType.GLOBAL if shared else WorkspaceType.PRIVATE,
        )

    def to_task(self, node: Any = None) -> Task:
        """One task that does all that this group does, on one node."""
        node = str(node or Node.current())
        tasks = self.tasks_by_node(lambda _: node).tasks()
        return tasks[0] if tasks else Task()

    def workspace_type(self) -> str | None:
        return self._workspace_type

    def __repr__(self) -> str:
        return (f"TaskGroup(tasks={self._tasks + self._tasks_to_add}, workspace_type={self.workspace_type()}, "
                f"remote_nets={self.remote_nets()})")


class TaskOutput:
    """A blob, a list of blobs or a record that a task returns, and its value once the task has run."""

    def __init__(self, names: Any) -> None:
        self._schema = names if isinstance(names, Field) else None
        if self._schema is not None:
            names = self._schema.field_blobs()
        self._is_scalar = not isinstance(names, list | tuple)
        self.names: Sequence[Any] = [names] if self._is_scalar else names
        self._values: Sequence[Any] | None = None
        self._fetch_func: Callable[[Any], Any] | None = None

    def set(self, values: Sequence[Any], _fetch_func: Callable[[Any], Any] | None = None) -> None:
        """Sets one value for each name."""
        if len(values) != len(self.names):
            raise AssertionError(f"the output has {len(self.names)} blobs, {self.names}, and was given {len(values)} "
                                 f"values")
        self._values = values
        self._fetch_func = _fetch_func

    def get(self) -> Any:
        """The values, in the form of what was asked for; raises AssertionError before the task has run."""
        return self._in_form(self._set_values())

    def fetch(self) -> Any:
        """The same, with the values fetched from where the task has run."""
        values = self._set_values()
        if self._fetch_func is None:
            raise AssertionError(f"the values of output {self.names} cannot be fetched: whoever set them said not how")
        return self._in_form([self._fetch_func(value) for value in values])

    def _set_values(self) -> Sequence[Any]:
        if self._values is None:
            raise AssertionError(f"output {self.names} has no value yet; run its task first")
        return self._values

    def _in_form(self, values: Sequence[Any]) -> Any:
        if self._is_scalar:
            return values[0]
        return from_blob_list(self._schema, values) if self._schema else values

    def __repr__(self) -> str:
        return f"TaskOutput(names={self.names}, values={self._values})"


def final_output(blob_or_record: Any) -> TaskOutput:
    """Asks the current task (or, where there is none, a new empty one) to return a blob, list of blobs or record.

    Its value is that which it has when the last task of the group on that node has finished.
    """
    task: Task = Task.current(required=False) or Task()
    return task.add_output(blob_or_record)


class TaskOutputList:
    """The outputs of a task, as one list of blobs."""

    def __init__(self, outputs: list[TaskOutput] | None = None) -> None:
        self.outputs = outputs or []

    def names(self) -> list[Any]:
        """The names of all blobs."""
        return [name for output in self.outputs for name in output.names]

    def set_values(self, values: Sequence[Any], _fetch_func: Callable[[Any], Any] | None = None) -> None:
        """Sets one value for each name."""
        if len(values) != len(self.names()):
            raise AssertionError(f"the outputs have {len(self.names())} blobs and were given {len(values)} values")
        offset = 0
        for output in self.outputs:
            output.set(values[offset:offset + len(output.names)], _fetch_func)
            offset += len(output.names)

    def __repr__(self) -> str:
        return f"TaskOutputList(outputs={self.outputs})"


class Task(Managed):
    """An execution step and outputs.

    Its ``with`` block builds the step by `netgrad.control.net_builder.ops`::

        with Node("trainer"), Task(name="count", num_instances=2):
            with ops.task_init():                 # once
                total = ops.Const(0)
            with ops.task_instance_init():        # in each of the two instances
                mine = ops.Const(1)
            with ops.loop(100):
                ops.Add([total, mine], [total])

    Args:
        step: a step, a net, a list of either, or a net builder, instead of a ``with`` block.
        outputs: what it returns: an output (see `TaskOutput`) or a list of them.
        workspace_type: see `WorkspaceType`; as its group says if None.
        group: the current one if None; there may be none.
        node: the name of the node; the current node if None.
        name: taken from the step, or "task", if None; the node's name is put before it.
        num_instances: how many copies of the step run at once, each in its own workspace.
    """

    TASK_SETUP = "task_setup"
    TASK_INSTANCE_SETUP = "task_instance_setup"
    REPORT_STEP = "report_step"

    @staticmethod
    def _get_next_name(node: Any, group: TaskGroup | None, name: Any) -> str:
        taken = {task.name for task in group._tasks_to_add} if group is not None else set()
        base = next_name = f"{node}/{name}"
        k = 0
        while next_name in taken:
            k += 1
            next_name = f"{base}:{k}"
        return next_name

    def __init__(
        self,
        step: Any = None,
        outputs: Any = None,
        workspace_type: str | None = None,
        group: TaskGroup | None = None,
        node: Any = None,
        name: str | None = None,
        num_instances: int | None = None,
    ) -> None:
        if not name and isinstance(step, ExecutionStep):
            name = step.Name()
        self.node = str(Node.current(None if node is None else Node(node)))
        self.group: TaskGroup | None = TaskGroup.current(group, required=False)
        self.name = Task._get_next_name(self.node, self.group, name or "task")
        if self.group is not None:
            self.group._tasks_to_add.append(self)

        self._already_used = False
        self._step: ExecutionStep | None = None
        self._step_with_setup: ExecutionStep | None = None
        self._outputs: list[TaskOutput] = []
        self._workspace_type = workspace_type
        self._num_instances = num_instances
        self._net_builder: Any = None
        if step is not None:
            self.set_step(step)
        if outputs is not None:
            self.add_outputs(outputs)

    def __enter__(self) -> Self:
        from netgrad.control.net_builder import NetBuilder

        self._assert_not_used()
        if self._step is not None:
            raise AssertionError(f"task {self.name!r} has the step {self._step.Name()!r} already; a task has either "
                                 f"a step or a `with` block")
        super().__enter__()
        if self.group is not None:  # tasks made inside come first
            self.group._tasks_to_add.remove(self)
        self._net_builder = NetBuilder(_fullname=self.name)
        self._net_builder.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._net_builder.__exit__(*error)
        if not any(error):
            self.set_step(self._net_builder)
        if self.group is not None:
            self.group._tasks_to_add.append(self)
        self._net_builder = None

    def workspace_type(self) -> str | None:
        return self._workspace_type

    def _assert_not_used(self) -> None:
        if self._already_used:
            raise AssertionError(f"task {self.name!r} was used already and cannot change any more")

    def add_output(self, output: Any) -> TaskOutput:
        """Asks for a blob, list of blobs, or record as output (or takes an output as it is)."""
        self._assert_not_used()
        if not isinstance(output, TaskOutput):
            output = TaskOutput(output)
        self._outputs.append(output)
        return output

    def add_outputs(self, outputs: Any) -> TaskOutput | list[TaskOutput]:
        """Adds an output, or each of a list."""
        if isinstance(outputs, list | tuple):
            return [self.add_output(output) for output in outputs]
        return self.add_output(outputs)

    def set_step(self, step: Any) -> None:
        self._assert_not_used()
        self._step = to_execution_step(step)

    def get_step(self) -> ExecutionStep:
        """The whole of it: the step with what runs beside, before and after it. A task without an output gets one, so
        that whoever runs it notices its end."""
        if self._step_with_setup is None:
            self._step_with_setup = self._build_step(self._step) if self._step else execution_step(self.name, [])
        return self._step_with_setup

    def _build_step(self, step: ExecutionStep) -> ExecutionStep:
        reports = [s for s in step.get_all_attributes(Task.REPORT_STEP) if not s._is_used]
        for report in reports:
            if not report.Proto().run_every_ms:
                report.RunEveryMillis(1000)
        before, after = get_setup_nets(Task.TASK_SETUP, [step, *reports], self)
        instance_before, instance_after = get_setup_nets(Task.TASK_INSTANCE_SETUP, [step, *reports], self)
        if not self._outputs:
            output_net = Net(f"{self.name}:output")
            self.add_output(output_net.ConstantFill([], 1, dtype=TensorProto.INT32, value=0))
            after.append(output_net)

        if reports:
            step = execution_step(f"{self.name}:body", [*reports, step])
        step = add_setup_steps(step, instance_before, instance_after, f"{self.name}:instance")
        if self._num_instances and self._num_instances > 1:
            step.SetCreateWorkspace(True)
            step = execution_step(f"{self.name}:parallel", [step], num_concurrent_instances=self._num_instances)
        return add_setup_steps(step, before, after, self.name)

    def output_list(self) -> TaskOutputList:
        return TaskOutputList(self._outputs)

    def outputs(self) -> list[TaskOutput]:
        return self._outputs

    def _notify_used(self) -> None:
        self.get_step()
        self._already_used = True

    def __repr__(self) -> str:
        return f"Task(name={self.name}, node={self.node}, outputs={self.outputs()})"


class SetupNets:
    """Nets that run before and after; an object for `get_setup_nets`::

        net.add_attribute(Task.TASK_SETUP, SetupNets([init_net]))           # once for the task that runs net
        net.add_attribute(TaskGroup.LOCAL_SETUP, SetupNets([init_net]))     # once for its node, before all tasks

    It may be added to several nets; what it holds runs once.
    """

    def __init__(self, init_nets: Any = None, exit_nets: Any = None) -> None:
        self.init_nets = init_nets
        self.exit_nets = exit_nets

    def setup(self, init_net: Net) -> Any:
        return self.init_nets

    def exit(self, exit_net: Net) -> Any:
        return self.exit_nets

    def __repr__(self) -> str:
        return f"SetupNets(init_nets={self.init_nets}, exit_nets={self.exit_nets})"
