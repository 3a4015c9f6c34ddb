"""`netgrad ops`: the catalogue of operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import click

from netgrad.graph import registry
from netgrad.graph.declaration import Arity, Operator
from netgrad.graph.rules import Forbidden, NoGradient, NoRule, PassThrough
from netgrad.proto import caffe2_pb2
from netgrad.tools.printing import format_operator


@click.command()
@click.argument("name", required=False)
@click.option("--fallback", is_flag=True,
              help="Only those that run through NumPy under torch too (strings, opaque blobs).")
def ops(name: str | None, fallback: bool) -> None:
    """List the operators, or document the one called NAME.

    In the list, 'gradient' is: yes, ends (the flow rightly ends there), refused (asking is an error), or - (no rule);
    'kernel' is: yes, host (runs through NumPy on every backend), or - (cannot be run yet). NAME may be a pattern.

    \b
    Examples:
      netgrad ops
      netgrad ops FC
      netgrad ops 'Lengths*'
    """
    if name is not None and not any(c in name for c in "*?["):
        declaration = registry.find(name)
        if declaration is None:
            from netgrad.graph.schema import unknown_type

            raise ValueError(unknown_type(name))
        for line in _sheet(declaration):
            click.echo(line)
        return
    rows = [(d.type, d.__module__.removeprefix("netgrad.ops."), _gradient_status(d), _kernel_status(d))
            for d in registry.every() if (name is None or fnmatchcase(d.type, name)) and (d.host or not fallback)]
    if not rows:
        raise ValueError(f"no operator matches {name!r}; `netgrad ops` lists all")
    _table(("operator", "family", "gradient", "kernel"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    for row in (head, *rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    click.echo(f"{len(rows)} operators")


def _gradient_status(declaration: type[Operator]) -> str:
    rule = declaration.gradient
    if rule is None:
        return "-"
    return "refused" if isinstance(rule, Forbidden) else "ends" if isinstance(rule, NoGradient) else "yes"


def _kernel_status(declaration: type[Operator]) -> str:
    if declaration.kernel is None:
        return "-"
    return "host" if declaration.host else "yes"


def _sheet(declaration: type[Operator]) -> Iterator[str]:
    """All that is declared of an operator, for reading."""
    yield _signature(declaration)
    yield ""
    if doc := (declaration.__doc__ or "").strip():
        yield from (line.strip() for line in doc.splitlines())
        yield ""
    yield from _slots("inputs", declaration.inputs, declaration.num_inputs)
    yield from _slots("outputs", declaration.outputs, declaration.num_outputs)
    if declaration.arguments:
        yield "arguments:"
        for argument in declaration.arguments:
            default = "required" if argument.required else f"default {argument.default!r}"
            yield f"  {argument.name}: {argument.kind}, {default}" + (f". {argument.doc}" if argument.doc else "")
    yield f"in place: {_in_place(declaration)}"
    yield from _gradient(declaration)
    effects = f"; {', '.join(sorted(declaration.effects))}" if declaration.effects else ""
    kernel = {"-": "none yet: it cannot be run", "host": "through NumPy on every backend", "yes": "on every backend"}
    yield f"kernel: {kernel[_kernel_status(declaration)]}{effects}"
    yield f"declared in: {declaration.__module__}"


def _slots(title: str, slots: Sequence[Any], arity: Arity | None) -> Iterator[str]:
    yield f"{title} ({arity if arity is not None else len(slots)}):"
    for slot in slots:
        traits = "".join([", optional" * slot.optional, ", repeated" * slot.variadic,
                          ", read for its shape only" * getattr(slot, "shape_only", False)])
        yield f"  {slot.name}: {slot.doc or 'tensor'}{traits}"


def _in_place(declaration: type[Operator]) -> str:
    def pairs(chosen: Any) -> str:
        return ", ".join(f"output {o} on input {i}" for i, o in sorted(chosen))

    if (-1, -1) in declaration.inplace:
        allowed = "any output on any input"
    else:
        allowed = f"allowed: {pairs(declaration.inplace)}" if declaration.inplace else ""
    required = f"required: {pairs(declaration.inplace_required)}" if declaration.inplace_required else ""
    return "; ".join(filter(None, (allowed, required))) or "no"


def _signature(declaration: type[Operator]) -> str:
    """How the operator is called: optional blobs in brackets, repeated ones with dots."""
    def names(slots: Sequence[Any]) -> str:
        return ", ".join(f"[{slot.name}]" if slot.optional else f"{slot.name}..." if slot.variadic else slot.name
                         for slot in slots)

    call = f"{declaration.type}({names(declaration.inputs)})"
    return f"{names(declaration.outputs)} = {call}" if declaration.outputs else call


def _example(declaration: type[Operator]) -> Any:
    """An OperatorDef with the declared names as its blobs: inputs that it needs, all outputs."""
    op = caffe2_pb2.OperatorDef(type=declaration.type)
    op.input.extend(slot.name for slot in declaration.inputs if not slot.optional)
    op.output.extend(slot.name for slot in declaration.outputs)
    for names, arity in ((op.input, declaration.num_inputs), (op.output, declaration.num_outputs)):
        while arity is not None and len(names) < arity.least:
            names.append(f"blob{len(names)}")
    for i, o in sorted(declaration.inplace_required):
        if i < len(op.input) and o < len(op.output):
            op.output[o] = op.input[i]
    return op


def _gradient(declaration: type[Operator]) -> Iterator[str]:
    """The operators that the rule makes for the example, or why there are none."""
    from netgrad.autodiff.backward import rule_of_one

    rule, op = declaration.gradient, _example(declaration)
    if rule is None:
        yield "gradient: no rule"
    elif isinstance(rule, NoGradient):
        yield f"gradient: ends here: {rule.reason}"
    elif isinstance(rule, Forbidden):
        yield f"gradient: refused: {rule.reason}"
    elif isinstance(rule, PassThrough):
        yield f"gradient: {op.output[0]}'s passes through"
    else:
        try:
            made, found = rule_of_one(op, [f"d{name}" for name in op.output])
        except (NoRule, ValueError, KeyError, IndexError) as reason:
            yield f"gradient: depends on how the operator is used ({reason})"
            return
        yield "gradient:"
        for operator in made:
            yield f"  {format_operator(operator)}"
        written = {name for operator in made for name in operator.output}
        for name, gradient in zip(op.input, found):
            if isinstance(gradient, tuple):
                yield f"  {name}: a slice: rows {gradient[0]}, values {gradient[1]}"
            elif gradient is not None and gradient not in written:
                yield f"  {name}: {gradient} itself"
