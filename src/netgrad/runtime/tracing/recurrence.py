"""A RecurrentNetwork written out: its step net once per time step, with names of their own for the blobs of each.

Nothing here is shared with the way recurrent networks run, so that the one may test the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from netgrad.graph.arguments import value_of
from netgrad.graph.blob import BlobReference
from netgrad.graph.control import effect_of_all, net_argument
from netgrad.graph.operator import CreateOperator


class Writer(Protocol):
    """Who runs operators and writes them down. ``names``: what each name inside is called among the written ones."""

    def run(self, ops: Iterable[Any], names: Any) -> None:
        """Runs operators that may run nets, and writes down what they do."""

    def write(self, op: Any) -> None:
        """Runs one operator as it is, and writes it down."""

    def shape(self, blob: str) -> tuple[int, ...]:
        """The shape of a written blob, on which depends what is written."""

    def fresh(self, name: str) -> str:
        """A name that nothing has, like the given one."""

    def name(self, name: str, names: Any) -> str:
        """What a blob that is read is called."""

    def target(self, name: str, names: Any) -> str:
        """What a blob that is written is called from now on."""


class _Link(NamedTuple):
    internal: str
    external: str
    offset: int
    window: int


class Recurrence:
    """One RecurrentNetwork, written out. A state is a list of blobs, one per row."""

    def __init__(self, unroller: Writer, op: Any, names: dict[str, str] | None) -> None:
        self.unroller = unroller
        self.op = op
        self.names = names
        arguments = {argument.name: value_of(argument) for argument in op.arg}
        self.step = net_argument(op, "step_net")
        self.timestep = arguments.get("timestep") or "timestep"
        self.states = arguments.get("recurrent_states") or []
        self.initial = arguments.get("initial_recurrent_state_ids") or []
        self.aliases = list(zip(*(arguments.get(f"alias_{what}") or [] for what in ("src", "dst", "offset"))))
        names_of = [arguments.get(f"link_{what}") or [] for what in ("internal", "external", "offset")]
        windows = arguments.get("link_window") or [1] * len(names_of[0])
        self.links = [_Link(*entry) for entry in zip(*names_of, windows)]
        self.rows: dict[str, list[str]] = {}

    def shape(self, blob: str) -> tuple[int, ...]:
        return self.unroller.shape(blob)

    def make(self, type: str, inputs: list[str], name: str, surplus: int = 0, **arguments: Any) -> str:
        """Writes an operator; returns its first output, a fresh name."""
        outputs = [self.unroller.fresh(name) for _ in range(1 + surplus)]
        self.unroller.write(CreateOperator(type, list(map(BlobReference, inputs)), list(map(BlobReference, outputs)),
                                           **arguments))
        return outputs[0]

    def write(self) -> None:
        sequence = self.unroller.name(self.op.input[0], self.names)
        length, batch = self.shape(sequence)[:2]
        for state, k in zip(self.states, self.initial):
            self.rows[state] = self._first_rows(self.unroller.name(self.op.input[k], self.names), batch)
        effect = effect_of_all(self.step.op)
        incoming: list[_Link] = []
        outgoing: list[_Link] = []
        # a blob that a step hands on as it was given has two links; that to where it comes from is before the other
        for link in sorted(self.links, key=lambda link: (link.external in self.states, link.offset)):
            given = link.internal in effect.reads or link.internal not in effect.writes
            seen = any(link.internal == other.internal for other in incoming)
            (incoming if given and not seen else outgoing).append(link)
        local = {*(link.internal for link in incoming), self.timestep}
        around = {name: self.unroller.name(name, self.names) for name in effect.reads if name and name not in local}
        for t in range(length):
            names = dict(around)
            self._step(t, names, incoming, outgoing)
            around = {name: names[name] for name in around}  # steps may write some, too: running statistics
        if self.names is not None:
            self.names.update({name: blob for name, blob in around.items() if name in effect.writes})
        for k, output in enumerate(self.op.output[:-1]):
            self._show(k, output)

    def _first_rows(self, value: str, batch: int) -> list[str]:
        shape = self.shape(value)
        if len(shape) == 1:
            wide = self.make("ExpandDims", [value], value, dims=[0, 1])
            return [self.make("Tile", [wide], value, tiles=batch, axis=1)]
        if len(shape) == 2:
            return [self.make("ExpandDims", [value], value, dims=[0])]
        return [self._slice(value, k, k + 1) for k in range(shape[0])]

    def _slice(self, blob: str, start: int, end: int) -> str:
        rest = len(self.shape(blob)) - 1
        return self.make("Slice", [blob], blob, starts=[start] + [0] * rest, ends=[end] + [-1] * rest)

    def _joined(self, rows: list[str], name: str) -> str:
        return self.make("Concat", rows, name, 1, axis=0) if len(rows) > 1 else self.make("Copy", rows, name)

    def _step(self, t: int, names: dict[str, str], incoming: list[_Link], outgoing: list[_Link]) -> None:
        names[self.timestep] = self.make("GivenTensorIntFill", [], self.timestep, shape=[1], values=[t])
        waiting = []
        for link in incoming:
            start, end = t + link.offset, t + link.offset + link.window
            if link.external not in self.rows:
                names[link.internal] = self._slice(self.unroller.name(link.external, self.names), start, end)
            elif end <= len(self.rows[link.external]):
                names[link.internal] = self._joined(self.rows[link.external][start:end], link.internal)
            else:
                waiting.append(link)
        for op in self.step.op:
            for link in [link for link in waiting if link.internal in effect_of_all([op]).reads]:
                waiting.remove(link)
                rows = self.rows[link.external][t + link.offset:]
                rows += [names[other.internal] for other in outgoing if other.external == link.external]
                names[link.internal] = self._joined(rows[:link.window], link.internal)
            self.unroller.run([op], names)
        for link in outgoing:
            self._hand_on(names[link.internal], link)

    def _hand_on(self, made: str, link: _Link) -> None:
        rows = self.rows[link.external]
        shape = (link.window, *self.shape(rows[0] if rows else made)[1:])
        if self.shape(made) != shape:
            made = self.make("Reshape", [made], link.internal, 1, shape=list(shape))
        rows += [made] if link.window == 1 else [self._slice(made, k, k + 1) for k in range(link.window)]

    def _show(self, k: int, output: str) -> None:
        """Writes an output: what alias_dst says of its name, or the state of its name, or what its position says."""
        shown = [alias for alias in self.aliases if alias[1] == output]
        shown += [(output, output, 0)] * (output in self.states) + self.aliases[k:k + 1]
        if not shown:
            raise ValueError(f"output {k} of a RecurrentNetwork, {output!r}, is neither in alias_dst nor a state")
        state, _, start = shown[0]
        rows = self.rows[state]
        kept = rows[start:]
        result = self._joined(kept, output) if kept else self._slice(rows[0], 0, 0)
        self.unroller.write(CreateOperator("Copy", [BlobReference(result)],
                                           [BlobReference(self.unroller.target(output, self.names))]))
