"""What operators that run nets read and write: If, While and Do, nested as deep as one likes.

If and While run their nets on the blobs around them, so what they read and write follows from the nets and not from
their lists of inputs and outputs. A blob that is written on some paths only keeps its earlier value on the others: it
is read as much as written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from netgrad.graph.remapping import CONTROL_NETS

#: appended to the name of a blob inside a Do: what it held when the net began, where the net writes it
INITIAL = "/_DO_OPERATOR_INITIAL_"


def net_argument(op: Any, name: str) -> Any:
    """The NetDef in an argument of an operator; None when there is none."""
    for argument in op.arg:
        if argument.name == name and argument.HasField("n"):
            return argument.n
    return None


def nets_of(op: Any) -> Iterator[tuple[str, Any]]:
    """The nets of an If or While, which run on the blobs around it, in the order in which they may run."""
    for name in sorted(CONTROL_NETS.get(op.type, ()), key="cond_net".__ne__):
        net = net_argument(op, name)
        if net is not None:
            yield name, net


def written(ops: Iterable[Any]) -> set[str]:
    """All names that operators write, those in the nets of If and While included."""
    found: set[str] = set()
    for op in ops:
        found.update(op.output)
        if op.type in CONTROL_NETS:
            for _, net in nets_of(op):
                found |= written(net.op)
    found.discard("")
    return found


def made_within(op: Any, name: str) -> bool:
    """Whether an operator in a net that this operator carries, however deep, writes a blob of this name."""
    return any(argument.HasField("n") and any(name in inner.output or made_within(inner, name)
                                              for inner in argument.n.op) for argument in op.arg)


def opaque(ops: Iterable[Any]) -> set[str]:
    """Names of what forward runs leave for gradients: stacks of workspaces of a Do, steps of a RecurrentNetwork."""
    found: set[str] = set()
    for op in ops:
        if op.type in ("CreateScope", "CopyScope"):
            found.update(op.output)
        elif op.type == "RecurrentNetwork":
            found.update(op.output[-1:])
        for _, net in nets_of(op):
            found |= opaque(net.op)
    return found


def bindings(op: Any) -> dict[str, str]:
    """Names inside a Do -> the blobs outside that they stand for; the workspaces' blob is not among them."""
    outer = [*op.input[:-1], *op.output[:-1]]
    inner: list[str] = []
    positions: list[int] = []
    for argument in op.arg:
        if argument.name == "inner_blobs":
            inner = [name.decode("utf-8") for name in argument.strings]
        elif argument.name == "outer_blobs_idx":
            positions = list(argument.ints)
    return {name: outer[k] for name, k in zip(inner, positions) if 0 <= k < len(outer)}


@dataclass
class Effect:
    """What running something does to named blobs.

    Attributes:
        reads: names whose value from before matters, in the order of first use (a dict serves as ordered set).
        writes: names that it may write.
        sure: names that it writes whatever happens.
    """

    reads: dict[str, None]
    writes: set[str]
    sure: set[str]


#: operators whose effect is not just their inputs and outputs
TYPES = frozenset({*CONTROL_NETS, "Do"})
#: operators whose gradients read what the forward runs left
WITH_GRADIENTS = TYPES | {"RecurrentNetworkGradient"}


def effect(op: Any) -> Effect:
    """The effect of one operator."""
    find = _EFFECTS.get(op.type)
    if find is not None:
        return find(op)
    outputs = set(op.output)
    return Effect(dict.fromkeys(op.input), outputs, outputs)


def effect_of_all(ops: Iterable[Any]) -> Effect:
    """The effect of operators that run one after the other."""
    reads: dict[str, None] = {}
    writes: set[str] = set()
    sure: set[str] = set()
    for op in ops:
        found = effect(op)
        for name in found.reads:
            if name not in sure:
                reads.setdefault(name)
        writes |= found.writes
        sure |= found.sure
    return Effect(reads, writes, sure)


def needed(op: Any) -> dict[str, None]:
    """Names that an operator reads; those that it merely may leave as they are do not count."""
    reads = dict.fromkeys(op.input)
    sure: set[str] = set()
    for argument, net in nets_of(op):
        inside: set[str] = set()
        for each in net.op:
            reads.update({name: None for name in needed(each) if name not in sure and name not in inside})
            inside |= effect(each).sure
        if argument == "cond_net":
            sure = inside
    return reads


def _keeping(reads: dict[str, None], writes: set[str], sure: set[str], outputs: Iterable[str]) -> Effect:
    """Adds the names that may keep their earlier value to those that are read."""
    kept = writes - sure
    for name in (*outputs, *sorted(kept)):
        if name in kept:
            reads.setdefault(name)
    return Effect(reads, writes, sure)


def _effect_of_if(op: Any) -> Effect:
    reads = dict.fromkeys(op.input)
    branches = [effect_of_all(net.op) if net is not None else Effect({}, set(), set())
                for net in (net_argument(op, "then_net"), net_argument(op, "else_net"))]
    for branch in branches:
        reads.update(branch.reads)
    return _keeping(reads, branches[0].writes | branches[1].writes, branches[0].sure & branches[1].sure, op.output)


def _effect_of_while(op: Any) -> Effect:
    condition, body = net_argument(op, "cond_net"), net_argument(op, "loop_net")
    first = effect_of_all(condition.op) if condition is not None else Effect({}, set(), set())
    rest = effect_of_all(body.op) if body is not None else Effect({}, set(), set())
    reads = {**dict.fromkeys(op.input), **first.reads, **{n: None for n in rest.reads if n not in first.sure}}
    return _keeping(reads, first.writes | rest.writes, set(first.sure), op.output)


def _effect_of_do(op: Any) -> Effect:
    net, bound = net_argument(op, "net"), bindings(op)
    inside = effect_of_all(net.op) if net is not None else Effect({}, set(), set())
    stack = set(op.output[-1:])
    reads = dict.fromkeys(op.input)
    reads.update({bound[name]: None for name in inside.reads if name in bound})
    return Effect(reads, {bound[n] for n in inside.writes if n in bound} | stack,
                  {bound[n] for n in inside.sure if n in bound} | stack)


_EFFECTS: Mapping[str, Callable[[Any], Effect]] = {
    "If": _effect_of_if, "AsyncIf": _effect_of_if, "While": _effect_of_while, "Do": _effect_of_do,
}
