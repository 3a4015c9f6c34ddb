"""Control flow by steps of a plan: sequences, loops, branches, switches of nets and steps.

A step ends when its stop blob is true, which is looked at after each net and substep. A condition is a boolean blob, or
a net whose last external output is one; such a net runs before what it decides on.
"""

from __future__ import annotations

from typing import Any

from netgrad.graph.blob import BlobReference
from netgrad.graph.net import Net
from netgrad.graph.plan import ExecutionStep, scoped_execution_step
from netgrad.proto import caffe2_pb2

#: a boolean blob, or a net that makes one
Condition = Any
#: a net, a step, or a list of either
Body = Any

_used_names: set[str] = set()
_suffix = 1


def _unused(base: str, kind: str) -> str:
    """A name for a step that none made here has."""
    global _suffix
    name = whole = f"{base}/{kind}"
    while name in _used_names:
        name = f"{whole}_{_suffix}"
        _suffix += 1
    _used_names.add(name)
    return name


def _step(kind: str, base: str, body: Body, **options: Any) -> ExecutionStep:
    return scoped_execution_step(_unused(base, kind), body, **options)


def _as_list(items: tuple[Any, ...]) -> list[Any]:
    """What was given one by one, or as one list."""
    if not items:
        raise ValueError("give at least one net, step or pair, or a list of them")
    if len(items) > 1:
        return list(items)
    return items[0] if isinstance(items[0], list) else [items[0]]


def _all_nets(body: Body) -> bool:
    return all(isinstance(each, Net) for each in _as_list((body,)))


def _with_nets(body: Body, before: list[Net] | None = None, after: list[Net] | None = None) -> list[Any]:
    """The body with nets around it; among steps, nets become a step."""
    parts = _as_list((body,))
    if _all_nets(parts):
        return [*(before or []), *parts, *(after or [])]
    first = [Do("prepend", before)] if before else []
    last = [Do("append", after)] if after else []
    return [*first, *parts, *last]


def GetConditionBlobFromNet(condition_net: Net) -> BlobReference:
    """The last external output of a net, which must be a single boolean."""
    outputs = condition_net.Proto().external_output
    if not outputs:
        raise AssertionError(f"condition net {condition_net.Name()!r} has no external output; add the condition with "
                             "AddExternalOutput")
    return BlobReference(outputs[-1])


def _blob_of(condition: Condition) -> Any:
    return GetConditionBlobFromNet(condition) if isinstance(condition, Net) else condition


def BoolNet(*blobs_with_bool_value: Any) -> Net:
    """A net that sets boolean blobs: ``BoolNet((a, True), (b, False))``, or a list of such pairs."""
    net = Net("bool_net")
    for blob, value in _as_list(blobs_with_bool_value):
        net.AddExternalOutput(net.ConstantFill([], [blob], shape=[], value=value, dtype=caffe2_pb2.TensorProto.BOOL))
    return net


def NotNet(condition_blob_or_net: Condition) -> tuple[Net, BlobReference]:
    """A net that negates a condition, and the blob it makes."""
    net = Net("not_net")
    negated = net.Not(_blob_of(condition_blob_or_net))
    net.AddExternalOutput(negated)
    return net, negated


def _copy_net(condition_blob: Any) -> tuple[Net, BlobReference]:
    """A net that copies a condition, and the blob it makes."""
    net = Net("copy_condition_blob_net")
    copy = net.Copy(condition_blob)
    net.AddExternalOutput(copy)
    return net, copy


def MergeConditionNets(name: str, condition_nets: Any, relation: str) -> Net | None:
    """One net that runs several condition nets and joins their conditions.

    Args:
        relation: the operator that joins two: "And", "Or", ...

    Returns:
        The net; its last external output is the result. What is not a list comes back as it is; a list of one gives its
        net, an empty one None.
    """
    if not isinstance(condition_nets, list):
        return condition_nets  # type: ignore[no-any-return]
    if len(condition_nets) <= 1:
        return condition_nets[0] if condition_nets else None
    merged = Net(name)
    proto = merged.Proto()
    joined: Any = None
    for net in condition_nets:
        part = net.Proto()
        if part.type != proto.type or part.device_option != proto.device_option:
            raise AssertionError(f"condition net {net.Name()!r} has a type or device of its own, which the merged net "
                                 "cannot keep; set them on its operators")
        proto.op.extend(part.op)
        proto.external_input.extend(part.external_input)
        condition = GetConditionBlobFromNet(net)
        joined = condition if joined is None else getattr(merged, relation)([joined, condition])
        for attribute, values in net._attr_dict.items():
            merged._attr_dict[attribute] += values
    merged.AddExternalOutput(joined)
    return merged


def CombineConditions(name: str, condition_nets: list[Net], relation: str) -> Net | None:
    """A net that joins the conditions of several nets, which it does not run; None for no nets."""
    if not condition_nets:
        return None
    if not isinstance(condition_nets, list):
        raise ValueError(f"condition_nets must be a list of nets, not a {type(condition_nets).__name__}")
    conditions = [GetConditionBlobFromNet(net) for net in condition_nets]
    if len(conditions) == 1:
        return _copy_net(conditions[0])[0]
    net = Net(name)
    joined: Any = conditions[0]
    for condition in conditions[1:]:
        joined = getattr(net, relation)([joined, condition])
    net.AddExternalOutput(joined)
    return net


def Do(name: str, *nets_or_steps: Any) -> ExecutionStep:
    """All of them once, one after the other. A single step is given back as it is."""
    return _sequence("Do", name, nets_or_steps)


def DoParallel(name: str, *nets_or_steps: Any) -> ExecutionStep:
    """All of them once, side by side."""
    return _sequence("DoParallel", name, nets_or_steps, concurrent_substeps=True)


def _sequence(kind: str, name: str, nets_or_steps: tuple[Any, ...], **options: Any) -> ExecutionStep:
    parts = _as_list(nets_or_steps)
    if len(parts) == 1 and isinstance(parts[0], ExecutionStep):
        return parts[0]
    return _step(kind, name, parts, **options)


def For(name: str, nets_or_steps: Body, iter_num: int) -> ExecutionStep:
    """The body ``iter_num`` times."""
    init_net, iter_net = Net("init-net"), Net("For-iter")
    counter = init_net.CreateCounter([], init_count=iter_num)
    done = iter_net.CountDown([counter])
    return Do(f"{name}/For", Do(f"{name}/For-init-net", init_net),
              _step("For-inner", name, _with_nets(nets_or_steps, [iter_net]), should_stop_blob=done))


def While(name: str, condition_blob_or_net: Condition, nets_or_steps: Body) -> ExecutionStep:
    """The body for as long as the condition, looked at before each round, is true."""
    before, stop = _negated(condition_blob_or_net)
    body = _with_nets(nets_or_steps, before)
    if _all_nets(body):  # the stop blob, true since an earlier loop, would end this one after its first net
        return Do(f"{name}/While", BoolNet((stop, False)), _step("While-inner", name, body, should_stop_blob=stop))
    return _step("While", name, body, should_stop_blob=stop)


def Until(name: str, condition_blob_or_net: Condition, nets_or_steps: Body) -> ExecutionStep:
    """The body for as long as the condition, looked at before each round, is false."""
    if not isinstance(condition_blob_or_net, Net):
        return _step("Until", name, nets_or_steps, should_stop_blob=BlobReference(str(condition_blob_or_net)))
    return _step("Until", name, _with_nets(nets_or_steps, [condition_blob_or_net]),
                 should_stop_blob=GetConditionBlobFromNet(condition_blob_or_net))


def DoWhile(name: str, condition_blob_or_net: Condition, nets_or_steps: Body) -> ExecutionStep:
    """The body once, and then for as long as the condition, looked at after each round, is true."""
    after, stop = _negated(condition_blob_or_net)
    return Do(f"{name}/DoWhile", BoolNet((stop, False)),
              _step("DoWhile-inner", name, _with_nets(nets_or_steps, after=after), should_stop_blob=stop))


def DoUntil(name: str, condition_blob_or_net: Condition, nets_or_steps: Body) -> ExecutionStep:
    """The body once, and then for as long as the condition, looked at after each round, is false.

    A condition that is a blob, and true when the step begins, ends it after the first net or step of the body.
    """
    if not isinstance(condition_blob_or_net, Net):
        return _step("DoUntil", name, nets_or_steps, should_stop_blob=BlobReference(str(condition_blob_or_net)))
    stop = GetConditionBlobFromNet(condition_blob_or_net)
    body = _with_nets(nets_or_steps, after=[condition_blob_or_net])
    return Do(f"{name}/DoUntil", BoolNet((stop, False)), _step("DoUntil-inner", name, body, should_stop_blob=stop))


def _negated(condition: Condition) -> tuple[list[Net], BlobReference]:
    """The nets that compute the contrary of a condition, and its blob."""
    not_net, stop = NotNet(condition)
    return [condition, not_net] if isinstance(condition, Net) else [not_net], stop


def _run_once_if(name: str, condition: Condition, nets_or_steps: Body) -> ExecutionStep:
    before, stop = _negated(condition)
    body = _with_nets(nets_or_steps, before)
    if _all_nets(body):
        return Do(f"{name}/_RunOnceIf", BoolNet((stop, False)),
                  _step("_RunOnceIf-inner", name, body, should_stop_blob=stop, only_once=True))
    return _step("_RunOnceIf", name, body, should_stop_blob=stop, only_once=True)


def _run_once_if_not(name: str, condition: Condition, nets_or_steps: Body) -> ExecutionStep:
    if isinstance(condition, Net):
        before, stop = condition, GetConditionBlobFromNet(condition)
    else:
        before, stop = _copy_net(condition)
    return _step("_RunOnceIfNot", name, _with_nets(nets_or_steps, [before]), should_stop_blob=stop, only_once=True)


def If(name: str, condition_blob_or_net: Condition, true_nets_or_steps: Body,
       false_nets_or_steps: Body = None) -> ExecutionStep:
    """One body if the condition is true, the other if it is false. A condition net runs once."""
    if not false_nets_or_steps:
        return _run_once_if(f"{name}/If", condition_blob_or_net, true_nets_or_steps)
    return Do(f"{name}/If", _run_once_if(f"{name}/If-true", condition_blob_or_net, true_nets_or_steps),
              _run_once_if_not(f"{name}/If-false", _blob_of(condition_blob_or_net), false_nets_or_steps))


def IfNot(name: str, condition_blob_or_net: Condition, true_nets_or_steps: Body,
          false_nets_or_steps: Body = None) -> ExecutionStep:
    """The first body if the condition is false, the other if it is true."""
    if not false_nets_or_steps:
        return _run_once_if_not(f"{name}/IfNot", condition_blob_or_net, true_nets_or_steps)
    return Do(f"{name}/IfNot", _run_once_if_not(f"{name}/IfNot-true", condition_blob_or_net, true_nets_or_steps),
              _run_once_if(f"{name}/IfNot-false", _blob_of(condition_blob_or_net), false_nets_or_steps))


def Switch(name: str, *conditions: Any) -> ExecutionStep:
    """Pairs (condition, body): each body whose condition is true, in order. Condition nets run once each."""
    return _step("Switch", name, [_run_once_if(f"{name}/Switch", condition, body)
                                  for condition, body in _as_list(conditions)])


def SwitchNot(name: str, *conditions: Any) -> ExecutionStep:
    """Pairs (condition, body): each body whose condition is false, in order."""
    return _step("SwitchNot", name, [_run_once_if_not(f"{name}/SwitchNot", condition, body)
                                     for condition, body in _as_list(conditions)])
