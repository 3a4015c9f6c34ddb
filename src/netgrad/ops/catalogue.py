"""The catalogue of operators: ``python -m netgrad.ops.catalogue`` writes a page per family into ``docs/operators``.

`sheet` is what `netgrad ops NAME` shows of one; the pages hold the same.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from netgrad.graph import registry
from netgrad.graph.declaration import Arity, Operator
from netgrad.graph.example import Example, Quantized, Step, Tensor, TensorType
from netgrad.graph.rules import Forbidden, NoGradient, NoRule, PassThrough
from netgrad.proto import caffe2_pb2

FOLDER = Path(__file__).parents[3] / "docs" / "operators"
_WIDTH = 116


def gradient_status(declaration: type[Operator]) -> str:
    rule = declaration.gradient
    if rule is None:
        return "-"
    return "refused" if isinstance(rule, Forbidden) else "ends" if isinstance(rule, NoGradient) else "yes"


def kernel_status(declaration: type[Operator]) -> str:
    if declaration.kernel is None:
        return "-"
    return "host" if declaration.host else "yes"


def sheet(declaration: type[Operator]) -> Iterator[str]:
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
    yield f"kernel: {kernel[kernel_status(declaration)]}{effects}"
    yield f"declared in: {declaration.__module__}"
    yield from _example(declaration)


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


def _typical(declaration: type[Operator]) -> Any:
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
    from netgrad.autodiff.gradient_registry import rule_of_one
    from netgrad.autodiff.kernel_rule import serves
    from netgrad.tools.printing import format_operator

    rule, op = declaration.gradient, _typical(declaration)
    if rule is None:
        yield "gradient: by its kernel (VectorJacobianProduct)" if serves(declaration) else "gradient: no rule"
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


def _example(declaration: type[Operator]) -> Iterator[str]:
    """The declaration's example as what one would write."""
    example: Example | None = declaration.example
    if example is None:
        return
    yield "example:"
    for name, value in example.feeds.items():
        yield from _folded(f"{name} = {_literal(value)}")
    for step in example.before:
        yield from _folded(_call(step))
    used = Step(declaration.type, example.input_names, tuple(example.outputs), example.arguments)
    yield from _folded(_call(used))
    for name, value in example.outputs.items():
        if isinstance(value, TensorType):
            yield f"  {name}: {value.dtype} {value.dims}"
        elif value is not None:
            yield from _folded(f"{name} == {_literal(value)}")


def _call(step: Step) -> str:
    arguments = "".join(f", {name}={_literal(value)}" for name, value in step.arguments.items())
    return f"net.{step.type}({_literal(list(step.inputs))}, {_literal(list(step.outputs))}{arguments})"


def _literal(value: Any) -> str:
    """A value as Python, with double quotes; the dtype behind it where it is not obvious."""
    if isinstance(value, Tensor):
        shape = "" if value.shape is None else f" {value.shape}"
        return f"{_literal(value.values)} ({value.dtype}{shape})"
    if isinstance(value, Quantized):
        return f"{_literal(value.values)} ({value.dtype}, scale {value.scale}, zero point {value.zero_point})"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)


def _folded(text: str) -> Iterator[str]:
    """A line in parts that fit the page, broken between values."""
    indent = "  "
    while len(indent) + len(text) > _WIDTH and (cut := text.rfind(", ", 0, _WIDTH - len(indent)) + 1) > 0:
        yield indent + text[:cut]
        text, indent = text[cut + 1:], "      "
    yield indent + text


def fallback() -> list[str]:
    """The operators that run through NumPy under torch: strings, opaque blobs, and what only NumPy has a kernel for."""
    from netgrad.runtime import backends

    on_numpy, on_torch = ({type for type, _ in backends.get(name).overrides.every()} if name in backends.available()
                          else set() for name in backends.NAMES)
    return [d.type for d in registry.every()
            if d.host or (d.kernel is None and d.type in on_numpy and d.type not in on_torch)]


def page(family: str, declarations: Sequence[type[Operator]]) -> str:
    """The page of one family, Markdown."""
    lines = [f"# {family}", "", (importlib.import_module(f"netgrad.ops.{family}").__doc__ or "").strip(), ""]
    for declaration in sorted(declarations, key=lambda d: (d.internal, d.type)):
        signature, _, *rest = sheet(declaration)
        lines += [f"## {declaration.type}", "", "```text", signature, "", *rest, "```", ""]
    return "\n".join(lines)


def pages() -> Mapping[str, str]:
    """File name -> text, of the index and of all families."""
    families: dict[str, list[type[Operator]]] = {}
    for type, family in registry.family_index().items():
        if (declaration := registry.find(type)) is not None:
            families.setdefault(family, []).append(declaration)
    made = {f"{family}.md": page(family, found) for family, found in sorted(families.items())}
    rows = []
    for family, found in sorted(families.items()):
        names = ", ".join(f"[{d.type}]({family}.md#{d.type.lower()})" for d in found if not d.internal)
        hidden = sum(d.internal for d in found)
        rows.append(f"| [{family}]({family}.md) | {names}{f' and {hidden} of their gradients' if hidden else ''} |")
    made["README.md"] = "\n".join([
        "# Operators", "", "Made from the declarations by `python -m netgrad.ops.catalogue`; do not edit. The command "
        "`netgrad ops NAME` shows the", "same. Where they differ from Caffe2's on purpose is said in "
        "[differences](../differences.md). Examples are run as tests;", "their numbers are Caffe2's.", "",
        "| family | operators |", "|---|---|", *rows, ""])
    return made


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    written = pages()
    for stale in set(FOLDER.glob("*.md")) - {FOLDER / name for name in written}:
        stale.unlink()
    for name, text in written.items():
        (FOLDER / name).write_text(text)
    print(f"{len(written)} pages in {FOLDER}")


if __name__ == "__main__":
    main()
