"""Updates that write into their parameters and moments; see the module of this name of the torch backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Inputs = Sequence[Sequence[np.ndarray]]
Outputs = Sequence[tuple[np.ndarray, ...]]
Writer = Callable[[Any, Inputs, Mapping[str, Any], bool], "Outputs | None"]


def _alike(*arrays: np.ndarray) -> bool:
    first = arrays[0]
    return first.dtype in (np.float32, np.float64) and all(
        a.shape == first.shape and a.dtype == first.dtype for a in arrays)


def weighted_sum(xp: Any, inputs: Inputs, arguments: Mapping[str, Any], spare: bool) -> Outputs | None:
    for X, w, g, lr in inputs:
        if not _alike(X, g) or not _alike(w.reshape(-1)[:1], lr.reshape(-1)[:1], X.reshape(-1)[:1]) or \
                w.size != 1 or lr.size != 1:
            return None
    for X, w, g, lr in inputs:
        if w.item() != 1:
            X *= w.reshape(())
        X += g * lr.reshape(())
    return [(X,) for X, *_ in inputs]


def scatter_weighted_sum(xp: Any, inputs: Inputs, arguments: Mapping[str, Any], spare: bool) -> Outputs | None:
    row = inputs[0]
    if len(row) != 5:
        return None
    X, weight, indices, rows, lr = row
    places = indices.reshape(-1)
    if not X.size or not rows.size or X.dtype != rows.dtype or not _alike(
            weight.reshape(-1), lr.reshape(-1), X.reshape(-1)[:1]) or weight.item() != 1 or \
            rows.size * X.shape[0] != places.size * X.size or places.dtype.kind != "i":
        return None
    if places.min() < 0 or places.max() >= X.shape[0]:
        return None
    np.add.at(X, places, (rows * lr.reshape(())).reshape(-1, *X.shape[1:]))
    return [(X,)]


#: several operators at once, and one at a time
DENSE: dict[str, Writer] = {"WeightedSum": weighted_sum}
ROWS: dict[str, Writer] = {"ScatterWeightedSum": scatter_weighted_sum}


def put_rows(table: np.ndarray, index: np.ndarray, rows: np.ndarray) -> None:
    """Writes rows into a table, at different places."""
    table[index] = rows


def copied(array: np.ndarray, like: Any) -> np.ndarray:
    """A copy to be written."""
    return np.array(array, order="C")


def laid_out_alike(array: np.ndarray, like: Any) -> bool:
    """Layouts do not matter here."""
    return True
