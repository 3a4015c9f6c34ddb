"""What the examples share: options, seeds, a progress bar, figures and pictures. Nothing of it is about nets.

An example is a function of a `Run`; `start` runs it::

    def main(run: Run) -> None:
        ...
        for step in run.steps():
            workspace.RunNet(model.net)
            run.record(loss=workspace.FetchBlob("loss"))
        run.figures(accuracy=0.97)

    if __name__ == "__main__":
        start(main, steps=200)
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import netgrad
from netgrad.demo import DemoError
from netgrad.proto.files import replace_file
from netgrad.runtime.errors import BackendError

INTERRUPTED = 130


class Run:
    """One run of an example.

    Attributes:
        backend, seed: as chosen.
        rng: for whatever is random outside of nets.
        out: the folder for files.
        history: name -> one value per step.
    """

    def __init__(self, total: int, backend: str, seed: int, out: Path) -> None:
        self.total = total
        self.backend = backend
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        self.out = out
        self.history: dict[str, list[float]] = defaultdict(list)
        self.console = Console()

    def steps(self, title: str = "training", total: int | None = None) -> Iterator[int]:
        """Counts the steps from 0, all unless given, under a progress bar that shows what was recorded last."""
        total = total or self.total
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                   TextColumn("{task.fields[state]}"), TimeElapsedColumn())
        with Progress(*columns, console=self.console) as bar:
            task = bar.add_task(title, total=total, state="")
            for step in range(total):
                yield step
                bar.update(task, advance=1, state="  ".join(
                    f"{name} {values[-1]:.4g}" for name, values in self.history.items()))

    def record(self, **values: Any) -> None:
        """Notes values of this step, each a number or an array with one."""
        for name, value in values.items():
            self.history[name].append(float(np.asarray(value).item()))

    def say(self, *text: object) -> None:
        self.console.print(*map(str, text), markup=False, highlight=False, soft_wrap=True)

    def figures(self, **values: float) -> None:
        """Prints what was reached, and leaves it in ``figures.json`` and, with all recorded, in ``curves.png``."""
        for name, value in values.items():
            self.say(f"{name.replace('_', ' ')}: {value:.4g}")
        with replace_file(self.out / "figures.json") as file:
            file.write(json.dumps({"figures": {name: float(value) for name, value in values.items()},
                                   "history": self.history}).encode())
        self.picture("curves.png", self._draw_curves)

    def picture(self, name: str, draw: Callable[[Any], None], size: tuple[float, float] = (6, 3.5)) -> None:
        """Has ``draw`` draw on a matplotlib figure and writes it to a file of this name: .png or .svg."""
        if importlib.util.find_spec("matplotlib") is None:
            self.say(f"no {name}: matplotlib is not installed (pip install 'netgrad[draw]')")
            return
        from matplotlib.figure import Figure  # nothing of it is needed by who draws nothing

        figure = Figure(figsize=size, dpi=90, layout="constrained")
        draw(figure)
        with replace_file(self.out / name) as file:
            figure.savefig(file, format=Path(name).suffix[1:])
        self.say(f"wrote {self.out / name}")

    def _draw_curves(self, figure: Any) -> None:
        for axes, (name, values) in zip(np.ravel(figure.subplots(1, len(self.history))), self.history.items()):
            window = max(1, len(values) // 50)
            smooth = np.convolve(values, np.ones(window) / window, mode="valid")
            axes.plot(values, color="#9db8ea", linewidth=0.8)
            axes.plot(np.arange(window - 1, len(values)), smooth, color="#3b6fd4", linewidth=2)
            if min(values) > 0 and max(values) > 50 * min(values):
                axes.set_yscale("log")
            axes.set_title(name.replace("_", " "))
            axes.set_xlabel("step")
            axes.grid(alpha=0.25)


def start(main: Callable[[Run], None], steps: int) -> None:
    """Reads the options of an example and runs it; ``steps`` is how many it takes unless told otherwise."""
    script = Path(sys.argv[0]).stem
    parser = argparse.ArgumentParser(description=main.__globals__["__doc__"],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=_positive, default=steps, help=f"of training (default: {steps})")
    parser.add_argument("--backend", choices=("numpy", "torch"), help="default: torch where it is installed")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same numbers")
    parser.add_argument("--out", type=Path, default=Path("example-output", script),
                        help="folder for pictures and files (default: %(default)s)")
    options = parser.parse_args()
    try:
        run = Run(options.steps, _chosen(options.backend), options.seed, options.out)
        run.out.mkdir(parents=True, exist_ok=True)
        netgrad.seed(options.seed)
        main(run)
    except KeyboardInterrupt:
        print("\nstopped")
        raise SystemExit(INTERRUPTED) from None
    except (BackendError, DemoError, OSError) as error:
        raise SystemExit(f"{script}: {error}") from None


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of steps")
    return int(text)


def _chosen(backend: str | None) -> str:
    """Settles what computes, on one thread: the nets are so small that several would wait for each other."""
    if backend is not None:
        netgrad.use_backend(backend)
    name = netgrad.Workspace().backend.name
    if importlib.util.find_spec("threadpoolctl") is not None:  # it comes with scikit-learn
        from threadpoolctl import threadpool_limits

        threadpool_limits(limits=1)
    if name == "torch":
        import torch

        torch.set_num_threads(1)
    return name
