"""The forward operators in SSA form: every write makes a new value, every read means one.

Values are integers, names a list indexed by them. A blob that is read before anything wrote it is an external value.
The backward walk appends its own values to the same list, so that one table says what each reference is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from sys import intern
from typing import Any

from netgrad.graph import control


class Forward:
    """SSA versions of a list of operators.

    Attributes:
        ops: the OperatorDefs.
        names: name of each value.
        ins, outs: values that each operator reads and writes.
        types: the operators' types.
        plain: whether an operator has neither arguments nor device nor engine. (All that is needed of an ordinary one
            is read here, while it is at hand.)
        current: the value that each name holds in the end.
        unread: values that no operator reads.
        shared: values that are read more than once.
        rebinds: operators that write a name which had a value before.
        older: value -> the value that its name held before it was written.
        opaque: names of stacks and steps, by which gradients of control flow and recurrence read what forward runs
            left.
        chains: gradient operator that reads such, or what is there only if a branch was taken -> all operators that
            made it so, itself the last. What these read, it depends on, and counts as reading.
    """

    def __init__(self, ops: Sequence[Any]) -> None:
        self._read(ops, {}, {})
        if not control.TYPES.isdisjoint(self.types):
            self._read(ops, *_hidden(ops))
        self.opaque: set[str] = set()
        self.chains: dict[int, list[int]] = {}
        #: gradient operator of a chain -> how many values it reads itself
        self._own: dict[int, int] = {}
        if not control.WITH_GRADIENTS.isdisjoint(self.types):
            self._read_chains()

    def _read_chains(self) -> None:
        gradients = [index for index, op in enumerate(self.ops) if op.type in control.WITH_GRADIENTS and
                     (op.is_gradient_op or op.type == "RecurrentNetworkGradient")]
        self.opaque = control.opaque(self.ops) if gradients else set()
        for index in gradients:
            chain = self._chain(index)
            if chain is None:
                continue
            self.chains[index] = chain
            made = {value for link in chain for value in self.outs[link]}
            own = self.ins[index]
            self._own[index] = len(own)
            more = dict.fromkeys(value for link in chain for name, value in self.reads(link).items()
                                 if value is not None and value not in made and value not in own
                                 and name not in self.opaque)
            self.ins[index] = (*own, *more)
            self.shared.update(value for value in more if value not in self.unread)
            self.unread.difference_update(more)

    def _row(self, index: int) -> tuple[int, ...]:
        """The values that an operator reads, those behind it not counted."""
        return self.ins[index][:self._own.get(index)]

    def _chain(self, index: int) -> list[int] | None:
        """The operators behind the stacks, steps and locals of branches that one reads; None where it reads none, or
        their origin is not among these operators."""
        found = {index}
        left = [index]
        while left:
            link = left.pop()
            inside = control.opaque([self.ops[link]])
            for value in self._row(link):
                maker = self.producer.get(value)
                if self.names[value] in self.opaque or (maker is not None and maker != index and self._is_local(value)):
                    if maker is None and self.names[value] not in inside:
                        return None
                    if maker is not None and maker not in found:
                        found.add(maker)
                        left.append(maker)
        return sorted(found) if len(found) > 1 else None

    def _is_local(self, value: int) -> bool:
        """Whether a value belongs to a branch: it is there only if that was taken."""
        maker, name = self.producer[value], self.names[value]
        op = self.ops[maker]
        return op.type in control.TYPES and not op.is_gradient_op and name not in control.effect(op).sure and \
            name not in self.reads(maker)

    def reads(self, index: int) -> dict[str, int | None]:
        """Name -> value of what an operator reads to run, also where no gradient ever leads to it.

        None: made by no operator here, and not mentioned before. A blob that it may write, or leave as it is, counts
        only if something is known to be there.
        """
        op = self.ops[index]
        needed = dict.fromkeys(op.input) if op.is_gradient_op else control.needed(op)
        found: dict[str, int | None] = {self.names[value]: value for value in self._row(index)
                                        if value in self.producer or self.names[value] in needed}
        for name in needed:
            if name and name not in found:
                before = [value for value in range(self.size) if self.names[value] == name
                          and self.producer.get(value, -1) < index]
                found[name] = before[-1] if before else None
        return found

    def _read(self, ops: Sequence[Any], also_read: Mapping[int, list[str]],
              also_written: Mapping[int, list[str]]) -> None:
        """Numbers all values. Operators may read and write more than they say: by the nets that they run."""
        names: list[str] = []
        current: dict[str, int] = {}
        ins: list[tuple[int, ...]] = []
        outs: list[tuple[int, ...]] = []
        types: list[str] = []
        plain: list[bool] = []
        unread: set[int] = set()
        shared: set[int] = set()
        rebinds: list[int] = []
        older: dict[int, int] = {}
        find, name_it = current.get, names.append
        count = 0
        for index, op in enumerate(ops):
            row = []
            for name in (op.input[:] if index not in also_read else [*op.input, *also_read[index]]):
                value = find(name)
                if value is None:
                    value = current[name] = count
                    count += 1
                    name_it(name)
                elif value in unread:
                    unread.remove(value)
                else:
                    shared.add(value)
                row.append(value)
            ins.append(tuple(row))
            first = count
            for name in (op.output[:] if index not in also_written else [*op.output, *also_written[index]]):
                before = find(name)
                if before is not None:
                    rebinds.append(index)
                    older[count] = before
                current[name] = count
                unread.add(count)
                count += 1
                name_it(name)
            outs.append((first,) if count == first + 1 else tuple(range(first, count)))
            types.append(intern(op.type))
            plain.append(not (op.HasField("engine") or op.HasField("device_option") or len(op.arg)))
        self.ops = ops
        self.names = names
        self.ins = ins
        self.outs = outs
        self.types = types
        self.plain = plain
        self.current = current
        self.unread = unread
        self.shared = shared
        self.rebinds = rebinds
        self.older = older
        #: number of forward values; larger numbers are the backward pass's
        self.size = count

    @cached_property
    def producer(self) -> dict[int, int]:
        """Value -> the operator that wrote it; external values are not in it."""
        return {value: index for index, row in enumerate(self.outs) for value in row}

    def first_users(self, values: set[int]) -> dict[int, list[int]]:
        """Operator -> those of the values of which it is the first reader, in the order of its inputs."""
        found: dict[int, list[int]] = {}
        left = set(values)
        for index, row in enumerate(self.ins):
            if not left:
                break
            if not left.isdisjoint(row):
                found[index] = [v for v in dict.fromkeys(row) if v in left]
                left.difference_update(row)
        return found

    def versions(self, name: str) -> list[int]:
        """All values of a name, oldest first. Version numbers are positions in this list."""
        return [v for v in range(self.size) if self.names[v] == name]

    def version(self, value: int) -> int:
        """Caffe2's version number of a value."""
        return self.versions(self.names[value]).index(value)

    def add_external(self, name: str) -> int:
        """A value for a blob that the operators do not mention; only before the backward walk adds its own."""
        value = self.size
        self.names.append(name)
        self.current[name] = value
        self.size += 1
        return value

    def history(self, name: str, line_of: Any = None) -> str:
        """The version history of a name, one event a line, for messages."""
        lines = []
        for version, value in enumerate(self.versions(name)):
            made = self.producer.get(value, -1)
            source = "given from outside" if made < 0 else f"written by {self._place(made, line_of)}"
            readers = [i for i, row in enumerate(self.ins) if value in row]
            reads = ", ".join(self._place(i, None) for i in readers[:8]) or "nothing"
            lines.append(f"  version {version}: {source}; read by {reads}")
        return "\n".join(lines)

    def _place(self, index: int, line_of: Any) -> str:
        line = line_of(index) if line_of else None
        return f"operator #{index} ({self.ops[index].type})" + (f" at {line}" if line else "")


def _hidden(ops: Sequence[Any]) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """What operators that run nets read and write beside their inputs and outputs.

    A blob that is written on some paths only keeps its earlier value on the others, so that value is read; unless an
    operator without inputs made it (a fill, for the shape's sake), from where no gradient leads anywhere.
    """
    reads: dict[int, list[str]] = {}
    writes: dict[int, list[str]] = {}
    filled: set[str] = set()
    seen: set[str] = set()
    for index, op in enumerate(ops):
        seen.update(op.input)
        if op.type in control.TYPES:
            found = control.effect(op)
            stated, listed = set(op.input), set(op.output)
            reads[index] = [name for name in found.reads
                            if name not in stated and name not in filled and (name in seen or name in listed)]
            writes[index] = sorted(found.writes - listed)
        written = [*op.output, *writes.get(index, ())]
        seen.update(written)
        if op.input:
            filled.difference_update(written)
        else:
            filled.update(written)
    return reads, writes
