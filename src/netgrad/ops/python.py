"""Operators whose kernels are Python functions of the user."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Bool, Ints, Str
from netgrad.graph.declaration import ANY_PAIR, In, Operator, Out
from netgrad.graph.rules import Rule

_ARGUMENTS = [
    Str("token", "", "names the registered function"), Bool("pass_workspace", False),
    Str("pickled_builder", "", "makes the function, instead of a token"), Str("pickled_grad_builder", ""),
    Ints("grad_input_indices", None, "inputs that have a gradient; all unless given"),
    Ints("grad_output_indices", None, "outputs whose gradients the function takes; all unless given"),
    Ints("forced_cpu_outputs", None),
]
_INPUTS = [In("inputs", variadic=True, optional=True)]
_OUTPUTS = [Out("outputs", variadic=True, optional=True)]


def _gradient(op: Rule) -> None:
    given = op.arg("grad_output_indices") or range(op.num_outputs)
    wanted = op.arg("grad_input_indices") or range(op.num_inputs)
    op.emit(f"{op.type}Gradient",
            [*map(op.I, range(op.num_inputs)), *map(op.O, range(op.num_outputs)), *map(op.GO, given)],
            [op.GI(k) for k in wanted])


class Python(Operator):
    """Calls a registered Python function with the inputs and outputs (``Net.Python``)."""

    inputs, outputs, arguments = _INPUTS, _OUTPUTS, _ARGUMENTS
    inplace = ANY_PAIR
    effects = {"python"}
    host = True
    gradient = _gradient

    def kernel(xp: Any, *inputs: Any, op: Any) -> Any:
        from netgrad.runtime.python_ops import call

        return call(op, inputs)


class PythonGradient(Operator):
    """Calls a Python operator's gradient function: inputs, outputs, gradients of outputs -> gradients of inputs."""

    inputs, outputs, arguments = _INPUTS, _OUTPUTS, _ARGUMENTS
    inplace = ANY_PAIR
    effects = {"python"}
    host = True
    internal = True

    def kernel(xp: Any, *inputs: Any, op: Any) -> Any:
        from netgrad.runtime.python_ops import call

        return call(op, inputs, gradient=True)


class PythonDLPack(Operator):
    """As `Python`; the tensors' ``data`` are DLPack capsules."""

    inputs, outputs, arguments = _INPUTS, _OUTPUTS, _ARGUMENTS
    inplace = ANY_PAIR
    effects = {"python"}
    host = True
    gradient = _gradient

    def kernel(xp: Any, *inputs: Any, op: Any) -> Any:
        from netgrad.runtime.python_ops import DLPackTensor, call

        return call(op, inputs, tensor=DLPackTensor)


class PythonDLPackGradient(Operator):
    """As `PythonGradient`; the tensors' ``data`` are DLPack capsules."""

    inputs, outputs, arguments = _INPUTS, _OUTPUTS, _ARGUMENTS
    inplace = ANY_PAIR
    effects = {"python"}
    host = True
    internal = True

    def kernel(xp: Any, *inputs: Any, op: Any) -> Any:
        from netgrad.runtime.python_ops import DLPackTensor, call

        return call(op, inputs, gradient=True, tensor=DLPackTensor)
