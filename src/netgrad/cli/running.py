"""`netgrad run`, `profile` and `demo`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import click

from netgrad.cli.commands import file_argument
from netgrad.proto import read_net, replace_file

if TYPE_CHECKING:
    from netgrad.api import Workspace

#: how files of numpy.save and numpy.savez begin (the last: an archive of nothing)
_NUMPY_FILES = (b"\x93NUMPY", b"PK\x03\x04", b"PK\x05\x06")
_MOST_NAMES = 20

backend_option = click.option("--backend", type=click.Choice(["numpy", "torch"]),
                              help="What computes; by default torch if it is installed.")

feed_option = click.option("--feed", "feeds", metavar="NAME=FILE.npy|FILE.npz", multiple=True,
                           help="Set a blob before the run, or, from an .npz file, one for each of its arrays, by "
                           "their names. May be repeated.")
init_option = click.option("--init", metavar="INITNET", type=click.Path(), multiple=True,
                           help="A net that is run first (and fills parameters). May be repeated.")
seed_option = click.option("--seed", type=int, help="Make random numbers a function of this number.")


@click.command()
@file_argument
@feed_option
@click.option("--fetch", "fetches", metavar="NAME", multiple=True,
              help="Print this blob, or write it to OUT; by default the net's external outputs. May be repeated.")
@init_option
@click.option("--times", type=click.IntRange(min=1), default=1, show_default=True, help="How often the net runs.")
@seed_option
@backend_option
@click.option("-o", "--output", metavar="OUT", type=click.Path(),
              help="Write what is fetched to this file: .npz, or .npy for a single blob.")
def run(file: str, feeds: tuple[str, ...], fetches: tuple[str, ...], init: tuple[str, ...], times: int,
        seed: int | None, backend: str | None, output: str | None) -> None:
    """Run a net and show blobs.

    \b
    Examples:
      netgrad run net.pbtxt --feed x=x.npy --fetch y
      netgrad run predict.pb --feed parameters.npz --feed data=images.npy
      netgrad run predict.pb --init init.pb --feed data=images.npy --fetch softmax -o softmax.npy
    """
    import numpy as np

    if output and not output.endswith((".npz", ".npy")):
        raise click.BadParameter(f"expected a name that ends in .npz or .npy, found {output!r}", param_hint="--output")
    net = read_net(file)
    wanted = list(fetches or net.external_output)
    if output and output.endswith(".npy") and len(wanted) != 1:
        raise click.BadParameter(f"a .npy file holds one blob, and {len(wanted)} are fetched; name a .npz file",
                                 param_hint="--output")
    workspace = filled(net, backend, seed, init, feeds, wanted)
    workspace.run(net, times)
    for name in wanted:
        if name not in workspace:
            raise ValueError(f"there is no blob {name!r} to fetch; {_instead(name, workspace.names())}")
    values = {name: workspace.fetch(name) for name in wanted}
    if output:
        arrays = {name: _plain(value) for name, value in values.items()}
        with replace_file(output) as handle:
            if output.endswith(".npy"):
                np.save(handle, next(iter(arrays.values())), allow_pickle=False)
            else:
                np.savez(handle, **arrays)
        click.echo(f"{output}: {', '.join(f'{name} {_kind(value)}' for name, value in values.items())}")
        return
    for name, value in values.items():
        click.echo(f"{name}: {_kind(value)}")
        click.echo(str(value))


@click.command()
@click.option("-o", "--output", metavar="FOLDER", default="demo-output", show_default=True, type=click.Path(),
              help="Where nets, parameters and pictures go.")
@click.option("--epochs", type=click.IntRange(min=1), help="How often training goes through all digits.")
@click.option("--seed", type=int, default=0, show_default=True, help="Makes everything that is random.")
@backend_option
def demo(output: str, epochs: int | None, seed: int, backend: str | None) -> None:
    """Train a small net on handwritten digits.

    It shows the net and the backward pass that is written for it, trains, has a new process load the result and
    predict, and leaves nets, parameters, a training curve and a drawing. It needs scikit-learn and matplotlib:
    pip install 'netgrad[demo]'.

    \b
    Examples:
      netgrad demo
      netgrad demo --backend numpy -o /tmp/demo
    """
    from rich.console import Console

    from netgrad.demo import run

    console = Console(width=None if sys.stdout.isatty() else 120)
    run(output, backend, seed=seed, console=console, **({} if epochs is None else {"epochs": epochs}))


@click.command()
@file_argument
@feed_option
@init_option
@click.option("--runs", type=click.IntRange(min=1), default=10, show_default=True, help="How many runs are measured.")
@click.option("--warmup", type=click.IntRange(min=1), default=2, show_default=True, help="How many runs come before.")
@click.option("--by", type=click.Choice(["type", "operator"]), default="type", show_default=True,
              help="What is a row: a type of operators, or an operator and its derivative.")
@click.option("--rows", type=click.IntRange(min=1), help="How many rows, the slowest first; by default all.")
@click.option("--json", "as_json", metavar="OUT.json", type=click.Path(), help="Write everything to this file.")
@click.option("--trace", metavar="OUT.json", type=click.Path(),
              help="Write the last run to this file, for chrome://tracing or Perfetto.")
@seed_option
@backend_option
def profile(file: str, feeds: tuple[str, ...], init: tuple[str, ...], runs: int, warmup: int, by: Any,
            rows: int | None, as_json: str | None, trace: str | None, seed: int | None, backend: str | None) -> None:
    """Run a net and say where the time goes.

    Time, floating-point operations and bytes (read and written), forward, backward and updates side by side.

    \b
    Examples:
      netgrad profile train.pb --init init.pb --feed data=images.npy --feed label=labels.npy
      netgrad profile net.pbtxt --feed x=x.npy --by operator --rows 20 --trace trace.json
    """
    from netgrad.tools.profile import profile

    net = read_net(file)
    found = profile(net, filled(net, backend, seed, init, feeds), runs, warmup)
    if as_json:
        found.save(as_json)
    if trace:
        found.save_trace(trace)
    click.echo(found.text(by, rows))


def filled(net: Any, backend: str | None, seed: int | None, init: Sequence[str], feeds: Sequence[str],
            wanted: Sequence[str] = ()) -> Workspace:
    """A workspace in which the init nets ran and the feeds are; a feed that nobody reads or wants is warned of."""
    import netgrad

    workspace = netgrad.Workspace(backend=backend)
    if seed is not None:
        netgrad.seed(seed)
    for path in init:
        workspace.run(read_net(path))
    read = _read_by(net)
    for feed in feeds:
        values = _values(feed)
        workspace.feed(values)
        if read.isdisjoint(values) and not set(wanted) & set(values):
            names = ", ".join(map(repr, values)) or "nothing"
            instead = _instead(next(iter(values), ""), sorted(read))
            click.echo(f"warning: --feed {feed}: no operator reads {names}; {instead}", err=True)
    return workspace


def _values(feed: str) -> dict[str, Any]:
    """What one ``--feed`` holds, by name. Nothing in the files is executed."""
    import numpy as np

    name, given, path = feed.partition("=")
    if not given and feed.endswith(".npz"):
        path = feed
    elif not name or not path:
        raise click.BadParameter(f"expected NAME=FILE.npy, or FILE.npz, found {feed!r}", param_hint="--feed")
    with open(path, "rb") as file:
        if not file.read(6).startswith(_NUMPY_FILES):
            raise ValueError(f"{path}: not a NumPy file (.npy, .npz); write one with numpy.save or numpy.savez")
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            arrays = {name: found}
        else:
            with found:
                arrays = {key: found[key] for key in found.files}
    except (ValueError, EOFError, BadZipFile) as error:
        raise ValueError(f"{path}: expected an array in NumPy's .npy format, found something else ({error})") from None
    if given and not isinstance(found, np.ndarray):
        raise ValueError(f"{path}: expected one array (.npy), found an archive of several ({', '.join(arrays)}); "
                         f"--feed {path} feeds each by its name")
    if not given and isinstance(found, np.ndarray):
        raise ValueError(f"{path}: expected an archive (.npz), found one array (.npy); "
                         f"--feed NAME={path} names its blob")
    return arrays


def _read_by(net: Any) -> set[str]:
    """The blobs that the operators of a net read, also those of nets within it."""
    read: set[str] = set()
    for op in net.op:
        read.update(op.input)
        for argument in op.arg:
            for inner in (*argument.nets, *([argument.n] if argument.HasField("n") else [])):
                read |= _read_by(inner)
    return read


def _instead(name: str, names: Sequence[str]) -> str:
    """Which of these names somebody may have meant."""
    near = get_close_matches(name, names, n=3)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    shown = ", ".join(map(repr, names[:_MOST_NAMES])) + (", ..." if len(names) > _MOST_NAMES else "")
    return f"there is {shown or 'none'}"


def _plain(value: Any) -> Any:
    """A value as an array that needs no pickle: strings become fixed-length bytes."""
    import numpy as np

    array = np.asarray(value)
    return array.astype(bytes) if array.dtype == object else array


def _kind(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    shape = " x ".join(map(str, value.shape)) or "scalar"
    return f"{'strings' if value.dtype == object else value.dtype} {shape}"
