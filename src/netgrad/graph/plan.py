"""Plans and execution steps: which nets run in what order, how often, and side by side with what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from netgrad.graph.blob import BlobReference, ScopedName
from netgrad.graph.net import Net, get_net_name
from netgrad.graph.net_names import unique_name
from netgrad.proto import caffe2_pb2


def _add_net_to_dict(net_dict: dict[str, Net | None], net: Any) -> bool:
    """Notes a net, or just a name (None); returns whether it is new, and refuses two nets of one name."""
    name = get_net_name(net)
    if name in net_dict:
        if net_dict[name] is not None and net_dict[name] is not net:
            raise AssertionError(f"two different nets are called {name!r}")
        return False
    net_dict[name] = net if isinstance(net, Net) else None
    return True


def _attributes(nets: dict[str, Net | None], name: str) -> list[Any]:
    return [attribute for net in nets.values() if net is not None for attribute in net.get_attributes(name)]


class ExecutionStep:
    """Nets, or steps, that run one after another (or concurrently), once or many times."""

    _step_names_used: ClassVar[set[str]] = set()
    _next_suffix: ClassVar[dict[str, int]] = {}

    @staticmethod
    def _get_next_step_name(basename: str) -> str:
        return unique_name(basename, ExecutionStep._step_names_used, ExecutionStep._next_suffix)

    def __init__(self, name: str | None, nets: Any = None, num_iter: int | None = None) -> None:
        """Makes a step of nets. ``num_iter``: how many times it runs."""
        self._step = caffe2_pb2.ExecutionStep(name=name or self._get_next_step_name("step"))
        self._net_dict: dict[str, Net | None] = {}
        self._is_used = False
        self._substeps: list[ExecutionStep] = []
        for net in [nets] if isinstance(nets, Net) else nets or ():
            if _add_net_to_dict(self._net_dict, net):
                self._step.network.append(get_net_name(net))
        if num_iter is not None:
            self._step.num_iter = num_iter

    def get_net(self, name: str) -> Any:
        return self._net_dict[name]

    def Name(self) -> str:
        return self._step.name

    def __str__(self) -> str:
        return self._step.name

    def Proto(self) -> caffe2_pb2.ExecutionStep:
        return self._step

    def HasNets(self) -> bool:
        return len(self._step.network) > 0

    def HasSubsteps(self) -> bool:
        return len(self._step.substep) > 0

    def Nets(self) -> list[Any]:
        """The nets of this step and of those below; None for one of which only the name is known."""
        return list(self._net_dict.values())

    def Substeps(self) -> list[ExecutionStep]:
        return self._substeps

    def _notify_is_used(self) -> None:
        self._is_used = True

    def _assert_can_mutate(self) -> None:
        if self._is_used:
            raise AssertionError(f"step {self.Name()!r} is part of a plan or step already and cannot change any more")

    def _assert_has_no(self, what: str, has: bool) -> None:
        if has:
            raise AssertionError(f"step {self.Name()!r} has {what}; a step has either nets or substeps")

    def SetIter(self, num_iter: int) -> None:
        """How many times it runs."""
        self._assert_can_mutate()
        self._step.num_iter = num_iter

    def SetCreateWorkspace(self, create_workspace: bool) -> None:
        """Whether it runs in a workspace of its own, below the current one."""
        self._assert_can_mutate()
        self._step.create_workspace = create_workspace

    def SetNumConcurrentInstances(self, num_concurrent_instances: int) -> None:
        """How many copies of it run at once."""
        self._assert_can_mutate()
        self._step.num_concurrent_instances = num_concurrent_instances

    def SetOnlyOnce(self, only_once: bool) -> None:
        """Whether it runs in the first iteration of the step above only."""
        self._assert_can_mutate()
        self._step.only_once = only_once

    def SetShouldStopBlob(self, should_stop_blob: BlobReference) -> None:
        """The blob that ends the iterations when it is true; it is looked at after each net or substep."""
        if not isinstance(should_stop_blob, BlobReference):
            raise AssertionError(f"the stop blob is a BlobReference, not {should_stop_blob!r}")
        self._assert_can_mutate()
        self._step.should_stop_blob = str(should_stop_blob)

    def RunEveryMillis(self, interval: int) -> None:
        """Runs it every so many milliseconds while its siblings run, and once after them. Not for the topmost step."""
        self._step.run_every_ms = interval

    def SetReportNet(self, report_net: Any, report_interval: int) -> None:
        """A net that runs every so many seconds beside the step. `RunEveryMillis` has replaced it."""
        self._assert_can_mutate()
        _add_net_to_dict(self._net_dict, report_net)
        self._step.report_net = get_net_name(report_net)
        self._step.report_interval = report_interval

    def AddSubstep(self, substep: Any) -> ExecutionStep:
        """Adds a step (or the message of one) below; an empty one is left out."""
        self._assert_can_mutate()
        self._assert_has_no("nets", self.HasNets())
        if isinstance(substep, ExecutionStep):
            substep._notify_is_used()
            if not substep.HasNets() and not substep.HasSubsteps():
                return self
            for net in substep.Nets():
                _add_net_to_dict(self._net_dict, net)
            self._substeps.append(substep)
            substep = substep.Proto()
        self._step.substep.add().CopyFrom(substep)
        return self

    def SetConcurrentSubsteps(self, concurrent_substeps: bool) -> None:
        """Whether the substeps run at once."""
        self._assert_can_mutate()
        self._assert_has_no("nets", self.HasNets())
        self._step.concurrent_substeps = concurrent_substeps

    def AddNet(self, net: Net) -> ExecutionStep:
        self._assert_can_mutate()
        self._assert_has_no("substeps", self.HasSubsteps())
        if not isinstance(net, Net):
            raise AssertionError(f"expected a Net, found {net!r}")
        _add_net_to_dict(self._net_dict, net)
        self._step.network.append(net.Name())
        return self

    def get_all_attributes(self, name: str) -> list[Any]:
        """The attributes of that name of all nets of this step and of those below."""
        return _attributes(self._net_dict, name)

    @classmethod
    def create_from_proto(
        cls, step_proto: caffe2_pb2.ExecutionStep, net_obj_dict: dict[str, Net],
        net_proto_dict: dict[str, caffe2_pb2.NetDef],
    ) -> ExecutionStep:
        """The step of a message.

        Args:
            net_obj_dict: nets by the names they have in the message; those that are made are added.
            net_proto_dict: the messages of the others.
        """
        if bool(step_proto.network) == bool(step_proto.substep):
            raise AssertionError(f"step {step_proto.name!r} must have either nets or substeps")
        below: list[Any] = [cls.create_from_proto(step, net_obj_dict, net_proto_dict) for step in step_proto.substep]
        for name in step_proto.network:
            if name not in net_obj_dict:
                if name not in net_proto_dict:
                    raise AssertionError(f"step {step_proto.name!r} names the net {name!r}, which the plan does "
                                         f"not have")
                net_obj_dict[name] = Net(net_proto_dict[name])
            below.append(net_obj_dict[name])
        fields = ("num_iter", "concurrent_substeps", "only_once", "num_concurrent_instances",
                  "create_workspace", "run_every_ms")
        options: dict[str, Any] = {f: getattr(step_proto, f) for f in fields if step_proto.HasField(f)}
        if step_proto.HasField("should_stop_blob"):
            options["should_stop_blob"] = BlobReference(step_proto.should_stop_blob)
        return execution_step(step_proto.name, below, **options)


def add_nets_in_order(step: ExecutionStep, net_list: list[str]) -> None:
    """Appends the names of a step's nets, in the order of use and each once."""
    for substep in step.Substeps():
        add_nets_in_order(substep, net_list)
    report = [step.Proto().report_net] if step.Proto().report_net else []
    for name in [*step.Proto().network, *report]:
        if name not in net_list:
            net_list.append(name)


class Plan:
    """Steps, and the nets they run."""

    def __init__(self, name_or_step: str | ExecutionStep) -> None:
        """Makes an empty plan of that name, or the plan of one step."""
        self._plan = caffe2_pb2.PlanDef()
        self._net_dict: dict[str, Net | None] = {}
        self._steps: list[ExecutionStep] = []
        if isinstance(name_or_step, ExecutionStep):
            self._plan.name = name_or_step.Name()
            self.AddStep(name_or_step)
        elif isinstance(name_or_step, str):
            self._plan.name = name_or_step
        else:
            raise ValueError(f"a plan is made of a name or an ExecutionStep, not of {name_or_step!r}")

    def __str__(self) -> str:
        return self._plan.name

    def Proto(self) -> caffe2_pb2.PlanDef:
        return self._plan

    def AddNets(self, nets: Iterable[Any]) -> None:
        """Adds copies of nets as they are now."""
        for net in nets:
            if _add_net_to_dict(self._net_dict, net):
                if not isinstance(net, Net):
                    raise AssertionError(f"of net {net!r} only the name is known; add the Net to the step")
                self._plan.network.add().CopyFrom(net.Proto())

    def Nets(self) -> list[Any]:
        return list(self._net_dict.values())

    def AddStep(self, step: ExecutionStep) -> None:
        """Adds a step and the nets it runs; an empty one is left out."""
        if not isinstance(step, ExecutionStep):
            raise AssertionError(f"expected an ExecutionStep, found {step!r}")
        step._notify_is_used()
        if not step.HasNets() and not step.HasSubsteps():
            return
        self._plan.execution_step.add().CopyFrom(step.Proto())
        self._steps.append(step)
        names: list[str] = []
        add_nets_in_order(step, names)
        self.AddNets([step.get_net(name) for name in names])

    def Steps(self) -> list[ExecutionStep]:
        return self._steps

    def get_all_attributes(self, name: str) -> list[Any]:
        """The attributes of that name of all nets."""
        return _attributes(self._net_dict, name)

    @classmethod
    def create_from_proto(cls, plan_proto: caffe2_pb2.PlanDef) -> Plan:
        """The plan of a message; its nets are new, so that names that are taken receive a suffix."""
        if not isinstance(plan_proto, caffe2_pb2.PlanDef):
            raise AssertionError(f"expected a PlanDef, found {plan_proto!r}")
        plan = cls(plan_proto.name)
        plan._plan.CopyFrom(plan_proto)
        del plan._plan.network[:], plan._plan.execution_step[:]
        protos: dict[str, caffe2_pb2.NetDef] = {}
        for net in plan_proto.network:
            if net.name in protos:
                raise AssertionError(f"plan {plan_proto.name!r} has two nets called {net.name!r}")
            protos[net.name] = net
        made: dict[str, Net] = {}
        for step_proto in plan_proto.execution_step:
            plan.AddStep(ExecutionStep.create_from_proto(step_proto, made, protos))
        return plan


def execution_step(
    default_name: str | None,
    steps_or_nets: Any,
    num_iter: int | None = None,
    report_net: Any = None,
    report_interval: int | None = None,
    concurrent_substeps: bool | None = None,
    should_stop_blob: BlobReference | None = None,
    only_once: bool | None = None,
    num_concurrent_instances: int | None = None,
    create_workspace: bool = False,
    run_every_ms: int | None = None,
) -> ExecutionStep:
    """An execution step, by name.

    Args:
        default_name: its name; automatic if None.
        steps_or_nets: a net, a step, a list of either, or None.
        num_iter: how many times it runs; once if neither this nor a stop blob is given.
        should_stop_blob: a boolean blob that ends the iterations when it is true; looked at after each net or substep.
        run_every_ms: see `ExecutionStep.RunEveryMillis`; for the others, the setters of that class.
    """
    if should_stop_blob is not None and num_iter is not None:
        raise AssertionError("a step has a number of iterations or a stop blob, not both")
    step = ExecutionStep(default_name)
    if should_stop_blob is not None:
        step.SetShouldStopBlob(should_stop_blob)
    else:
        step.SetIter(1 if num_iter is None else num_iter)
    if only_once is not None:
        step.SetOnlyOnce(only_once)
    if concurrent_substeps is not None:
        step.SetConcurrentSubsteps(concurrent_substeps)
    if report_net is not None:
        if report_interval is None:
            raise AssertionError("a report net needs a report interval")
        step.SetReportNet(report_net, report_interval)
    if num_concurrent_instances is not None:
        step.SetNumConcurrentInstances(num_concurrent_instances)
    if create_workspace:
        step.SetCreateWorkspace(True)
    if run_every_ms:
        step.RunEveryMillis(run_every_ms)

    if isinstance(steps_or_nets, ExecutionStep):
        step.AddSubstep(steps_or_nets)
    elif isinstance(steps_or_nets, Net):
        step.AddNet(steps_or_nets)
    elif isinstance(steps_or_nets, list) and all(isinstance(entry, Net) for entry in steps_or_nets):
        for net in steps_or_nets:
            step.AddNet(net)
    elif isinstance(steps_or_nets, list):
        for entry in steps_or_nets:
            step.AddSubstep(to_execution_step(entry))
    elif steps_or_nets:
        raise ValueError(f"a step is made of a net, a step, or a list of either, not of {steps_or_nets!r}")
    return step


def scoped_execution_step(name: str | None, *args: Any, **kwargs: Any) -> ExecutionStep:
    """`execution_step` with the current name scope before the name."""
    return execution_step(ScopedName(name) if name else name, *args, **kwargs)


def to_execution_step(step_or_nets: Any, default_name: str | None = None) -> ExecutionStep:
    """A step as it is; a net, a list, or a net builder (with its stop blob) as a step."""
    if isinstance(step_or_nets, ExecutionStep):
        return step_or_nets
    if not default_name and not isinstance(step_or_nets, Net):
        default_name = getattr(step_or_nets, "name", None)
    stop_blob = None
    if hasattr(step_or_nets, "_stop_blob") and hasattr(step_or_nets, "get"):
        stop_blob, step_or_nets = step_or_nets._stop_blob, step_or_nets.get()
    return execution_step(default_name, step_or_nets, should_stop_blob=stop_blob)
