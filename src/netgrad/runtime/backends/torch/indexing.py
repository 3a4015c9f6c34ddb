"""Rows by index through torch's own functions, in the common case; the reference kernels serve the rest."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from netgrad.ops import indexing as reference
from netgrad.ops import sparse
from netgrad.runtime.backends.torch import override


def _checked(indices: Tensor, rows: int, least: int = 0) -> Tensor:
    """The indices as a vector of int64; raises ValueError for one that is out of range."""
    if indices.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"indices must be int32 or int64, found {indices.dtype}")
    flat = indices.reshape(-1).long()
    if flat.numel():
        low, high = (int(bound) for bound in torch.aminmax(flat))
        if low < least or high >= rows:
            raise ValueError(f"indices hold {low if low < least else high}, which is out of range: "
                             f"expected {least} to {rows - 1}")
    return flat


@override("Gather")
def gather(xp: Any, DATA: Tensor, INDICES: Tensor, *, axis: int, match_outer: bool, wrap_indices: bool | None) -> Any:
    if axis or match_outer or not DATA.numel() or not INDICES.numel():
        return reference.Gather.kernel(xp, DATA, INDICES, axis=axis, match_outer=match_outer, wrap_indices=wrap_indices)
    rows = DATA.shape[0]
    places = _checked(INDICES, rows, 0 if wrap_indices is False else -rows)
    if wrap_indices is not False:
        places = places.remainder(rows)
    return DATA.index_select(0, places).reshape(INDICES.shape + DATA.shape[1:])


@override("SparseToDense")
def sparse_to_dense(xp: Any, indices: Tensor, values: Tensor, data_to_infer_dim: Tensor | None = None, *,
                    output_first_dim: int) -> Any:
    if data_to_infer_dim is None or output_first_dim > 0 or indices.ndim != 1 or values.shape[:1] != indices.shape:
        return sparse.SparseToDense.kernel(xp, indices, values, data_to_infer_dim, output_first_dim=output_first_dim)
    rows = data_to_infer_dim.shape[0]
    return values.new_zeros((rows, *values.shape[1:])).index_add_(0, _checked(indices, rows), values)


@override("ScatterWeightedSum")
def scatter_weighted_sum(xp: Any, X_0: Tensor, Weight_0: Tensor, INDICES: Tensor, *pairs: Tensor) -> Any:
    # a gradient step: one update, and the rows themselves keep their weight
    if len(pairs) != 2 or Weight_0.numel() != 1 or float(Weight_0) != 1 or pairs[1].numel() != 1 or not X_0.numel() or \
            pairs[0].numel() * X_0.shape[0] != INDICES.numel() * X_0.numel():
        return reference.ScatterWeightedSum.kernel(xp, X_0, Weight_0, INDICES, *pairs)
    rows = (pairs[0] * pairs[1].reshape(())).reshape(-1, *X_0.shape[1:])
    return X_0.index_add(0, _checked(INDICES, X_0.shape[0]), rows)
