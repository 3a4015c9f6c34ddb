"""A plan in words: its steps, what passes did and why, and the storage that it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from netgrad.proto import caffe2_pb2
from netgrad.runtime.costs import size_of
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.planning.fused import Fused
from netgrad.runtime.planning.liveness import Value
from netgrad.runtime.planning.plan import Plan


@dataclass(frozen=True)
class Memory:
    """Bytes.

    Attributes:
        plain: the most that must be there at one time in the plain plan, blobs that are kept included.
        planned: the same in this plan.
        unknown: blobs whose sizes are not known, and count as nothing.
    """

    plain: int
    planned: int
    unknown: int


def memory(plan: Plan) -> Memory:
    """What a plan needs at most, from the shapes of what the workspace holds now.

    Raises `BadShape`, located, where shapes do not go together.
    """
    types = plan.types
    sizes: dict[Value, int] = {}
    unknown: set[str] = set()
    for value in plan.liveness.values:
        found = types.get(value.blob)
        size = None if found is None else size_of(found)
        if size is None:
            unknown.add(value.blob)
        else:
            sizes[value] = size
    plain = max(plan.liveness.bytes_at(sizes), default=0)
    for position, output in _without_storage(plan):
        if (made := plan.liveness.writes[position][output]) is not None:
            sizes[made] = 0
    return Memory(plain, max(plan.liveness.bytes_at(sizes), default=0), len(unknown))


def _without_storage(plan: Plan) -> Iterator[tuple[int, int]]:
    """Positions and outputs that get no storage of their own."""
    for step in plan.steps:
        if isinstance(step, Fused):
            yield from step.without_storage()


def _operator(op: caffe2_pb2.OperatorDef) -> str:
    inputs, outputs = (", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
                       for names in (list(op.input), list(op.output)))
    return f"{op.type}({inputs}) -> {outputs or 'nothing'}"


def lines(plan: Plan) -> Iterator[str]:
    """The steps of a plan, a line each: positions, operators, what a pass did and why."""
    said = {position: note for note in plan.notes for position in note.positions}
    for step, at in zip(plan.steps, plan.positions):
        positions = step.positions if isinstance(step, Fused) else (at,)
        first, last = positions[0], positions[-1]
        where = str(first) if first == last else f"{first}-{last}"
        text = _operator(plan.definition.op[first])
        if first != last:
            text += f" ... {_operator(plan.definition.op[last])}"
        note = said.get(last)
        yield f"{where:>9}  {text}" + (f"  [{note.by}: {note.what}]" if note else "")


def summary(plan: Plan) -> Iterator[str]:
    """How many steps, and how much storage."""
    yield f"{len(plan.reference)} operators in {len(plan.steps)} steps"
    try:
        found = memory(plan)
    except OperatorError as error:
        yield f"storage is not known: {error}"
        return
    yield f"storage at most: {_bytes(found.plain)} plain, {_bytes(found.planned)} planned" + (
        f" (blobs whose size is not known, or that are no tensors: {found.unknown})" if found.unknown else "")


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GB"
