"""Steps written as ``with`` blocks: operators, loops, conditions, and what runs before and after a task.

::

    with NetBuilder() as builder:
        x, y = ops.Const(5), ops.Const(0)
        with ops.loop():
            ops.stop_if(ops.LE([x, ops.Const(0)]))
            ops.Add([x, ops.Const(-1)], [x])
            with ops.If(ops.GE([x, ops.Const(3)])):
                ops.Add([y, ops.Const(10)], [y])
    step = to_execution_step(builder)

A builder collects nets and further builders; each becomes a step. It ends early by its stop blob, which the plan looks
at after each net or step: ``stop_if`` writes it, and the operators that follow go into a new net.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self

from netgrad.control.task import Cluster, Node, Task, TaskGroup
from netgrad.graph import net_names
from netgrad.graph.blob import BlobReference
from netgrad.graph.context import Managed
from netgrad.graph.net import Net
from netgrad.graph.plan import ExecutionStep, to_execution_step


class NetBuilder(Managed):
    """Nets and builders that run one after another.

    Args:
        name: put before the names of its nets, after the name of the builder around it.
        initial_scope: blobs that are there when it starts, besides those of the builder around it.
        _stop_blob_required: whether it must be able to end early, as a loop must.
        _stop_blob: the blob that ends it; made when needed if None.
        _fullname: its name without that of the builder around it.
        _use_control_ops: whether all of it is merged into one net in the end; then nothing can end it early.
    """

    def __init__(
        self,
        name: str | None = None,
        initial_scope: Iterable[Any] | None = None,
        _stop_blob_required: bool = False,
        _stop_blob: BlobReference | None = None,
        _fullname: str | None = None,
        _use_control_ops: bool = False,
    ) -> None:
        if _fullname and name:
            raise AssertionError(f"a builder has a name ({name!r}) or a full name ({_fullname!r}), not both")
        if _use_control_ops and (_stop_blob_required or _stop_blob):
            raise AssertionError("a builder of a single net has no stop blob")
        parent: NetBuilder | None = NetBuilder.current(required=False)
        self.name: str = _fullname or "/".join(part for part in (parent.name if parent else None, name) if part)
        self._frozen = False
        self._current_net: Net | None = None
        self._children: list[Any] = []
        self._stop_blob = _stop_blob
        self._stop_blob_required = _stop_blob_required
        self._use_control_ops = _use_control_ops
        self._initial_scope = {str(blob) for blob in initial_scope or ()}
        if _use_control_ops and parent:
            self._initial_scope |= parent.lexical_scope()
        self._parent = parent

    def lexical_scope(self) -> set[str]:
        """The names of the blobs that operators written now can read."""
        around = self._parent.lexical_scope() if self._parent and not self._use_control_ops else set()
        visible = [child for child in self._children if isinstance(child, Net) or _is_single_net(child)]
        return around.union(self._initial_scope, *(
            child.UsedBlobNames() if isinstance(child, Net) else child.lexical_scope() for child in visible))

    def stop_blob(self) -> BlobReference:
        """The blob that ends the builder when it is true; it starts out false."""
        self._assert_can_stop()
        if self._stop_blob is None:
            net = self.current_net()
            self._stop_blob = BlobReference(net.NextName("stop_blob"), net=net)
            net.Const(False, blob_out=self._stop_blob)
            if self._children[0] is not net:  # the plan looks at it after the first net already
                init = Net("stop_blob_init")
                init.Const(False, blob_out=self._stop_blob)
                self._children.insert(0, init)
        return self._stop_blob

    def stop_if(self, blob: Any) -> None:
        """Ends the builder here if the boolean blob is true."""
        stop_blob = self.stop_blob()
        self.current_net().Or([stop_blob, blob], [stop_blob])
        self._current_net = None

    def stop(self) -> None:
        """Ends the builder here."""
        self.stop_if(self.current_net().Const(True))

    def _assert_can_stop(self) -> None:
        if self._use_control_ops:
            raise AssertionError(f"builder {str(self)!r} makes a single net, which cannot end early")

    def _assert_mutable(self) -> None:
        if self._frozen:
            raise AssertionError(f"builder {str(self)!r} is finished; nothing can be added any more")

    def add(self, child: Any) -> Any:
        """Adds a net, step or builder, which runs next, and returns it. Operators go into it if it is a net."""
        self._assert_mutable()
        if self._use_control_ops and not (isinstance(child, Net) or _is_single_net(child)):
            raise AssertionError(f"builder {str(self)!r} makes a single net of nets and such builders, not of {child}")
        self._current_net = child if isinstance(child, Net) else None
        self._children.append(child)
        return child

    def current_net(self, name: str | None = None) -> Net:
        """The net that operators go into; a new one if there is none, or if a name is given."""
        self._assert_mutable()
        if self._current_net is None or name is not None:
            self.add(Net(name or ""))
        assert self._current_net is not None
        return self._current_net

    def freeze(self) -> None:
        """Finishes it: nothing can be added any more."""
        for child in self._children:
            if hasattr(child, "freeze"):
                child.freeze()
        self._current_net = None
        self._frozen = True

    def get(self) -> list[Any]:
        """Its nets, steps and builders in the order in which they run. It is finished then."""
        self.freeze()
        return self._children

    def _finish(self) -> None:
        """What is still to be written at the end of the block."""
        if self._use_control_ops and self._children:
            self._children = [NetBuilder.merge_nets(self._children, self._initial_scope)]

    def __exit__(self, *error: object) -> None:
        failed = any(error)
        try:
            if not failed:
                self._finish()
        finally:
            super().__exit__(*error)
            self.freeze()
        if not failed and self._stop_blob_required and self._stop_blob is None:
            raise AssertionError(f"builder {str(self)!r} never ends; write `ops.stop_if(blob)` or `ops.stop()` in it")

    @staticmethod
    def merge_nets(nets_or_builders: Iterable[Any], outer_blob_names: Iterable[str]) -> Net | None:
        """All operators in the first net; None if there is none.

        Of the nets' external outputs those remain that exist outside: what one net makes for the next is local now.
        """
        merged: Net | None = None
        for child in nets_or_builders:
            if isinstance(child, NetBuilder):
                nets = child.get()
                if not (_is_single_net(child) and len(nets) == 1 and isinstance(nets[0], Net)):
                    raise AssertionError(f"builder {str(child)!r} is not one net, so it cannot be merged into one")
                child = nets[0]
            merged = merged.AppendNet(child) if merged else child
        if merged:
            outer = set(outer_blob_names)
            outputs = merged.Proto().external_output
            outputs[:] = [blob for blob in outputs if blob in outer]
        return merged

    def __str__(self) -> str:
        return self.name or "Un-named NetBuilder"


def _is_single_net(child: Any) -> bool:
    return isinstance(child, NetBuilder) and child._use_control_ops


def _builder_name() -> str:
    builder: NetBuilder | None = NetBuilder.current(required=False)
    return builder.name if builder else ""


net_names.current_prefix = _builder_name


class Operations:
    """The current builder: ``ops.X(inputs, outputs, **arguments)`` writes operator X, other methods open blocks.

    The builders that `task_init`, `task_exit` and the like return run elsewhere in the task of the current net, however
    deep in it they are written.
    """

    def net(self, net: Net | None = None, name: str | None = None) -> Net:
        """The net that operators go into.

        Args:
            net: adds this one, and makes it so.
            name: makes a new one of that name.
        """
        if net is not None and name is not None:
            raise AssertionError(f"give the net {net.Name()!r} or a name for a new one ({name!r}), not both")
        if net is not None:
            NetBuilder.current().add(net)
            return net
        return NetBuilder.current().current_net(name)  # type: ignore[no-any-return]

    def __getattr__(self, op_type: str) -> Any:
        if op_type.startswith("__"):
            raise AttributeError(op_type)
        if NetBuilder.current(required=False) is None:
            # an AttributeError, so that hasattr works outside of builders too
            raise AttributeError(f"ops.{op_type}: no NetBuilder is active; write `with NetBuilder():` around it")
        return getattr(self.net(), op_type)

    def task_group(self) -> TaskGroup:
        """A group of tasks on this node, to run next."""
        with Cluster(), Node("local"):
            return NetBuilder.current().add(TaskGroup())  # type: ignore[no-any-return]

    def stop(self) -> None:
        """Ends the innermost block here."""
        NetBuilder.current().stop()

    def stop_if(self, blob: Any) -> None:
        """Ends the innermost block here if the boolean blob is true."""
        NetBuilder.current().stop_if(blob)

    def loop(self, iters: Any = None, name: str | None = None) -> Loop:
        """A block that runs again and again, until it is stopped.

        Args:
            iters: how many times at most: a number, or a blob that holds it. ``with ops.loop(10) as loop`` counts from
                0 to 9 in ``loop.iter()``.
        """
        return NetBuilder.current().add(Loop(iters, name=name))  # type: ignore[no-any-return]

    def stop_guard(self, has_stopped_blob: Any = None, name: str | None = None) -> StopGuard:
        """A block that runs once; ``has_stopped()`` of it says whether it was stopped.

        Args:
            has_stopped_blob: the name of that blob; automatic if None.
        """
        return NetBuilder.current().add(StopGuard(has_stopped_blob, name=name))  # type: ignore[no-any-return]

    def If(self, cond: Any, name: str | None = None) -> RunIf:
        """A block that runs once if the boolean blob is true; ``Elif(cond)`` and ``Else()`` of it open others."""
        return NetBuilder.current().add(RunIf(cond, name=name))  # type: ignore[no-any-return]

    def IfNet(self, cond: Any, name: str | None = None) -> NetBuilder:
        """As `If`, by an If operator: the block becomes part of the net around it, and can be differentiated."""
        from netgrad.control.net_blocks import RunIfNet

        return NetBuilder.current().add(RunIfNet(cond, name=name))  # type: ignore[no-any-return]

    def Else(self, name: str | None = None) -> NetBuilder:
        """The other branch of the `IfNet` right before it."""
        from netgrad.control.net_blocks import RunElseNet

        return RunElseNet(name=name)

    def WhileNet(self, name: str | None = None) -> NetBuilder:
        """A loop by a While operator; its block begins with a `Condition`."""
        from netgrad.control.net_blocks import RunWhileNet

        return NetBuilder.current().add(RunWhileNet(name=name))  # type: ignore[no-any-return]

    def Condition(self, name: str | None = None) -> NetBuilder:
        """What a `WhileNet` runs before each round; the only output of its last operator says whether there is one."""
        from netgrad.control.net_blocks import RunWhileCondition

        return RunWhileCondition(name=name)

    def task_init(self) -> SetupBuilder:
        """A block that runs once before the task, however many instances it has."""
        return self._setup(Task.TASK_SETUP, SetupBuilder.INIT)

    def task_exit(self) -> SetupBuilder:
        """A block that runs once after all instances of the task."""
        return self._setup(Task.TASK_SETUP, SetupBuilder.EXIT)

    def task_instance_init(self) -> SetupBuilder:
        """A block that runs before each instance of the task, in its workspace."""
        return self._setup(Task.TASK_INSTANCE_SETUP, SetupBuilder.INIT)

    def task_instance_exit(self) -> SetupBuilder:
        """A block that runs after each instance of the task, in its workspace."""
        return self._setup(Task.TASK_INSTANCE_SETUP, SetupBuilder.EXIT)

    def local_init(self) -> SetupBuilder:
        """A block that runs once on the node, before all tasks of the group."""
        return self._setup(TaskGroup.LOCAL_SETUP, SetupBuilder.INIT)

    def local_exit(self, name: str | None = None) -> SetupBuilder:
        """A block that runs once on the node, after all tasks of the group."""
        return self._setup(TaskGroup.LOCAL_SETUP, SetupBuilder.EXIT, name)

    def _setup(self, key: str, when: str, name: str | None = None) -> SetupBuilder:
        builder = SetupBuilder(when, name)
        self.net().add_attribute(key, builder)
        return builder

    def task_reporter(self, interval_ms: int = 1000, name: str | None = None) -> ReporterBuilder:
        """A block that runs at intervals beside the task, and once more after it."""
        return ReporterBuilder(interval_ms, net=self.net(), name=name)

    def local_reporter(self, interval_ms: int = 1000, name: str | None = None) -> ReporterBuilder:
        """A block that runs at intervals while any task of the group runs, and once more after them."""
        return ReporterBuilder(interval_ms, name=name)


ops = Operations()


class ReporterBuilder(NetBuilder):
    """A block that runs at intervals, beside the task of a net or, without a net, beside the current group."""

    def __init__(self, interval_ms: int, net: Net | None = None, name: str | None = None) -> None:
        super().__init__(name)
        self._net = net
        self.interval_ms = interval_ms

    def _finish(self) -> None:
        if self._net is not None:
            step = to_execution_step(self)
            step.RunEveryMillis(self.interval_ms)
            self._net.add_attribute(Task.REPORT_STEP, step)
        else:
            TaskGroup.current().report_step(self, interval_ms=self.interval_ms)


class SetupBuilder(NetBuilder):
    """A block that runs before or after something; an object for `netgrad.control.task.get_setup_nets`."""

    INIT: ClassVar[str] = "init"
    EXIT: ClassVar[str] = "exit"

    def __init__(self, type: str, name: str | None = None) -> None:
        super().__init__(name)
        self.type = type

    def setup(self, net: Net) -> ExecutionStep | None:
        return to_execution_step(self) if self.type == SetupBuilder.INIT else None

    def exit(self, net: Net) -> ExecutionStep | None:
        return to_execution_step(self) if self.type == SetupBuilder.EXIT else None


class RunOnce(NetBuilder):
    """A block that runs once. A step with a stop blob would go on until it is true, so the end of the block stops."""

    def _finish(self) -> None:
        if self._stop_blob is not None:
            self.stop()


class StopGuard(RunOnce):
    """A block that knows whether it was stopped."""

    def __init__(self, has_stopped_blob: Any = None, name: str | None = None) -> None:
        super().__init__(name)
        self._stopped = has_stopped_blob
        self._ran = False

    def __enter__(self) -> Self:
        super().__enter__()
        self._stopped = self.current_net().Const(True, blob_out=self._stopped)
        return self

    def _finish(self) -> None:
        self.current_net().Const(False, blob_out=self._stopped)
        super()._finish()
        self._ran = True

    def has_stopped(self) -> Any:
        """The boolean blob that says, once it ran, whether it was stopped."""
        if not self._ran:
            raise AssertionError(f"the block {str(self)!r} was not left yet; ask after its `with`")
        return self._stopped


class Loop(NetBuilder):
    """A block that runs again and again."""

    def __init__(self, iters: Any = None, name: str | None = None) -> None:
        super().__init__(name, _stop_blob_required=True)
        self._num_iters: Any = None
        if iters is not None:
            before = NetBuilder.current().current_net()
            self._inc = before.Const(1)
            self._iter = before.Const(0)
            self._num_iters = iters if isinstance(iters, BlobReference) else before.Const(iters)

    def iter(self) -> Any:
        """The blob that counts the rounds, from 0."""
        if self._num_iters is None:
            raise AssertionError(f"the loop {str(self)!r} has no number of iterations, so it does not count them")
        return self._iter

    def __enter__(self) -> Self:
        super().__enter__()
        if self._num_iters is not None:
            self.stop_if(self.current_net().GE([self._iter, self._num_iters]))
        return self

    def _finish(self) -> None:
        if self._num_iters is not None:
            self.current_net().Add([self._iter, self._inc], [self._iter])


class RunIf(RunOnce):
    """A block that runs if a blob is true; none of a chain of these runs after one has run.

    Args:
        cond_blob: the condition; None for the last of a chain.
        _already_ran: the blob that says whether one has run; None for the first of a chain.
    """

    def __init__(self, cond_blob: Any = None, name: str | None = None, _already_ran: Any = None) -> None:
        super().__init__(name)
        if not cond_blob and not _already_ran:
            raise AssertionError("ops.If needs a condition: a boolean blob")
        self._is_else = cond_blob is None
        self._skip = self._already_ran = _already_ran
        if cond_blob is not None:
            before = NetBuilder.current().current_net()
            self._skip = before.Not(cond_blob)
            if _already_ran is None:
                self._already_ran = before.Const(False)
            else:
                self._skip = before.Or([_already_ran, self._skip])

    def __enter__(self) -> Self:
        super().__enter__()
        self.stop_if(self._skip)
        self.current_net().Const(True, blob_out=self._already_ran)
        return self

    def Elif(self, cond: Any, name: str | None = None) -> RunIf:
        """A block that runs if none before it in the chain did and the boolean blob is true."""
        return self._next(cond, name)

    def Else(self, name: str | None = None) -> RunIf:
        """A block that runs if none before it in the chain did."""
        return self._next(None, name)

    def _next(self, cond: Any, name: str | None) -> RunIf:
        if self._is_else:
            raise AssertionError(f"nothing can follow the Else {str(self)!r}")
        chained = RunIf(cond, name=name or self.name, _already_ran=self._already_ran)
        return NetBuilder.current().add(chained)  # type: ignore[no-any-return]
