"""The demo, step by step."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console, Group
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from netgrad.demo import artifacts, digits, predict
from netgrad.demo.errors import DemoError
from netgrad.demo.model import BATCH, Trainer, add_updates, prediction_model, training_model
from netgrad.demo.model import Progress as Step
from netgrad.runtime import backends
from netgrad.runtime import random as streams
from netgrad.tools.console import styled_operators
from netgrad.tools.drawing import save_drawing
from netgrad.tools.printing import operator_lines
from netgrad.training.model_helper import ModelHelper

EPOCHS = 12
PICTURES_IN_A_ROW = 5
INTERRUPTED = 130


@dataclass(frozen=True)
class Outcome:
    """What came of it: the share of held-out digits that were right, the time of training, the files."""

    accuracy: float
    seconds: float
    backend: str
    files: dict[str, str]


def run(
    output_dir: str | os.PathLike[str] = "demo-output",
    backend: str | None = None,
    epochs: int = EPOCHS,
    seed: int = 0,
    console: Console | None = None,
) -> Outcome:
    """Runs the demo.

    Args:
        output_dir: where files go; it is made.
        backend: "numpy" or "torch"; None: the default one.
        epochs: how often training goes through all digits.
        seed: makes everything that is random; the same seed, backend and machine give the same numbers.
        console: where it prints; None: standard output.

    Raises:
        MissingPackageError: scikit-learn or matplotlib is not installed.
        BackendError: the backend is not installed.
        DemoError: the process that loads and predicts failed, or predicted something else.
        SystemExit: Ctrl-C was pressed (status 130).
    """
    console = console or Console()
    digits.require_packages()
    name = backends.get(backend).name
    folder = Path(output_dir)
    before = _contents(folder)
    try:
        with _one_thread(name):
            return _run(folder, name, epochs, seed, console)
    except KeyboardInterrupt:
        written = _contents(folder) != before
        console.print("\n[bold]Stopped.[/]",
                      f"What was written so far stays in {folder}" if written else "Nothing was written yet")
        raise SystemExit(INTERRUPTED) from None


def _contents(folder: Path) -> set[tuple[str, int]]:
    """The files of a folder, and when each was written."""
    return {(path.name, path.stat().st_mtime_ns) for path in folder.iterdir()} if folder.is_dir() else set()


@contextmanager
def _one_thread(backend: str) -> Iterator[None]:
    """The net is small: several threads would wait for each other most of the time."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

    with threadpool_limits(limits=1):
        if backend != "torch":
            yield
            return
        import torch

        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def _run(folder: Path, backend: str, epochs: int, seed: int, console: Console) -> Outcome:
    folder.mkdir(parents=True, exist_ok=True)
    learn, held_out = digits.load_digits()
    console.print(
        Panel(
            f"A small LeNet learns {len(learn)} handwritten digits; {len(held_out)} others are held out to test "
            f"it.\nBackend: [bold]{backend}[/], seed {seed}.",
            title="[bold]netgrad demo[/]",
            expand=False,
        )
    )
    model, forward = training_model()
    _show(console, model, forward)

    predictor = prediction_model()
    with streams.seeded(seed):
        add_updates(model, len(learn) // BATCH)
        trainer = Trainer(model, predictor, learn, held_out, backend, seed)
        start = time.perf_counter()
        history = _train(console, trainer, epochs)
        seconds = time.perf_counter() - start
    accuracy = history[-1].held_out or 0.0
    console.print(f"  trained in [bold]{seconds:.1f} s[/]; [bold]{accuracy:.1%}[/] of the held-out digits are right\n")

    files = _save(folder, trainer, history)
    _predict_elsewhere(console, folder, trainer, backend)
    files[predict.PREDICTIONS] = "what the new process predicted"
    _list_files(console, folder, files)
    return Outcome(accuracy, seconds, backend, files)


def _show(console: Console, model: ModelHelper, forward: int) -> None:
    lines = operator_lines(model.net, origins=False)
    console.print("\n[bold blue]The forward net[/]")
    console.print(styled_operators(lines[:forward]))
    console.print(f"\n[bold dark_orange]Its backward pass[/], which netgrad wrote: {len(lines) - forward} operators")
    console.print(styled_operators(lines[forward:], forward))
    gradients = ", ".join(f"{param} → {gradient}" for param, gradient in model.param_to_grad.items())
    console.print(Text(f"\nGradients of the parameters: {gradients}\n"))


def _train(console: Console, trainer: Trainer, epochs: int) -> list[Step]:
    history: list[Step] = []
    columns = (
        TextColumn("  training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    held_out = 0.0
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("training", total=epochs * trainer.steps_per_epoch, state="")
        for step in trainer.train(epochs):
            history.append(step)
            held_out = held_out if step.held_out is None else step.held_out
            bar.update(task, advance=1, state=f"epoch {step.epoch}  loss {step.loss:.3f}  held out {held_out:.1%}")
    return history


def _save(folder: Path, trainer: Trainer, history: list[Step]) -> dict[str, str]:
    model = trainer.model
    files = artifacts.save_nets(
        folder,
        {
            "init_net": (model.param_init_net, "fills the parameters"),
            "train_net": (model.net, "forward, backward and updates"),
            "predict_net": (trainer.predictor.net, "the forward net alone"),
        },
    )
    artifacts.save_arrays(folder / artifacts.PARAMETERS, trainer.parameters())
    artifacts.save_held_out(folder, trainer.held_out)
    artifacts.save_curve(folder / artifacts.CURVE, history)
    save_drawing(model, folder / artifacts.DRAWING, title="digits")
    return files | {
        artifacts.PARAMETERS: "the trained parameters",
        artifacts.HELD_OUT: "the digits that were held out",
        artifacts.CURVE: "loss and accuracy during training",
        artifacts.DRAWING: "the net: forward and backward pass, and updates",
    }


def _predict_elsewhere(console: Console, folder: Path, trainer: Trainer, backend: str) -> None:
    """Has a new process load the files and predict, and compares."""
    command = [sys.executable, "-m", "netgrad.demo.predict", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NETGRAD_BACKEND": backend})
    if done.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise DemoError(f"the process that loads {folder} and predicts failed with status {done.returncode}: {reason}")
    with np.load(folder / predict.PREDICTIONS, allow_pickle=False) as found:
        probability, process = found["probability"], int(found["process"])
    if not np.allclose(probability, trainer.probabilities(), atol=1e-5):
        raise DemoError(f"the process that loaded {folder} predicts something else than the one that trained")
    labels = trainer.held_out.labels
    right = probability.argmax(axis=1) == labels
    console.print(
        f"A new process ({process}) loaded {artifacts.PREDICT_NET} and {artifacts.PARAMETERS} and predicts: "
        f"[bold]{right.sum()} of {len(right)}[/] right. The first digit of each kind:"
    )
    first = [int(np.flatnonzero(labels == digit)[0]) for digit in range(10)]
    wrong = np.flatnonzero(~right)[:5]
    console.print(_pictures(trainer.held_out, probability, first))
    if len(wrong):
        console.print("The first of those that it gets wrong:")
        console.print(_pictures(trainer.held_out, probability, list(wrong)))


def _pictures(shown: digits.Digits, probability: np.ndarray, chosen: list[int]) -> Table:
    table = Table.grid(padding=(1, 2, 0, 0))
    cells = []
    for k in chosen:
        guess = int(probability[k].argmax())
        is_right = guess == shown.labels[k]
        verdict = f"{guess} ({probability[k, guess]:.0%})" + ("" if is_right else f", not {shown.labels[k]}")
        cells.append(
            Group(Text(digits.as_picture(shown.images[k])), Text(verdict, "bold green" if is_right else "bold red"))
        )
    for start in range(0, len(cells), PICTURES_IN_A_ROW):
        table.add_row(*cells[start : start + PICTURES_IN_A_ROW])
    return table


def _list_files(console: Console, folder: Path, files: dict[str, str]) -> None:
    console.print(f"\nWritten to [bold]{folder}[/]:")
    table = Table.grid(padding=(0, 2))
    for name, what in files.items():
        table.add_row(f"  {name}", f"{(folder / name).stat().st_size:,}", Text(what, "bright_black"))
    table.columns[1].justify = "right"
    console.print(table)
    net, parameters, held_out = (shlex.quote(str(folder / name)) for name in (
        artifacts.PREDICT_NET, artifacts.PARAMETERS, artifacts.HELD_OUT))
    console.print("\nThe trained net at the command line:")
    console.print(Text(f"  netgrad run {net} --feed {parameters} --feed {held_out}"), soft_wrap=True)
