"""The group of commands and what they have in common. A command's module loads when the command is used."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import click

from netgrad import __version__

_MODULES = {
    "show": "reading",
    "check": "reading",
    "verify": "reading",
    "draw": "reading",
    "backward": "differentiating",
    "explain": "differentiating",
    "run": "running",
    "plan": "planning",
    "profile": "running",
    "demo": "running",
    "ops": "operators",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        module = importlib.import_module(f"netgrad.cli.{_MODULES[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str],
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _MODULES and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], _MODULES, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(_MODULES)}"
            raise click.UsageError(f"No such command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.command(cls=_Commands, invoke_without_command=True,
               context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="netgrad", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show where an error comes from.")
@click.pass_context
def netgrad(ctx: click.Context, debug: bool) -> None:
    """Nets of operators on named blobs, and their backward passes.

    FILE is a net in Caffe2's protobuf format, binary (.pb) or text (.pbtxt, .prototxt).

    \b
    Examples:
      netgrad show net.pbtxt
      netgrad backward net.pb --of loss -o train.pb
      netgrad explain net.pb conv1_w --of loss
      netgrad run predict.pb --init init.pb --feed data=images.npy --fetch softmax
      netgrad demo
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


file_argument = click.argument("file", type=click.Path())


def of_option(required: bool = False, help: str = "") -> Callable[[Any], Any]:
    return click.option("--of", "of", metavar="BLOB[=GRADIENT]", multiple=True, required=required, help=help)


def targets(net: Any, of: Sequence[str]) -> list[str] | dict[str, str | None] | None:
    """What is differentiated, from the values of `--of`: a list, or, if a gradient is given, a dictionary."""
    if not of:
        return None
    written = {name for op in net.op for name in (*op.input, *op.output)}
    found: dict[str, str | None] = {}
    for value in of:
        blob, given, gradient = value.partition("=")
        if value in written or not given:
            found[value] = None
        elif not blob or not gradient:
            raise click.BadParameter(f"expected BLOB or BLOB=GRADIENT, found {value!r}", param_hint="--of")
        else:
            found[blob] = gradient
    return found if any(found.values()) else list(found)


def count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
