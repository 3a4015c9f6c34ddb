"""The reference executor: runs the operators of a net one after the other, as their declarations say.

"In place" means that the name is bound anew; no buffer is ever written. Whatever can be found out before the run is
found in `BoundNet.__init__`, which is what CreateNet makes.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from netgrad.graph import registry
from netgrad.graph.arguments import ArgumentError
from netgrad.graph.shapes import ShapeError
from netgrad.proto import caffe2_pb2
from netgrad.runtime import backends
from netgrad.runtime.backends import Backend
from netgrad.runtime.binding import Binding, Call, bind, preference
from netgrad.runtime.blobs import Strings, as_strings, describe
from netgrad.runtime.errors import (
    BadArgument,
    BadOutput,
    BadShape,
    BadValue,
    KernelError,
    MissingBlob,
    OperatorError,
    Place,
    UserFunctionFailed,
    WrongKind,
)

if TYPE_CHECKING:
    from netgrad.runtime.workspace import Workspace

Blobs = MutableMapping[str, Any]


class Step:
    """One operator of one net in one workspace."""

    __slots__ = ("absent", "array_type", "backend", "binding", "blobs", "call", "host_call", "inputs",
                 "on_numpy", "outputs", "plain")

    def __init__(self, binding: Binding, backend: Backend, workspace: Workspace) -> None:
        arguments = dict(binding.arguments)
        if binding.takes_call:
            arguments["op"] = Call(binding, workspace)
        self.binding = binding
        self.backend = backend
        self.blobs: Blobs = workspace.values
        self.array_type: Any = backend.array_type
        self.inputs = binding.inputs
        self.outputs = binding.outputs
        self.absent = binding.absent
        #: whether the kernel computes with the backend's arrays
        self.plain = not binding.host
        self.call: Callable[..., Any] = functools.partial(binding.kernel, binding.xp, **arguments)
        self.on_numpy = self.array_type is np.ndarray  # where strings have the type of numbers
        #: the same on NumPy, for strings and opaque blobs
        self.host_call = self.call
        if binding.strings and not binding.host:
            assert binding.reference is not None
            self.host_call = functools.partial(binding.reference, backends.get("numpy").xp, **arguments)

    def run(self) -> None:
        """Reads the inputs, computes, binds the outputs. Nothing is bound if anything fails."""
        blobs, array_type = self.blobs, self.array_type
        try:
            inputs = [blobs[name] for name in self.inputs]
        except KeyError:
            inputs = [self._read(name) for name in self.inputs]
        plain = self.plain
        for value in inputs:
            if type(value) is not array_type:
                plain = False
        if plain:
            results = self.call(*inputs, *self.absent)
        else:
            call, inputs = self._admit(inputs)
            results = call(*inputs, *self.absent)
        if type(results) is not tuple:
            if results is None and self.binding.silent:
                return
            results = (results,)
        outputs = self.outputs
        if len(results) < len(outputs):
            raise BadOutput(f"its kernel made {len(results)} outputs of the {len(outputs)} asked for")
        for value in results:
            if type(value) is not array_type or (self.on_numpy and value.dtype.hasobject):
                plain = False
        if not plain:
            results = self._accept(results)
        for i, o in self.binding.same:
            if getattr(results[o], "shape", None) != getattr(inputs[i], "shape", None):
                self._refuse_shape(i, o, results[o])
        for name, value in zip(outputs, results):
            blobs[name] = value

    def _read(self, name: str) -> Any:
        if name == "":
            return None
        if name not in self.blobs:
            raise MissingBlob(f"there is no blob {name!r}; feed it, or run the operator that makes it first")
        return self.blobs[name]

    def _admit(self, inputs: list[Any]) -> tuple[Callable[..., Any], list[Any]]:
        """The kernel and its inputs where the host computes or an input is no plain tensor; raises where it cannot."""
        binding = self.binding
        for name, value in zip(self.inputs, inputs):
            if name and value is None:
                raise MissingBlob(f"blob {name!r} was created but never filled; feed it, or run what makes it")
            if name and not binding.host and type(value) is not self.array_type:
                if not isinstance(value, Strings):
                    raise WrongKind(f"{describe(name, value)}, where a tensor is expected")
                if not binding.strings:
                    raise WrongKind(f"{name} holds strings; {binding.type} takes numbers")
        if not binding.host and not any(isinstance(value, Strings) for value in inputs):
            return self.call, inputs
        to_numpy = self.backend.to_numpy
        host = [to_numpy(v) if type(v) is self.array_type else v.view(np.ndarray) if isinstance(v, Strings) else v
                for v in inputs]
        return self.host_call, host

    def _accept(self, results: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs as blobs, where not all are plain tensors; raises where a kernel broke its contract."""
        accepted = []
        for k, (name, value) in enumerate(zip(self.outputs, results)):
            if isinstance(value, (np.ndarray, np.generic)):
                array = np.asarray(value)
                if array.dtype == object:
                    value = as_strings(array)
                elif self.array_type is not np.ndarray:
                    value = self.backend.from_numpy(array)
                else:
                    value = array
            elif value is None and name:
                raise BadOutput(f"its kernel did not make output {k}, {name!r}")
            elif isinstance(value, (float, int, complex)):
                raise BadOutput(f"its kernel made the Python number {value!r} for output {k}, {name!r}, not an array")
            accepted.append(value)
        return tuple(accepted)

    def _refuse_shape(self, i: int, o: int, result: Any) -> None:
        before = describe(self.inputs[i], self.blobs[self.inputs[i]])
        raise BadShape(f"it runs in place on {before} and would make it {describe(self.outputs[o], result)}; give the "
                       "output a name of its own")


#: file, line and function that wrote the operator at a position
Origins = Callable[[int], tuple[str, int, str] | None]


def place_of(definition: caffe2_pb2.OperatorDef, blobs: Blobs, position: int | None = None, net: str = "",
             origins: Origins | None = None) -> Place:
    """Where an operator stands, with all that its error message tells."""
    line = None
    if origins is not None and position is not None:
        with contextlib.suppress(IndexError):  # the net lost operators since it was created
            if origin := origins(position):
                line = f"{origin[0]}:{origin[1]} in {origin[2]}"
    return Place(definition.type, position, net,
                 [describe(n, blobs[n]) if n in blobs else f"{n}: not there" for n in definition.input],
                 list(definition.output), line)


#: what kernels raise with a sentence for the user, the narrower kinds first
_FORESEEN: dict[type[Exception], type[OperatorError]] = {
    ArgumentError: BadArgument, ShapeError: BadShape, ValueError: BadValue, NotImplementedError: KernelError}


def located(error: Exception, place: Place) -> BaseException:
    """The exception to raise for what an operator's binding or kernel raised at ``place``.

    Errors of the executor and of kernels get the place; what a user's Python function raised stays what it is, with the
    place as a note; anything else is wrapped, and chained where it was unforeseen.
    """
    if isinstance(error, UserFunctionFailed):
        error.error.add_note(f"in {place}")
        return error.error
    if isinstance(error, OperatorError):
        return error.at(place)
    for kind, ours in _FORESEEN.items():
        if isinstance(error, kind):
            return ours(str(error)).at(place)
    found = KernelError(f"{type(error).__name__}: {error}")
    found.__cause__ = error
    return found.at(place)


def raise_located(error: Exception, place: Place) -> NoReturn:
    found = located(error, place)
    raise found from found.__cause__


class BoundNet:
    """A net that was created in a workspace: all operators bound, ready to run any number of times."""

    def __init__(self, definition: caffe2_pb2.NetDef, workspace: Workspace, origins: Origins | None = None) -> None:
        self.definition = definition
        self.origins = origins
        self.name = definition.name
        #: what the net was made from, to notice edits
        self.source = definition.SerializeToString()
        self.workspace = workspace
        backend, blobs = workspace.backend, workspace.values
        made: set[str] = set()
        self._steps = []
        for position, operator in enumerate(definition.op):
            try:
                binding = bound(inherit(operator, definition), backend)
                for name in binding.inputs:
                    if name and name not in made and name not in blobs:
                        raise MissingBlob(f"there is no blob {name!r}: it is neither in the workspace nor made by an "
                                          "earlier operator; feed it, or correct the name")
            except OperatorError as error:
                workspace.last_failed = position
                raise located(error, self._place(position)) from None
            made.update(binding.outputs)
            self._steps.append(Step(binding, backend, workspace))
        for name in made:
            if name:
                blobs.setdefault(name, None)

    def run(self) -> bool:
        """Runs all operators once, in order; raises the failing one's error, and then later ones have not run."""
        position = 0
        try:
            with self.workspace.backend.running():
                for position, step in enumerate(self._steps):  # noqa: B007 (read when one fails)
                    step.run()
        except Exception as error:
            self.workspace.last_failed = position
            raise_located(error, self._place(position))
        return True

    def time_operators(self, rounds: int) -> list[float]:
        """Milliseconds that each operator takes, over several runs of the net."""
        totals = [0.0] * len(self._steps)
        with self.workspace.backend.running():
            for _ in range(rounds):
                for position, step in enumerate(self._steps):
                    start = time.perf_counter()
                    step.run()
                    totals[position] += time.perf_counter() - start
        return [total / rounds * 1e3 for total in totals]

    def _place(self, position: int) -> Place:
        return place_of(self.definition.op[position], self.workspace.values, position, self.name, self.origins)


def inherit(operator: caffe2_pb2.OperatorDef, net: caffe2_pb2.NetDef) -> caffe2_pb2.OperatorDef:
    """The operator with the net's device option, where it has none of its own."""
    if not net.HasField("device_option") or operator.HasField("device_option"):
        return operator
    copy = caffe2_pb2.OperatorDef()
    copy.CopyFrom(operator)
    copy.device_option.CopyFrom(net.device_option)
    return copy


_bindings: dict[tuple[bytes, str], Binding] = {}
_MOST_BINDINGS = 4096
#: operators of more bytes (their arguments hold data) are bound anew each time instead of kept
_LARGEST_KEPT = 1 << 16


def bound(definition: caffe2_pb2.OperatorDef | bytes, backend: Backend) -> Binding:
    """The binding of an operator, from its wire form or its message; equal operators share one."""
    source = definition if isinstance(definition, bytes) else definition.SerializeToString()
    key = (source, backend.name)
    found = _bindings.get(key)
    if found is None or registry.find(found.type) is not found.declaration or preference(found.definition) != \
            found.preferred:  # never seen, or a user replaced the declaration, or prefers other engines now
        if len(_bindings) >= _MOST_BINDINGS:
            _bindings.clear()
        found = bind(caffe2_pb2.OperatorDef.FromString(source), backend)
        if len(source) <= _LARGEST_KEPT:
            _bindings[key] = found
    return found
