"""Nets in the terminal, in colour."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from netgrad.graph.net_argument import require_net
from netgrad.tools.printing import OperatorLine, format_net, head, operator_lines

OPERATOR, GRADIENT, BLOB, NOTE = "bold blue", "bold dark_orange", "cyan", "bright_black"


def styled_operator(line: OperatorLine) -> Text:
    """An operator's line: its type in blue, or orange where it belongs to a backward pass."""
    text = Text()
    if line.outputs:
        _join(text, line.outputs, BLOB)
        text.append(" = ")
    text.append(line.type, GRADIENT if line.is_gradient else OPERATOR)
    text.append("(")
    _join(text, line.operands, BLOB)
    for k, (name, value) in enumerate(line.arguments):
        text.append(", " if k or line.operands else "")
        text.append(f"{name}={value}", NOTE)
    text.append(")")
    if line.notes:
        text.append(f"  # {', '.join(line.notes)}", NOTE)
    return text


def _join(text: Text, names: Iterable[str], style: str) -> None:
    for k, name in enumerate(names):
        text.append(", " if k else "")
        text.append(name, style)


def styled_operators(lines: Iterable[OperatorLine], first: int = 0) -> RenderableType:
    """Operators with their positions before them; long lines are continued under their start."""
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", style=NOTE, no_wrap=True)
    table.add_column(overflow="fold")
    for position, line in enumerate(lines, first):
        table.add_row(str(position), styled_operator(line))
        for name, net in line.nets:
            table.add_row("", Text(f"  {name}:", NOTE))
            table.add_row("", Group(*(Text("    ") + styled_operator(inner) for inner in operator_lines(net))))
    return table


def show_net(console: Console, net: Any, *, versions: bool = False) -> None:
    """Prints a `Net` or NetDef as `netgrad.tools.printing.format_net` has it, in colour."""
    proto = net.Proto() if hasattr(net, "Proto") else net
    for line in head(proto):
        console.print(Text(line, "bold"))
    console.print(styled_operators(operator_lines(net, versions=versions)))


def show(net: Any, *, versions: bool = False) -> None:
    """Prints a `Net` or NetDef on standard output: in colour on a terminal, as plain lines elsewhere.

    With ``versions`` blobs are written as ``name@version``: 0 is what comes from outside, and every write adds 1.

    Raises:
        TypeError: it is neither.
    """
    require_net(net)
    if sys.stdout.isatty():
        show_net(Console(), net, versions=versions)
    else:
        print(format_net(net, versions=versions, origins=False))
