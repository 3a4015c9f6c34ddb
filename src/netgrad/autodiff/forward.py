"""The forward operators in SSA form: every write makes a new value, every read means one.

Values are integers, names a list indexed by them. A blob that is read before anything wrote it is an external value.
The backward walk appends its own values to the same list, so that one table says what each reference is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Forward:
    """SSA versions of a list of operators.

    Attributes:
        ops: the OperatorDefs.
        names: name of each value.
        ins, outs: values that each operator reads and writes.
        producer: operator that wrote a value; -1 for external ones.
        uses: how many times a value is read (an operator that reads it twice counts twice).
        first_use: first operator that reads a value; -1 if none does.
        current: the value that each name holds in the end.
        rebinds: operators that write a name which had a value before.
        older: value -> the value that its name held before it was written.
    """

    __slots__ = ("current", "first_use", "ins", "names", "older", "ops", "outs", "producer", "rebinds", "size", "uses")

    def __init__(self, ops: Sequence[Any]) -> None:
        names: list[str] = []
        producer: list[int] = []
        uses: list[int] = []
        first_use: list[int] = []
        current: dict[str, int] = {}
        ins: list[list[int]] = []
        outs: list[list[int]] = []
        rebinds: list[int] = []
        older: dict[int, int] = {}
        find = current.get
        count = 0
        for index, op in enumerate(ops):
            row = []
            for name in op.input[:]:
                value = find(name)
                if value is None:
                    value = current[name] = count
                    count += 1
                    names.append(name)
                    producer.append(-1)
                    uses.append(1)
                    first_use.append(index)
                elif uses[value]:
                    uses[value] += 1
                else:
                    uses[value] = 1
                    first_use[value] = index
                row.append(value)
            ins.append(row)
            row = []
            for name in op.output[:]:
                before = find(name)
                if before is not None:
                    rebinds.append(index)
                    older[count] = before
                current[name] = count
                row.append(count)
                count += 1
                names.append(name)
                producer.append(index)
                uses.append(0)
                first_use.append(-1)
            outs.append(row)
        self.ops = ops
        self.names = names
        self.ins = ins
        self.outs = outs
        self.producer = producer
        self.uses = uses
        self.first_use = first_use
        self.current = current
        self.rebinds = rebinds
        self.older = older
        #: number of forward values; larger numbers are the backward pass's
        self.size = count

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
        self.producer.append(-1)
        self.uses.append(0)
        self.first_use.append(-1)
        self.current[name] = value
        self.size += 1
        return value

    def history(self, name: str, line_of: Any = None) -> str:
        """The version history of a name, one event a line, for messages."""
        lines = []
        for version, value in enumerate(self.versions(name)):
            made = self.producer[value]
            source = "given from outside" if made < 0 else f"written by {self._place(made, line_of)}"
            readers = [i for i, row in enumerate(self.ins) if value in row]
            reads = ", ".join(self._place(i, None) for i in readers[:8]) or "nothing"
            lines.append(f"  version {version}: {source}; read by {reads}")
        return "\n".join(lines)

    def _place(self, index: int, line_of: Any) -> str:
        line = line_of(index) if line_of else None
        return f"operator #{index} ({self.ops[index].type})" + (f" at {line}" if line else "")
