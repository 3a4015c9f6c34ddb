"""Piecewise functions: steps, buckets, line segments, and the Box-Cox transform."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Bool, Float, Floats, Int
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import forbidden, no_gradient, not_implemented
from netgrad.graph.shapes import ShapeError, TensorType, data_dependent, same_as
from netgrad.ops._arrays import array, product, require_rank, require_shape, require_size
from netgrad.ops._rows import arange_like, check_indices, check_lengths


def _rank(xp: Any, X: Any, bounds: Any) -> Any:
    """How many of the bounds lie below each element of X; int32."""
    return xp.sum(xp.astype(xp.expand_dims(X, axis=-1) > bounds, xp.int32), axis=-1, dtype=xp.int32)


class StumpFunc(Operator):
    """Y = low_value where X <= threshold, high_value elsewhere."""

    inputs = [In("X", "any shape, float")]
    outputs = [Out("Y", "like X")]
    arguments = [Float("threshold", 0.0), Float("low_value", 0.0), Float("high_value", 0.0)]
    shape = same_as(0)
    gradient = no_gradient
    example = Example({"X": [1.0, 3.0]}, {"Y": [-1.0, 1.0]}, {"threshold": 2.0, "low_value": -1.0, "high_value": 1.0})

    def kernel(xp: Any, X: Any, *, threshold: float, low_value: float, high_value: float) -> Any:
        return xp.where(X <= threshold, xp.full_like(X, low_value), xp.full_like(X, high_value))


class StumpFuncIndex(Operator):
    """The places of the elements of X that are at most the threshold, and of those above it."""

    inputs = [In("X", "any shape, float, seen flat")]
    outputs = [Out("index_low", "1-D, int64", differentiable=False),
               Out("index_high", "1-D, int64", differentiable=False)]
    arguments = [Float("threshold", 0.0)]
    shape = data_dependent(("int64", 1), ("int64", 1))
    gradient = no_gradient
    example = Example(
        {"X": [1.0, 3.0]},
        {"index_low": Tensor([0], "int64"), "index_high": Tensor([1], "int64")},
        {"threshold": 2.0})

    def kernel(xp: Any, X: Any, *, threshold: float) -> Any:
        low = xp.reshape(X, (-1,)) <= threshold
        return xp.nonzero(low)[0], xp.nonzero(xp.logical_not(low))[0]


class Bucketize(Operator):
    """Y = how many of the boundaries lie below X."""

    inputs = [In("X", "any shape, float")]
    outputs = [Out("Y", "shape of X, int32", differentiable=False)]
    arguments = [Floats("boundaries", (), "in ascending order")]
    example = Example({"X": [0.5, 1.5, 2.5]}, {"Y": [0, 1, 2]}, {"boundaries": [1.0, 2.0]})

    def shape(X: TensorType, **_: Any) -> TensorType:
        return X.with_dtype("int32")

    def kernel(xp: Any, X: Any, *, boundaries: Any) -> Any:
        if not boundaries or list(boundaries) != sorted(boundaries):
            raise ValueError(f"boundaries are {list(boundaries)}, expected one or more in ascending order")
        return _rank(xp, X, array(xp, list(boundaries), X))


class BatchBucketize(Operator):
    """Y[:, p] = how many of the p-th boundaries lie below column indices[p] of the features."""

    inputs = [In("float_features", "(batch, D), float"), In("indices", "(P,), columns, int32"),
              In("boundaries", "all boundaries one after another, each column's ascending"),
              In("lengths", "(P,), how many each column has, int32")]
    outputs = [Out("Y", "(batch, P), int32", differentiable=False)]
    gradient = no_gradient
    example = Example(
        {"float_features": [[0.5, 2.5]], "indices": [0, 1], "boundaries": [1.0, 1.0, 2.0], "lengths": [1, 2]},
        {"Y": [[0, 2]]})

    def shape(features: TensorType, indices: TensorType, *_: TensorType) -> TensorType:
        return TensorType("int32", ((features.dims or (None,))[0], (indices.dims or (None,))[0]))

    def kernel(xp: Any, features: Any, indices: Any, boundaries: Any, lengths: Any) -> Any:
        require_rank("indices", indices, 1)
        require_rank("boundaries", boundaries, 1)
        columns = xp.take(features, check_indices(xp, indices, features.shape[1], "indices"), axis=1)
        ends = xp.to_numpy(check_lengths(xp, lengths, "lengths")).cumsum().tolist()
        require_shape("lengths", lengths, tuple(indices.shape), ", the shape of indices")
        require_size("boundaries", boundaries, ends[-1] if ends else 0, ", the sum of lengths")
        if not ends:
            return xp.astype(columns, xp.int32)
        bounds = [boundaries[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        return xp.stack([_rank(xp, columns[:, p], b) for p, b in enumerate(bounds)], axis=1)


class PiecewiseLinearTransform(Operator):
    """Y = slope X + intercept of the segment X lies in; X is first brought between the outer bounds.

    Each column has segments of its own. With ``binary`` there is one set, for column 1 or the only one; of two columns
    the other becomes what is left to 1.
    """

    inputs = [In("X", "(N, M) or (N,), float"), In("bounds", "M (pieces + 1) ascending numbers", optional=True),
              In("slopes", "M pieces numbers", optional=True), In("intercepts", "like slopes", optional=True)]
    outputs = [Out("Y", "like X")]
    arguments = [
        Floats("bounds", (), as_="bounds_argument"), Floats("slopes", (), as_="slopes_argument"),
        Floats("intercepts", (), as_="intercepts_argument"), Bool("binary", False), Int("pieces", 0, "of no effect"),
    ]
    shape = same_as(0)
    gradient = forbidden("it calibrates predictions that are finished")
    example = Example(
        {"X": [[0.25], [0.75]]},
        {"Y": [[0.25], [1.0]]},
        {"bounds": [0.0, 0.5, 1.0], "slopes": [1.0, 2.0], "intercepts": [0.0, -0.5]})

    def kernel(xp: Any, X: Any, bounds: Any = None, slopes: Any = None, intercepts: Any = None, *,
               bounds_argument: Any, slopes_argument: Any, intercepts_argument: Any, binary: bool) -> Any:
        if bounds is not None and intercepts is None:
            raise ValueError("slopes or intercepts are missing beside bounds, expected all three or none of them")
        if bounds is None:
            bounds, slopes, intercepts = (
                array(xp, list(a), X) for a in (bounds_argument, slopes_argument, intercepts_argument))
        slopes, intercepts = xp.reshape(slopes, (-1,)), xp.reshape(intercepts, (-1,))
        columns = X.shape[1] if len(X.shape) == 2 else 1
        if not columns:
            raise ShapeError(f"X has shape {tuple(X.shape)}, expected at least one column")
        table = xp.reshape(X, (product(X.shape) // max(columns, 1), columns))
        if binary:
            table = table[:, columns - 1:]
        groups = table.shape[1]
        pieces = slopes.shape[0] // groups
        require_size("slopes", slopes, pieces * groups, f", a multiple of the {groups} columns")
        require_size("bounds", bounds, (pieces + 1) * groups, ", one more than slopes for each column")
        require_size("intercepts", intercepts, pieces * groups, ", as slopes has")
        bounds = xp.reshape(bounds, (groups, pieces + 1))
        inside = xp.minimum(xp.maximum(table, bounds[:, 0]), bounds[:, -1])
        segment = xp.clip(_rank(xp, inside, bounds) - 1, 0, pieces - 1)
        place = xp.reshape(xp.astype(segment, xp.int64) + arange_like(xp, groups, X) * pieces, (-1,))
        chosen = [xp.reshape(xp.take(xp.reshape(t, (-1,)), place, axis=0), table.shape) for t in (slopes, intercepts)]
        Y = chosen[0] * inside + chosen[1]
        if binary and columns == 2:
            Y = xp.concat([1 - Y, Y], axis=1)
        return xp.reshape(Y, X.shape)


class BatchBoxCox(Operator):
    """Y = ((X + lambda2)^lambda1 - 1) / lambda1, or log(X + lambda2) where lambda1 is 0, column by column.

    X + lambda2 is kept above 1e-6. Box and Cox 1964.
    """

    inputs = [In("data", "(N, D), float"), In("lambda1", "(D,)"), In("lambda2", "(D,)")]
    outputs = [Out("Y", "like data")]
    arguments = [Int("min_block_size", 256, "of no effect here"), Bool("naive", False, "of no effect here")]
    inplace = {(0, 0)}
    shape = same_as(0)
    gradient = not_implemented("a derivative exists, but Caffe2 has no rule for it")
    example = Example(
        {"data": [[1.0, 2.0]], "lambda1": [0.5, 0.0], "lambda2": [1.0, 1.0]},
        {"Y": [[0.828427, 1.09861]]})

    def kernel(xp: Any, data: Any, lambda1: Any, lambda2: Any) -> Any:
        for name, values in (("lambda1", lambda1), ("lambda2", lambda2)):
            require_size(name, values, data.shape[1], ", the columns of data")
        logarithm = xp.log(xp.clip(data + lambda2, 1e-6, None))
        flat = lambda1 == 0
        power = xp.where(flat, xp.ones_like(lambda1), lambda1)
        return xp.where(flat, logarithm, xp.expm1(logarithm * power) / power)
