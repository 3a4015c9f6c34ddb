"""Sums and means of consecutive rows by slices and strides, which NumPy does faster than adding row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.ops import _rows
from netgrad.ops.segments import by_lengths, by_sorted_ids
from netgrad.runtime.backends.numpy import override


def segment_sum(xp: Any, rows: np.ndarray, segments: np.ndarray, count: int) -> np.ndarray:
    """As `_rows.segment_sum`, where ``segments`` never fall: all first rows are added, then all second ones, ..."""
    sizes = np.bincount(segments, minlength=count)
    longest = int(sizes.max(initial=0))
    if count * longest == rows.shape[0]:  # all of one size
        return rows.reshape(count, longest, *rows.shape[1:]).sum(axis=1, dtype=rows.dtype)
    if rows.ndim < 2 or longest * count > 8 * rows.shape[0]:  # many short ones and a few long: too many rounds
        return _rows.segment_sum(xp, rows, segments, count)
    begins = np.cumsum(sizes) - sizes
    total = np.zeros((count, *rows.shape[1:]), rows.dtype)
    for place in range(longest):
        there = np.flatnonzero(sizes > place)
        total[there] += rows[begins[there] + place]
    return total


def segment_mean(xp: Any, rows: np.ndarray, segments: np.ndarray, count: int) -> np.ndarray:
    sizes = np.maximum(np.bincount(segments, minlength=count), 1)
    return segment_sum(xp, rows, segments, count) / _rows.along(xp, sizes, rows)


for _kind, _by in (("Lengths", by_lengths), ("SortedSegment", by_sorted_ids), ("SortedSegmentRange", by_sorted_ids)):
    override(f"{_kind}Sum")(_by(segment_sum))
    override(f"{_kind}Mean")(_by(segment_mean))
