"""`netgrad plan`."""

from __future__ import annotations

import click

from netgrad.cli.commands import file_argument
from netgrad.cli.running import backend_option, feed_option, filled, init_option
from netgrad.proto import read_net


@click.command()
@file_argument
@feed_option
@init_option
@click.option("--passes", metavar="NAMES", default="all", show_default=True,
              help="Which passes run: all, none, names separated by commas, or names with a minus, left out.")
@click.option("--list", "list_passes", is_flag=True, help="Say which passes there are, and what they do, first.")
@backend_option
def plan(file: str, feeds: tuple[str, ...], init: tuple[str, ...], passes: str, list_passes: bool,
         backend: str | None) -> None:
    """Print what would run of a net.

    A line for each step: the position of its operator in the net, or of the first and last of those that it does at
    once, and what a pass did to them. Then the storage that the net needs at most, without passes and with them, as far
    as shapes are known: feed its inputs and name its init net to know them all.

    \b
    Examples:
      netgrad plan train.pb --init init.pb --feed data=images.npy --feed label=labels.npy
      netgrad plan train.pb --init init.pb --passes=-layout
    """
    from netgrad.runtime.executor import BoundNet
    from netgrad.runtime.planning import planner, report

    if list_passes:
        for each in planner.PASSES:
            click.echo(f"{each.name}: {each.title} (results differ by {each.tolerance:g} of their size at most)")
        click.echo()
    try:
        names = planner.choice(passes)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--passes") from None
    net = read_net(file)
    workspace = filled(net, backend, None, init, feeds)
    with planner.passes(",".join(sorted(names)) or "none"):
        made = BoundNet(net, workspace, known=None, planner=planner.planned).plan
    for line in (*report.lines(made), *report.summary(made)):
        click.echo(line)
