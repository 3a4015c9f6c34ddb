"""Tracing: nets run, and what they do is written down as operators without nets, each result under a name of its own.

It follows the operators of control flow and recurrence, their gradients included, just as these run, but on names: a
scope says which traced blob each name holds, a stack of workspaces is a stack of such scopes. Since no traced blob is
written twice, whatever a later derivative needs is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netgrad.graph import registry
from netgrad.graph.blob import BlobReference
from netgrad.graph.control import INITIAL, bindings, net_argument, written
from netgrad.graph.operator import CreateOperator
from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import MissingBlob, NoDerivative, WrongKind
from netgrad.runtime.tracing.recurrence import Recurrence
from netgrad.runtime.workspace import Workspace

TYPE = "NetVectorJacobianProduct"


@dataclass(frozen=True)
class Stack:
    """The scopes that runs of a Do left, the last one at the end."""

    runs: tuple[Scope, ...] = ()


@dataclass(frozen=True)
class Steps:
    """What a RecurrentNetwork left: the operators of its steps (a section of the trace), its inputs and its outputs."""

    first: int
    end: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


#: name -> the traced blob that it holds, or a stack, or steps
Scope = dict[str, Any]


class Tracer:
    """Writes down what is run in a workspace.

    Attributes:
        ops: the operators, in order.
        conditions: traced blobs that decided about the path, and what they held.
        shapes: traced blobs whose shapes did (numbers of steps), and these.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.ops: list[Any] = []
        self.conditions: list[tuple[str, bool]] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._count = 0

    def run(self, ops: Iterable[Any], names: Scope) -> None:
        """Runs operators on what a scope holds, and enters what they make."""
        for op in ops:
            follow = _FOLLOWED.get(op.type)
            if follow is not None:
                follow(self, op, names)
            else:
                self._plain(op, names)

    def write(self, op: Any) -> None:
        """Runs one operator on traced blobs, and appends it."""
        self.workspace.run_operator(op)
        self.ops.append(op)

    def shape(self, blob: str) -> tuple[int, ...]:
        """The shape of a traced blob, on which depends what is written."""
        self.shapes[blob] = found = tuple(self.workspace.values[blob].shape)
        return found

    def fresh(self, name: str) -> str:
        """A name that no traced blob has."""
        self._count += 1
        return f"{name}/{self._count}"

    def name(self, name: str, names: Scope) -> str:
        """The traced blob that a name holds; an error where there is none."""
        found = names.get(name)
        if found is None:
            raise MissingBlob(f"there is no value in {name!r}; feed it, or run what makes it before")
        if not isinstance(found, str):
            raise WrongKind(f"{name!r} holds workspaces of control flow, where a tensor is expected")
        return found

    def target(self, name: str, names: Scope) -> str:
        """A new traced blob, which a name holds from now on."""
        names[name] = fresh = self.fresh(name)
        return fresh

    def make(self, type: str, inputs: Sequence[str], name: str, **arguments: Any) -> str:
        """Writes an operator with one result; returns that traced blob."""
        fresh = self.fresh(name)
        self.write(CreateOperator(type, list(map(BlobReference, inputs)), [BlobReference(fresh)], **arguments))
        return fresh

    def _plain(self, op: Any, names: Scope) -> None:
        copy = caffe2_pb2.OperatorDef()
        copy.CopyFrom(op)
        for k, name in enumerate(op.input):
            if name:
                found = names.get(name)
                if found is None:  # some do without what is not there
                    found = names[name] = self.fresh(name)
                if not isinstance(found, str):
                    raise WrongKind(f"{op.type} reads {name!r}, which holds workspaces of control flow")
                copy.input[k] = found
        declaration = registry.find(op.type)
        required = {} if declaration is None else {o: i for i, o in declaration.inplace_required if i < len(op.input)}
        for k, name in enumerate(op.output):
            if k in required and op.input[required[k]] == name:
                copy.output[k] = names[name] = copy.input[required[k]] = self._copied_twice(copy.input[required[k]])
            elif name:
                copy.output[k] = self.target(name, names)
        self.write(copy)

    def _copied_twice(self, blob: str) -> str:
        """A copy that may be overwritten, of which another one keeps the value for derivatives."""
        if self.workspace.values.get(blob) is None:
            return blob
        copy = self.make("Copy", [blob], blob)
        self.make("Copy", [copy], blob)
        return copy

    def _alias(self, op: Any, names: Scope) -> None:
        """A Copy: no traced blob is written twice, so both names may hold one; of what is not there, none does."""
        names[op.output[0]] = names.get(op.input[0])

    # control flow

    def _true(self, name: str, names: Scope) -> bool:
        blob = self.name(name, names)
        found = bool(np.all(self.workspace.fetch_blob(blob)))
        self.conditions.append((blob, found))
        return found

    def _if(self, op: Any, names: Scope) -> None:
        branch = net_argument(op, "then_net" if self._true(op.input[0], names) else "else_net")
        if branch is not None:
            self.run(branch.op, names)

    def _while(self, op: Any, names: Scope) -> None:
        condition, body = net_argument(op, "cond_net"), net_argument(op, "loop_net")
        while True:
            if condition is not None:
                self.run(condition.op, names)
            if not self._true(op.input[0], names):
                return
            self.run(body.op, names)

    def _do(self, op: Any, names: Scope) -> None:
        """As `netgrad.runtime.nested.Inside` runs it."""
        net, bound, blob = net_argument(op, "net"), bindings(op), op.output[-1]
        flags = {argument.name: bool(argument.i) for argument in op.arg if argument.HasField("i")}
        stack = names.get(blob)
        if not isinstance(stack, Stack):
            raise WrongKind(f"{blob!r} holds no stack of workspaces; CreateScope makes one")
        runs, inside = stack.runs, Scope()
        if op.is_gradient_op:
            if not runs:
                raise MissingBlob(f"the stack {blob!r} is empty: the forward operator ran fewer times than its "
                                  "gradient")
            inside, runs = dict(runs[-1]), runs[:-1]
        elif flags.get("reuse_workspace") and runs:
            inside = dict(runs[-1])
            runs = runs[:-1]
        left = set(inside) if op.is_gradient_op else set()
        inside.update({name: names[outer] for name, outer in bound.items() if outer in names and name not in left})
        changed = written(net.op)
        initial = {name + INITIAL: inside[name] for name in bound if name in changed and name in inside}
        self.run(net.op, inside)
        names.update({outer: inside[name] for name, outer in bound.items() if name in changed and inside.get(name)})
        if not op.is_gradient_op:
            hidden = () if flags.get("copy_external_blobs") else bound
            runs += ({name: value for name, value in {**inside, **initial}.items() if name not in hidden},)
        names[blob] = Stack(runs)

    def _create_scope(self, op: Any, names: Scope) -> None:
        names[op.output[0]] = Stack()

    def _copy_scope(self, op: Any, names: Scope) -> None:
        names[op.output[0]] = names.get(op.input[0], Stack())

    def _has_scope(self, op: Any, names: Scope) -> None:
        stack = names.get(op.input[0])
        found = isinstance(stack, Stack) and bool(stack.runs)
        names[op.output[0]] = self.make("GivenTensorBoolFill", [], op.output[0], shape=[1], values=[found])

    # recurrence

    def _recurrent(self, op: Any, names: Scope) -> None:
        first = len(self.ops)
        inner, own = dict(names), caffe2_pb2.OperatorDef()
        own.CopyFrom(op)
        for k, name in enumerate(op.input):  # of one blob that stands in two places, each has a gradient of its own
            if name in op.input[:k]:
                own.input[k] = self.fresh(name)
            inner[own.input[k]] = self.make("Copy", [self.name(name, names)], name)
        inputs, before = tuple(inner[name] for name in own.input), dict(inner)
        Recurrence(self, own, inner).write()
        outputs = tuple(inner[name] for name in op.output[:-1])
        names.update({name: blob for name, blob in inner.items() if before.get(name) != blob})
        names[op.output[-1]] = Steps(first, len(self.ops), inputs, outputs)

    def _recurrent_gradient(self, op: Any, names: Scope) -> None:
        arguments = {argument.name: list(argument.ints) for argument in op.arg}
        given = arguments.get("outputs_given") or arguments.get("outputs_with_grads") or []
        steps = names.get(op.input[-1])
        if not isinstance(steps, Steps):
            raise WrongKind(f"{op.input[-1]!r} is not what a RecurrentNetwork left there")
        by = [0, *arguments.get("param", ()), *arguments.get("initial_recurrent_state_ids", ())]
        cotangents = [(steps.outputs[k], self.name(name, names)) for k, name in zip(given, op.input)]
        gradients = self.differentiate(steps.first, steps.end, cotangents, [steps.inputs[k] for k in by])
        for name, gradient in zip(op.output, gradients):
            if name:
                names[name] = gradient

    # derivatives

    def product(self, op: Any, names: Scope) -> None:
        """Runs a `NetVectorJacobianProduct`: what its net does, and then the derivative of that."""
        net = net_argument(op, "net")
        arguments = {argument.name: list(argument.ints) for argument in op.arg}
        by, given = arguments.get("by", []), arguments.get("given", [])
        blobs = [names.get(name) for name in op.input]
        count = len(net.external_input)
        first = len(self.ops)
        inside: Scope = dict(zip(net.external_input, blobs))
        for k in by:
            inside[net.external_input[k]] = self.make("Copy", [self.name(op.input[k], names)], net.external_input[k])
        starts = [inside[net.external_input[k]] for k in by]
        self.run(net.op, inside)
        cotangents = []
        for k, given_name in zip(given, op.input[count:]):
            name = net.external_output[k]
            made = self.make("Copy", [self.name(name, inside)], name)
            cotangents.append((made, self.name(given_name, names)))
        for name, gradient in zip(op.output, self.differentiate(first, len(self.ops), cotangents, starts)):
            if name:
                names[name] = gradient

    def differentiate(self, first: int, end: int, cotangents: Sequence[tuple[str, str]],
                      by: Sequence[str]) -> list[str]:
        """Writes the derivative of a section of the trace.

        Args:
            first, end: the section.
            cotangents: (blob made there, the gradient given for it).
            by: blobs read there.

        Returns:
            The blobs of the gradients: dense, zeros where nothing flows.
        """
        from netgrad.autodiff import backward

        section = _without_idle_stops(self.ops[first:end])
        gradients: Mapping[str, Any] = {}
        if cotangents and by:
            found = backward.build(section, dict(cotangents), wrt=by, overwritten="save")
            assert not found.saving.changes, "no traced blob is overwritten"
            emitted = found.operators()
            names: Scope = {name: name for op in self.ops for name in (*op.input, *op.output)}
            names.update({name: name for _, name in cotangents})
            self.run(emitted, names)
            gradients = {blob: tuple(names[part] for part in (gradient if isinstance(gradient, tuple) else (gradient,)))
                         for blob, gradient in found.gradients.items()}
        return [self._dense(blob, gradients.get(blob)) for blob in by]

    def _dense(self, blob: str, gradient: tuple[str, ...] | None) -> str:
        if gradient is None:
            return self.make("ConstantFill", [blob], blob, value=0.0)
        return gradient[0] if len(gradient) == 1 else self.make("SparseToDense", [*gradient, blob], blob)


def _without_idle_stops(ops: Sequence[Any]) -> list[Any]:
    """Without StopGradients that nobody reads: in a loop's last round that is no mistake."""
    read = {name for op in ops for name in op.input}
    return [op for op in ops if op.type != "StopGradient" or op.output[0] in read]


def _no_derivative(tracer: Tracer, op: Any, names: Scope) -> None:
    raise NoDerivative(f"{op.type} looks into what the steps of a recurrent network left, which is not run anew")


_FOLLOWED: Mapping[str, Any] = {
    "If": Tracer._if, "AsyncIf": Tracer._if, "While": Tracer._while, "Do": Tracer._do, "Copy": Tracer._alias,
    "CreateScope": Tracer._create_scope, "CopyScope": Tracer._copy_scope, "HasScope": Tracer._has_scope,
    "RecurrentNetwork": Tracer._recurrent, "RecurrentNetworkGradient": Tracer._recurrent_gradient,
    "RecurrentNetworkBlobFetcher": _no_derivative, TYPE: Tracer.product,
}
