"""Reductions over looked-up rows of a table (embedding bags), and their derivatives.

The table's gradient is sparse: the indices that were looked up, and one row for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from netgrad.graph.arguments import Int, Ints
from netgrad.graph.declaration import In, Operator, Out, between
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import Rule, not_implemented
from netgrad.graph.shapes import TensorType
from netgrad.ops._arrays import require_rank, require_shape
from netgrad.ops._rows import (
    as_index,
    check_indices,
    check_lengths,
    places,
    rows_like,
    rows_of,
    segment_max,
    segment_mean,
    segment_sum,
    sorted_segments,
    spread,
    unsorted_segments,
)
from netgrad.ops.segments import (
    GO,
    GRAD_ON_WEIGHTS,
    LENGTHS,
    NUM_SEGMENTS,
    SCALARS,
    SORTED_IDS,
    UNSORTED_IDS,
    Kernel,
    LengthsGradient,
    LengthsReduction,
    Reduce,
    SegmentGradient,
    SegmentReduction,
    UnsortedGradient,
    UnsortedReduction,
    WeightedGradient,
    from_lengths,
    from_sorted_ids,
    from_unsorted_ids,
    per_segment,
    refuse_grad_on_weights,
    weight_gradient,
    weighted,
    weighted_from_lengths,
    weighted_from_sorted_ids,
    weighted_from_unsorted_ids,
)

TABLE = In("DATA", "(D, ...), float or half")
INDICES = In("INDICES", "(N,) int: rows of DATA", differentiable=False)
INDICES_SHAPE = In("INDICES", "(N,) int", shape_only=True)


def lookup(xp: Any, table: Any, indices: Any) -> Any:
    """Rows of the table, (N, ...). Half-precision rows come as float32, in which Caffe2 adds them up."""
    if indices.ndim != 1:
        raise ValueError(f"INDICES must be one-dimensional, found shape {tuple(indices.shape)}")
    rows = xp.take(table, check_indices(xp, indices, table.shape[0]), axis=0)
    return xp.astype(rows, xp.float32) if rows.dtype == xp.float16 else rows


def at_lengths(reduce: Reduce) -> Kernel:
    def kernel(xp: Any, DATA: Any, INDICES: Any, LENGTHS: Any) -> Any:
        rows = lookup(xp, DATA, INDICES)
        return reduce(xp, rows, spread(xp, LENGTHS, rows.shape[0]), LENGTHS.shape[0])

    return kernel


def at_sorted_ids(reduce: Reduce) -> Kernel:
    def kernel(xp: Any, DATA: Any, INDICES: Any, SEGMENT_IDS: Any) -> Any:
        rows = lookup(xp, DATA, INDICES)
        return reduce(xp, rows, *sorted_segments(xp, SEGMENT_IDS, rows.shape[0]))

    return kernel


def at_unsorted_ids(reduce: Reduce) -> Kernel:
    def kernel(xp: Any, DATA: Any, INDICES: Any, SEGMENT_IDS: Any, *, num_segments: int) -> Any:
        rows = lookup(xp, DATA, INDICES)
        return reduce(xp, rows, *unsorted_segments(xp, SEGMENT_IDS, rows.shape[0], num_segments))

    return kernel


def slice_of(type: str, *operands: int, indices: int, weighted: bool = False) -> Callable[[Rule], None]:
    """The rule: the table's gradient is (``indices``, values), the values made by ``type`` from the inputs
    ``operands``, where -1 stands for the output's gradient."""
    def rule(op: Rule) -> None:
        if weighted:
            refuse_grad_on_weights(op)
        op.emit(type, [op.GO(0) if k == -1 else op.I(k) for k in operands], [op.GI_values(0)])
        op.set_GI_slice(0, op.I(indices), op.GI_values(0))

    return rule


# ---- bags by lengths


def _looked_up(rows: TensorType) -> TensorType:
    """What rows of a table become where they are read: those of float16 are float32."""
    return rows.with_dtype("float32") if rows.dtype == "float16" else rows


class SparseReduction(LengthsReduction, abstract=True):
    inputs = [TABLE, INDICES, LENGTHS]

    def shape(DATA: TensorType, *others: TensorType, **arguments: Any) -> TensorType:
        return _looked_up(rows_like(rows_of(others[-1]), DATA))


class SparseLengthsSum(SparseReduction):
    """The sum of each bag's rows of the table."""

    gradient = slice_of("SparseLengthsIndicesInGradientSumGradient", -1, 2, 1, indices=1)
    kernel = at_lengths(segment_sum)
    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "INDICES": Tensor([2, 0, 2], "int64"), "LENGTHS": [1, 2]},
        {"OUTPUT": [[3.0], [4.0]]})


class SparseLengthsMean(SparseReduction):
    """The mean of each bag's rows of the table."""

    gradient = slice_of("SparseLengthsIndicesInGradientMeanGradient", -1, 2, 1, indices=1)
    kernel = at_lengths(segment_mean)
    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "INDICES": Tensor([2, 0, 2], "int64"), "LENGTHS": [1, 2]},
        {"OUTPUT": [[3.0], [2.0]]})


class SparseLengthsMax(SparseReduction):
    """The greatest entry of each bag's rows of the table, place by place; 0 for an empty bag.

    Caffe2 has it on the GPU alone, without a schema, and without a gradient.
    """

    gradient = not_implemented("Caffe2 has no rule for it: use Gather and LengthsMax")
    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "INDICES": Tensor([2, 0, 1], "int64"), "LENGTHS": [1, 2]},
        {"OUTPUT": [[3.0], [2.0]]})

    def kernel(xp: Any, DATA: Any, INDICES: Any, LENGTHS: Any) -> Any:
        return segment_max(xp, lookup(xp, DATA, INDICES), check_lengths(xp, LENGTHS, "LENGTHS"))


class SparseLengthsWeightedSum(SparseReduction):
    """The sum of each bag's rows of the table, each times its weight."""

    inputs = [TABLE, SCALARS, INDICES, LENGTHS]
    arguments = [GRAD_ON_WEIGHTS]
    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "SCALARS": [0.5, 1.0, 2.0], "INDICES": Tensor([2, 0, 2], "int64"),
         "LENGTHS": [1, 2]},
        {"OUTPUT": [[1.5], [7.0]]},
        wrt=("DATA",))

    def kernel(xp: Any, DATA: Any, SCALARS: Any, INDICES: Any, LENGTHS: Any) -> Any:
        rows = weighted(xp, lookup(xp, DATA, INDICES), SCALARS)
        return segment_sum(xp, rows, spread(xp, LENGTHS, rows.shape[0]), LENGTHS.shape[0])

    def gradient(op: Rule) -> None:
        if op.arg("grad_on_weights", 0):
            op.emit("SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient",
                    [op.I(1), op.GO(0), op.I(3), op.I(0), op.I(2)], [op.GI_values(0), op.GI(1)])
        else:
            op.emit("SparseLengthsIndicesInGradientWeightedSumGradient", [op.I(1), op.GO(0), op.I(3), op.I(2)],
                    [op.GI_values(0)])
        op.set_GI_slice(0, op.I(2), op.GI_values(0))


class SparseLengthsPositionalWeightedSum(SparseReduction):
    """The sum of each bag's rows of the table, the row at place p of its bag times WEIGHT[p]."""

    inputs = [TABLE, In("WEIGHT", "(P,): the weight of each place in a bag"), INDICES, LENGTHS]
    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "WEIGHT": [0.5, 2.0], "INDICES": Tensor([2, 0, 2], "int64"),
         "LENGTHS": [1, 2]},
        {"OUTPUT": [[1.5], [6.5]]},
        wrt=("DATA",))

    def kernel(xp: Any, DATA: Any, WEIGHT: Any, INDICES: Any, LENGTHS: Any) -> Any:
        rows = lookup(xp, DATA, INDICES)
        segments = spread(xp, LENGTHS, rows.shape[0])
        place = check_indices(xp, places(xp, as_index(xp, LENGTHS), segments), WEIGHT.shape[0], "places in a bag")
        return segment_sum(xp, weighted(xp, rows, xp.take(WEIGHT, place, axis=0)), segments, LENGTHS.shape[0])


class SparseLengthsSumGradient(LengthsGradient):
    """Values of the table's gradient of SparseLengthsSum, their number known from the lengths alone."""

    kernel = from_lengths(mean=False)
    example = Example({"segment_grads": [[1.0], [0.5]], "LENGTHS": [1, 2]}, {"data_grads": [[1.0], [0.5], [0.5]]})


class SparseLengthsMeanGradient(LengthsGradient):
    """Values of the table's gradient of SparseLengthsMean, their number known from the lengths alone."""

    kernel = from_lengths(mean=True)
    example = Example({"segment_grads": [[1.0], [0.5]], "LENGTHS": [1, 2]}, {"data_grads": [[1.0], [0.25], [0.25]]})


class SparseLengthsIndicesInGradientSumGradient(LengthsGradient):
    """Values of the table's gradient of SparseLengthsSum."""

    inputs = [GO, LENGTHS, INDICES_SHAPE]
    kernel = from_lengths(mean=False)
    example = Example(
        {"segment_grads": [[1.0], [0.5]], "LENGTHS": [1, 2], "INDICES": Tensor([2, 0, 2], "int64")},
        {"data_grads": [[1.0], [0.5], [0.5]]})


class SparseLengthsIndicesInGradientMeanGradient(LengthsGradient):
    """Values of the table's gradient of SparseLengthsMean."""

    inputs = [GO, LENGTHS, INDICES_SHAPE]
    kernel = from_lengths(mean=True)
    example = Example(
        {"segment_grads": [[1.0], [0.5]], "LENGTHS": [1, 2], "INDICES": Tensor([2, 0, 2], "int64")},
        {"data_grads": [[1.0], [0.25], [0.25]]})


class SparseLengthsWeightedSumGradient(WeightedGradient):
    """Values of the table's gradient of SparseLengthsWeightedSum."""

    kernel = weighted_from_lengths
    example = Example(
        {"SCALARS": [0.5, 1.0, 2.0], "segment_grads": [[1.0], [0.5]], "LENGTHS": [1, 2]},
        {"data_grads": [[0.5], [0.5], [1.0]]})


class SparseLengthsIndicesInGradientWeightedSumGradient(WeightedGradient):
    """Values of the table's gradient of SparseLengthsWeightedSum."""

    inputs = [SCALARS, GO, LENGTHS, INDICES_SHAPE]
    kernel = weighted_from_lengths
    example = Example(
        {"SCALARS": [0.5, 1.0, 2.0], "segment_grads": [[1.0], [0.5]], "LENGTHS": [1, 2],
         "INDICES": Tensor([2, 0, 2], "int64")},
        {"data_grads": [[0.5], [0.5], [1.0]]})


class WithMainInputGradient(WeightedGradient, abstract=True):
    """Base of the derivatives of SparseLengthsWeightedSum by the table (values only) and by the weights."""

    inputs = [SCALARS, GO, LENGTHS, TABLE, INDICES]
    outputs = [Out("data_grads", "(N, ...)"), Out("scalar_grads", "(N,)", optional=True)]

    def shape(SCALARS: TensorType, segment_grads: TensorType, *others: TensorType) -> tuple[TensorType, ...]:
        return rows_like(rows_of(SCALARS), segment_grads), _looked_up(SCALARS)

    def kernel(xp: Any, SCALARS: Any, segment_grads: Any, LENGTHS: Any, DATA: Any, INDICES: Any) -> Any:
        segments = spread(xp, LENGTHS, SCALARS.shape[0])
        require_shape("INDICES", INDICES, SCALARS.shape, ", one for each weight")
        per_segment(segment_grads, LENGTHS.shape[0])
        gradient = xp.take(segment_grads, segments, axis=0)
        rows = lookup(xp, DATA, INDICES)
        return weighted(xp, gradient, SCALARS), weight_gradient(xp, rows, gradient)


class SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient(WithMainInputGradient):
    """Derivatives of SparseLengthsWeightedSum: values of the table's gradient, and the gradient of the weights."""

    outputs = [Out("data_grads", "(N, ...)"), Out("scalar_grads", "(N,)")]
    example = Example(
        {"SCALARS": [0.5, 1.0, 2.0], "segment_grads": [[1.0], [0.5]], "LENGTHS": [1, 2],
         "DATA": [[1.0], [2.0], [3.0]], "INDICES": Tensor([2, 0, 2], "int64")},
        {"data_grads": [[0.5], [0.5], [1.0]], "scalar_grads": [3.0, 0.5, 1.5]})


class SparseLengthsWeightedSumWithMainInputGradient(WithMainInputGradient):
    """Derivatives of SparseLengthsWeightedSum: values of the table's gradient, and the gradient of the weights."""

    num_outputs = between(1, None)
    example = Example(
        {"SCALARS": [0.5, 1.0, 2.0], "segment_grads": [[1.0], [0.5]], "LENGTHS": [1, 2],
         "DATA": [[1.0], [2.0], [3.0]], "INDICES": Tensor([2, 0, 2], "int64")},
        {"data_grads": [[0.5], [0.5], [1.0]]})


# ---- bags by segment ids


class SortedReductionOfLookedUp(SegmentReduction, abstract=True):
    def shape(DATA: TensorType, *others: TensorType, **arguments: Any) -> TensorType:
        return _looked_up(SegmentReduction.shape(DATA, *others, **arguments))


class SparseSortedSegmentSum(SortedReductionOfLookedUp):
    """The sum of each segment's rows of the table."""

    inputs = [TABLE, INDICES, SORTED_IDS]
    gradient = slice_of("SortedSegmentSumGradient", -1, 2, indices=1)
    kernel = at_sorted_ids(segment_sum)
    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "INDICES": Tensor([2, 0, 2], "int64"), "SEGMENT_IDS": [0, 1, 1]},
        {"OUTPUT": [[3.0], [4.0]]})


class SparseSortedSegmentMean(SortedReductionOfLookedUp):
    """The mean of each segment's rows of the table."""

    inputs = [TABLE, INDICES, SORTED_IDS]
    gradient = slice_of("SortedSegmentMeanGradient", -1, 2, indices=1)
    kernel = at_sorted_ids(segment_mean)
    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "INDICES": Tensor([2, 0, 2], "int64"), "SEGMENT_IDS": [0, 1, 1]},
        {"OUTPUT": [[3.0], [2.0]]})


class SparseSortedSegmentWeightedSum(SortedReductionOfLookedUp):
    """The sum of each segment's rows of the table, each times its weight."""

    inputs = [TABLE, SCALARS, INDICES, SORTED_IDS]
    arguments = [GRAD_ON_WEIGHTS]
    gradient = slice_of("SortedSegmentWeightedSumGradient", 1, -1, 3, indices=2, weighted=True)
    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "SCALARS": [0.5, 1.0, 2.0], "INDICES": Tensor([2, 0, 2], "int64"),
         "SEGMENT_IDS": [0, 1, 1]},
        {"OUTPUT": [[1.5], [7.0]]},
        wrt=("DATA",))

    def kernel(xp: Any, DATA: Any, SCALARS: Any, INDICES: Any, SEGMENT_IDS: Any) -> Any:
        rows = weighted(xp, lookup(xp, DATA, INDICES), SCALARS)
        return segment_sum(xp, rows, *sorted_segments(xp, SEGMENT_IDS, rows.shape[0]))


class SparseSortedSegmentSumGradient(SegmentGradient):
    """Values of the table's gradient of SparseSortedSegmentSum."""

    kernel = from_sorted_ids(mean=False)
    example = Example(
        {"segment_grads": [[1.0], [0.5]], "SEGMENT_IDS": [0, 1, 1]},
        {"data_grads": [[1.0], [0.5], [0.5]]})


class SparseSortedSegmentMeanGradient(SegmentGradient):
    """Values of the table's gradient of SparseSortedSegmentMean."""

    kernel = from_sorted_ids(mean=True)
    example = Example(
        {"segment_grads": [[1.0], [0.5]], "SEGMENT_IDS": [0, 1, 1]},
        {"data_grads": [[1.0], [0.25], [0.25]]})


class SparseSortedSegmentWeightedSumGradient(WeightedGradient):
    """Values of the table's gradient of SparseSortedSegmentWeightedSum."""

    inputs = [SCALARS, GO, SORTED_IDS]
    kernel = weighted_from_sorted_ids
    example = Example(
        {"SCALARS": [0.5, 1.0, 2.0], "segment_grads": [[1.0], [0.5]], "SEGMENT_IDS": [0, 1, 1]},
        {"data_grads": [[0.5], [0.5], [1.0]]})


class UnsortedReductionOfLookedUp(UnsortedReduction, abstract=True):
    def shape(DATA: TensorType, *others: TensorType, **arguments: Any) -> TensorType:
        return _looked_up(UnsortedReduction.shape(DATA, *others, **arguments))


class SparseUnsortedSegmentSum(UnsortedReductionOfLookedUp):
    """The sum of each segment's rows of the table."""

    inputs = [TABLE, INDICES, UNSORTED_IDS]
    gradient = slice_of("UnsortedSegmentSumGradient", -1, 2, indices=1)
    kernel = at_unsorted_ids(segment_sum)
    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "INDICES": Tensor([2, 0, 2], "int64"), "SEGMENT_IDS": [1, 0, 1]},
        {"OUTPUT": [[1.0], [6.0]]})


class SparseUnsortedSegmentMean(UnsortedReductionOfLookedUp):
    """The mean of each segment's rows of the table."""

    inputs = [TABLE, INDICES, UNSORTED_IDS]
    gradient = slice_of("UnsortedSegmentMeanGradient", -1, 2, indices=1)
    kernel = at_unsorted_ids(segment_mean)
    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "INDICES": Tensor([2, 0, 2], "int64"), "SEGMENT_IDS": [1, 0, 1]},
        {"OUTPUT": [[1.0], [3.0]]})


class SparseUnsortedSegmentWeightedSum(UnsortedReductionOfLookedUp):
    """The sum of each segment's rows of the table, each times its weight."""

    inputs = [TABLE, SCALARS, INDICES, UNSORTED_IDS]
    arguments = [NUM_SEGMENTS, GRAD_ON_WEIGHTS]
    gradient = slice_of("UnsortedSegmentWeightedSumGradient", 1, -1, 3, indices=2, weighted=True)
    example = Example(
        {"DATA": [[1.0], [2.0], [3.0]], "SCALARS": [0.5, 1.0, 2.0], "INDICES": Tensor([2, 0, 2], "int64"),
         "SEGMENT_IDS": [1, 0, 1]},
        {"OUTPUT": [[1.0], [7.5]]},
        wrt=("DATA",))

    def kernel(xp: Any, DATA: Any, SCALARS: Any, INDICES: Any, SEGMENT_IDS: Any, *, num_segments: int) -> Any:
        rows = weighted(xp, lookup(xp, DATA, INDICES), SCALARS)
        return segment_sum(xp, rows, *unsorted_segments(xp, SEGMENT_IDS, rows.shape[0], num_segments))


class SparseUnsortedSegmentSumGradient(UnsortedGradient):
    """Values of the table's gradient of SparseUnsortedSegmentSum."""

    inputs = [GO, UNSORTED_IDS]
    kernel = from_unsorted_ids(mean=False)
    example = Example(
        {"segment_grads": [[1.0], [0.5]], "SEGMENT_IDS": [1, 0, 1]},
        {"data_grads": [[0.5], [1.0], [0.5]]})


class SparseUnsortedSegmentMeanGradient(UnsortedGradient):
    """Values of the table's gradient of SparseUnsortedSegmentMean."""

    inputs = [GO, UNSORTED_IDS]
    kernel = from_unsorted_ids(mean=True)
    example = Example(
        {"segment_grads": [[1.0], [0.5]], "SEGMENT_IDS": [1, 0, 1]},
        {"data_grads": [[0.25], [1.0], [0.25]]})


class SparseUnsortedSegmentWeightedSumGradient(WeightedGradient):
    """Values of the table's gradient of SparseUnsortedSegmentWeightedSum."""

    inputs = [SCALARS, GO, UNSORTED_IDS]
    kernel = weighted_from_unsorted_ids
    example = Example(
        {"SCALARS": [0.5, 1.0, 2.0], "segment_grads": [[1.0], [0.5]], "SEGMENT_IDS": [1, 0, 1]},
        {"data_grads": [[0.25], [1.0], [1.0]]})


# ---- a table as a product of three small tensors


class TTSparseLengthsSum(Operator):
    """SparseLengthsSum over a table held in tensor-train form: row (i0, i1, i2) is the product of three cores' slices.

    Core k has shape (factor_i[k], ranks[k], factor_j[k], ranks[k + 1]); i0 runs fastest in a row's number.
    Source: Oseledets 2011, https://doi.org/10.1137/090752286.
    """

    inputs = [In("core0", "float"), In("core1"), In("core2"), In("index", "(N,) int", differentiable=False), LENGTHS]
    outputs = [
        Out("OUTPUT", "(S, emb_size)"),
        Out("core0_output", "the first core's slices, kept for the gradient"),
        Out("core1_output", "products of two cores' slices, kept for the gradient"),
        Out("indices", "(N, 3) int: i0, i1, i2 of each row", differentiable=False),
    ]
    arguments = [
        Ints("factor_i", (1, 1, 1), "the table's number of rows, in three factors"),
        Ints("factor_j", (1, 1, 1), "the width of a row, in three factors"),
        Ints("ranks", (1, 1, 1, 1)), Int("emb_size", 64, "the width of a row"),
    ]
    example = Example(
        {"core0": [[[[1.0]]]], "core1": [[[[2.0]]]], "core2": [[[[3.0]]]], "index": Tensor([0, 0], "int64"),
         "LENGTHS": [2]},
        {"OUTPUT": [[12.0]], "core0_output": [[[1.0]], [[1.0]]], "core1_output": [[[2.0]], [[2.0]]],
         "indices": Tensor([[0, 0, 0], [0, 0, 0]], "int64")},
        {"factor_i": [1, 1, 1], "factor_j": [1, 1, 1], "ranks": [1, 1, 1, 1], "emb_size": 1})

    def shape(core0: TensorType, core1: TensorType, core2: TensorType, index: TensorType, lengths: TensorType, *,
              factor_i: Any, factor_j: Any, ranks: Any, emb_size: int) -> tuple[TensorType, ...]:
        n = rows_of(index)
        return (TensorType(core0.dtype, (rows_of(lengths), emb_size)),
                TensorType(core0.dtype, (n, factor_j[0], ranks[1])),
                TensorType(core0.dtype, (n, factor_j[0] * factor_j[1], ranks[2])),
                TensorType("int64", (n, 3)))

    def kernel(xp: Any, core0: Any, core1: Any, core2: Any, index: Any, lengths: Any, *, factor_i: Any,
               factor_j: Any, ranks: Any, emb_size: int) -> Any:
        if len(factor_i) != 3 or len(factor_j) != 3 or len(ranks) != 4 or math.prod(factor_j) != emb_size:
            raise ValueError(f"factor_i {factor_i}, factor_j {factor_j} and ranks {ranks} must be 3, 3 and 4 numbers, "
                             f"the product of factor_j emb_size, {emb_size}")
        for k, core in enumerate((core0, core1, core2)):
            if core.shape[:1] != (factor_i[k],) or math.prod(core.shape[1:]) != ranks[k] * factor_j[k] * ranks[k + 1]:
                raise ValueError(f"core{k} has shape {tuple(core.shape)}, expected {factor_i[k]} rows of "
                                 f"{ranks[k] * factor_j[k] * ranks[k + 1]} numbers")
        require_rank("index", index, 1)
        f0, f1, f2 = factor_i
        index = check_indices(xp, index, f0 * f1 * f2, "index")
        parts = xp.stack([index % f0, (index // f0) % f1, index // (f0 * f1)], axis=1)
        n = index.shape[0]
        first = xp.reshape(xp.take(core0, parts[:, 0], axis=0), (n, factor_j[0], ranks[1]))
        second = xp.reshape(first @ _matrix(xp, core1, parts[:, 1]), (n, factor_j[0] * factor_j[1], ranks[2]))
        rows = xp.reshape(second @ _matrix(xp, core2, parts[:, 2]), (n, emb_size))
        return segment_sum(xp, rows, spread(xp, lengths, n), lengths.shape[0]), first, second, parts

    def gradient(op: Rule) -> None:
        op.emit("TTSparseLengthsSumGradient",
                [op.I(0), op.I(1), op.I(2), op.I(4), op.O(1), op.O(2), op.O(3), op.GO(0)],
                [op.GI(0), op.GI(1), op.GI(2)])


def _matrix(xp: Any, core: Any, index: Any) -> Any:
    """Slices of a core as matrices: (N, rank, factor * next rank)."""
    return xp.reshape(xp.take(core, index, axis=0), (index.shape[0], core.shape[1], core.shape[2] * core.shape[3]))


class TTSparseLengthsSumGradient(Operator):
    """Derivatives of TTSparseLengthsSum by its three cores."""

    inputs = [In("core0", shape_only=True), In("core1"), In("core2"), LENGTHS, In("core0_output"), In("core1_output"),
              In("indices", "(N, 3) int", differentiable=False), In("dY", "(S, emb_size), float")]
    outputs = [Out("dcore0"), Out("dcore1"), Out("dcore2")]
    internal = True
    example = Example(
        {"core0": [[[[1.0]]]], "core1": [[[[2.0]]]], "core2": [[[[3.0]]]], "LENGTHS": [2],
         "core0_output": [[[1.0]], [[1.0]]], "core1_output": [[[2.0]], [[2.0]]],
         "indices": Tensor([[0, 0, 0], [0, 0, 0]], "int64"), "dY": [[1.0]]},
        {"dcore0": [[[[12.0]]]], "dcore1": [[[[6.0]]]], "dcore2": [[[[4.0]]]]})

    def shape(core0: TensorType, core1: TensorType, core2: TensorType, *others: TensorType) -> tuple[TensorType, ...]:
        return core0, core1, core2

    def kernel(xp: Any, core0: Any, core1: Any, core2: Any, lengths: Any, first: Any, second: Any, parts: Any,
               dY: Any) -> Any:
        require_rank("indices", parts, 2)
        require_shape("indices", parts, (parts.shape[0], 3))
        parts = as_index(xp, parts)
        n, cores = parts.shape[0], (core0, core1, core2)
        for k, core in enumerate(cores):
            require_rank(f"core{k}", core, 4)
            check_indices(xp, parts[:, k], core.shape[0], f"column {k} of indices")
        ranks, factors = [1, core0.shape[3], core1.shape[3], 1], [core.shape[2] for core in cores]
        for k, core in enumerate(cores):
            require_shape(f"core{k}", core, (core.shape[0], ranks[k], factors[k], ranks[k + 1]), ": ranks must fit")
        require_shape("core0_output", first, (n, factors[0], ranks[1]), " for these cores and indices")
        require_shape("core1_output", second, (n, factors[0] * factors[1], ranks[2]), " for these cores and indices")
        segments = spread(xp, check_lengths(xp, lengths), n)
        require_shape("dY", dY, (lengths.shape[0], math.prod(factors)), ", the output's")
        d_rows = xp.take(dY, segments, axis=0) if n else xp.zeros_like(dY[:0, :])
        d_third = xp.reshape(d_rows, (n, second.shape[1], core2.shape[2] * core2.shape[3]))
        d_core2 = xp.matrix_transpose(second) @ d_third
        d_second = xp.reshape(d_third @ xp.matrix_transpose(_matrix(xp, core2, parts[:, 2])),
                              (n, first.shape[1], core1.shape[2] * core1.shape[3]))
        d_core1 = xp.matrix_transpose(first) @ d_second
        d_first = d_second @ xp.matrix_transpose(_matrix(xp, core1, parts[:, 1]))
        return tuple(segment_sum(xp, xp.reshape(d, (n, *core.shape[1:])), parts[:, k], core.shape[0])
                     for k, (core, d) in enumerate(((core0, d_first), (core1, d_core1), (core2, d_core2))))
