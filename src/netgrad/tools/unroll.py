"""Unrolling: what a run of a net with control flow or recurrence did, as a net without any.

The net runs once. If becomes the branch that was taken, While its rounds one after the other, Do its net with its
local blobs under names of their own, RecurrentNetwork its step net once per time step, with names of their own for the
blobs of each. The unrolled net computes the same on the same blobs; its gradients, which need no rule for control flow
or recurrence, are those of the net itself wherever the path does not change.

Nothing here is shared with the way recurrent networks run, so that the one may test the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from netgrad.graph.arguments import value_of
from netgrad.graph.blob import BlobReference
from netgrad.graph.control import bindings, effect_of_all, net_argument
from netgrad.graph.operator import CreateOperator
from netgrad.proto import caffe2_pb2
from netgrad.runtime.workspace import Workspace

#: operators on stacks of workspaces, which an unrolled net does without
_SCOPES = frozenset({"CreateScope", "HasScope"})
#: operators that read what the steps of a RecurrentNetwork left
_OF_STEPS = frozenset({"RecurrentNetworkGradient", "RecurrentNetworkBlobFetcher"})


class _Unroller:
    def __init__(self, workspace: Workspace, taken: Iterable[str], most: int) -> None:
        self.workspace = workspace
        self.ops: list[Any] = []
        self.most = most
        self._taken = set(taken)
        self._count = 0

    def run(self, ops: Iterable[Any], names: dict[str, str] | None) -> None:
        """Runs operators. ``names``: what each name inside is called here; None: the same."""
        for op in ops:
            if op.type in ("If", "AsyncIf"):
                branch = net_argument(op, "then_net" if self._true(op, names) else "else_net")
                if branch is not None:
                    self.run(branch.op, names)
            elif op.type == "While":
                self._loop(op, names)
            elif op.type == "Do":
                bound = {inner: self.name(outer, names) for inner, outer in bindings(op).items()}
                self.run(net_argument(op, "net").op, bound)
            elif op.type == "RecurrentNetwork":
                _Recurrence(self, op, names).write()
            elif op.type in _OF_STEPS:
                raise ValueError(f"{op.type} reads what the steps of a RecurrentNetwork left, which an unrolled net "
                                 "does not have; unroll the forward operators alone")
            elif op.type not in _SCOPES:
                copy = caffe2_pb2.OperatorDef()
                copy.CopyFrom(op)
                copy.input[:] = [self.name(name, names) for name in op.input]
                copy.output[:] = [self.name(name, names) for name in op.output]
                self.write(copy)

    def write(self, op: Any) -> None:
        """Runs one operator, and appends it to the unrolled net."""
        self.workspace.run_operator(op)
        self.ops.append(op)

    def fresh(self, name: str) -> str:
        """A name that nothing has, like the given one."""
        while True:
            self._count += 1
            fresh = f"{name}_unrolled_{self._count}"
            if fresh not in self._taken:
                return fresh

    def _loop(self, op: Any, names: dict[str, str] | None) -> None:
        condition, body = net_argument(op, "cond_net"), net_argument(op, "loop_net")
        for _ in range(self.most):
            if condition is not None:
                self.run(condition.op, names)
            if not self._true(op, names):
                return
            if body is not None:
                self.run(body.op, names)
        raise ValueError(f"a While ran {self.most} rounds and would go on; raise `most` if that is meant")

    def _true(self, op: Any, names: dict[str, str] | None) -> bool:
        return bool(np.all(self.workspace.fetch_blob(self.name(op.input[0], names))))

    def name(self, name: str, names: dict[str, str] | None) -> str:
        if names is None or not name:
            return name
        if name not in names:
            names[name] = self.fresh(name)
        return names[name]


class _Link(NamedTuple):
    internal: str
    external: str
    offset: int
    window: int


class _Recurrence:
    """One RecurrentNetwork, written out. A state is a list of blobs, one per row."""

    def __init__(self, unroller: _Unroller, op: Any, names: dict[str, str] | None) -> None:
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
        return tuple(self.unroller.workspace.fetch_blob(blob).shape)

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
            self._step(t, dict(around), incoming, outgoing)
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
                                           [BlobReference(self.unroller.name(output, self.names))]))


def unroll(net: Any, feeds: Mapping[str, Any], *, backend: str | None = None, most: int = 10_000) -> Any:
    """The operators that a net runs on some blobs, without If, While, Do and RecurrentNetwork.

    Args:
        net: a Net, a NetDef, or a list of OperatorDefs.
        feeds: the blobs before it.
        backend: what computes; the default one if None.
        most: rounds of one While after which it is given up.

    Returns:
        A NetDef. Blobs outside of control flow and of step nets keep their names.

    Raises:
        ValueError: a While does not end; an operator reads what the steps of a recurrent network left.
        OperatorError: an operator fails.
    """
    proto = net.Proto() if hasattr(net, "Proto") else net
    ops = list(proto.op) if hasattr(proto, "op") else list(proto)
    workspace = Workspace(backend=backend)
    for name, value in feeds.items():
        workspace.feed_blob(name, value)
    unroller = _Unroller(workspace, {*feeds, *(n for op in ops for n in (*op.input, *op.output))}, most)
    unroller.run(ops, None)
    return caffe2_pb2.NetDef(name="unrolled", op=unroller.ops)
