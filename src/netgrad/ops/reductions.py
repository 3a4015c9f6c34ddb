"""Sums, means, extremes and norms over axes, and their derivatives."""

from __future__ import annotations

import math
from typing import Any

from netgrad.graph.arguments import Bool, Int, Ints
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import emits, forbidden
from netgrad.graph.shapes import Fixed, ShapeError, TensorType, same_as, scalar
from netgrad.ops._arrays import canonical_axis, full, require_shape, require_size
from netgrad.ops._broadcasting import expect_like
from netgrad.ops._second import linear

_AXES = (Ints("axes", (), "what to reduce; all axes unless given"),
         Bool("keepdims", True, "reduced axes stay, of size one"))


def reduced_axes(axes: Any, rank: int) -> tuple[int, ...]:
    """The axes to reduce, counted from the front and in order; all where none are named."""
    return tuple(sorted({canonical_axis(a, rank) for a in axes})) if axes else tuple(range(rank))


def _reduced_dims(dims: Any, axes: Any, keepdims: bool) -> Any:
    if dims is None:
        return None
    gone = reduced_axes(axes, len(dims))
    if keepdims:
        return tuple(1 if k in gone else d for k, d in enumerate(dims))
    return tuple(d for k, d in enumerate(dims) if k not in gone)


def spread(xp: Any, reduced: Any, X: Any, axes: Any, name: str) -> Any:
    """What a reduction of X left, shaped to broadcast against X; either form (with or without the axes) is taken."""
    kept = tuple(_reduced_dims(tuple(X.shape), axes, True))
    if tuple(reduced.shape) != kept:
        require_shape(name, reduced, _reduced_dims(tuple(X.shape), axes, False),
                      f" or {kept}, as X of shape {tuple(X.shape)} was reduced over {reduced_axes(axes, len(X.shape))}")
    return xp.reshape(reduced, kept)


def _count(X: Any, axes: tuple[int, ...]) -> int:
    return math.prod(X.shape[k] for k in axes)


def _sum(xp: Any, X: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return xp.sum(X, axis=axes, keepdims=keepdims, dtype=X.dtype) if axes else X


def _extreme(xp: Any, X: Any, axes: tuple[int, ...], keepdims: bool, largest: bool) -> Any:
    if not axes:
        return X
    if _count(X, axes) == 0:
        info = xp.finfo(X.dtype) if xp.isdtype(X.dtype, "real floating") else xp.iinfo(X.dtype)
        return full(xp, _reduced_dims(tuple(X.shape), axes, keepdims), info.min if largest else info.max, X)
    return (xp.max if largest else xp.min)(X, axis=axes, keepdims=keepdims)


class Reduction(Operator, abstract=True):
    """Y from X, its axes reduced."""

    inputs = [In("X", "any shape, float")]
    outputs = [Out("Y", "X without the reduced axes, or with size one there")]
    arguments = _AXES

    def shape(X: TensorType, *, axes: Any, keepdims: bool) -> TensorType:
        return X.with_dims(_reduced_dims(X.dims, axes, keepdims))


class ReductionGradient(Operator, abstract=True):
    """dX from dY, spread over the reduced axes."""

    inputs = [In("dY", "like Y, float"), In("X"), In("Y")]
    outputs = [Out("dX", "like X")]
    arguments = _AXES
    shape = same_as(1)
    internal = True


class ReduceSum(Reduction):
    """Y = the sum of X over ``axes``."""

    inputs = [In("X", "any shape, numeric")]
    gradient = emits("ReduceSumGradient", "GO0 I0 O0", "GI0")
    example = Example({"X": [[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]]}, {"Y": [2.0, 3.0]}, {"axes": [1], "keepdims": 0})

    def kernel(xp: Any, X: Any, *, axes: Any, keepdims: bool) -> Any:
        return _sum(xp, X, reduced_axes(axes, len(X.shape)), keepdims)


class ReduceSumGradient(ReductionGradient):
    """dX = dY, repeated along the reduced axes."""

    inputs = [In("dY", "like Y, numeric"), In("X", shape_only=True), In("Y", shape_only=True)]
    gradient = linear("ReduceSum", "GO0", to=0)
    example = Example(
        {"dY": [1.0, 0.5], "X": [[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], "Y": [2.0, 3.0]},
        {"dX": [[1.0, 1.0, 1.0], [0.5, 0.5, 0.5]]},
        {"axes": [1], "keepdims": 0})

    def kernel(xp: Any, dY: Any, X: Any, Y: Any, *, axes: Any) -> Any:
        return xp.broadcast_to(spread(xp, dY, X, axes, "dY"), tuple(X.shape)) + 0


class ReduceMean(Reduction):
    """Y = the mean of X over ``axes``; 0 over nothing."""

    gradient = emits("ReduceMeanGradient", "GO0 I0 O0", "GI0")
    example = Example({"X": [[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]]}, {"Y": [0.666667, 1.0]}, {"axes": [1], "keepdims": 0})

    def kernel(xp: Any, X: Any, *, axes: Any, keepdims: bool) -> Any:
        over = reduced_axes(axes, len(X.shape))
        return _sum(xp, X, over, keepdims) / max(_count(X, over), 1)


class ReduceMeanGradient(ReductionGradient):
    """dX = dY / the number of elements in a mean, repeated along the reduced axes."""

    inputs = [In("dY", "like Y, float"), In("X", shape_only=True), In("Y", shape_only=True)]
    gradient = linear("ReduceMean", "GO0", to=0)
    example = Example(
        {"dY": [1.0, 0.5], "X": [[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], "Y": [0.666667, 1.0]},
        {"dX": [[0.333333, 0.333333, 0.333333], [0.166667, 0.166667, 0.166667]]},
        {"axes": [1], "keepdims": 0})

    def kernel(xp: Any, dY: Any, X: Any, Y: Any, *, axes: Any) -> Any:
        size = max(_count(X, reduced_axes(axes, len(X.shape))), 1)
        return xp.broadcast_to(spread(xp, dY, X, axes, "dY"), tuple(X.shape)) / size


class ReduceMax(Reduction):
    """Y = the largest of X over ``axes``; the lowest number there is over nothing."""

    inputs = [In("X", "any shape, numeric")]
    gradient = emits("ReduceMaxGradient", "GO0 I0 O0", "GI0")
    example = Example({"X": [[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]]}, {"Y": [3.0, 5.0]}, {"axes": [1], "keepdims": 0})

    def kernel(xp: Any, X: Any, *, axes: Any, keepdims: bool) -> Any:
        return _extreme(xp, X, reduced_axes(axes, len(X.shape)), keepdims, largest=True)


class ReduceMin(Reduction):
    """Y = the smallest of X over ``axes``; the highest number there is over nothing."""

    inputs = [In("X", "any shape, numeric")]
    gradient = emits("ReduceMinGradient", "GO0 I0 O0", "GI0")
    example = Example({"X": [[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]]}, {"Y": [-2.0, -6.0]}, {"axes": [1], "keepdims": 0})

    def kernel(xp: Any, X: Any, *, axes: Any, keepdims: bool) -> Any:
        return _extreme(xp, X, reduced_axes(axes, len(X.shape)), keepdims, largest=False)


def _where_reached(xp: Any, X: Any, extreme: Any, dY: Any) -> Any:
    """dY where X is the extreme, 0 elsewhere, also where dY is infinite or NaN."""
    return xp.where(extreme == X, dY, xp.zeros_like(dY))


class ReduceExtremeGradient(ReductionGradient, abstract=True):
    """dX = dY where X is the extreme; all that tie for it receive dY."""

    inputs = [In("dY", "like Y"), In("X", "numeric"), In("Y")]

    def kernel(xp: Any, dY: Any, X: Any, Y: Any, *, axes: Any) -> Any:
        return _where_reached(xp, X, spread(xp, Y, X, axes, "Y"), spread(xp, dY, X, axes, "dY"))


class ReduceMaxGradient(ReduceExtremeGradient):
    """dX = dY where X is the largest; all that tie for it receive dY."""

    example = Example(
        {"dY": [1.0, 0.5], "X": [[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], "Y": [3.0, 5.0]},
        {"dX": [[0.0, 0.0, 1.0], [0.0, 0.5, 0.0]]},
        {"axes": [1], "keepdims": 0})


class ReduceMinGradient(ReduceExtremeGradient):
    """dX = dY where X is the smallest; all that tie for it receive dY."""

    example = Example(
        {"dY": [1.0, 0.5], "X": [[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], "Y": [-2.0, -6.0]},
        {"dX": [[0.0, 1.0, 0.0], [0.0, 0.0, 0.5]]},
        {"axes": [1], "keepdims": 0})


class ReduceL1(Reduction):
    """Y = the sum of |X| over ``axes``."""

    gradient = emits("ReduceL1Gradient", "GO0 I0 O0", "GI0")
    example = Example({"X": [[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]]}, {"Y": [6.0, 15.0]}, {"axes": [1], "keepdims": 0})

    def kernel(xp: Any, X: Any, *, axes: Any, keepdims: bool) -> Any:
        return _sum(xp, xp.abs(X), reduced_axes(axes, len(X.shape)), keepdims)


class ReduceL1Gradient(ReductionGradient):
    """dX = sign(X) dY; 0 at 0."""

    inputs = [In("dY", "like Y, float"), In("X"), In("Y", shape_only=True)]
    example = Example(
        {"dY": [1.0, 0.5], "X": [[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], "Y": [6.0, 15.0]},
        {"dX": [[1.0, -1.0, 1.0], [0.5, 0.5, -0.5]]},
        {"axes": [1], "keepdims": 0})

    def kernel(xp: Any, dY: Any, X: Any, Y: Any, *, axes: Any) -> Any:
        return spread(xp, dY, X, axes, "dY") * xp.sign(X)


class ReduceL2(Reduction):
    """Y = the square root of the sum of X^2 over ``axes``."""

    gradient = emits("ReduceL2Gradient", "GO0 I0 O0", "GI0")
    example = Example(
        {"X": [[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]]},
        {"Y": [3.74166, 8.77496]},
        {"axes": [1], "keepdims": 0})

    def kernel(xp: Any, X: Any, *, axes: Any, keepdims: bool) -> Any:
        return xp.sqrt(_sum(xp, X * X, reduced_axes(axes, len(X.shape)), keepdims))


class ReduceL2Gradient(ReductionGradient):
    """dX = X dY / Y; 0 where Y is 0."""

    example = Example(
        {"dY": [1.0, 0.5], "X": [[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], "Y": [3.74166, 8.77496]},
        {"dX": [[0.267261, -0.534522, 0.801784], [0.227921, 0.284901, -0.341882]]},
        {"axes": [1], "keepdims": 0})

    def kernel(xp: Any, dY: Any, X: Any, Y: Any, *, axes: Any) -> Any:
        norm = spread(xp, Y, X, axes, "Y")
        return spread(xp, dY, X, axes, "dY") * X / xp.where(norm == 0, xp.ones_like(norm), norm)


class Moments(Operator):
    """The mean and the variance (of the whole, not estimated) of X over ``axes``; 0 over nothing."""

    inputs = [In("X", "any shape, float")]
    arguments = _AXES
    outputs = [Out("mean", "X without the reduced axes, or with size one there"), Out("variance", "like mean")]
    gradient = emits("MomentsGradient", "GO0 GO1 I0 O0", "GI0")
    example = Example(
        {"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]},
        {"mean": [2.0, 5.0], "variance": [0.666667, 0.666667]},
        {"axes": [1], "keepdims": 0})

    def shape(X: TensorType, *, axes: Any, keepdims: bool) -> tuple[TensorType, TensorType]:
        reduced = X.with_dims(_reduced_dims(X.dims, axes, keepdims))
        return reduced, reduced

    def kernel(xp: Any, X: Any, *, axes: Any, keepdims: bool) -> Any:
        over = reduced_axes(axes, len(X.shape))
        size = max(_count(X, over), 1)
        mean = _sum(xp, X, over, True) / size
        deviation = X - mean
        variance = _sum(xp, deviation * deviation, over, keepdims) / size
        return xp.reshape(mean, variance.shape), variance


class MomentsGradient(Operator):
    """dX = (dmean + 2 (X - mean) dvariance) / the number of elements in a mean."""

    inputs = [In("dmean", "float"), In("dvariance", "like dmean"), In("X"), In("mean")]
    outputs = [Out("dX", "like X")]
    arguments = _AXES
    shape = same_as(2)
    internal = True
    example = Example(
        {"dmean": [1.0, 0.5], "dvariance": [1.0, 0.5], "X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "mean": [2.0, 5.0]},
        {"dX": [[-0.333333, 0.333333, 1.0], [-0.166667, 0.166667, 0.5]]},
        {"axes": [1], "keepdims": 0})

    def kernel(xp: Any, dmean: Any, dvariance: Any, X: Any, mean: Any, *, axes: Any) -> Any:
        deviation = X - spread(xp, mean, X, axes, "mean")
        slope = spread(xp, dmean, X, axes, "dmean") + deviation * spread(xp, dvariance, X, axes, "dvariance") * 2
        return slope / max(_count(X, reduced_axes(axes, len(X.shape))), 1)


class SumElements(Operator):
    """Y = the sum of all elements of X, or their mean with ``average``."""

    inputs = [In("X", "any shape, float")]
    outputs = [Out("Y", "()")]
    arguments = [Bool("average", False)]
    shape = scalar()
    gradient = emits("SumElementsGradient", "I0 GO0", "GI0")
    example = Example({"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"Y": 21.0})

    def kernel(xp: Any, X: Any, *, average: bool) -> Any:
        total = xp.sum(X, dtype=X.dtype)
        return total / max(math.prod(X.shape), 1) if average else total


class SumElementsGradient(Operator):
    """dX = dY everywhere, divided by the number of elements with ``average``."""

    inputs = [In("X", shape_only=True), In("dY", "one element, float")]
    outputs = [Out("dX", "like X")]
    arguments = [Bool("average", False)]
    shape = same_as(0)
    internal = True
    gradient = linear("SumElements", "GO0", to=1)
    example = Example({"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "dY": 1.0}, {"dX": [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]})

    def kernel(xp: Any, X: Any, dY: Any, *, average: bool) -> Any:
        require_size("dY", dY, 1)
        return xp.broadcast_to(xp.reshape(dY, ()), tuple(X.shape)) / (max(math.prod(X.shape), 1) if average else 1)


class SumElementsInt(Operator):
    """Y = the sum of all elements of X."""

    inputs = [In("X", "any shape, int32")]
    outputs = [Out("Y", "()", differentiable=False)]
    shape = scalar()
    gradient = forbidden("integers have no slope")
    example = Example({"X": [1, 2, 3]}, {"Y": 6})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.sum(X, dtype=X.dtype)


class SumSqrElements(Operator):
    """Y = the sum of the squares of all elements of X, or their mean with ``average``."""

    inputs = [In("X", "any shape, float")]
    outputs = [Out("Y", "()")]
    arguments = [Bool("average", False)]
    shape = scalar()
    example = Example({"X": [1.0, 2.0, 3.0]}, {"Y": 14.0})

    def kernel(xp: Any, X: Any, *, average: bool) -> Any:
        total = xp.sum(X * X, dtype=X.dtype)
        return total / max(math.prod(X.shape), 1) if average else total


_NORM = (Int("p", 2, "1 or 2"), Bool("average", False, "divide by the number of elements"))


def _check_power(p: int) -> None:
    if p not in (1, 2):
        raise ValueError(f"p is {p}, expected 1 or 2")


class LpNorm(Operator):
    """Y = the sum of |X|^p over all elements (no root is taken), or their mean with ``average``."""

    inputs = [In("X", "any shape, float")]
    outputs = [Out("Y", "(1,)")]
    arguments = _NORM
    shape = Fixed((TensorType(None, (1,)),))
    gradient = emits("LpNormGradient", "I0 GO0", "GI0")
    example = Example({"X": [3.0, -4.0]}, {"Y": [25.0]}, {"p": 2})

    def kernel(xp: Any, X: Any, *, p: int, average: bool) -> Any:
        _check_power(p)
        total = xp.sum(xp.abs(X) if p == 1 else X * X, dtype=X.dtype)
        return xp.reshape(total / max(math.prod(X.shape), 1) if average else total, (1,))


class LpNormGradient(Operator):
    """dX = sign(X) dY for p = 1, 2 X dY for p = 2; divided by the number of elements with ``average``."""

    inputs = [In("X"), In("dY", "(1,), float")]
    outputs = [Out("dX", "like X")]
    arguments = _NORM
    shape = same_as(0)
    internal = True
    example = Example({"X": [3.0, -4.0], "dY": [1.0]}, {"dX": [6.0, -8.0]}, {"p": 2})

    def kernel(xp: Any, X: Any, dY: Any, *, p: int, average: bool) -> Any:
        _check_power(p)
        require_size("dY", dY, 1)
        slope = xp.sign(X) if p == 1 else X * 2
        return slope * xp.reshape(dY, ()) / (max(math.prod(X.shape), 1) if average else 1)


def _require_batch_of_matrices(X: Any, axis: int) -> None:
    if len(X.shape) != 3 or X.shape[axis] == 0:
        raise ShapeError(f"X has shape {tuple(X.shape)}, expected (batch, rows, columns), not empty along axis {axis}")


class RowwiseMax(Operator):
    """Y = the largest element of each row of each matrix."""

    inputs = [In("X", "(batch, M, N), float")]
    outputs = [Out("Y", "(batch, M)")]
    gradient = emits("RowwiseMaxGradient", "I0 O0 GO0", "GI0")
    example = Example({"X": [[[1.0, 5.0], [4.0, 2.0]]]}, {"Y": [[5.0, 4.0]]})

    def shape(X: TensorType) -> TensorType:
        return X.with_dims(X.dims and X.dims[:2])

    def kernel(xp: Any, X: Any) -> Any:
        _require_batch_of_matrices(X, 2)
        return xp.max(X, axis=2)


class RowwiseMaxGradient(Operator):
    """dX = dY where X is the largest of its row; all that tie for it receive dY."""

    inputs = [In("X"), In("Y"), In("dY", "like Y")]
    outputs = [Out("dX", "like X")]
    shape = same_as(0)
    internal = True
    example = Example(
        {"X": [[[1.0, 5.0], [4.0, 2.0]]], "Y": [[5.0, 4.0]], "dY": [[1.0, 0.5]]},
        {"dX": [[[0.0, 1.0], [0.5, 0.0]]]})

    def kernel(xp: Any, X: Any, Y: Any, dY: Any) -> Any:
        return _where_reached(xp, X, spread(xp, Y, X, (2,), "Y"), spread(xp, expect_like(dY, Y), X, (2,), "dY"))


class ColwiseMax(Operator):
    """Y = the largest element of each column of each matrix."""

    inputs = [In("X", "(batch, M, N), float")]
    outputs = [Out("Y", "(batch, N)")]
    gradient = emits("ColwiseMaxGradient", "I0 O0 GO0", "GI0")
    example = Example({"X": [[[1.0, 5.0], [4.0, 2.0]]]}, {"Y": [[4.0, 5.0]]})

    def shape(X: TensorType) -> TensorType:
        return X.with_dims(X.dims and (X.dims[0], X.dims[2]))

    def kernel(xp: Any, X: Any) -> Any:
        _require_batch_of_matrices(X, 1)
        return xp.max(X, axis=1)


class ColwiseMaxGradient(Operator):
    """dX = dY where X is the largest of its column; all that tie for it receive dY."""

    inputs = [In("X"), In("Y"), In("dY", "like Y")]
    outputs = [Out("dX", "like X")]
    shape = same_as(0)
    internal = True
    example = Example(
        {"X": [[[1.0, 5.0], [4.0, 2.0]]], "Y": [[4.0, 5.0]], "dY": [[1.0, 0.5]]},
        {"dX": [[[0.0, 0.5], [1.0, 0.0]]]})

    def kernel(xp: Any, X: Any, Y: Any, dY: Any) -> Any:
        return _where_reached(xp, X, spread(xp, Y, X, (1,), "Y"), spread(xp, expect_like(dY, Y), X, (1,), "dY"))


class ArgExtreme(Operator, abstract=True):
    """Where along an axis the extreme is, the first of those that tie."""

    inputs = [In("X", "any shape, numeric")]
    outputs = [Out("indices", "X without the axis, or with size one there; int64", differentiable=False)]
    arguments = [Int("axis", -1), Bool("keepdims", True, "keep the axis at size one")]
    gradient = forbidden("indices have no slope")

    def shape(X: TensorType, *, axis: int, keepdims: bool) -> TensorType:
        return TensorType("int64", _reduced_dims(X.dims, (axis,), keepdims))


def _arg_extreme(xp: Any, X: Any, axis: int, keepdims: bool, largest: bool) -> Any:
    axis = canonical_axis(axis, len(X.shape))
    if X.shape[axis] == 0:
        return full(xp, _reduced_dims(tuple(X.shape), (axis,), keepdims), 0, X, xp.int64)
    return xp.astype((xp.argmax if largest else xp.argmin)(X, axis=axis, keepdims=keepdims), xp.int64)


class ArgMax(ArgExtreme):
    """Where along ``axis`` the largest element is, the first of those that tie."""

    example = Example({"X": [[1.0, 5.0, 2.0], [7.0, 0.0, 3.0]]}, {"indices": Tensor([[1], [0]], "int64")}, {"axis": 1})

    def kernel(xp: Any, X: Any, *, axis: int, keepdims: bool) -> Any:
        return _arg_extreme(xp, X, axis, keepdims, largest=True)


class ArgMin(ArgExtreme):
    """Where along ``axis`` the smallest element is, the first of those that tie."""

    example = Example({"X": [[1.0, 5.0, 2.0], [7.0, 0.0, 3.0]]}, {"indices": Tensor([[0], [1]], "int64")}, {"axis": 1})

    def kernel(xp: Any, X: Any, *, axis: int, keepdims: bool) -> Any:
        return _arg_extreme(xp, X, axis, keepdims, largest=False)
