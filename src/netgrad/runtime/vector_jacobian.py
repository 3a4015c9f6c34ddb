"""Derivatives of kernels: what `VectorJacobianProduct` runs.

The operator that it carries is bound like any other and its reference kernel, which calls functions of ``xp`` alone, is
followed by the backend. Kernels of a backend's own are not used here: they may do what cannot be followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from netgrad.runtime import backends
from netgrad.runtime.binding import Call, bind
from netgrad.runtime.errors import BadArgument, BadShape, NoDerivative, SchemaError

if TYPE_CHECKING:
    from netgrad.graph.declaration import Operator
    from netgrad.proto import caffe2_pb2


class Product:
    """The vector-Jacobian product of the operator that a call carries."""

    def __init__(self, call: Call, net: caffe2_pb2.NetDef | None, by: Sequence[int], given: Sequence[int]) -> None:
        if net is None or len(net.op) != 1:
            raise BadArgument(f"its argument net holds {0 if net is None else len(net.op)} operators; it must hold the "
                              "one that is differentiated")
        self.definition = net.op[0]
        self.backend = call.workspace.backend
        self.by, self.given = tuple(by), tuple(given)
        binding = bind(self.definition, self.backend)
        self.declaration: type[Operator] = binding.declaration
        if self.declaration.kernel is None:
            raise NoDerivative(f"{self.type} does not compute by functions of xp, so that its derivative cannot be "
                               "had from its kernel; give it a gradient rule by hand")
        self.count = len(binding.inputs)
        if call.num_inputs != self.count + len(self.given) or call.num_outputs != len(self.by):
            raise SchemaError(f"it has {call.num_inputs} inputs and {call.num_outputs} outputs; {self.type} has "
                              f"{self.count} inputs, so that with {len(self.given)} cotangents and derivatives by "
                              f"{len(self.by)} of them it needs {self.count + len(self.given)} and {len(self.by)}")
        if not all(0 <= k < self.count for k in self.by) or not all(0 <= k < len(binding.outputs) for k in self.given):
            raise BadArgument(f"its arguments by = {list(self.by)} and given = {list(self.given)} name an input or "
                              f"output that {self.type} has not")
        self.arguments = self._arguments(binding, call)
        self.absent = (None,) * max(0, self._named_inputs() - self.count)

    @property
    def type(self) -> str:
        return str(self.definition.type)

    def _named_inputs(self) -> int:
        from netgrad.runtime.binding import signature_of

        assert self.declaration.kernel is not None
        return signature_of(self.declaration.kernel).inputs

    def _arguments(self, binding: Any, call: Call) -> dict[str, Any]:
        """What the reference kernel receives by keyword."""
        from netgrad.runtime.binding import arguments_of, signature_of

        signature = signature_of(self.declaration.kernel)  # type: ignore[arg-type]
        arguments = arguments_of(self.definition, self.declaration)
        if not signature.takes_all:
            arguments = {k: arguments[k] for k in signature.keywords}
        if signature.takes_call:
            arguments["op"] = Call(binding, call.workspace)
        return arguments

    def outputs(self, xp: Any, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """What the operator computes."""
        assert self.declaration.kernel is not None
        found = self.declaration.kernel(xp, *inputs, *self.absent, **self.arguments)
        return found if isinstance(found, tuple) else (found,)

    def run(self, xp: Any, values: Sequence[Any]) -> tuple[Any, ...]:
        """The derivatives by the inputs ``by``, for the operator's inputs and then the cotangents of ``given``."""
        inputs, arrived = values[:self.count], values[self.count:]
        for k in self.by:
            kind = xp.dtype_name(inputs[k])
            if not kind.startswith(("float", "bfloat")):
                slot = self.declaration.slot(self.declaration.inputs, k)
                raise NoDerivative(f"a derivative of {self.type} is asked for by its input {k} ({slot.name}), which is "
                                   f"{kind}: only floating-point tensors have one; stop the gradient before it, or "
                                   "declare In(..., differentiable=False)")
        cotangents: list[Any] = [None] * (max(self.given, default=-1) + 1)
        for k, cotangent in zip(self.given, arrived, strict=True):
            cotangents[k] = cotangent

        def outputs(xp: Any, inputs: Sequence[Any]) -> tuple[Any, ...]:
            found = self.outputs(xp, inputs)
            for k in self.given:
                if tuple(found[k].shape) != tuple(cotangents[k].shape):
                    raise BadShape(f"the gradient of output {k} of {self.type} has shape {tuple(cotangents[k].shape)}, "
                                   f"expected {tuple(found[k].shape)}, the output's")
            return found

        if not self.declaration.host:
            return self.backend.vector_jacobian(outputs, inputs, self.by, cotangents)
        host = backends.get("numpy")
        on_host = [None if x is None else xp.to_numpy(x) for x in inputs]

        def outputs_on_host(xp: Any, inputs: Sequence[Any]) -> tuple[Any, ...]:
            """Kernels of the host use methods of NumPy's arrays on what they count and compare."""
            return outputs(xp, [x if k in self.by else on_host[k] for k, x in enumerate(inputs)])

        found = host.vector_jacobian(outputs_on_host, on_host, self.by,
                                     [None if g is None else xp.to_numpy(g) for g in cotangents])
        return tuple(xp.from_numpy(g, like=inputs[k]) for k, g in zip(self.by, found, strict=True))
