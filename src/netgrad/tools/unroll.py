"""Unrolling: what a run of a net with control flow or recurrence did, as a net without any.

The net runs once. If becomes the branch that was taken, While its rounds one after the other, Do its net with its
local blobs under names of their own, RecurrentNetwork its step net once per time step, with names of their own for the
blobs of each. The unrolled net computes the same on the same blobs; its gradients, which need no rule for control flow
or recurrence, are those of the net itself wherever the path does not change.

Nothing here is shared with the way recurrent networks run, so that the one may test the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from netgrad.graph.control import bindings, net_argument
from netgrad.proto import caffe2_pb2
from netgrad.runtime.tracing.recurrence import Recurrence
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
                Recurrence(self, op, names).write()
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

    def shape(self, blob: str) -> tuple[int, ...]:
        """The shape of a blob as it is now."""
        return tuple(self.workspace.fetch_blob(blob).shape)

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

    def target(self, name: str, names: dict[str, str] | None) -> str:
        """What an output is called: a name inside stands for one blob here, whoever writes it."""
        return self.name(name, names)

    def name(self, name: str, names: dict[str, str] | None) -> str:
        if names is None or not name:
            return name
        if name not in names:
            names[name] = self.fresh(name)
        return names[name]


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
