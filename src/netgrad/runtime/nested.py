"""Nets as arguments of operators: bound when the net around them is created, run by the kernel of their operator.

If and While run theirs in the workspace around them. Do runs its own inside a workspace of its own, in which some names
stand for blobs outside. What that workspace holds after a run is put on a stack, a `ScopeStack` in a blob, where the
gradient of the Do finds it: the last run comes off first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netgrad.graph.arguments import Net
from netgrad.graph.control import INITIAL, written
from netgrad.runtime.errors import BadArgument, MissingBlob, WrongKind
from netgrad.runtime.executor import BoundNet
from netgrad.runtime.lending import kept
from netgrad.runtime.workspace import Workspace

if TYPE_CHECKING:
    from netgrad.runtime.binding import Call


class ScopeStack:
    """The blobs of the workspaces that a Do ran in, the last run on top."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []

    def copy(self) -> ScopeStack:
        """Another stack of the same runs; stacks inside are copied, tensors are not: nobody writes into them."""
        made = ScopeStack()
        made.runs = [{name: value.copy() if isinstance(value, ScopeStack) else value for name, value in run.items()}
                     for run in self.runs]
        return made


@dataclass
class Scope:
    """What is known of a stack before anything runs: from the operators on it in the nets that were created.

    Attributes:
        needed: what gradients read of what a run leaves; None where there is no gradient so far, so that all is kept.
        reused: whether runs read what earlier ones left, so that all is kept.
        inner: the stacks inside.
    """

    needed: set[str] | None = None
    reused: bool = False
    inner: dict[str, Scope] = field(default_factory=dict)


def prepare(call: Call, known: Collection[str] | None) -> None:
    """Binds the nets of an operator; its kernel finds them in the call.

    Args:
        known: names that operators before it make, besides the blobs of the workspace; None: any name may be read.
    """
    _PREPARATIONS[call.type](call, known)


def _net_arguments(call: Call) -> Iterator[tuple[str, Any]]:
    """The nets that an operator was given, by the names of the arguments."""
    table = call.declaration.argument_table
    for argument in call.definition.arg:
        declared = table.get(argument.name)
        if isinstance(declared, Net):
            yield argument.name, declared.convert(argument)


def _here(call: Call, known: Collection[str] | None) -> None:
    """Nets that run in the workspace of their operator, one after the other: what one makes, the next may read."""
    names = None if known is None else {*known, *call.outputs, *call.inputs}
    for name, net in sorted(_net_arguments(call), key=lambda item: item[0] != "cond_net"):
        call.nets[name] = bound = BoundNet(net, call.workspace, known=names)
        if names is not None:
            names |= {blob for op in bound.definition.op for blob in op.output}


class Inside:
    """The workspace in which a Do runs its net, and which names of it stand for which blobs outside."""

    def __init__(self, call: Call, net: Any) -> None:
        self.is_gradient = call.definition.is_gradient_op
        self.copies = bool(call.argument("copy_external_blobs", False))
        self.reuses = bool(call.argument("reuse_workspace", False))
        self.outside = call.workspace
        self.stack = call.outputs[-1] if call.outputs else ""
        if not call.inputs or call.inputs[-1] != self.stack:
            raise BadArgument("its last input and its last output must be one blob, which CreateScope made")
        self.bound = self._bindings(call)
        writes = written(net.op)
        self.written = {inner: outer for inner, outer in self.bound.items() if inner in writes}
        self.workspace = Workspace(backend=self.outside.backend.name)
        self.scope: Scope = self.outside.scopes.setdefault(self.stack, Scope())
        self.workspace.scopes = self.scope.inner
        self.scope.reused |= self.reuses
        if self.is_gradient:
            self.scope.needed = {*(self.scope.needed or ()), *self.bound, *(call.argument("saved_fwd_blobs") or ())}
        anything = self.is_gradient or self.reuses
        self.net = BoundNet(net, self.workspace, known=None if anything else set(self.bound))

    @staticmethod
    def _bindings(call: Call) -> dict[str, str]:
        blobs = [*call.inputs[:-1], *call.outputs[:-1]]
        inner, positions = call.argument("inner_blobs") or [], call.argument("outer_blobs_idx") or []
        if len(inner) != len(positions):
            raise BadArgument(f"inner_blobs names {len(inner)} blobs and outer_blobs_idx {len(positions)}; they go "
                              "together one to one")
        for name, position in zip(inner, positions):
            if not 0 <= position < len(blobs):
                raise BadArgument(f"outer_blobs_idx says that {name!r} is blob {position}; inputs and outputs together "
                                  f"are {len(blobs)}, the workspace not counted")
        bound = {name: blobs[position] for name, position in zip(inner, positions)}
        if len(bound) < len(inner) or len(set(bound.values())) < len(inner):
            raise BadArgument("inner_blobs and outer_blobs_idx bind a name twice; each may stand for one blob")
        return bound

    def run(self) -> None:
        """Runs the net once: forward on a workspace of its own, backward on the one that the last run left."""
        stack = self.outside.values.get(self.stack)
        if not isinstance(stack, ScopeStack):
            raise WrongKind(f"{self.stack!r} holds no stack of workspaces; CreateScope makes one")
        values, outer = self.workspace.values, self.outside.values
        values.clear()
        if self.is_gradient:
            if not stack.runs:
                raise MissingBlob(f"the stack {self.stack!r} is empty: the forward operator ran fewer times than its "
                                  "gradient, or another pass has taken what it left")
            values.update(stack.runs.pop())
        elif self.reuses and stack.runs:
            values.update(stack.runs[-1])
        known = set(values)
        for inner, blob in self.bound.items():
            if blob in outer and (inner not in known or not self.is_gradient):
                values[inner] = outer[blob]
        initial = {inner + INITIAL: kept(values[inner], self.outside.backend) for inner in self.written
                   if values.get(inner) is not None}
        self.net.run()
        for inner, blob in self.written.items():
            if values.get(inner) is not None:
                outer[blob] = values[inner]
        if not self.is_gradient:
            self._keep(stack, {**values, **initial})
        values.clear()

    def _keep(self, stack: ScopeStack, left: dict[str, Any]) -> None:
        if not self.copies:  # the gradient reads these outside, where they are kept anyway
            for inner in self.bound:
                left.pop(inner, None)
        if self.scope.needed is not None and not self.scope.reused:
            left = {name: value for name, value in left.items() if name in self.scope.needed}
        left = {name: kept(value, self.outside.backend) for name, value in left.items()}
        if self.reuses and stack.runs:
            stack.runs[-1] = left
        else:
            stack.runs.append(left)


def _inside(call: Call, known: Collection[str] | None) -> None:
    for _, net in _net_arguments(call):
        call.inside = Inside(call, net)


class Body:
    """The body of an ONNXWhile: a net that reads the round, the condition and carried values by position."""

    def __init__(self, call: Call, net: Any) -> None:
        around = call.workspace
        self.own = not call.argument("disable_scopes", False)
        self.workspace = Workspace(around) if self.own else around
        self.inputs, self.outputs = list(net.external_input), list(net.external_output)
        if self.own:
            for name in {*self.inputs, *written(net.op)}:
                self.workspace.values.bind_here(name, None)  # type: ignore[attr-defined]
        self.net = BoundNet(net, self.workspace, known=set(self.inputs))

    def run(self, *operands: Any) -> list[Any]:
        """The values of the net's external outputs for values of its external inputs."""
        values = self.workspace.values
        for name, value in zip(self.inputs, operands):
            values[name] = value
        self.net.run()
        missing = [name for name in self.outputs if values.get(name) is None]
        if missing:
            raise MissingBlob(f"its body did not make {missing[0]!r}, which is among its external outputs")
        return [values[name] for name in self.outputs]


def _body(call: Call, known: Collection[str] | None) -> None:
    for _, net in _net_arguments(call):
        call.inside = Body(call, net)


def _one_scope(call: Call, known: Collection[str] | None) -> None:
    """A copy of a stack is read like the stack: what either's gradients need is kept."""
    scopes = call.workspace.scopes
    scopes[call.outputs[0]] = scopes.setdefault(call.inputs[0], Scope())


def _recurrent(call: Call, known: Collection[str] | None) -> None:
    from netgrad.recurrent.execution import prepare

    prepare(call, known)


_PREPARATIONS: dict[str, Callable[[Call, Collection[str] | None], None]] = {
    "If": _here, "AsyncIf": _here, "While": _here, "Do": _inside, "CopyScope": _one_scope, "ONNXWhile": _body,
    "RecurrentNetwork": _recurrent, "RecurrentNetworkGradient": _recurrent,
}
TYPES = frozenset(_PREPARATIONS)
