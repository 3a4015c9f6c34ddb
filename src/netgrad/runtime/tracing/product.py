"""What `NetVectorJacobianProduct` runs: a net anew, and the derivative of what it did.

What a run did is kept as a net without control flow. The next one with operands of the same shapes runs that, and then
looks whether all conditions, and numbers of steps, came out as before; if they did not, it starts over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import BadArgument, MissingBlob, OperatorError, SchemaError
from netgrad.runtime.executor import BoundNet
from netgrad.runtime.tracing.tracer import Tracer
from netgrad.runtime.workspace import Workspace

if TYPE_CHECKING:
    from netgrad.runtime.binding import Call


class _Path:
    """What one run did, bound in a workspace of its own."""

    def __init__(self, tracer: Tracer, operands: Sequence[str], results: Sequence[str], backend: str) -> None:
        self.operands, self.results = operands, results
        self.conditions, self.shapes = tracer.conditions, tracer.shapes
        self.workspace = Workspace(backend=backend)
        self.net = BoundNet(caffe2_pb2.NetDef(name="traced", op=tracer.ops), self.workspace, known=set(operands))

    def run(self, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """The results; None where a condition or a number of steps came out otherwise: another thing is to be done."""
        held = self.workspace.values
        held.update(_there(self.operands, values))
        try:
            self.net.run()
        except OperatorError:  # what it does may not suit these values; a new trace says so, if it is an error
            return None
        else:
            same = all(tuple(held[blob].shape) == shape for blob, shape in self.shapes.items()) and \
                all(bool(np.all(self.workspace.fetch_blob(blob))) == found for blob, found in self.conditions)
            return tuple(held[name] for name in self.results) if same else None
        finally:
            held.clear()


def _there(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    return {name: value for name, value in zip(names, values) if value is not None}


class NetProduct:
    """The vector-Jacobian product of the net that a call carries."""

    def __init__(self, call: Call, net: caffe2_pb2.NetDef | None, by: Sequence[int], given: Sequence[int]) -> None:
        if net is None or not net.op:
            raise BadArgument("its argument net holds no operators; it must hold what is differentiated")
        count, made = len(net.external_input), len(net.external_output)
        if call.num_inputs != count + len(given) or call.num_outputs != len(by):
            raise SchemaError(f"it has {call.num_inputs} inputs and {call.num_outputs} outputs; its net has {count} "
                              f"external inputs, so that with {len(given)} cotangents and derivatives by {len(by)} of "
                              f"them it needs {count + len(given)} and {len(by)}")
        if not all(0 <= k < count for k in by) or not all(0 <= k < made for k in given):
            raise BadArgument(f"its arguments by = {list(by)} and given = {list(given)} name an external input or "
                              "output that its net has not")
        #: positions of operands that must be there, and what they are called
        self.required = {k: call.inputs[k] for k in (*by, *range(count, call.num_inputs))}
        self.backend = call.workspace.backend.name
        #: the operator by itself: what it reads and makes has names of its own
        self.definition = caffe2_pb2.OperatorDef()
        self.definition.CopyFrom(call.definition)
        self.operands = [f"operand{k}" for k in range(call.num_inputs)]
        self.definition.input[:] = self.operands
        self.definition.output[:] = [f"result{k}" if name else "" for k, name in enumerate(call.outputs)]
        self._key: Any = None
        self._tracer: tuple[Tracer, list[str]] | None = None
        self._path: _Path | None = None

    def run(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The derivatives by the external inputs ``by``, for values of all and then the cotangents of ``given``.

        A value that is None is not there: a branch that was not taken has not made it.
        """
        for k, name in self.required.items():
            if values[k] is None:
                raise MissingBlob(f"there is no value in {name!r}; feed it, or run what makes it before")
        key = [None if value is None else (tuple(value.shape), str(value.dtype)) for value in values]
        if self._key == key:
            if self._path is None:
                assert self._tracer is not None
                self._path = _Path(self._tracer[0], self.operands, self._tracer[1], self.backend)
            found = self._path.run(values)
            if found is not None:
                return found
        return self._trace(key, values)

    def _trace(self, key: Any, values: Sequence[Any]) -> tuple[Any, ...]:
        self._key = self._path = self._tracer = None
        workspace = Workspace(backend=self.backend)
        held = workspace.values
        held.update(_there(self.operands, values))
        tracer = Tracer(workspace)
        names: dict[str, Any] = {name: name for name in held}
        tracer.product(self.definition, names)
        results = [names[name] if name else "" for name in self.definition.output]
        found = tuple(held[name] if name else None for name in results)
        held.clear()
        self._key, self._tracer = key, (tracer, results)
        return found
