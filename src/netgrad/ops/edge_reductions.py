"""Sums, means and maxima over the first or the last axes, with lengths or without, and their derivatives.

X is seen as a matrix that is reduced along one direction. ``lengths`` says for each result how many of the first
elements count; the others are neither read nor given a gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from netgrad.graph.arguments import Bool, Int
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import Rule, RuleFunction
from netgrad.graph.shapes import ShapeError, TensorType, same_as
from netgrad.ops._arrays import require_rank, require_shape, require_size, rows
from netgrad.ops._rows import arange_like, check_lengths

_COUNT = (Int("num_reduce_dim", 1, "how many axes to reduce"),
          Int("num_reduce_dims", None, "the name under which it is documented; Caffe2 ignores it"))


def _cut(rank: int, front: bool, num_reduce_dim: int, num_reduce_dims: int | None) -> int:
    """The axis between what is reduced and what is kept."""
    count = num_reduce_dim if num_reduce_dims is None else num_reduce_dims
    if not 0 <= count <= rank:
        raise ShapeError(f"num_reduce_dim is {count}, expected 0 to {rank}, the axes of X")
    return count if front else rank - count


def _counted(xp: Any, X: Any, lengths: Any, front: bool) -> Any:
    """Which elements of the matrix X count: bool, to broadcast against X."""
    lengths = check_lengths(xp, lengths, "lengths")
    along, results = (0, 1) if front else (1, 0)
    require_size("lengths", lengths, X.shape[results], ", one for each result")
    if math.prod(lengths.shape) and int(xp.max(lengths)) > X.shape[along]:
        raise ValueError(f"a length is {int(xp.max(lengths))}, expected at most {X.shape[along]}, all there is")
    places = arange_like(xp, X.shape[along], X)
    if front:
        return xp.expand_dims(places, axis=1) < xp.expand_dims(lengths, axis=0)
    return xp.expand_dims(places, axis=0) < xp.expand_dims(lengths, axis=1)


def _divisor(xp: Any, X: Any, lengths: Any, front: bool) -> Any:
    """How many elements each mean is of (1 for none), to divide results."""
    if lengths is None:
        return max(X.shape[0 if front else 1], 1)
    counts = xp.astype(lengths, X.dtype)
    return xp.where(counts == 0, xp.ones_like(counts), counts)


def _reduction(front: bool, reduce: Callable[[Any, Any, Any, Any, int], Any]) -> Callable[..., Any]:
    """A kernel: the results of ``reduce(xp, matrix, which elements count, lengths, axis)``, shaped as the kept axes."""

    def kernel(xp: Any, X: Any, lengths: Any = None, *, num_reduce_dim: int, num_reduce_dims: int | None) -> Any:
        cut = _cut(len(X.shape), front, num_reduce_dim, num_reduce_dims)
        flat = rows(xp, X, cut)
        counted = None if lengths is None else _counted(xp, flat, lengths, front)
        results = reduce(xp, flat, counted, lengths, 0 if front else 1)
        return xp.reshape(results, X.shape[cut:] if front else X.shape[:cut])

    return kernel


def _sum(xp: Any, X: Any, counted: Any, lengths: Any, axis: int) -> Any:
    return xp.sum(X if counted is None else xp.where(counted, X, xp.zeros_like(X)), axis=axis, dtype=X.dtype)


def _mean(xp: Any, X: Any, counted: Any, lengths: Any, axis: int) -> Any:
    return xp.astype(_sum(xp, X, counted, lengths, axis) / _divisor(xp, X, lengths, axis == 0), X.dtype)


def _max(xp: Any, X: Any, counted: Any, lengths: Any, axis: int) -> Any:
    if X.shape[axis] == 0:
        return xp.sum(X, axis=axis, dtype=X.dtype)
    if counted is None:
        return xp.max(X, axis=axis)
    largest = xp.max(xp.where(counted, X, xp.full_like(X, xp.finfo(X.dtype).min)), axis=axis)
    return xp.where(lengths == 0, xp.zeros_like(largest), largest)


def _gradient(front: bool, mean: bool) -> Callable[..., Any]:
    """The kernel of a sum's or a mean's gradient."""

    def kernel(xp: Any, dY: Any, X: Any, lengths: Any = None, *,
               num_reduce_dim: int, num_reduce_dims: int | None) -> Any:
        given = X.dtype == xp.int64 and len(X.shape) == 1
        shape = tuple(xp.to_numpy(X).tolist()) if given else tuple(X.shape)
        cut = _cut(len(shape), front, num_reduce_dim, num_reduce_dims)
        require_shape("dY", dY, shape[cut:] if front else shape[:cut], ", the shape of Y")
        sizes = math.prod(shape[:cut]), math.prod(shape[cut:])
        flat = xp.broadcast_to(xp.reshape(dY, (1, sizes[1]) if front else (sizes[0], 1)), sizes)
        if mean:
            divisor = _divisor(xp, flat, lengths, front)
            quotient = flat / (divisor if front or lengths is None else xp.expand_dims(divisor, axis=1))
            flat = xp.astype(quotient, flat.dtype, copy=False)
        if lengths is not None:
            flat = xp.where(_counted(xp, flat, lengths, front), flat, xp.zeros_like(flat))
        return xp.reshape(flat + 0, shape)

    return kernel


def _max_gradient(front: bool) -> Callable[..., Any]:
    def kernel(xp: Any, dY: Any, X: Any, Y: Any, lengths: Any = None, *,
               num_reduce_dim: int, num_reduce_dims: int | None) -> Any:
        cut = _cut(len(X.shape), front, num_reduce_dim, num_reduce_dims)
        kept = X.shape[cut:] if front else X.shape[:cut]
        flat = rows(xp, X, cut)
        spread = (1, flat.shape[1]) if front else (flat.shape[0], 1)
        require_shape("dY", dY, kept, ", the shape of Y")
        require_shape("Y", Y, kept, ", what is left of X")
        chosen = flat == xp.reshape(Y, spread)
        if lengths is not None:
            chosen = chosen & _counted(xp, flat, lengths, front)
        dY = xp.reshape(dY, spread)
        return xp.reshape(xp.where(chosen, dY, xp.zeros_like(dY)), X.shape)

    return kernel


class Front(Operator, abstract=True):
    """Y from X, its first axes reduced."""

    inputs = [In("X", "numeric"), In("lengths", "one for each element of Y: how many count; int", optional=True)]
    outputs = [Out("Y", "X without its first axes")]
    arguments = _COUNT

    def shape(X: TensorType, *_: TensorType, num_reduce_dim: int, num_reduce_dims: int | None) -> TensorType:
        return X.with_dims(X.dims and X.dims[_cut(len(X.dims), True, num_reduce_dim, num_reduce_dims):])


class Back(Operator, abstract=True):
    """Y from X, its last axes reduced."""

    inputs = [In("X", "numeric"), In("lengths", "one for each element of Y: how many count; int", optional=True)]
    outputs = [Out("Y", "X without its last axes")]
    arguments = _COUNT

    def shape(X: TensorType, *_: TensorType, num_reduce_dim: int, num_reduce_dims: int | None) -> TensorType:
        return X.with_dims(X.dims and X.dims[:_cut(len(X.dims), False, num_reduce_dim, num_reduce_dims)])


def _forward_again(type: str) -> RuleFunction:
    """The rule of a gradient operator whose adjoint is the reduction itself."""

    def gradient(op: Rule) -> None:
        op.emit(type, [op.GO(0), *map(op.I, range(2, op.num_inputs))], [op.GI(0)])

    return gradient


class EdgeGradient(Operator, abstract=True):
    """dX from dY."""

    inputs = [In("dY", "like Y, numeric"), In("X", "or its shape, as int64 numbers", shape_only=True),
              In("lengths", optional=True)]
    outputs = [Out("dX", "like X")]
    arguments = _COUNT
    internal = True

    def shape(dY: TensorType, X: TensorType, *_: TensorType, **arguments: Any) -> TensorType:
        if X.dtype == "int64" and X.rank == 1:
            return dY.with_dims(None if X.dims is None or X.dims[0] is None else (None,) * X.dims[0])
        return X


class EdgeMaxGradient(Operator, abstract=True):
    """dX = dY where X is the largest; all that tie for it receive dY."""

    inputs = [In("dY", "like Y"), In("X"), In("Y"), In("lengths", optional=True)]
    outputs = [Out("dX", "like X")]
    arguments = _COUNT
    shape = same_as(1)
    internal = True


def _rule(op: Rule) -> None:
    op.emit(op.type + "Gradient", [op.GO(0), *map(op.I, range(op.num_inputs))], [op.GI(0)])


def _max_rule(op: Rule) -> None:
    op.emit(op.type + "Gradient", [op.GO(0), op.I(0), op.O(0), *map(op.I, range(1, op.num_inputs))], [op.GI(0)])


class ReduceFrontSum(Front):
    """Y = the sum of X over its first axes."""

    kernel = _reduction(True, _sum)
    gradient = _rule
    example = Example({"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"Y": [5.0, 7.0, 9.0]})


class ReduceFrontSumGradient(EdgeGradient):
    """dX = dY, repeated along the first axes; 0 beyond the lengths."""

    kernel = _gradient(True, mean=False)
    gradient = _forward_again("ReduceFrontSum")
    example = Example(
        {"dY": [1.0, 0.5, 2.0], "X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]},
        {"dX": [[1.0, 0.5, 2.0], [1.0, 0.5, 2.0]]})


class ReduceFrontMean(Front):
    """Y = the mean of X over its first axes; 0 over nothing."""

    kernel = _reduction(True, _mean)
    gradient = _rule
    example = Example({"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"Y": [2.5, 3.5, 4.5]})


class ReduceFrontMeanGradient(EdgeGradient):
    """dX = dY / the elements in a mean, repeated along the first axes; 0 beyond the lengths."""

    kernel = _gradient(True, mean=True)
    gradient = _forward_again("ReduceFrontMean")
    example = Example(
        {"dY": [1.0, 0.5, 2.0], "X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]},
        {"dX": [[0.5, 0.25, 1.0], [0.5, 0.25, 1.0]]})


class ReduceFrontMax(Front):
    """Y = the largest of X over its first axes; 0 over nothing."""

    kernel = _reduction(True, _max)
    gradient = _max_rule
    example = Example({"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"Y": [4.0, 5.0, 6.0]})


class ReduceFrontMaxGradient(EdgeMaxGradient):
    """dX = dY where X is the largest along the first axes; all that tie for it receive dY."""

    kernel = _max_gradient(True)
    example = Example(
        {"dY": [1.0, 0.5, 2.0], "X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "Y": [4.0, 5.0, 6.0]},
        {"dX": [[0.0, 0.0, 0.0], [1.0, 0.5, 2.0]]})


class ReduceBackSum(Back):
    """Y = the sum of X over its last axes."""

    kernel = _reduction(False, _sum)
    gradient = _rule
    example = Example({"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"Y": [6.0, 15.0]})


class ReduceBackSumGradient(EdgeGradient):
    """dX = dY, repeated along the last axes; 0 beyond the lengths."""

    kernel = _gradient(False, mean=False)
    gradient = _forward_again("ReduceBackSum")
    example = Example(
        {"dY": [1.0, 0.5], "X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]},
        {"dX": [[1.0, 1.0, 1.0], [0.5, 0.5, 0.5]]})


class ReduceBackMean(Back):
    """Y = the mean of X over its last axes; 0 over nothing."""

    kernel = _reduction(False, _mean)
    gradient = _rule
    example = Example({"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"Y": [2.0, 5.0]})


class ReduceBackMeanGradient(EdgeGradient):
    """dX = dY / the elements in a mean, repeated along the last axes; 0 beyond the lengths."""

    kernel = _gradient(False, mean=True)
    gradient = _forward_again("ReduceBackMean")
    example = Example(
        {"dY": [1.0, 0.5], "X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]},
        {"dX": [[0.333333, 0.333333, 0.333333], [0.166667, 0.166667, 0.166667]]})


class ReduceBackMax(Back):
    """Y = the largest of X over its last axes; 0 over nothing."""

    kernel = _reduction(False, _max)
    gradient = _max_rule
    example = Example({"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"Y": [3.0, 6.0]})


class ReduceBackMaxGradient(EdgeMaxGradient):
    """dX = dY where X is the largest along the last axes; all that tie for it receive dY."""

    kernel = _max_gradient(False)
    example = Example(
        {"dY": [1.0, 0.5], "X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "Y": [3.0, 6.0]},
        {"dX": [[0.0, 0.0, 1.0], [0.0, 0.0, 0.5]]})


class ReduceFrontWeightedSum(Operator):
    """Y = the sum of scalars[i] data[i]."""

    inputs = [In("data", "(N, ...), float"), In("scalars", "(N,), dtype of data")]
    outputs = [Out("Y", "data without its first axis")]
    arguments = [Bool("grad_on_weights", False, "of no effect: Caffe2 has no gradient for the scalars"),
                 Int("num_reduce_dim", 1, "of no effect: it is always one")]
    example = Example(
        {"data": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "scalars": [0.5, 2.0]},
        {"Y": [8.5, 11.0, 13.5]},
        wrt=("data",))

    def shape(data: TensorType, scalars: TensorType, **_: Any) -> TensorType:
        return data.with_dims(data.dims and data.dims[1:])

    def kernel(xp: Any, data: Any, scalars: Any) -> Any:
        require_shape("scalars", scalars, (data.shape[0],), ", one for each row of data")
        return xp.sum(data * xp.reshape(scalars, (-1, *(1,) * (len(data.shape) - 1))), axis=0)

    def gradient(op: Rule) -> None:
        dims = op.temp(f"_{op.output_name(0)}_dims")
        op.emit("Shape", [op.I(0)], [dims])
        op.emit("ReduceFrontWeightedSumGradient", [op.I(1), op.GO(0), dims], [op.GI(0)])


class ReduceFrontWeightedSumGradient(Operator):
    """ddata[i] = scalars[i] dY."""

    inputs = [In("scalars", "(N,)"), In("dY", "like Y"), In("dims", "the shape of data, int64", differentiable=False)]
    outputs = [Out("ddata", "(N, ...)")]
    arguments = [Bool("grad_on_weights", False), Int("num_reduce_dim", 1)]
    internal = True
    example = Example(
        {"scalars": [0.5, 2.0], "dY": [1.0, 0.5, 2.0], "dims": Tensor([2, 3], "int64")},
        {"ddata": [[0.5, 0.25, 1.0], [2.0, 1.0, 4.0]]})

    def shape(scalars: TensorType, dY: TensorType, dims: TensorType, **_: Any) -> TensorType:
        return dY.with_dims(None if dY.dims is None or scalars.dims is None else (*scalars.dims, *dY.dims))

    def kernel(xp: Any, scalars: Any, dY: Any, dims: Any) -> Any:
        require_rank("dims", dims, 1)
        shape = tuple(xp.to_numpy(dims).tolist())
        require_shape("dY", dY, shape[1:], f", as data has shape {shape}")
        require_shape("scalars", scalars, shape[:1], f", as data has shape {shape}")
        return xp.reshape(scalars, (-1, *(1,) * len(dY.shape))) * dY
