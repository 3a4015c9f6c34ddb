"""`Functional`: operators as functions of arrays, for trying them out."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from netgrad.graph import registry
from netgrad.graph.operator import CreateOperator
from netgrad.graph.schema import counts
from netgrad.runtime.op_schema import OpSchema
from netgrad.runtime.workspace import Workspace


class _Functional:
    """``Functional.X(*inputs, **arguments)`` runs operator X in a workspace of its own.

    The result is a named tuple of arrays, which can be asked by name too: ``result["output_0"]``. ``num_output`` says
    how many outputs there are; unless given, as many as the operator has, or can have.

    Raises:
        AttributeError: there is no such operator.
        ValueError: there cannot be so many inputs or outputs, or nothing says how many outputs there are.
    """

    def __getattr__(self, type: str) -> Callable[..., Any]:
        declaration = registry.find(type)
        if declaration is None:
            close = " or ".join(registry.close_names(type)[:3])
            hint = f"; did you mean {close}?" if close else ""
            raise AttributeError(f"there is no operator of type {type!r}{hint}")
        schema = OpSchema(declaration)

        def function(*inputs: Any, num_output: int | None = None, **arguments: Any) -> Any:
            if num_output is None:
                num_output = schema.CalculateOutput(len(inputs))
                num_output = schema.max_output if num_output < 0 else num_output
                if num_output == OpSchema.inf:
                    raise ValueError(f"{type} can have any number of outputs; say num_output=...")
            if problems := counts(declaration, len(inputs), num_output):
                raise ValueError("; ".join(problems))
            sources = [f"input_{k}" for k in range(len(inputs))]
            results = [f"output_{k}" for k in range(num_output)]
            for i, o in declaration.inplace_required:
                if i < len(sources) and o < len(results):
                    results[o] = sources[i]
            workspace = Workspace()
            for name, value in zip(sources, inputs):
                workspace.feed_blob(name, value, arguments.get("device_option"))
            workspace.run_operator(CreateOperator(type, sources, results, **arguments))
            return _output(results)(*map(workspace.fetch_blob, results))

        return function


def _output(names: list[str]) -> Any:
    plain = namedtuple("output", names, rename=True)  # type: ignore[misc]
    places = {name: k for k, name in enumerate(names)}

    class Output(plain):  # type: ignore[misc, valid-type]
        def __getitem__(self, key: Any) -> Any:
            return super().__getitem__(places[key] if isinstance(key, str) else key)

    return Output


Functional = _Functional()
