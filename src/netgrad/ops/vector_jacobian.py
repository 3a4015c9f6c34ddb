"""The derivative of an operator by its kernel: one operator that carries another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netgrad.graph.arguments import Ints, Net
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.rules import through_kernel, through_nets
from netgrad.graph.shapes import UNKNOWN, TensorType


class VectorJacobianProduct(Operator):
    """Gradients of an operator's inputs from gradients of its outputs, by following its kernel.

    Backward passes use it where an operator has no gradient rule written by hand: for the second derivatives of most
    gradient operators. It can be differentiated in its turn.
    """

    inputs = [In("values", "the operator's inputs, then the gradients of those of its outputs that ``given`` names",
                 variadic=True)]
    outputs = [Out("gradients", "like the inputs that ``by`` names", variadic=True)]
    arguments = [
        Net("net", None, "holds one operator; its blobs are known by position, what they are called means nothing"),
        Ints("by", (), "positions of the inputs whose gradients are computed"),
        Ints("given", (), "positions of the outputs whose gradients are given; the others' are zero"),
    ]
    internal = True
    gradient = through_kernel

    def shape(*values: TensorType, net: Any = None, by: Any = (), given: Any = ()) -> tuple[TensorType, ...]:
        return tuple(values[k] if 0 <= k < len(values) else UNKNOWN for k in by)

    def shape_only(arguments: Mapping[str, Any], num_inputs: int) -> frozenset[int]:
        from netgrad.autodiff.kernel_rule import shapes_only

        net = arguments["net"]
        return shapes_only(net.op[0], num_inputs - len(arguments["given"])) if net and net.op else frozenset()

    def kernel(xp: Any, *values: Any, net: Any, by: Any, given: Any, op: Any) -> Any:
        return op.product(net, by, given).run(xp, values)


class NetVectorJacobianProduct(Operator):
    """Gradients of a net's external inputs from gradients of its external outputs, by running it anew.

    The net may hold control flow and recurrent networks, and their gradients: what they do is traced, and
    differentiated as the plain operators that it is. Backward passes use it where the gradient of such operators is
    differentiated again. It can be differentiated in its turn.
    """

    inputs = [In("values", "the net's external inputs, then the gradients of those of its external outputs that "
                 "``given`` names", variadic=True)]
    outputs = [Out("gradients", "like the external inputs that ``by`` names", variadic=True)]
    arguments = [
        Net("net", None, "what is differentiated; it reads its external inputs and nothing else"),
        Ints("by", (), "positions of the external inputs whose gradients are computed"),
        Ints("given", (), "positions of the external outputs whose gradients are given; the others' are zero"),
    ]
    internal = True
    gradient = through_nets

    def shape(*values: TensorType, net: Any = None, by: Any = (), given: Any = ()) -> tuple[TensorType, ...]:
        return tuple(values[k] if 0 <= k < len(values) else UNKNOWN for k in by)

    def kernel(xp: Any, *, net: Any, by: Any, given: Any, op: Any) -> Any:
        if "product" not in op.state:
            from netgrad.runtime.tracing.product import NetProduct

            op.state["product"] = NetProduct(op, net, by, given)
        return op.state["product"].run([op.workspace.values.get(name) for name in op.inputs])
