"""Reductions of consecutive or scattered rows: sums, means, maxima per segment, and their derivatives.

Segments are given by lengths, by sorted ids (0, 0, 1, 2, 2: no gaps) or by ids in any order. A segment without rows
gives 0. The reductions over looked-up rows are in `embeddings`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from netgrad.graph.arguments import Bool, Int
from netgrad.graph.declaration import In, Operator, Out, between
from netgrad.graph.example import Example
from netgrad.graph.rules import Rule, emits
from netgrad.graph.shapes import TensorType
from netgrad.ops._arrays import require_shape
from netgrad.ops._rows import (
    along,
    divisors,
    rows_like,
    rows_of,
    segment_max,
    segment_mean,
    segment_sizes,
    segment_sum,
    sorted_segments,
    spread,
    unsorted_segments,
)

Kernel = Callable[..., Any]
#: (xp, rows, segment of each row, number of segments) -> one row per segment
Reduce = Callable[[Any, Any, Any, int], Any]

DATA = In("DATA", "(N, ...), float")
SCALARS = In("SCALARS", "(N,): the weight of each row")
LENGTHS = In("LENGTHS", "(S,) int: the number of rows of each segment; they add up to N", differentiable=False)
SORTED_IDS = In("SEGMENT_IDS", "(N,) int: the segment of each row, beginning at 0 and going up by 0 or 1",
                differentiable=False)
UNSORTED_IDS = In("SEGMENT_IDS", "(N,) int: the segment of each row, in any order", differentiable=False)
GRID_OF_IDS = In("SEGMENT_IDS", "int, (N,), or (N, M) where DATA is (N, M, ...), and so on: the segment of each row, "
                 "in any order", differentiable=False)
GO = In("segment_grads", "(S, ...), float")
GRAD_ON_WEIGHTS = Bool("grad_on_weights", False, "give the weights a gradient too")
NUM_SEGMENTS = Int("num_segments", -1, "the number of segments S; one more than the greatest id unless given")


def weighted(xp: Any, rows: Any, weights: Any) -> Any:
    """Each row times its weight."""
    if weights.ndim != 1 or weights.shape[0] != rows.shape[0]:
        raise ValueError(f"SCALARS must be one weight per row, ({rows.shape[0]},); found shape {tuple(weights.shape)}")
    return rows * along(xp, weights, rows)


def weight_gradient(xp: Any, rows: Any, gradient: Any) -> Any:
    """Derivative of a weighted sum by the weights: (N, ...), (N, ...) -> (N,)."""
    product = rows * gradient
    return xp.sum(product, axis=tuple(range(1, product.ndim)), dtype=product.dtype)


# ---- segments by lengths


def by_lengths(reduce: Reduce) -> Kernel:
    def kernel(xp: Any, DATA: Any, LENGTHS: Any) -> Any:
        return reduce(xp, DATA, spread(xp, LENGTHS, DATA.shape[0]), LENGTHS.shape[0])

    return kernel


def per_segment(x: Any, segments: int, name: str = "the output's gradient", at_least: bool = False) -> None:
    """Raises ValueError unless there is one row per segment (or, with ``at_least``, enough rows)."""
    if x.ndim < 1 or x.shape[0] < segments or (x.shape[0] > segments and not at_least):
        raise ValueError(f"{name} has shape {tuple(x.shape)}, expected {segments} rows: one for each segment")


def from_lengths(mean: bool) -> Kernel:
    """dDATA of a sum or mean: each segment's gradient for each of its rows. The rows are counted by the lengths."""
    def kernel(xp: Any, segment_grads: Any, LENGTHS: Any, like: Any = None) -> Any:
        segments = spread(xp, LENGTHS, None if like is None else like.shape[0])
        per_segment(segment_grads, LENGTHS.shape[0])
        scaled = segment_grads / divisors(xp, LENGTHS, segment_grads) if mean else segment_grads
        return xp.take(scaled, segments, axis=0)

    return kernel


def weighted_from_lengths(xp: Any, SCALARS: Any, segment_grads: Any, LENGTHS: Any, like: Any = None) -> Any:
    """dDATA of a sum weighted by SCALARS."""
    segments = spread(xp, LENGTHS, SCALARS.shape[0])
    per_segment(segment_grads, LENGTHS.shape[0])
    return weighted(xp, xp.take(segment_grads, segments, axis=0), SCALARS)


class LengthsReduction(Operator, abstract=True):
    inputs = [DATA, LENGTHS]
    outputs = [Out("OUTPUT", "(S, ...), float")]

    def shape(DATA: TensorType, *others: TensorType, **arguments: Any) -> TensorType:
        return rows_like(rows_of(others[-1]), DATA)


class LengthsSum(LengthsReduction):
    """The sum of each segment's rows."""

    gradient = emits("LengthsIndicesInGradientSumGradient", "GO0 I1 I0", "GI0")
    kernel = by_lengths(segment_sum)
    example = Example({"DATA": [[1.0], [2.0], [3.0]], "LENGTHS": [1, 2]}, {"OUTPUT": [[1.0], [5.0]]})


class LengthsMean(LengthsReduction):
    """The mean of each segment's rows."""

    gradient = emits("LengthsIndicesInGradientMeanGradient", "GO0 I1 I0", "GI0")
    kernel = by_lengths(segment_mean)
    example = Example({"DATA": [[1.0], [2.0], [3.0]], "LENGTHS": [1, 2]}, {"OUTPUT": [[1.0], [2.5]]})


class LengthsMax(LengthsReduction):
    """The greatest entry of each segment, place by place."""

    gradient = emits("LengthsMaxWithMainInputAndForwardOutputGradient", "O0 GO0 I1 I0", "GI0")
    example = Example({"DATA": [[1.0], [2.0], [3.0]], "LENGTHS": [1, 2]}, {"OUTPUT": [[1.0], [3.0]]})

    def kernel(xp: Any, DATA: Any, LENGTHS: Any) -> Any:
        return segment_max(xp, DATA, LENGTHS)


class LengthsWeightedSum(LengthsReduction):
    """The sum of each segment's rows, each times its weight."""

    inputs = [DATA, SCALARS, LENGTHS]
    arguments = [GRAD_ON_WEIGHTS]
    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "SCALARS": [0.5, 1.0, 2.0], "LENGTHS": [1, 2]},
        {"OUTPUT": [[0.5], [8.0]]},
        wrt=("DATA",))

    def kernel(xp: Any, DATA: Any, SCALARS: Any, LENGTHS: Any) -> Any:
        segments = spread(xp, LENGTHS, DATA.shape[0])
        return segment_sum(xp, weighted(xp, DATA, SCALARS), segments, LENGTHS.shape[0])

    def gradient(op: Rule) -> None:
        if op.arg("grad_on_weights", 0):
            op.emit("LengthsWeightedSumWithMainInputGradient", [op.I(1), op.GO(0), op.I(2), op.I(0)],
                    [op.GI(0), op.GI(1)])
        else:
            op.emit("LengthsWeightedSumGradient", [op.I(1), op.GO(0), op.I(2)], [op.GI(0)])


class RowsGradient(Operator, abstract=True):
    """Base of the derivatives by DATA: one row for each that was reduced."""

    outputs = [Out("data_grads", "(N, ...)")]
    internal = True

    def shape(segment_grads: TensorType, ids: TensorType, *others: TensorType, **arguments: Any) -> TensorType:
        return rows_like(rows_of(others[0]) if others else None, segment_grads)


class LengthsGradient(RowsGradient, abstract=True):
    inputs = [GO, LENGTHS]


class LengthsSumGradient(LengthsGradient):
    """Derivative of LengthsSum by DATA, the number of rows known from the lengths alone."""

    kernel = from_lengths(mean=False)
    example = Example({"segment_grads": [[1.0], [0.5]], "LENGTHS": [1, 2]}, {"data_grads": [[1.0], [0.5], [0.5]]})


class LengthsMeanGradient(LengthsGradient):
    """Derivative of LengthsMean by DATA, the number of rows known from the lengths alone."""

    kernel = from_lengths(mean=True)
    example = Example({"segment_grads": [[1.0], [0.5]], "LENGTHS": [1, 2]}, {"data_grads": [[1.0], [0.25], [0.25]]})


class LengthsIndicesInGradientSumGradient(LengthsGradient):
    """Derivative of LengthsSum by DATA."""

    inputs = [GO, LENGTHS, In("DATA", "(N, ...)", shape_only=True)]
    kernel = from_lengths(mean=False)
    example = Example(
        {"segment_grads": [[1.0], [0.5]], "LENGTHS": [1, 2], "DATA": [[1.0], [2.0], [3.0]]},
        {"data_grads": [[1.0], [0.5], [0.5]]})


class LengthsIndicesInGradientMeanGradient(LengthsGradient):
    """Derivative of LengthsMean by DATA."""

    inputs = [GO, LENGTHS, In("DATA", "(N, ...)", shape_only=True)]
    kernel = from_lengths(mean=True)
    example = Example(
        {"segment_grads": [[1.0], [0.5]], "LENGTHS": [1, 2], "DATA": [[1.0], [2.0], [3.0]]},
        {"data_grads": [[1.0], [0.25], [0.25]]})


class LengthsMaxWithMainInputAndForwardOutputGradient(RowsGradient):
    """Derivative of LengthsMax by DATA: each place that reached the maximum takes the whole gradient."""

    inputs = [In("OUTPUT", "the maxima, (S, ...)"), GO, LENGTHS, DATA]
    num_outputs = between(1, None)
    example = Example(
        {"OUTPUT": [[1.0], [3.0]], "segment_grads": [[1.0], [0.5]], "LENGTHS": [1, 2], "DATA": [[1.0], [2.0], [3.0]]},
        {"data_grads": [[1.0], [0.0], [0.5]]})

    def shape(OUTPUT: TensorType, segment_grads: TensorType, LENGTHS: TensorType, DATA: TensorType) -> TensorType:
        return DATA

    def kernel(xp: Any, OUTPUT: Any, segment_grads: Any, LENGTHS: Any, DATA: Any) -> Any:
        segments = spread(xp, LENGTHS, DATA.shape[0])
        return _to_maxima(xp, DATA, OUTPUT, segment_grads, segments)


def _to_maxima(xp: Any, rows: Any, maxima: Any, gradient: Any, segments: Any) -> Any:
    require_shape("the output's gradient", gradient, maxima.shape, ", the output's")
    if segments.shape[0]:
        per_segment(maxima, int(segments[-1]) + 1, "the output", at_least=True)
    spread_gradient = xp.take(gradient, segments, axis=0)
    return xp.where(rows == xp.take(maxima, segments, axis=0), spread_gradient, xp.zeros_like(spread_gradient))


class WeightedGradient(Operator, abstract=True):
    """Base of the derivatives of weighted sums by DATA."""

    inputs = [SCALARS, GO, LENGTHS]
    outputs = [Out("data_grads", "(N, ...)")]
    internal = True

    def shape(SCALARS: TensorType, segment_grads: TensorType, *others: TensorType, **arguments: Any) -> TensorType:
        return rows_like(rows_of(SCALARS), segment_grads)


class LengthsWeightedSumGradient(WeightedGradient):
    """Derivative of LengthsWeightedSum by DATA."""

    kernel = weighted_from_lengths
    example = Example(
        {"SCALARS": [0.5, 1.0, 2.0], "segment_grads": [[1.0], [0.5]], "LENGTHS": [1, 2]},
        {"data_grads": [[0.5], [0.5], [1.0]]})


class LengthsWeightedSumWithMainInputGradient(WeightedGradient):
    """Derivative of LengthsWeightedSum by DATA and by SCALARS."""

    inputs = [SCALARS, GO, LENGTHS, DATA]
    outputs = [Out("data_grads", "(N, ...)"), Out("scalar_grads", "(N,)", optional=True)]
    num_outputs = between(1, None)
    example = Example(
        {"SCALARS": [0.5, 1.0, 2.0], "segment_grads": [[1.0], [0.5]], "LENGTHS": [1, 2],
         "DATA": [[1.0], [2.0], [3.0]]},
        {"data_grads": [[0.5], [0.5], [1.0]]})

    def shape(SCALARS: TensorType, segment_grads: TensorType, LENGTHS: TensorType,
              DATA: TensorType) -> tuple[TensorType, ...]:
        return DATA, SCALARS

    def kernel(xp: Any, SCALARS: Any, segment_grads: Any, LENGTHS: Any, DATA: Any) -> Any:
        segments = spread(xp, LENGTHS, DATA.shape[0])
        per_segment(segment_grads, LENGTHS.shape[0])
        require_shape("the gradient of the output", segment_grads, (LENGTHS.shape[0], *DATA.shape[1:]))
        gradient = xp.take(segment_grads, segments, axis=0)
        return weighted(xp, gradient, SCALARS), weight_gradient(xp, DATA, gradient)


# ---- segments by sorted ids


def by_sorted_ids(reduce: Reduce) -> Kernel:
    def kernel(xp: Any, DATA: Any, SEGMENT_IDS: Any) -> Any:
        return reduce(xp, DATA, *sorted_segments(xp, SEGMENT_IDS, DATA.shape[0]))

    return kernel


def from_sorted_ids(mean: bool) -> Kernel:
    def kernel(xp: Any, segment_grads: Any, SEGMENT_IDS: Any) -> Any:
        segments, count = sorted_segments(xp, SEGMENT_IDS)
        return _from_segments(xp, segment_grads, segments, count, mean)

    return kernel


def _from_segments(xp: Any, segment_grads: Any, segments: Any, count: int, mean: bool) -> Any:
    if segment_grads.shape[0] < count:
        raise ValueError(f"segment_grads must have a row for each of {count} segments, found {segment_grads.shape[0]}")
    sizes = segment_sizes(xp, segments, segment_grads.shape[0])
    scaled = segment_grads / divisors(xp, sizes, segment_grads) if mean else segment_grads
    return xp.take(scaled, segments, axis=0)


def weighted_from_sorted_ids(xp: Any, SCALARS: Any, segment_grads: Any, SEGMENT_IDS: Any) -> Any:
    """dDATA of a sum weighted by SCALARS."""
    segments, count = sorted_segments(xp, SEGMENT_IDS, SCALARS.shape[0])
    return weighted(xp, _from_segments(xp, segment_grads, segments, count, mean=False), SCALARS)


def refuse_grad_on_weights(op: Rule) -> None:
    if op.arg("grad_on_weights", 0):
        raise op.fail("weights have a gradient in LengthsWeightedSum and SparseLengthsWeightedSum only; "
                      "drop grad_on_weights or use lengths")


class SegmentReduction(Operator, abstract=True):
    inputs = [DATA, SORTED_IDS]
    outputs = [Out("OUTPUT", "(S, ...)")]

    def shape(DATA: TensorType, *others: TensorType, **arguments: Any) -> TensorType:
        return rows_like(None, DATA)


class SortedSegmentSum(SegmentReduction):
    """The sum of each segment's rows."""

    gradient = emits("SortedSegmentSumGradient", "GO0 I1", "GI0")
    kernel = by_sorted_ids(segment_sum)
    example = Example({"DATA": [[1.0], [2.0], [3.0]], "SEGMENT_IDS": [0, 1, 1]}, {"OUTPUT": [[1.0], [5.0]]})


class SortedSegmentMean(SegmentReduction):
    """The mean of each segment's rows."""

    gradient = emits("SortedSegmentMeanGradient", "GO0 I1", "GI0")
    kernel = by_sorted_ids(segment_mean)
    example = Example({"DATA": [[1.0], [2.0], [3.0]], "SEGMENT_IDS": [0, 1, 1]}, {"OUTPUT": [[1.0], [2.5]]})


class SortedSegmentWeightedSum(SegmentReduction):
    """The sum of each segment's rows, each times its weight."""

    inputs = [DATA, SCALARS, SORTED_IDS]
    arguments = [GRAD_ON_WEIGHTS]
    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "SCALARS": [0.5, 1.0, 2.0], "SEGMENT_IDS": [0, 1, 1]},
        {"OUTPUT": [[0.5], [8.0]]},
        wrt=("DATA",))

    def kernel(xp: Any, DATA: Any, SCALARS: Any, SEGMENT_IDS: Any) -> Any:
        return segment_sum(xp, weighted(xp, DATA, SCALARS), *sorted_segments(xp, SEGMENT_IDS, DATA.shape[0]))

    def gradient(op: Rule) -> None:
        refuse_grad_on_weights(op)
        op.emit("SortedSegmentWeightedSumGradient", [op.I(1), op.GO(0), op.I(2)], [op.GI(0)])


class SegmentGradient(RowsGradient, abstract=True):
    inputs = [GO, SORTED_IDS]

    def shape(segment_grads: TensorType, SEGMENT_IDS: TensorType, **arguments: Any) -> TensorType:
        return rows_like(rows_of(SEGMENT_IDS), segment_grads)


class SortedSegmentSumGradient(SegmentGradient):
    """Derivative of SortedSegmentSum by DATA."""

    kernel = from_sorted_ids(mean=False)
    example = Example(
        {"segment_grads": [[1.0], [0.5]], "SEGMENT_IDS": [0, 1, 1]},
        {"data_grads": [[1.0], [0.5], [0.5]]})


class SortedSegmentMeanGradient(SegmentGradient):
    """Derivative of SortedSegmentMean by DATA."""

    kernel = from_sorted_ids(mean=True)
    example = Example(
        {"segment_grads": [[1.0], [0.5]], "SEGMENT_IDS": [0, 1, 1]},
        {"data_grads": [[1.0], [0.25], [0.25]]})


class SortedSegmentWeightedSumGradient(WeightedGradient):
    """Derivative of SortedSegmentWeightedSum by DATA."""

    inputs = [SCALARS, GO, SORTED_IDS]
    kernel = weighted_from_sorted_ids
    example = Example(
        {"SCALARS": [0.5, 1.0, 2.0], "segment_grads": [[1.0], [0.5]], "SEGMENT_IDS": [0, 1, 1]},
        {"data_grads": [[0.5], [0.5], [1.0]]})


# ---- ranges: sorted ids whose reductions see a whole segment at once


class RangeReduction(SegmentReduction, abstract=True):
    pass


class RangeGradient(RowsGradient, abstract=True):
    inputs = [In("DATA", "(N, ...)"), In("OUTPUT", "what the reduction gave, (S, ...)"), GO, SORTED_IDS]

    def shape(DATA: TensorType, *others: TensorType) -> TensorType:
        return DATA


def _range_max(xp: Any, rows: Any, segments: Any, count: int) -> Any:
    return segment_max(xp, rows, segment_sizes(xp, segments, count))


def _log_sum_exp(mean: bool) -> Reduce:
    def reduce(xp: Any, rows: Any, segments: Any, count: int) -> Any:
        greatest = _range_max(xp, rows, segments, count)
        shifted = xp.exp(rows - xp.take(greatest, segments, axis=0))
        return greatest + xp.log((segment_mean if mean else segment_sum)(xp, shifted, segments, count))

    return reduce


def _log_sum_exp_gradient(mean: bool) -> Kernel:
    def kernel(xp: Any, DATA: Any, OUTPUT: Any, segment_grads: Any, SEGMENT_IDS: Any) -> Any:
        segments, count = sorted_segments(xp, SEGMENT_IDS, DATA.shape[0])
        per_segment(OUTPUT, count, "the output")
        gradient = _from_segments(xp, segment_grads, segments, count, mean)
        return gradient * xp.exp(DATA - xp.take(OUTPUT, segments, axis=0))

    return kernel


def _range_gradient(mean: bool) -> Kernel:
    def kernel(xp: Any, DATA: Any, OUTPUT: Any, segment_grads: Any, SEGMENT_IDS: Any) -> Any:
        return _from_segments(xp, segment_grads, *sorted_segments(xp, SEGMENT_IDS, DATA.shape[0]), mean)

    return kernel


class SortedSegmentRangeSum(RangeReduction):
    """The sum of each segment's rows."""

    gradient = emits("SortedSegmentRangeSumGradient", "I0 O0 GO0 I1", "GI0")
    kernel = by_sorted_ids(segment_sum)
    example = Example({"DATA": [[1.0], [2.0], [3.0]], "SEGMENT_IDS": [0, 1, 1]}, {"OUTPUT": [[1.0], [5.0]]})


class SortedSegmentRangeSumGradient(RangeGradient):
    """Derivative of SortedSegmentRangeSum by DATA."""

    inputs = [In("DATA", "(N, ...)", shape_only=True), In("OUTPUT", "(S, ...)", shape_only=True), GO, SORTED_IDS]
    kernel = _range_gradient(mean=False)
    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "OUTPUT": [[1.0], [5.0]], "segment_grads": [[1.0], [0.5]],
         "SEGMENT_IDS": [0, 1, 1]},
        {"data_grads": [[1.0], [0.5], [0.5]]})


class SortedSegmentRangeMean(RangeReduction):
    """The mean of each segment's rows."""

    gradient = emits("SortedSegmentRangeMeanGradient", "I0 O0 GO0 I1", "GI0")
    kernel = by_sorted_ids(segment_mean)
    example = Example({"DATA": [[1.0], [2.0], [3.0]], "SEGMENT_IDS": [0, 1, 1]}, {"OUTPUT": [[1.0], [2.5]]})


class SortedSegmentRangeMeanGradient(RangeGradient):
    """Derivative of SortedSegmentRangeMean by DATA."""

    inputs = [In("DATA", "(N, ...)", shape_only=True), In("OUTPUT", "(S, ...)", shape_only=True), GO, SORTED_IDS]
    kernel = _range_gradient(mean=True)
    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "OUTPUT": [[1.0], [2.5]], "segment_grads": [[1.0], [0.5]],
         "SEGMENT_IDS": [0, 1, 1]},
        {"data_grads": [[1.0], [0.25], [0.25]]})


class SortedSegmentRangeMax(RangeReduction):
    """The greatest entry of each segment, place by place."""

    gradient = emits("SortedSegmentRangeMaxGradient", "I0 O0 GO0 I1", "GI0")
    kernel = by_sorted_ids(_range_max)
    example = Example({"DATA": [[1.0], [2.0], [3.0]], "SEGMENT_IDS": [0, 1, 1]}, {"OUTPUT": [[1.0], [3.0]]})


class SortedSegmentRangeMaxGradient(RangeGradient):
    """Derivative of SortedSegmentRangeMax by DATA: each place that reached the maximum takes the whole gradient."""

    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "OUTPUT": [[1.0], [3.0]], "segment_grads": [[1.0], [0.5]],
         "SEGMENT_IDS": [0, 1, 1]},
        {"data_grads": [[1.0], [0.0], [0.5]]})

    def kernel(xp: Any, DATA: Any, OUTPUT: Any, segment_grads: Any, SEGMENT_IDS: Any) -> Any:
        segments, _ = sorted_segments(xp, SEGMENT_IDS, DATA.shape[0])
        return _to_maxima(xp, DATA, OUTPUT, segment_grads, segments)


class SortedSegmentRangeLogSumExp(RangeReduction):
    """log(sum(exp(rows))) of each segment, computed from the maximum so that nothing overflows."""

    gradient = emits("SortedSegmentRangeLogSumExpGradient", "I0 O0 GO0 I1", "GI0")
    kernel = by_sorted_ids(_log_sum_exp(mean=False))
    example = Example({"DATA": [[1.0], [2.0], [3.0]], "SEGMENT_IDS": [0, 1, 1]}, {"OUTPUT": [[1.0], [3.31326]]})


class SortedSegmentRangeLogSumExpGradient(RangeGradient):
    """Derivative of SortedSegmentRangeLogSumExp by DATA: exp(DATA - OUTPUT) times the gradient."""

    kernel = _log_sum_exp_gradient(mean=False)
    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "OUTPUT": [[1.0], [3.31326]], "segment_grads": [[1.0], [0.5]],
         "SEGMENT_IDS": [0, 1, 1]},
        {"data_grads": [[1.0], [0.134471], [0.365529]]})


class SortedSegmentRangeLogMeanExp(RangeReduction):
    """log(mean(exp(rows))) of each segment, computed from the maximum so that nothing overflows."""

    gradient = emits("SortedSegmentRangeLogMeanExpGradient", "I0 O0 GO0 I1", "GI0")
    kernel = by_sorted_ids(_log_sum_exp(mean=True))
    example = Example({"DATA": [[1.0], [2.0], [3.0]], "SEGMENT_IDS": [0, 1, 1]}, {"OUTPUT": [[1.0], [2.62011]]})


class SortedSegmentRangeLogMeanExpGradient(RangeGradient):
    """Derivative of SortedSegmentRangeLogMeanExp by DATA: exp(DATA - OUTPUT) / size times the gradient."""

    kernel = _log_sum_exp_gradient(mean=True)
    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "OUTPUT": [[1.0], [2.62011]], "segment_grads": [[1.0], [0.5]],
         "SEGMENT_IDS": [0, 1, 1]},
        {"data_grads": [[1.0], [0.134471], [0.365529]]})


# ---- segments by ids in any order


def by_unsorted_ids(reduce: Reduce) -> Kernel:
    def kernel(xp: Any, DATA: Any, SEGMENT_IDS: Any, *, num_segments: int) -> Any:
        if SEGMENT_IDS.ndim > 1:
            require_shape("SEGMENT_IDS", SEGMENT_IDS, DATA.shape[:SEGMENT_IDS.ndim])
            DATA = xp.reshape(DATA, (math.prod(SEGMENT_IDS.shape), *DATA.shape[SEGMENT_IDS.ndim:]))
            SEGMENT_IDS = xp.reshape(SEGMENT_IDS, (-1,))
        return reduce(xp, DATA, *unsorted_segments(xp, SEGMENT_IDS, DATA.shape[0], num_segments))

    return kernel


def from_unsorted_ids(mean: bool) -> Kernel:
    def kernel(xp: Any, segment_grads: Any, SEGMENT_IDS: Any) -> Any:
        count, ids = segment_grads.shape[0], SEGMENT_IDS
        flat = xp.reshape(ids, (-1,)) if ids.ndim > 1 else ids
        rows = _from_segments(xp, segment_grads, *unsorted_segments(xp, flat, None, count), mean)
        return rows if ids.ndim < 2 else xp.reshape(rows, (*ids.shape, *rows.shape[1:]))

    return kernel


def weighted_from_unsorted_ids(xp: Any, SCALARS: Any, segment_grads: Any, SEGMENT_IDS: Any) -> Any:
    """dDATA of a sum weighted by SCALARS."""
    segments, _ = unsorted_segments(xp, SEGMENT_IDS, SCALARS.shape[0], segment_grads.shape[0])
    return weighted(xp, xp.take(segment_grads, segments, axis=0), SCALARS)


class UnsortedReduction(Operator, abstract=True):
    inputs = [DATA, GRID_OF_IDS]
    outputs = [Out("OUTPUT", "(S, ...)")]
    arguments = [NUM_SEGMENTS]

    def shape(DATA: TensorType, *others: TensorType, num_segments: int, **arguments: Any) -> TensorType:
        ids = others[-1]
        if DATA.dims is None or ids.dims is None:
            return DATA.with_dims(None)
        return DATA.with_dims((None if num_segments == -1 else num_segments, *DATA.dims[ids.rank:]))


class UnsortedGradient(RowsGradient, abstract=True):
    inputs = [GO, GRID_OF_IDS]

    def shape(segment_grads: TensorType, SEGMENT_IDS: TensorType, **arguments: Any) -> TensorType:
        if segment_grads.dims is None or SEGMENT_IDS.dims is None:
            return segment_grads.with_dims(None)
        return segment_grads.with_dims((*SEGMENT_IDS.dims, *segment_grads.dims[1:]))


class UnsortedSegmentSum(UnsortedReduction):
    """The sum of each segment's rows."""

    gradient = emits("UnsortedSegmentSumGradient", "GO0 I1", "GI0")
    kernel = by_unsorted_ids(segment_sum)
    example = Example({"DATA": [[1.0], [2.0], [3.0]], "SEGMENT_IDS": [1, 0, 1]}, {"OUTPUT": [[2.0], [4.0]]})


class UnsortedSegmentMean(UnsortedReduction):
    """The mean of each segment's rows."""

    gradient = emits("UnsortedSegmentMeanGradient", "GO0 I1", "GI0")
    kernel = by_unsorted_ids(segment_mean)
    example = Example({"DATA": [[1.0], [2.0], [3.0]], "SEGMENT_IDS": [1, 0, 1]}, {"OUTPUT": [[2.0], [2.0]]})


class UnsortedSegmentWeightedSum(UnsortedReduction):
    """The sum of each segment's rows, each times its weight."""

    inputs = [DATA, SCALARS, UNSORTED_IDS]
    arguments = [NUM_SEGMENTS, GRAD_ON_WEIGHTS]
    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "SCALARS": [0.5, 1.0, 2.0], "SEGMENT_IDS": [1, 0, 1]},
        {"OUTPUT": [[2.0], [6.5]]},
        wrt=("DATA",))

    def kernel(xp: Any, DATA: Any, SCALARS: Any, SEGMENT_IDS: Any, *, num_segments: int) -> Any:
        return segment_sum(xp, weighted(xp, DATA, SCALARS),
                           *unsorted_segments(xp, SEGMENT_IDS, DATA.shape[0], num_segments))

    def gradient(op: Rule) -> None:
        refuse_grad_on_weights(op)
        op.emit("UnsortedSegmentWeightedSumGradient", [op.I(1), op.GO(0), op.I(2)], [op.GI(0)])


class UnsortedSegmentSumGradient(UnsortedGradient):
    """Derivative of UnsortedSegmentSum by DATA."""

    kernel = from_unsorted_ids(mean=False)
    example = Example(
        {"segment_grads": [[1.0], [0.5]], "SEGMENT_IDS": [1, 0, 1]},
        {"data_grads": [[0.5], [1.0], [0.5]]})


class UnsortedSegmentMeanGradient(UnsortedGradient):
    """Derivative of UnsortedSegmentMean by DATA."""

    kernel = from_unsorted_ids(mean=True)
    example = Example(
        {"segment_grads": [[1.0], [0.5]], "SEGMENT_IDS": [1, 0, 1]},
        {"data_grads": [[0.25], [1.0], [0.25]]})


class UnsortedSegmentWeightedSumGradient(WeightedGradient):
    """Derivative of UnsortedSegmentWeightedSum by DATA."""

    inputs = [SCALARS, GO, UNSORTED_IDS]
    kernel = weighted_from_unsorted_ids
    example = Example(
        {"SCALARS": [0.5, 1.0, 2.0], "segment_grads": [[1.0], [0.5]], "SEGMENT_IDS": [1, 0, 1]},
        {"data_grads": [[0.25], [1.0], [1.0]]})
