"""Reductions of segments through torch's scattering kernels, and their derivatives by repetition."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from netgrad.ops import _rows
from netgrad.ops.segments import by_lengths, by_sorted_ids, by_unsorted_ids
from netgrad.runtime.backends.torch import override


def segment_sum(xp: Any, rows: Tensor, segments: Tensor, count: int) -> Tensor:
    """As `_rows.segment_sum`; on a GPU the reference, whose order of additions is the same on every run."""
    if rows.device.type != "cpu":
        return _rows.segment_sum(xp, rows, segments, count)
    return rows.new_zeros((count, *rows.shape[1:])).index_add_(0, segments, rows)


def segment_mean(xp: Any, rows: Tensor, segments: Tensor, count: int) -> Tensor:
    sizes = torch.bincount(segments, minlength=count).clamp_(min=1)
    return segment_sum(xp, rows, segments, count) / _rows.along(xp, sizes, rows)


def segment_max(xp: Any, rows: Tensor, segments: Tensor, count: int) -> Tensor:
    index = segments.reshape(-1, *(1,) * (rows.ndim - 1)).expand_as(rows)
    return rows.new_zeros((count, *rows.shape[1:])).scatter_reduce_(0, index, rows, "amax", include_self=False)


for _kind, _by in (("Lengths", by_lengths), ("SortedSegment", by_sorted_ids), ("SortedSegmentRange", by_sorted_ids),
                   ("UnsortedSegment", by_unsorted_ids)):
    override(f"{_kind}Sum")(_by(segment_sum))
    override(f"{_kind}Mean")(_by(segment_mean))
    if _by is not by_unsorted_ids and _kind != "SortedSegment":
        override(f"{_kind}Max")(_by(segment_max))
