"""Sessions: where tasks run and what becomes of their outputs."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from netgrad.control.task import Cluster, Task, TaskGroup, WorkspaceType
from netgrad.graph.blob import BlobReference
from netgrad.graph.plan import ExecutionStep, Plan, execution_step
from netgrad.runtime.workspace import Workspace


class CompiledRunnable:
    """What `Session.compile` made of something that can run."""

    def __init__(self, obj: Any, session_class: type[Session]) -> None:
        self.obj = obj
        self.session_class = session_class


class Session:
    """Runs nets, steps, plans, tasks and groups of tasks on a workspace that lives as long as the session.

    Tasks run on that workspace, or on a child of it that is gone when they have run (`WorkspaceType.PRIVATE`); tasks on
    different nodes cannot see each other's blobs. This is the base; a subclass says where things run.
    """

    _compiled_cache: ClassVar[dict[Any, CompiledRunnable]] = {}

    def __init__(self) -> None:
        self._open = True

    def is_open(self) -> bool:
        return self._open

    @classmethod
    def compile(cls, runnable: Any, workspace_type: str | None = None,
                setup_net_list: Any = None) -> CompiledRunnable:
        """Makes something ready to run by sessions of this class; the same object is made ready once.

        Raises:
            AssertionError: it was made ready for another class; its group has another type of workspace; an empty plan.
        """
        if isinstance(runnable, CompiledRunnable):
            if cls is not runnable.session_class:
                raise AssertionError(f"the runnable was compiled for {runnable.session_class.__name__}, not for "
                                     f"{cls.__name__}")
            return runnable
        if runnable not in cls._compiled_cache:
            group = cls._as_group(runnable, workspace_type)
            cls._compiled_cache[runnable] = CompiledRunnable(cls._compile_task_group(group, setup_net_list), cls)
        return cls._compiled_cache[runnable]

    @staticmethod
    def _as_group(runnable: Any, workspace_type: str | None) -> TaskGroup:
        if isinstance(runnable, TaskGroup):
            if workspace_type:
                if runnable.workspace_type() not in (None, workspace_type):
                    raise AssertionError(f"the group asks for a workspace {runnable.workspace_type()!r}, the call for "
                                         f"{workspace_type!r}")
                runnable._workspace_type = workspace_type
            return runnable
        group = TaskGroup(workspace_type=workspace_type or WorkspaceType.GLOBAL)
        if isinstance(runnable, Task):
            group.add(runnable)
        elif isinstance(runnable, ExecutionStep):
            group.add(Task(step=runnable))
        elif isinstance(runnable, Plan):
            steps = runnable.Steps()
            if not steps:
                raise AssertionError(f"plan {runnable.Proto().name!r} has no steps; there is nothing to run")
            group.add(Task(step=steps[0] if len(steps) == 1 else steps))
        else:
            group.add(Task(step=execution_step("runnable", runnable)))
        return group

    def run(self, runnable: Any, workspace_type: str | None = None, setup_net_list: Any = None) -> None:
        """Runs a net, step, plan, task, group, or what `compile` made of one.

        Args:
            workspace_type: see `WorkspaceType`; as the group says if None.
            setup_net_list: nets that a master needs first; for sessions on several machines.
        """
        if not self.is_open():
            raise AssertionError("the session is closed; open a new one")
        if runnable is None:
            raise AssertionError("there is nothing to run: the runnable is None")
        self._run_compiled(self.compile(runnable, workspace_type, setup_net_list).obj)

    def close(self) -> None:
        """Ends the session; nothing can be run any more."""
        if self.is_open():
            self._do_close()
            self._open = False

    def fetch_output(self, output: Any) -> Any:
        """The value of an output that a task asked for."""
        raise NotImplementedError(f"{type(self).__name__} cannot fetch outputs: say how in fetch_output")

    def _run_compiled(self, task_group: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} cannot run tasks: say how in _run_compiled")

    @classmethod
    def _compile_task_group(cls, task_group: TaskGroup, setup_net_list: Any = None) -> Any:
        return task_group

    def _do_close(self) -> None:
        return

    def __enter__(self) -> Self:
        if not self._open:
            raise AssertionError("the session is closed already; open a new one")
        return self

    def __exit__(self, ex_type: Any, value: Any, traceback: Any) -> None:
        if ex_type is None:
            self.close()


class LocalSession(Session):
    """A session on this machine: all tasks run side by side in one workspace, whatever their nodes.

    Args:
        ws: the workspace; the current one if None.
    """

    def __init__(self, ws: Workspace | None = None) -> None:
        super().__init__()
        self._ws = ws or Workspace.current

    @classmethod
    def _compile_task_group(cls, task_group: TaskGroup, setup_net_list: Any = None) -> Any:
        with Cluster():
            task = task_group.to_task()
        plan = Plan("task_group_plan")
        plan.AddStep(task.get_step())
        return plan, task.output_list(), task.workspace_type()

    def _run_compiled(self, compiled: Any) -> None:
        plan, outputs, workspace_type = compiled
        names = [str(name) for name in outputs.names()]
        for name in names:
            self._ws.create_blob(name)  # here, and not in a workspace that is gone when the task has run
        outputs.set_values(list(map(BlobReference, names)), _fetch_func=self._fetch_output)
        workspace = Workspace(self._ws) if workspace_type == WorkspaceType.PRIVATE else self._ws
        workspace.run(plan)

    def _fetch_output(self, output: Any) -> Any:
        return self._ws.fetch_blob(str(output))
