"""Operators whose kernels are Python functions of the user."""

from __future__ import annotations

from netgrad.graph.arguments import Bool, Ints, Str
from netgrad.graph.declaration import ANY_PAIR, In, Operator, Out
from netgrad.graph.rules import Rule


class Python(Operator):
    """Calls a registered Python function with the inputs and outputs (``Net.Python``)."""

    inputs = [In("inputs", variadic=True, optional=True)]
    outputs = [Out("outputs", variadic=True, optional=True)]
    arguments = [
        Str("token", "", "names the registered function"), Bool("pass_workspace", False),
        Ints("grad_input_indices", None, "inputs that have a gradient; all unless given"),
        Ints("grad_output_indices", None, "outputs whose gradients the function takes; all unless given"),
        Ints("forced_cpu_outputs", None),
    ]
    inplace = ANY_PAIR
    effects = {"python"}
    host = True

    def gradient(op: Rule) -> None:
        given = op.arg("grad_output_indices") or range(op.num_outputs)
        wanted = op.arg("grad_input_indices") or range(op.num_inputs)
        op.emit("PythonGradient",
                [*map(op.I, range(op.num_inputs)), *map(op.O, range(op.num_outputs)), *map(op.GO, given)],
                [op.GI(k) for k in wanted])
