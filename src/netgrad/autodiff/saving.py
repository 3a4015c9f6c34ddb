"""``overwritten="save"``: where forward values that the backward pass needs are put aside before they go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netgrad.graph.control import nets_of
from netgrad.proto import caffe2_pb2

if TYPE_CHECKING:
    from netgrad.autodiff.verifier import Lost, Names
    from netgrad.autodiff.walk import Walk

#: operators whose output is a copy of their input, in storage of its own
_COPIES = frozenset({"Copy", "EnsureCPUOutput", "CopyFromCPUInput"})


@dataclass
class Plan:
    """What must change in the forward operators.

    Attributes:
        copies: forward operator -> Copy operators that go before it.
        renames: (forward operator, output position) -> new name, for values that nothing else could ever read.
        saved: new name -> forward value.
        replaced: forward operator -> what must stand in its place (its nets put values aside).
    """

    copies: dict[int, list[Any]] = field(default_factory=dict)
    renames: dict[tuple[int, int], str] = field(default_factory=dict)
    saved: dict[str, int] = field(default_factory=dict)
    replaced: dict[int, Any] = field(default_factory=dict)

    @property
    def changes(self) -> bool:
        """Whether anything must change."""
        return bool(self.copies or self.renames or self.replaced)


def changed(ops: Sequence[Any], plan: Plan) -> list[Any]:
    """The forward operators as a plan wants them."""
    whole: list[Any] = []
    for index, op in enumerate(ops):
        whole += plan.copies.get(index, ())
        copy = caffe2_pb2.OperatorDef()
        copy.CopyFrom(plan.replaced.get(index, op))
        whole.append(copy)
        for (position, output), name in plan.renames.items():
            if position == index:
                copy.output[output] = name
    return whole


def put_aside(walk: Walk, free: Names, lost: list[Lost], plan: Plan) -> dict[int, int]:
    """Extends the plan so that every lost value survives; each is copied once, or found where a copy lies already.

    Returns the values that another one (a copy that survives) now stands for.

    A value is copied just before the operator that overwrites it, on that operator's device.
    """
    forward, names = walk.forward, walk.names
    overwriter = {older: newer for newer, older in forward.older.items()}
    copies = _surviving_copies(walk)
    survivors = {entry.value: copies[entry.value] for entry in lost if entry.value in copies}
    if survivors:
        inputs = walk.emitted.inputs
        inputs[:] = [[survivors.get(v, v) for v in row] for row in inputs]
        for rest in walk.emitted.rests:
            if rest.__class__ is not str:  # nets that name values of this walk
                rest.replace(survivors)
    stacks = _stacks(forward.ops)
    for entry in lost:
        value = entry.value
        if value in survivors:
            continue
        original = names[value]
        index = forward.producer[overwriter[value]]
        name = free.unused(f"{original}_saved")
        if forward.producer.get(value) == index:  # written twice by one operator: nothing could ever read this one
            plan.renames[index, forward.outs[index].index(value)] = name
        else:
            is_stack = original in stacks
            copy = caffe2_pb2.OperatorDef(type="CopyScope" if is_stack else "Copy", input=[original], output=[name])
            if is_stack:  # who takes runs off it writes it, too: one blob
                for written in walk.pinned:
                    if names[written] == original:
                        names[written] = name
            if forward.ops[index].HasField("device_option"):
                copy.device_option.CopyFrom(forward.ops[index].device_option)
            plan.copies.setdefault(index, []).append(copy)
        names[value] = name
        plan.saved[name] = value
    return survivors


def _stacks(ops: Iterable[Any]) -> set[str]:
    """The blobs that are stacks of the workspaces of a Do, those that branches make included."""
    found: set[str] = set()
    for op in ops:
        if op.type == "CreateScope":
            found.update(op.output)
        for _, net in nets_of(op):
            found |= _stacks(net.op)
    return found


def _surviving_copies(walk: Walk) -> dict[int, int]:
    """Forward values of which a copy is still there in the end, and the copy."""
    forward = walk.forward
    found: dict[int, int] = {}
    for op, row, made in zip(forward.ops, forward.ins, forward.outs):
        if len(row) == 1 and len(made) == 1 and op.type in _COPIES and forward.current[walk.names[made[0]]] == made[0]:
            found.setdefault(row[0], made[0])
    return found
