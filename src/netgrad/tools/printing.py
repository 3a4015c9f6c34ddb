"""Nets as text that people read: one line per operator, ``y, z = Type(a, b, axis=1)  # device, line``."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from netgrad.graph.device import describe_device
from netgrad.graph.ssa import get_ssa

#: lists longer than this are cut
LONGEST_LIST = 12
LONGEST_STRING = 80

_plain_name = re.compile(r"[\w./:@+\-]+\Z")


@dataclass(frozen=True)
class OperatorLine:
    """The parts of an operator's line.

    Attributes:
        outputs, type, operands: what stands left of ``=``, the operator, what it reads.
        arguments: name and value, as text.
        notes: device, engine, name, and the Python line.
        is_gradient: whether the operator belongs to a backward pass.
        nets: nets among the arguments, with the argument's name.
    """

    outputs: tuple[str, ...]
    type: str
    operands: tuple[str, ...]
    arguments: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    is_gradient: bool
    nets: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        inside = ", ".join([*self.operands, *(f"{name}={value}" for name, value in self.arguments)])
        call = f"{self.type}({inside})"
        text = f"{', '.join(self.outputs)} = {call}" if self.outputs else call
        return f"{text}  # {', '.join(self.notes)}" if self.notes else text


def operator_lines(net: Any, *, versions: bool = False, origins: bool = True) -> list[OperatorLine]:
    """One line per operator of a net.

    Args:
        net: a `Net` or a NetDef.
        versions: write blobs as ``name@version``: 0 is what comes from outside, and every write adds 1.
        origins: note the Python line that wrote the operator, where it is known.
    """
    proto = net.Proto() if hasattr(net, "Proto") else net
    line_of = getattr(net, "line_of", None) if origins else None
    ssa = get_ssa(proto, {})[0] if versions else None
    lines = []
    for position, op in enumerate(proto.op):
        if ssa is None:
            read, written = map(_name, op.input), map(_name, op.output)
        else:
            read, written = (map(_version, row) for row in ssa[position])
        lines.append(_line(op, tuple(read), tuple(written), line_of(position) if line_of else None))
    return lines


def format_operator(op: Any) -> str:
    """The line of one OperatorDef."""
    return str(_line(op, tuple(map(_name, op.input)), tuple(map(_name, op.output)), None))


def format_net(net: Any, *, versions: bool = False, origins: bool = True) -> str:
    """A whole net as text: a head with its inputs and outputs, then its operators, numbered, nested nets indented.

    See `operator_lines` for the arguments.
    """
    proto = net.Proto() if hasattr(net, "Proto") else net
    return "\n".join([*head(proto), *numbered(operator_lines(net, versions=versions, origins=origins))])


def head(proto: Any) -> Iterator[str]:
    """The lines that come before the operators."""
    gradients = sum(op.is_gradient_op for op in proto.op)
    counts = f"{len(proto.op)} operator{'s' * (len(proto.op) != 1)}" + (
        f", {gradients} of gradients" if gradients else ""
    )
    parts = [
        counts,
        *([f"type {proto.type}"] if proto.type else []),
        *([f"on {describe_device(proto.device_option)}"] if proto.HasField("device_option") else []),
        *(f"{name}={value}" for name, value, _ in map(_argument, proto.arg)),
    ]
    yield f"net {_name(proto.name) if proto.name else '(no name)'}: {', '.join(parts)}"
    for title, names in (("reads", proto.external_input), ("leaves", proto.external_output)):
        if names:
            yield from _wrapped(f"  {title} ", [_name(name) for name in names])


def numbered(lines: Sequence[OperatorLine], first: int = 0) -> Iterator[str]:
    """Operators with their positions before them and their nested nets indented."""
    digits = len(str(first + max(len(lines) - 1, 0)))
    for position, line in enumerate(lines, first):
        yield f"{position:>{digits}}  {line}"
        for name, net in line.nets:
            yield f"{'':{digits}}    {name}:"
            yield from (f"{'':{digits}}      {inner}" for inner in format_net(net).splitlines())


def _line(
    op: Any, operands: tuple[str, ...], outputs: tuple[str, ...], origin: tuple[str, int, str] | None
) -> OperatorLine:
    arguments, nets = [], []
    for argument in op.arg:
        name, value, inner = _argument(argument)
        arguments.append((name, value))
        nets += [(name if len(inner) == 1 else f"{name}[{k}]", net) for k, net in enumerate(inner)]
    notes = []
    if op.HasField("device_option"):
        notes.append(describe_device(op.device_option))
    if op.engine:
        notes.append(op.engine)
    if op.name:
        notes.append(f"name {op.name!r}")
    if op.control_input:
        notes.append(f"after {', '.join(map(_name, op.control_input))}")
    if origin:
        notes.append(f"{os.path.basename(origin[0])}:{origin[1]}")
    return OperatorLine(outputs, op.type, operands, tuple(arguments), tuple(notes), op.is_gradient_op, tuple(nets))


def _name(name: str) -> str:
    return name if _plain_name.match(name) else _quoted(name)


def _version(blob: tuple[str, int]) -> str:
    return f"{_name(blob[0])}@{blob[1]}"


def _argument(argument: Any) -> tuple[str, str, list[Any]]:
    """Name, value as text, and the nets in it."""
    values = [_value(field.name, value) for field, value in argument.ListFields() if field.name != "name"]
    nets = ([argument.n] if argument.HasField("n") else []) + list(argument.nets)
    return argument.name, values[0] if len(values) == 1 else f"({', '.join(values)})", nets


def _value(field: str, value: Any) -> str:
    form: Any
    if field in {"f", "floats"}:
        form = short_float
    elif field in {"s", "strings"}:
        form = _bytes
    elif field in {"n", "nets"}:
        form = _net
    elif field in {"t", "tensors", "qtensors"}:
        form = _tensor
    else:
        form = str
    return form(value) if field in {"f", "i", "s", "n", "t"} else _list(form, value)


def _list(form: Any, values: Sequence[Any]) -> str:
    if len(values) <= LONGEST_LIST:
        return f"[{', '.join(map(form, values))}]"
    shown = ", ".join(form(value) for value in values[: LONGEST_LIST - 4])
    return f"[{shown}, ... {len(values) - LONGEST_LIST + 4} more]"


def short_float(value: float) -> str:
    """The shortest decimal that is this float32."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        try:
            if struct.pack("f", float(text)) == struct.pack("f", value):
                break
        except OverflowError:
            continue
    return text if any(c in text for c in ".en") else text + ".0"


def _bytes(value: bytes) -> str:
    shown = value[:LONGEST_STRING]
    try:
        text = _quoted(shown.decode("utf-8"))
    except UnicodeDecodeError:
        text = repr(shown)
    return text if len(value) <= LONGEST_STRING else f"{text[:-1]}...{text[-1]} ({len(value)} bytes)"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _net(net: Any) -> str:
    return f"<net {_name(net.name) if net.name else ''}: {len(net.op)} operators>"


def _tensor(tensor: Any) -> str:
    return f"<tensor {' x '.join(map(str, tensor.dims))}>"


def _wrapped(start: str, names: Iterable[str], width: int = 116) -> Iterator[str]:
    line = start
    for name in names:
        if len(line) + len(name) > width and line.strip() != start.strip():
            yield line.rstrip()
            line = " " * len(start)
        line += name + ", "
    yield line.rstrip(", ")
