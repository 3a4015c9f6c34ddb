"""`netgrad show`, `draw`, `check` and `verify`: what a file holds, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from netgrad.cli.commands import count, file_argument, of_option, targets
from netgrad.proto import caffe2_pb2, metanet_pb2, read_any, read_net
from netgrad.tools import console


@click.command()
@file_argument
@click.option("--ssa", is_flag=True, help="Write blobs as name@version; 0 comes from outside, every write adds 1.")
def show(file: str, ssa: bool) -> None:
    """Print a net, plan or model, one line per operator; or which blobs a file of saved ones holds.

    \b
    Examples:
      netgrad show net.pb
      netgrad show net.pbtxt --ssa | less
      netgrad show checkpoint.minidb
    """
    held = _model_among_blobs(file) if not file.endswith((".pb", ".pbtxt", ".prototxt", ".txt")) else read_any(file)
    if held is None:
        return
    if isinstance(held, caffe2_pb2.PlanDef):
        click.echo(f"plan {held.name or '(no name)'}: {count(len(held.network), 'net')}")
        for step in held.execution_step:
            for line in _steps(step):
                click.echo(line)
        nets: list[Any] = list(held.network)
    elif isinstance(held, metanet_pb2.MetaNetDef):
        click.echo(f"model: {count(len(held.nets), 'net')}")
        for group in held.blobs:
            click.echo(f"  {group.key}: {', '.join(group.value)}")
        nets = [pair.value for pair in held.nets]
    else:
        console.show(held, versions=ssa)
        return
    for net in nets:
        click.echo()
        console.show(net, versions=ssa)


def _model_among_blobs(file: str) -> Any:
    """What there is in a file that is no file of blobs. Of one that is, prints them; its model, None without one."""
    from netgrad.persist.contents import contents, kind_of

    kind = kind_of(file)
    if kind is None:
        return read_any(file)
    found = contents(file, kind)
    others = f", {count(found.records, 'record')} of other data" if found.records else ""
    click.echo(f"{kind}: {count(len(found.saved), 'blob')}{others}")
    for saved in found.saved:
        click.echo(f"  {saved}")
    if found.model is not None:
        click.echo()
    return found.model


def _steps(step: Any, depth: int = 1) -> Iterator[str]:
    what = []
    if step.network:
        what.append(f"runs {', '.join(step.network)}")
    if step.HasField("num_iter"):
        what.append(count(step.num_iter, "time"))
    if step.concurrent_substeps:
        what.append("substeps at the same time")
    if step.should_stop_blob:
        what.append(f"until {step.should_stop_blob}")
    yield f"{'  ' * depth}step {step.name or '(no name)'}: {', '.join(what) or 'its substeps'}"
    for inner in step.substep:
        yield from _steps(inner, depth + 1)


@click.command()
@file_argument
@click.option("-o", "--output", metavar="OUT.svg", required=True, type=click.Path(), help="Where the picture goes.")
@click.option("--title", help="What stands above the picture; by default the net's name.")
def draw(file: str, output: str, title: str | None) -> None:
    """Draw a net as an SVG picture.

    Forward pass, backward pass and updates stand side by side. Any browser shows it; pointing at a blob or operator
    there shows more of it.

    \b
    Examples:
      netgrad draw net.pb -o net.svg
      netgrad draw train.pbtxt -o train.svg --title "one step of training"
    """
    from netgrad.tools.drawing import save_drawing

    net = read_net(file)
    save_drawing(net, output, title=title)
    click.echo(f"{output}: {count(len(net.op), 'operator')} of {file}")


@click.command()
@file_argument
@of_option(help="Check as well that this can be differentiated. May be repeated.")
@click.pass_context
def check(ctx: click.Context, file: str, of: tuple[str, ...]) -> None:
    """Find everything that is wrong with a net, at once.

    Operators that break their declarations, blobs that are read or promised and never made, and, with --of, what stands
    in the derivative's way. Notes do not stop a net: arguments that an operator does not have, operators without a
    gradient or without a kernel. Nothing is run. The exit status is 1 if there are problems.

    \b
    Examples:
      netgrad check net.pbtxt
      netgrad check net.pbtxt --of loss
    """
    from netgrad.tools.checking import check

    net = read_net(file)
    found = check(net, targets(net, of))
    problems = [problem for problem in found if not problem.is_note]
    for problem in problems:
        click.echo(f"problem: {problem}")
    for note in found:
        if note.is_note:
            click.echo(f"note: {note}")
    verdict = count(len(problems), "problem") if problems else "no problems"
    click.echo(f"{file}: {count(len(net.op), 'operator')}, {verdict}")
    ctx.exit(1 if problems else 0)


@click.command()
@file_argument
@of_option(help="What was differentiated; by default the blobs whose gradients the pass fills with ones. "
           "May be repeated.")
@click.pass_context
def verify(ctx: click.Context, file: str, of: tuple[str, ...]) -> None:
    """Say whether the backward pass in a file is right.

    Any program may have written it. Each gradient operator must read the values that the derivative calls for: one that
    was overwritten meanwhile, a wrong summand, a missing operator is found. The net need not be able to run. The exit
    status is 1 if something is wrong.

    \b
    Examples:
      netgrad verify train.pb
      netgrad verify train.pb --of loss=loss_grad
    """
    from netgrad.autodiff.verification import verify

    net = read_net(file)
    findings = verify(net, targets(net, of))
    for finding in findings:
        click.echo(f"wrong: {finding}")
    gradients = sum(op.is_gradient_op for op in net.op)
    verdict = f"{count(len(findings), 'mistake')} in the backward pass" if findings else "the backward pass is right"
    click.echo(f"{file}: {verdict} ({count(gradients, 'gradient operator')} of {len(net.op)})")
    ctx.exit(1 if findings else 0)
