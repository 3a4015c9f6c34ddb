"""Rows by index through NumPy's own functions, in the common case; the reference kernels serve the rest."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.ops import indexing as reference
from netgrad.ops._axes import check_indices
from netgrad.runtime.backends.numpy import override


@override("Gather")
def gather(xp: Any, DATA: np.ndarray, INDICES: np.ndarray, *, axis: int, match_outer: bool,
           wrap_indices: bool | None) -> Any:
    if axis or match_outer or not DATA.size or not INDICES.size or INDICES.dtype.kind != "i" or \
            (INDICES.min() < 0 and wrap_indices is False):
        return reference.Gather.kernel(xp, DATA, INDICES, axis=axis, match_outer=match_outer, wrap_indices=wrap_indices)
    check_indices(xp, INDICES, DATA.shape[0], -DATA.shape[0])
    return DATA.take(INDICES, axis=0)


@override("ScatterWeightedSum")
def scatter_weighted_sum(xp: Any, X_0: np.ndarray, Weight_0: np.ndarray, INDICES: np.ndarray,
                         *pairs: np.ndarray) -> Any:
    # a gradient step: one update, and the rows themselves keep their weight
    if len(pairs) != 2 or Weight_0.size != 1 or Weight_0.flat[0] != 1 or pairs[1].size != 1 or not X_0.size or \
            pairs[0].size != INDICES.size * (X_0.size // X_0.shape[0]):
        return reference.ScatterWeightedSum.kernel(xp, X_0, Weight_0, INDICES, *pairs)
    check_indices(xp, INDICES, X_0.shape[0])
    result = X_0.copy()
    np.add.at(result, INDICES.reshape(-1), (pairs[0] * pairs[1].reshape(())).reshape(-1, *X_0.shape[1:]))
    return result
