"""Liveness and aliasing: which values a net makes, who reads them last, and which may share storage.

One analysis for whoever needs it: planners that reuse buffers or write in place, and memory tools. It looks at messages
and declarations alone; nothing runs, and no array library is needed.

A *value* is one version of a blob: what the net found, or what one operator wrote. Its storage may be held by other
values too, where an operator passes an input on or returns a view of it (its declaration's ``shares``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from netgrad.graph import registry
from netgrad.graph.declaration import Operator
from netgrad.proto import caffe2_pb2

#: position of what was there before the net ran
BEFORE = -1


@dataclass(eq=False)
class Value:
    """One version of a blob.

    Attributes:
        blob: its name.
        version: 0 for what the net found, then counted up.
        made: position of the operator that wrote it; `BEFORE` for what the net found.
        output: which output of that operator it is.
        read: positions of the operators that read it, in order.
        survives: whether it is the last version, which can be fetched after the run.
    """

    blob: str
    version: int
    made: int
    output: int = 0
    read: list[int] = field(default_factory=list)
    survives: bool = True

    @property
    def last(self) -> int:
        """The last position at which it is needed; its own for what nobody reads."""
        return self.read[-1] if self.read else self.made

    def __repr__(self) -> str:
        return f"{self.blob}@{self.version}"


class Liveness:
    """The values of a net, and what is known of their lives and storage.

    Attributes:
        values: all of them, in the order in which they come to be.
        reads: for each position, the values that the operator reads; None for an absent input.
        writes: for each position, the values that it writes; None for an output without a name.
    """

    def __init__(self, ops: Iterable[caffe2_pb2.OperatorDef]) -> None:
        self.values: list[Value] = []
        self.reads: list[list[Value | None]] = []
        self.writes: list[list[Value | None]] = []
        self._now: dict[str, Value] = {}
        self._group: dict[Value, list[Value]] = {}
        for position, op in enumerate(ops):
            self._step(position, op)

    def _step(self, position: int, op: caffe2_pb2.OperatorDef) -> None:
        declaration = registry.find(op.type)
        reads = [self._read(name, position) for name in op.input]
        unnamed = unnamed_reads(op, declaration)
        for name in self._now if unnamed is None else unnamed:
            if name in self._now:
                _note(self._now[name].read, position)
        writes = [self._write(name, position, k) for k, name in enumerate(op.output)]
        self.reads.append(reads)
        self.writes.append(writes)
        for i, o in () if declaration is None else declaration.shares:
            self._join(reads, writes, i, o)

    def _join(self, reads: Sequence[Value | None], writes: Sequence[Value | None], i: int, o: int) -> None:
        """Notes that output ``o`` may hold storage of input ``i``; -1 is any."""
        for source in reads if i < 0 else reads[i:i + 1]:
            for made in writes if o < 0 else writes[o:o + 1]:
                if source is not None and made is not None:
                    self._unite(source, made)

    def _read(self, name: str, position: int) -> Value | None:
        if not name:
            return None
        value = self._now.get(name)
        if value is None:
            value = self._add(Value(name, 0, BEFORE))
        _note(value.read, position)
        return value

    def _write(self, name: str, position: int, output: int) -> Value | None:
        if not name:
            return None
        before = self._now.get(name)
        if before is not None:
            before.survives = False
        return self._add(Value(name, 1 if before is None else before.version + 1, position, output))

    def _add(self, value: Value) -> Value:
        self.values.append(value)
        self._now[value.blob] = value
        self._group[value] = [value]
        return value

    def _unite(self, a: Value, b: Value) -> None:
        first, second = self._group[a], self._group[b]
        if first is not second:
            first.extend(second)
            for value in second:
                self._group[value] = first

    # questions

    def sharing(self, value: Value) -> Sequence[Value]:
        """All values that may hold the same storage, itself among them."""
        return tuple(self._group[value])

    def final(self, blob: str) -> Value | None:
        """The version that a blob has after the run; None for a blob that the net does not know."""
        return self._now.get(blob)

    def holders(self, value: Value, position: int) -> Iterator[Value]:
        """The other values that may need this one's storage after the operator at ``position`` has run."""
        for other in self._group[value]:
            if other is not value and other.made <= position and (other.survives or other.last > position):
                yield other

    def may_be_overwritten(self, value: Value, position: int) -> bool:
        """Whether the operator at ``position``, which reads a value, may write its result into the value's storage.

        That is so if the value is not read later, cannot be fetched after the run, was made by the net itself (what was
        there before may be held by others), and no other value that needs the storage later holds it.
        """
        if value.made == BEFORE or value.survives or value.last > position:
            return False
        if any(other.made == BEFORE for other in self._group[value]):
            return False
        return not any(self.holders(value, position))

    def ends_at(self, position: int) -> list[Value]:
        """Values whose storage was needed until the operator at ``position`` has run, and is not any more."""
        found = []
        for value in dict.fromkeys(v for v in (*self.reads[position], *self.writes[position]) if v is not None):
            group = self._group[value]
            if all(not v.survives and v.made != BEFORE and v.last <= position for v in group if v.made <= position):
                found.append(value)
        return found

    def live_at(self, position: int) -> list[Value]:
        """Values that must be there while the operator at ``position`` runs, its results included."""
        return [value for value in self.values
                if value.made <= position and (value.survives or value.last >= position)]

    def bytes_at(self, sizes: Mapping[Value, int]) -> list[int]:
        """Bytes that must be there while each operator runs; values that may share storage count once, as the largest.

        Args:
            sizes: of the values; those that are missing count as nothing.
        """
        changes = [0] * (len(self.reads) + 1)
        for group in {id(group): group for group in self._group.values()}.values():
            start = max(0, min(value.made for value in group))
            stop = len(self.reads) - 1 if any(v.survives for v in group) else max(v.last for v in group)
            size = max(sizes.get(value, 0) for value in group)
            changes[start] += size
            changes[stop + 1] -= size
        total, result = 0, []
        for change in changes[:-1]:
            total += change
            result.append(total)
        return result


def unnamed_reads(op: Any, declaration: type[Operator] | None) -> Collection[str] | None:
    """Blobs that an operator may read though they are not among its inputs; None: any that exists.

    Nets that are arguments say what they read; they may read it from the blobs around them.
    """
    if declaration is None:
        return None
    effects = declaration.effects
    if "nets" not in effects:
        return None if "blobs" in effects else ()
    found: dict[str, None] = {}
    for argument in op.arg:
        for net in (argument.n, *argument.nets):
            for inner in net.op:
                unnamed = unnamed_reads(inner, registry.find(inner.type))
                if unnamed is None:
                    return None
                found.update(dict.fromkeys((*inner.input, *inner.output, *unnamed)))
    return found


def _note(positions: list[int], position: int) -> None:
    if not positions or positions[-1] != position:
        positions.append(position)
