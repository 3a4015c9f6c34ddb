"""Steps: operators of a net, bound to a workspace, ready to run.

"In place" means that the name is bound anew; no buffer is ever written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from netgrad.graph import registry
from netgrad.proto import caffe2_pb2
from netgrad.runtime import backends, flags, lending
from netgrad.runtime.backends import Backend
from netgrad.runtime.binding import Binding, Call, bind, preference
from netgrad.runtime.blobs import Strings, as_strings, describe
from netgrad.runtime.errors import BadOutput, BadShape, MissingBlob, OperatorFailed, WrongKind

if TYPE_CHECKING:
    from netgrad.runtime.workspace import Workspace

Blobs = MutableMapping[str, Any]


class Step:
    """One operator of one net in one workspace. ``run()`` runs it: nothing is bound if anything fails.

    Args:
        known: names that operators before it make, for nets that are its arguments; None: any.
    """

    __slots__ = ("absent", "array_type", "backend", "binding", "blobs", "call", "host_call", "inputs",
                 "kernel", "outputs", "plain", "run", "scans")

    def __init__(self, binding: Binding, backend: Backend, workspace: Workspace,
                 known: Collection[str] | None = ()) -> None:
        arguments = dict(binding.arguments)
        #: what the kernel sees of the operator, where it asks for it
        self.call: Call | None = None
        if binding.takes_call:
            arguments["op"] = self.call = Call(binding, workspace)
            if "nets" in binding.declaration.effects:
                from netgrad.runtime.nested import prepare

                prepare(self.call, known)
        self.binding = binding
        self.backend = backend
        self.blobs: Blobs = workspace.values
        self.array_type: Any = backend.array_type
        self.inputs = binding.inputs if binding.takes_inputs else ()
        self.outputs = binding.outputs
        self.absent = binding.absent
        #: whether the kernel computes with the backend's arrays
        self.plain = not binding.host
        #: whether results may be strings that have the type of numbers
        self.scans = self.array_type is np.ndarray
        self.kernel: Callable[..., Any] = functools.partial(binding.kernel, binding.xp, **arguments)
        #: the same on NumPy, for strings and opaque blobs
        self.host_call = self.kernel
        if binding.strings and not binding.host:
            assert binding.reference is not None
            self.host_call = functools.partial(binding.reference, backends.get("numpy").xp, **arguments)
        self.run: Callable[[], None] = self._first if binding.kinds else self._shortcut() or self._run

    def _first(self) -> None:
        """The first run looks at dtypes, too; those of a net's blobs hardly ever change from run to run."""
        for k, kind, wanted in self.binding.kinds:
            value = self.blobs.get(self.inputs[k]) if self.inputs else None
            if isinstance(value, self.array_type) and type(value) is not Strings and not kind.search(
                    str(value.dtype)) and not (0 in value.shape and kind.pattern == "int"):  # of an empty list, any
                self._refuse_dtype(k, value, wanted)
        self.run = self._shortcut() or self._run
        self.run()

    def _refuse_dtype(self, k: int, value: Any, wanted: str) -> NoReturn:
        slot = self.binding.declaration.slot(self.binding.declaration.inputs, k)
        raise WrongKind(f"{describe(self.inputs[k], value)}, where {wanted} expected; put Cast before it, or feed "
                        f"it so\n  expected: {slot.name}: {slot.doc}")

    def _shortcut(self) -> Callable[[], None] | None:
        """`_run` for the commonest kind of operator, one tensor to one, with all look-ups done."""
        if len(self.inputs) != 1 or len(self.outputs) != 1 or not self.plain or self.absent:
            return None
        (source,), (target,) = self.inputs, self.outputs
        blobs, array_type, kernel, keeps_shape = self.blobs, self.array_type, self.kernel, bool(self.binding.same)
        if not source or not target:
            return None
        longer, finish, scans = self._run, self._finish, self.scans

        def run() -> None:
            try:
                value = blobs[source]
            except KeyError:
                return longer()
            if type(value) is not array_type:
                return longer()
            result = kernel(value)
            if type(result) is not array_type or (scans and result.dtype.hasobject) or (
                    keeps_shape and result.shape != value.shape):
                return finish((value,), result, True)
            blobs[target] = result
            return None

        return run

    def _run(self) -> None:
        """Reads the inputs, computes, binds the outputs."""
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
            self._finish(inputs, self.kernel(*inputs, *self.absent), True)
        else:
            call, inputs = self._admit(inputs)
            self._finish(inputs, call(*inputs, *self.absent), False)

    def _finish(self, inputs: Sequence[Any], results: Any, plain: bool) -> None:
        """Checks what the kernel returned, and binds it to the outputs."""
        if type(results) is not tuple:
            if results is None and self.binding.silent:
                return
            if results is False:
                raise OperatorFailed(f"{self.binding.type} says that it failed")
            results = (results,)
        outputs, array_type = self.outputs, self.array_type
        if len(results) < len(outputs):
            raise BadOutput(f"its kernel made {len(results)} outputs of the {len(outputs)} asked for")
        for value in results:
            if type(value) is not array_type or (self.scans and value.dtype.hasobject):
                plain = False
        if not plain:
            results = self._accept(results)
        for i, o in self.binding.same:
            if getattr(results[o], "shape", None) != getattr(inputs[i], "shape", None):
                self._refuse_shape(i, o, results[o])
        blobs = self.blobs
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
        for k, (name, value) in enumerate(zip(self.inputs, inputs)):
            if name and value is None:
                if k in binding.begin_empty:
                    inputs[k] = self.backend.from_numpy(np.zeros((0,), np.float32))
                    continue
                raise MissingBlob(f"blob {name!r} was created but never filled; feed it, or run what makes it")
            if name and not binding.host and type(value) is not self.array_type:
                if isinstance(value, lending.Lent):
                    continue
                if not isinstance(value, Strings):
                    raise WrongKind(f"{describe(name, value)}, where a tensor is expected")
                if not binding.strings:
                    raise WrongKind(f"{name} holds strings; {binding.type} takes numbers")
        if any(isinstance(value, lending.Lent) for value in inputs):
            keeps = binding.host or bool(binding.declaration.effects)
            inputs = [value if not isinstance(value, lending.Lent) else lending.kept(value, self.backend) if keeps
                      else lending.current(value) for value in inputs]
        if not binding.host and not any(isinstance(value, Strings) for value in inputs):
            return self.kernel, inputs
        to_numpy = self.backend.to_numpy
        host = [to_numpy(v) if type(v) is self.array_type else v.view(np.ndarray) if isinstance(v, Strings) else v
                for v in inputs]
        return self.host_call, host

    def _accept(self, results: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs as blobs, where not all are plain tensors; raises where a kernel broke its contract."""
        accepted = []
        lent = [value for name in self.inputs if isinstance(value := self.blobs.get(name), lending.Lent)]
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
            accepted.append(lending.followed(self.blobs.get(name), value, lent, self.backend) if lent else value)
        return tuple(accepted)

    def _refuse_shape(self, i: int, o: int, result: Any) -> None:
        before = describe(self.inputs[i], self.blobs[self.inputs[i]])
        raise BadShape(f"it runs in place on {before} and would make it {describe(self.outputs[o], result)}; give the "
                       "output a name of its own")


_bindings: dict[tuple[bytes, str, bool], Binding] = {}
_MOST_BINDINGS = 4096
#: operators of more bytes (their arguments hold data) are bound anew each time instead of kept
_LARGEST_KEPT = 1 << 16


def bound(definition: caffe2_pb2.OperatorDef | bytes, backend: Backend) -> Binding:
    """The binding of an operator, from its wire form or its message; equal operators share one."""
    source = definition if isinstance(definition, bytes) else definition.SerializeToString()
    key = (source, backend.name, flags.is_set("netgrad_strict_devices"))
    found = _bindings.get(key)
    if found is None or registry.find(found.type) is not found.declaration or preference(found.definition) != \
            found.preferred:  # never seen, or a user replaced the declaration, or prefers other engines now
        if len(_bindings) >= _MOST_BINDINGS:
            _bindings.clear()
        found = bind(caffe2_pb2.OperatorDef.FromString(source), backend)
        if len(source) <= _LARGEST_KEPT:
            _bindings[key] = found
    return found
