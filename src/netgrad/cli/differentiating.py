"""`netgrad backward` and `explain`: the derivative of a net in a file, and why a blob has a gradient or none."""

from __future__ import annotations

import click

from netgrad.cli.commands import count, file_argument, of_option, targets
from netgrad.proto import caffe2_pb2, read_net, write_net
from netgrad.tools import console


@click.command()
@file_argument
@of_option(required=True, help="What is differentiated, and the blob that holds its gradient (by default: ones). "
           "May be repeated.")
@click.option("--wrt", metavar="BLOB", multiple=True, help="Compute the gradient of this blob only. May be repeated.")
@click.option("--overwritten", type=click.Choice(["error", "save"]), default="error", show_default=True,
              help="When a value that is needed was overwritten: refuse, or have it copied before.")
@click.option("-o", "--output", metavar="OUT", type=click.Path(),
              help="Write the net with its backward pass to this file.")
@click.pass_context
def backward(ctx: click.Context, file: str, of: tuple[str, ...], wrt: tuple[str, ...], overwritten: str,
             output: str | None) -> None:
    """Differentiate a net: append the operators of its backward pass.

    Without -o, the new operators and the gradients' names are printed. For a --wrt blob that has no gradient it is said
    why; if none of them has one, nothing is printed or written, and the exit status is 1.

    \b
    Examples:
      netgrad backward net.pbtxt --of loss
      netgrad backward net.pb --of loss --wrt fc_w --wrt fc_b -o train.pb
      netgrad backward net.pb --of y=dy --overwritten save -o train.pbtxt
    """
    from netgrad.api import why_no_gradient
    from netgrad.graph.net import Net

    proto = read_net(file)
    net = Net(proto)
    gradients = net.AddGradientOperators(targets(proto, of), wrt=list(wrt) or None, overwritten=overwritten)
    without = [blob for blob in wrt if blob not in gradients]
    for blob in without:
        click.echo(why_no_gradient(gradients, blob), err=True)
    if wrt and len(without) == len(wrt):
        ctx.exit(1)
    whole = net.Proto()
    whole.name = proto.name
    n_old, n_new = len(proto.op), len(whole.op)
    if output:
        write_net(whole, output)
        click.echo(f"{output}: {count(n_old, 'operator')} of {file} and {n_new - n_old} more")
        return
    if list(whole.op[:n_old]) == list(proto.op):
        added = caffe2_pb2.NetDef(name=f"{proto.name}_backward" if proto.name else "backward", op=whole.op[n_old:])
        console.show(added)
    else:  # saving values changed the forward operators, too
        console.show(whole)
    click.echo("gradients:")
    for blob in gradients:
        gradient = gradients[blob]
        is_slice = isinstance(gradient, tuple)
        click.echo(f"  {blob}: " + (f"rows {gradient[0]}, values {gradient[1]}" if is_slice else str(gradient)))


@click.command()
@file_argument
@click.argument("blob")
@of_option(help="What is differentiated; by default what the file's backward pass differentiates, or else the outputs "
           "that nothing reads. May be repeated.")
def explain(file: str, blob: str, of: tuple[str, ...]) -> None:
    """Say why BLOB has a gradient, or why it has none.

    A gradient may be zero, the blob may not be connected to what is differentiated, or the gradient may be undefined;
    what would mend it is said as well.

    \b
    Examples:
      netgrad explain net.pb conv1_w --of loss
    """
    from netgrad.autodiff.explanation import explain

    net = read_net(file)
    click.echo(str(explain(net, blob, targets(net, of))))
