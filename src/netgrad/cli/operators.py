"""`netgrad ops`: the catalogue of operators."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import click

from netgrad.graph import registry
from netgrad.ops import catalogue


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
      netgrad ops --fallback
    """
    if name is not None and not any(c in name for c in "*?["):
        declaration = registry.find(name)
        if declaration is None:
            from netgrad.graph.schema import unknown_type

            raise ValueError(unknown_type(name))
        for line in catalogue.sheet(declaration):
            click.echo(line)
        return
    through_numpy = set(catalogue.fallback()) if fallback else set()
    rows = [(d.type, d.__module__.removeprefix("netgrad.ops."), catalogue.gradient_status(d),
             catalogue.kernel_status(d)) for d in registry.every()
            if (name is None or fnmatchcase(d.type, name)) and (not fallback or d.type in through_numpy)]
    if not rows:
        raise ValueError(f"no operator matches {name!r}; `netgrad ops` lists all")
    _table(("operator", "family", "gradient", "kernel"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    for row in (head, *rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    click.echo(f"{len(rows)} operators")
