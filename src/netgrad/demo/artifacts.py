"""What the demo leaves behind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netgrad.demo.digits import Digits
from netgrad.demo.model import Progress
from netgrad.proto.files import replace_file, write_net

PREDICT_NET, PARAMETERS, HELD_OUT = "predict_net.pb", "parameters.npz", "held_out.npz"
CURVE, DRAWING = "training_curve.png", "net.svg"


def save_nets(folder: Path, nets: Mapping[str, Any]) -> dict[str, str]:
    """Each net as ``<name>.pb`` and, to be read, ``<name>.pbtxt``; returns file name -> what it is."""
    written = {}
    for name, (net, what) in nets.items():
        for suffix, form in ((".pb", ""), (".pbtxt", ", as text")):
            write_net(net.Proto(), folder / (name + suffix))
            written[name + suffix] = what + form
    return written


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with replace_file(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def save_held_out(folder: Path, digits: Digits) -> None:
    """The arrays are called like the blobs of the nets."""
    save_arrays(folder / HELD_OUT, {"image": digits.images, "label": digits.labels})


def read_held_out(folder: Path) -> Digits:
    with np.load(folder / HELD_OUT, allow_pickle=False) as arrays:
        return Digits(arrays["image"], arrays["label"])


def save_history(path: Path, history: Sequence[Progress]) -> None:
    with replace_file(path) as file:
        file.write(json.dumps([vars(progress) for progress in history]).encode())


def save_curve(path: Path, history: Sequence[Progress]) -> None:
    """Loss by step, and accuracy on held-out digits by epoch."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    losses = np.array([progress.loss for progress in history])
    ends = [k for k, progress in enumerate(history, 1) if progress.held_out is not None]
    figure = Figure(figsize=(8, 4.5), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    steps = np.arange(1, len(losses) + 1)
    axes.plot(steps, losses, color="#9db8ea", linewidth=0.8, label="loss of each batch")
    window = max(1, len(losses) // 40)
    smooth = np.convolve(losses, np.ones(window) / window, mode="valid")
    axes.plot(steps[window - 1 :], smooth, color="#3b6fd4", linewidth=2, label=f"mean of {window}")
    axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.set_ylabel("loss", color="#3b6fd4")
    axes.grid(alpha=0.25)
    right = axes.twinx()
    right.plot(
        ends,
        [100 * progress.held_out for progress in history if progress.held_out is not None],
        "o-",
        color="#d9660b",
        markersize=4,
        label="held-out digits right",
    )
    right.set_ylim(80, 100.5)
    right.set_ylabel("held-out digits right, %", color="#d9660b")
    lines = [*axes.get_lines(), *right.get_lines()]
    right.legend(lines, [str(line.get_label()) for line in lines], loc="center right")
    axes.set_title("netgrad demo: handwritten digits")
    with replace_file(path) as file:
        figure.savefig(file, format="png")
