"""What is wrong with an operator according to its declaration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.graph import registry
from netgrad.graph.arguments import UNIVERSAL
from netgrad.graph.declaration import Operator


class SchemaWarning(UserWarning):
    """An operator was written that will be refused when its net is created."""


class SchemaError(ValueError, RuntimeError):
    """Operators that break their declarations. Also a RuntimeError, which is what Caffe2 raised."""


def check_operator(op: Any) -> list[str]:
    """The problems of an OperatorDef, one sentence each; an empty list if there are none.

    Counts of inputs and outputs, in-place rules, missing arguments and the kinds of arguments are checked; arguments
    that the declaration does not name are no problem here (they are warned of when written).
    """
    declaration = registry.find(op.type)
    if declaration is None:
        return [unknown_type(op.type)]
    inputs, outputs = list(op.input), list(op.output)
    return [*counts(declaration, len(inputs), len(outputs)), *in_place(declaration, inputs, outputs),
            *_arguments(declaration, op.arg)]


def unknown_type(type: str) -> str:
    close = registry.close_names(type)
    hint = f"did you mean {' or '.join(close)}" if close else "import the module that declares it"
    return f"there is no operator type {type!r}; {hint}"


def _slots(slots: Sequence[Any]) -> str:
    return ", ".join(f"[{s.name}]" if s.optional else f"{s.name}..." if s.variadic else s.name for s in slots)


def counts(declaration: type[Operator], n_in: int, n_out: int) -> list[str]:
    """The problems with how many inputs and outputs there are."""
    problems = []
    for what, count, arity, slots in (("inputs", n_in, declaration.num_inputs, declaration.inputs),
                                      ("outputs", n_out, declaration.num_outputs, declaration.outputs)):
        if arity is not None and count not in arity:
            names = f" ({_slots(slots)})" if slots else ""
            problems.append(f"it has {count} {what}, expected {arity}{names}")
    together = declaration.num_inputs_outputs
    if not problems and together is not None and not together(n_in, n_out):
        problems.append(f"{n_in} inputs and {n_out} outputs do not go together")
    return problems


def in_place(declaration: type[Operator], inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """The problems with names that are both input and output, or should be."""
    problems = []
    for i, o in declaration.inplace_required:
        if i < len(inputs) and o < len(outputs) and inputs[i] != outputs[o]:
            problems.append(f"output {o} is {outputs[o]!r} but must be input {i}, {inputs[i]!r}: it is updated "
                            f"in place")
    for o, name in enumerate(outputs):
        for i, other in enumerate(inputs):
            if name == other and not declaration.may_be_inplace(i, o):
                problems.append(f"output {o} may not overwrite input {i}, {name!r}; give the output another name")
    return problems


def _arguments(declaration: type[Operator], arguments: Any) -> list[str]:
    problems = []
    present = set()
    for argument in arguments:
        present.add(argument.name)
        declared = declaration.argument_table.get(argument.name)
        if declared is None:
            continue
        try:
            declared.convert(argument)
        except (ValueError, RuntimeError) as error:
            problems.append(f"argument {argument.name!r} should be {declared.kind}, but {error}")
    problems += [f"argument {a.name!r} ({a.kind}) is missing" for a in declaration.arguments
                 if a.required and a.name not in present]
    return problems


def known_argument(declaration: type[Operator], name: str) -> bool:
    return (name in declaration.argument_table or name in UNIVERSAL
            or name.startswith(declaration.argument_prefixes))


def problems_of(net: Any) -> list[str]:
    """The problems of every operator of a NetDef, with its position and type."""
    return [f"operator {k}, {op.type}: {problem}" for k, op in enumerate(net.op) for problem in check_operator(op)]


def check_net(net: Any) -> None:
    """Raises `SchemaError` with all the problems of a NetDef, if there are any."""
    problems = problems_of(net)
    if problems:
        raise SchemaError(f"net {net.name!r} does not follow the declarations of its operators:\n  " + "\n  "
                          "".join(problems))
