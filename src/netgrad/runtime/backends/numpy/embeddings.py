"""Embedding bags: rows looked up at once, and the sums of consecutive rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.ops._rows import spread
from netgrad.ops.embeddings import at_lengths, lookup
from netgrad.ops.segments import weighted
from netgrad.runtime.backends.numpy import override
from netgrad.runtime.backends.numpy.segments import segment_mean, segment_sum

override("SparseLengthsSum")(at_lengths(segment_sum))
override("SparseLengthsMean")(at_lengths(segment_mean))


@override("SparseLengthsWeightedSum")
def sparse_lengths_weighted_sum(xp: Any, DATA: np.ndarray, SCALARS: np.ndarray, INDICES: np.ndarray,
                                LENGTHS: np.ndarray) -> np.ndarray:
    rows = weighted(xp, lookup(xp, DATA, INDICES), SCALARS)
    return segment_sum(xp, rows, spread(xp, LENGTHS, rows.shape[0]), LENGTHS.shape[0])
