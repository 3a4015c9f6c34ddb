"""Embedding bags through torch's own kernel, which never makes the looked-up rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from netgrad.ops import embeddings as reference
from netgrad.ops._rows import check_indices, check_lengths
from netgrad.runtime.backends.torch import override

_MODES = {"sum": 0, "mean": 1}


def _bag(xp: Any, table: Tensor, weights: Tensor | None, indices: Tensor, lengths: Tensor, mode: str) -> Tensor | None:
    """The bags of a table in single or double precision; None where the kernel does not serve."""
    usable = table.dtype in (torch.float32, torch.float64) and table.ndim >= 2 and table.numel() > 0
    if not usable or indices.ndim != 1 or indices.shape[0] == 0:
        return None
    if weights is not None and (weights.dtype != table.dtype or weights.shape != indices.shape):
        return None
    indices, lengths = check_indices(xp, indices, table.shape[0]), check_lengths(xp, lengths)
    ends = torch.cumsum(lengths, 0)
    if not ends.numel() or int(ends[-1]) != indices.shape[0]:
        return None
    bags = torch.ops.aten._embedding_bag_forward_only(
        table.reshape(table.shape[0], -1), indices, ends - lengths, False, _MODES[mode], False, weights, False)[0]
    return bags.reshape(lengths.shape[0], *table.shape[1:])


@override("SparseLengthsSum")
def sparse_lengths_sum(xp: Any, DATA: Tensor, INDICES: Tensor, LENGTHS: Tensor) -> Tensor:
    bags = _bag(xp, DATA, None, INDICES, LENGTHS, "sum")
    return reference.SparseLengthsSum.kernel(xp, DATA, INDICES, LENGTHS) if bags is None else bags


@override("SparseLengthsMean")
def sparse_lengths_mean(xp: Any, DATA: Tensor, INDICES: Tensor, LENGTHS: Tensor) -> Tensor:
    bags = _bag(xp, DATA, None, INDICES, LENGTHS, "mean")
    return reference.SparseLengthsMean.kernel(xp, DATA, INDICES, LENGTHS) if bags is None else bags


@override("SparseLengthsWeightedSum")
def sparse_lengths_weighted_sum(xp: Any, DATA: Tensor, SCALARS: Tensor, INDICES: Tensor, LENGTHS: Tensor) -> Tensor:
    bags = _bag(xp, DATA, SCALARS, INDICES, LENGTHS, "sum")
    return reference.SparseLengthsWeightedSum.kernel(xp, DATA, SCALARS, INDICES, LENGTHS) if bags is None else bags
