"""Nets, steps, tasks and jobs as text in the manner of the Python code that makes them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from netgrad.control.task import Task, TaskGroup, TaskOutput
from netgrad.graph.net import Net
from netgrad.graph.plan import ExecutionStep
from netgrad.proto.caffe2_pb2 import Argument, DeviceOption, NetDef, OperatorDef
from netgrad.tools.visiting import Job, Visitor

#: strings longer than this are cut
LONGEST = 64


class Text:
    """Lines, indented by the contexts that they are in."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._indent = 0

    @contextmanager
    def context(self, text: str | None) -> Iterator[None]:
        """What is added meanwhile belongs under ``with text:``; no context where the text is None."""
        if text is None:
            yield
            return
        self.add(f"with {text}:")
        before, self._indent = len(self.lines), self._indent + 4
        yield
        if len(self.lines) == before:
            self.add("pass")
        self._indent -= 4

    def add(self, text: str) -> None:
        self.lines.append(" " * self._indent + text)

    def __str__(self) -> str:
        return "\n".join(self.lines)


class Printer(Visitor, Text):
    """Writes what it is called with.

    Args:
        factor_prefixes: what names of one operator have in common is written once, before brackets.
        c2_syntax: nets as the calls that make them; else operators as ``y = Relu(x)``.
    """

    def __init__(self, factor_prefixes: bool = False, c2_syntax: bool = True) -> None:
        super().__init__()
        self.factor_prefixes = factor_prefixes
        self.c2_syntax = c2_syntax
        self.c2_net_name: str | None = None


def _quoted(value: str | bytes) -> str:
    text = value.decode("ascii", errors="ignore") if isinstance(value, bytes) else value
    return f"'{text}'" if len(text) < LONGEST else f"'{text[:LONGEST]}'...<+len={len(text) - LONGEST}>"


def _argument_value(argument: Argument) -> str:
    for field in ("f", "i"):
        if argument.HasField(field):
            return str(getattr(argument, field))
    if argument.HasField("s"):
        return _quoted(argument.s)
    if argument.strings:
        return str([_quoted(s) for s in argument.strings])
    return str(list(argument.floats or argument.ints))


def commonprefix(m: Sequence[str]) -> str:
    """The longest beginning that all strings have in common."""
    alike = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*m))
    return "".join(letters[0] for letters in alike)


def format_value(val: Any) -> str:
    return "[" + ", ".join(f"'{v}'" for v in val) + "]" if isinstance(val, list) else str(val)


def factor_prefix(vals: Sequence[Any], do_it: bool) -> str:
    """Values separated by commas; with ``do_it`` their common beginning comes before brackets: ``fc1_[w, b]``."""
    texts = [format_value(value) for value in vals]
    prefix = commonprefix(texts) if do_it and len(texts) > 1 else ""
    joined = ", ".join(text[len(prefix):] for text in texts)
    return f"{prefix}[{joined}]" if prefix else joined


def call(op: str, inputs: Sequence[Any] | None = None, outputs: Sequence[Any] | None = None,
         factor_prefixes: bool = False) -> str:
    """The text of a call; pairs among the inputs are keywords."""
    plain = [value for value in inputs or () if not isinstance(value, tuple)]
    keywords = [f"{value[0]}={value[1]}" for value in inputs or () if isinstance(value, tuple)]
    text = f"{op}({', '.join(filter(None, [factor_prefix(plain, factor_prefixes), *keywords]))})"
    return f"{factor_prefix(outputs, factor_prefixes)} = {text}" if outputs else text


def format_device_option(dev_opt: DeviceOption | None) -> str | None:
    if not dev_opt or not (dev_opt.device_type or dev_opt.device_id or dev_opt.node_name):
        return None
    return call("DeviceOption", [dev_opt.device_type, dev_opt.device_id, f"'{dev_opt.node_name}'"])


@Printer.register(OperatorDef)
def print_op(text: Printer, op: OperatorDef) -> None:
    arguments = [(argument.name, _argument_value(argument)) for argument in op.arg]
    if device := format_device_option(op.device_option):
        arguments.append(("device_option", device))
    if text.c2_net_name:
        text.add(call(f"{text.c2_net_name}.{op.type}", [list(op.input), list(op.output), *arguments]))
    else:
        text.add(call(op.type, [*op.input, *arguments], op.output, factor_prefixes=text.factor_prefixes))
    for argument in op.arg:
        if argument.HasField("n"):
            with text.context(f"arg: {argument.name}"):
                text(argument.n)


@Printer.register(NetDef)
def print_net_def(text: Printer, net_def: NetDef) -> None:
    outside = text.c2_net_name
    if text.c2_syntax:
        text.add(call("core.Net", [f"'{net_def.name}'"], [net_def.name]))
        text.c2_net_name = net_def.name
    else:
        text.add(f"# net: {net_def.name}")
    for op in net_def.op:
        text(op)
    text.c2_net_name = outside


@Printer.register(Net)
def print_net(text: Printer, net: Net) -> None:
    text(net.Proto())


def _step_context(step: ExecutionStep) -> tuple[str | None, bool]:
    """The context that a step is, and whether its substeps are contexts of their own."""
    proto, several = step.Proto(), len(step.Substeps()) > 1
    if proto.should_stop_blob:
        return call("loop"), False
    if proto.num_iter and proto.num_iter != 1:
        return call("loop", [proto.num_iter]), False
    if proto.num_concurrent_instances > 1:
        return call("parallel", [("num_instances", proto.num_concurrent_instances)]), several
    if proto.concurrent_substeps and several:
        return call("parallel"), True
    return (call("run_once") if proto.report_net else None), False


def _substep_context(substep: Any, apart: bool) -> str | None:
    proto = substep.Proto() if isinstance(substep, ExecutionStep) else None
    if proto is not None and proto.run_every_ms:
        return call("reporter", [str(substep), ("interval_ms", proto.run_every_ms)])
    if not apart:
        return None
    return call("workspace" if proto is not None and proto.create_workspace else "step", [str(substep)])


@Printer.register(ExecutionStep)
def print_step(text: Printer, step: ExecutionStep) -> None:
    proto = step.Proto()
    context, apart = _step_context(step)
    with text.context(context):
        if proto.report_net:
            with text.context(call("report_net", [proto.report_interval])):
                text(step.get_net(proto.report_net))
        for substep in [*step.Substeps(), *map(step.get_net, proto.network)]:
            with text.context(_substep_context(substep, apart)):
                text(substep)
                if proto.should_stop_blob:
                    text.add(call("yield stop_if", [proto.should_stop_blob]))


def _output(output: TaskOutput) -> str:
    return f"Output[{', '.join(map(str, output.names))}]"


@Printer.register(Task)
def print_task(text: Printer, task: Task) -> None:
    outputs = ", ".join(map(_output, task.outputs()))
    with text.context(call("Task", [("node", task.node), ("name", task.name), ("outputs", outputs)])):
        text(task.get_step())


@Printer.register(TaskGroup)
def print_task_group(text: Printer, group: TaskGroup, header: str | None = None) -> None:
    with text.context(header or call("TaskGroup")):
        for task in group.tasks_by_node().tasks():
            text(task)


@Printer.register(Job)
def print_job(text: Printer, job: Any) -> None:
    text(job.init_group, "Job.current().init_group")
    text(job.epoch_group, "Job.current().epoch_group")
    with text.context("Job.current().stop_conditions"):
        for output in job.stop_conditions:
            text.add(_output(output))
    text(job.download_group, "Job.current().download_group")
    text(job.exit_group, "Job.current().exit_group")


def to_string(obj: Any, **kwargs: Any) -> str:
    """A net, step, task, group of tasks or job as text; ``kwargs`` are those of `Printer`."""
    printer = Printer(**kwargs)
    printer(obj)
    return str(printer)


def debug_net(net: Net) -> Net:
    """The net with a LogInfo operator before each of its operators, which writes that one down when it runs."""
    if not isinstance(net, Net):
        raise AssertionError(f"expected a Net, found {type(net).__name__}")
    watched = Net(str(net))
    for op in net.Proto().op:
        watched.LogInfo(to_string(op))
        watched.Proto().op.append(op)
    return watched
