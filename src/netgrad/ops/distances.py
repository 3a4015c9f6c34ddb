"""Distances and products of pairs of rows."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Bool, Float
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example
from netgrad.graph.rules import Rule, emits
from netgrad.graph.shapes import ShapeError, TensorType, same_as
from netgrad.ops._arrays import full, require_shape, require_size, rows
from netgrad.ops._second import of_dot_product, of_squared_distance

#: squared norms are not taken to be smaller than this
LEAST_SQUARE = 1e-12
#: differences smaller than this have no sign
LEAST_DIFFERENCE = 1e-12


class _Pair(Operator, abstract=True):
    inputs = [In("X", "(N, ...), float"), In("Y", "like X")]
    outputs = [Out("Z", "(N,)")]

    def shape(X: TensorType, Y: TensorType, **_: Any) -> TensorType:
        return X.with_dims(None if X.dims is None else X.dims[:1] or (1,))


class _PairGradient(Operator, abstract=True):
    inputs = [In("X", "(N, ...)"), In("Y", "like X"), In("dZ", "(N,), float")]
    outputs = [Out("dX", "like X"), Out("dY", "like Y")]
    internal = True
    shape = same_as(0, 1)


def _pair(xp: Any, X: Any, Y: Any) -> tuple[Any, Any]:
    require_shape("Y", Y, X.shape, ", X's")
    return rows(xp, X), rows(xp, Y)  # a scalar counts as one row


def _per_row(xp: Any, dZ: Any, X: Any) -> Any:
    """(N,) so that it broadcasts against X."""
    require_size("the output's gradient", dZ, X.shape[0] if X.ndim else 1, ", one per row")
    if X.ndim == 0:
        return xp.reshape(dZ, ())
    return xp.reshape(dZ, (-1, *(1 for _ in X.shape[1:])))


class SquaredL2Distance(_Pair):
    """Z = half the sum of squared differences, per row."""

    gradient = emits("SquaredL2DistanceGradient", "I0 I1 GO0", "GI0 GI1")
    example = Example({"X": [[1.0, 2.0], [3.0, 4.0]], "Y": [[2.0, 0.5], [1.0, 1.0]]}, {"Z": [1.625, 6.5]})

    def kernel(xp: Any, X: Any, Y: Any) -> Any:
        x, y = _pair(xp, X, Y)
        return xp.sum((x - y) ** 2, axis=1) * 0.5


class SquaredL2DistanceGradient(_PairGradient):
    """dX = (X - Y) dZ, dY = -dX."""

    gradient = of_squared_distance
    example = Example(
        {"X": [[1.0, 2.0], [3.0, 4.0]], "Y": [[2.0, 0.5], [1.0, 1.0]], "dZ": [1.0, 0.5]},
        {"dX": [[-1.0, 1.5], [1.0, 1.5]], "dY": [[1.0, -1.5], [-1.0, -1.5]]})

    def kernel(xp: Any, X: Any, Y: Any, dZ: Any) -> Any:
        _pair(xp, X, Y)
        dX = (X - Y) * _per_row(xp, dZ, X)
        return dX, -dX


class L1Distance(_Pair):
    """Z = the sum of absolute differences, per row."""

    gradient = emits("L1DistanceGradient", "I0 I1 GO0", "GI0 GI1")
    example = Example({"X": [[1.0, 2.0], [3.0, 4.0]], "Y": [[2.0, 0.5], [1.0, 1.0]]}, {"Z": [2.5, 5.0]})

    def kernel(xp: Any, X: Any, Y: Any) -> Any:
        x, y = _pair(xp, X, Y)
        return xp.sum(xp.abs(x - y), axis=1)


class L1DistanceGradient(_PairGradient):
    """dX = sign(X - Y) dZ, dY = -dX; 0 where X and Y are equal."""

    example = Example(
        {"X": [[1.0, 2.0], [3.0, 4.0]], "Y": [[2.0, 0.5], [1.0, 1.0]], "dZ": [1.0, 0.5]},
        {"dX": [[-1.0, 1.0], [0.5, 0.5]], "dY": [[1.0, -1.0], [-0.5, -0.5]]})

    def kernel(xp: Any, X: Any, Y: Any, dZ: Any) -> Any:
        _pair(xp, X, Y)
        difference = X - Y
        sign = xp.where(xp.abs(difference) > LEAST_DIFFERENCE, xp.sign(difference), xp.zeros_like(difference))
        dX = sign * _per_row(xp, dZ, X)
        return dX, -dX


class DotProduct(_Pair):
    """Z = the sum of X Y, per row."""

    gradient = emits("DotProductGradient", "I0 I1 GO0", "GI0 GI1")
    example = Example({"X": [[1.0, 2.0], [3.0, 4.0]], "Y": [[2.0, 0.5], [1.0, 1.0]]}, {"Z": [3.0, 7.0]})

    def kernel(xp: Any, X: Any, Y: Any) -> Any:
        x, y = _pair(xp, X, Y)
        return xp.sum(x * y, axis=1)


class DotProductGradient(_PairGradient):
    """dX = Y dZ, dY = X dZ."""

    gradient = of_dot_product
    example = Example(
        {"X": [[1.0, 2.0], [3.0, 4.0]], "Y": [[2.0, 0.5], [1.0, 1.0]], "dZ": [1.0, 0.5]},
        {"dX": [[2.0, 0.5], [0.5, 0.5]], "dY": [[1.0, 2.0], [1.5, 2.0]]})

    def kernel(xp: Any, X: Any, Y: Any, dZ: Any) -> Any:
        _pair(xp, X, Y)
        return Y * _per_row(xp, dZ, X), X * _per_row(xp, dZ, X)


def _norms(xp: Any, x: Any) -> Any:
    square = xp.sum(x * x, axis=1, keepdims=True)
    return xp.sqrt(xp.where(square > LEAST_SQUARE, square, xp.full_like(square, LEAST_SQUARE)))


class CosineSimilarity(_Pair):
    """Z = X . Y / (|X| |Y|), per row."""

    gradient = emits("CosineSimilarityGradient", "I0 I1 GO0", "GI0 GI1")
    example = Example({"X": [[1.0, 2.0], [3.0, 4.0]], "Y": [[2.0, 0.5], [1.0, 1.0]]}, {"Z": [0.650791, 0.98995]})

    def kernel(xp: Any, X: Any, Y: Any) -> Any:
        x, y = _pair(xp, X, Y)
        return xp.sum(x / _norms(xp, x) * (y / _norms(xp, y)), axis=1)


class CosineSimilarityGradient(_PairGradient):
    """dX = dZ (y - x (x . y)) / |X| with the unit rows x and y; dY likewise."""

    example = Example(
        {"X": [[1.0, 2.0], [3.0, 4.0]], "Y": [[2.0, 0.5], [1.0, 1.0]], "dZ": [1.0, 0.5]},
        {"dX": [[0.303703, -0.151851], [0.0113137, -0.00848529]],
         "dY": [[-0.0893243, 0.357297], [-0.0353553, 0.0353553]]})

    def kernel(xp: Any, X: Any, Y: Any, dZ: Any) -> Any:
        x, y = _pair(xp, X, Y)
        long_x, long_y = _norms(xp, x), _norms(xp, y)
        x, y, g = x / long_x, y / long_y, _per_row(xp, dZ, x)
        cosine = xp.sum(x * y, axis=1, keepdims=True)
        return xp.reshape(g * (y - x * cosine) / long_x, X.shape), xp.reshape(g * (x - y * cosine) / long_y, Y.shape)


def _padded_pair(xp: Any, X: Any, Y: Any, pad_value: float, replicate: bool) -> tuple[Any, Any]:
    """Rows of X and Y made equally long: the shorter is padded with a value, or repeated."""
    if X.ndim == 0 or Y.ndim != X.ndim or X.shape[0] != Y.shape[0]:
        raise ShapeError(f"X has shape {tuple(X.shape)} and Y {tuple(Y.shape)}, expected as many rows in both")
    pair = [rows(xp, X), rows(xp, Y)]
    short = 0 if pair[0].shape[1] < pair[1].shape[1] else 1
    least, most = pair[short].shape[1], pair[1 - short].shape[1]
    if least == most:
        return pair[0], pair[1]
    if replicate:
        if least == 0 or most % least:
            raise ShapeError(f"rows of {least} cannot be repeated to rows of {most}")
        pair[short] = xp.tile(pair[short], (1, most // least))
    else:
        padding = full(xp, (X.shape[0], most - least), pad_value, pair[short])
        pair[short] = xp.concat([pair[short], padding], axis=1)
    return pair[0], pair[1]


class DotProductWithPadding(_Pair):
    """DotProduct of rows of different lengths: the shorter is filled up with a value, or by repetition."""

    inputs = [In("X", "(N, D), float"), In("Y", "(N, E)")]
    arguments = [Float("pad_value", 0.0), Bool("replicate", False, "repeat the shorter instead of padding it")]
    example = Example({"X": [[1.0, 2.0]], "Y": [[2.0, 3.0]]}, {"Z": [8.0]})

    def kernel(xp: Any, X: Any, Y: Any, *, pad_value: float, replicate: bool) -> Any:
        x, y = _padded_pair(xp, X, Y, pad_value, replicate)
        return xp.sum(x * y, axis=1)

    def gradient(op: Rule) -> None:
        op.emit("DotProductWithPaddingGradient", [op.I(0), op.I(1), op.GO(0)], [op.GI(0), op.GI(1)],
                pad_value=float(op.arg("pad_value", 0.0)), replicate=int(op.arg("replicate", 0)))


class DotProductWithPaddingGradient(_PairGradient):
    """Gradients of DotProductWithPadding; those of padding are dropped, those of repetitions added."""

    arguments = [Float("pad_value", 0.0), Bool("replicate", False)]
    example = Example(
        {"X": [[1.0, 2.0]], "Y": [[2.0, 3.0]], "dZ": [1.0]},
        {"dX": [[2.0, 3.0]], "dY": [[1.0, 2.0]]},
        {"pad_value": 0.0, "replicate": 0})

    def kernel(xp: Any, X: Any, Y: Any, dZ: Any, *, pad_value: float, replicate: bool) -> Any:
        x, y = _padded_pair(xp, X, Y, pad_value, replicate)
        g = _per_row(xp, dZ, x)

        def fold(gradient: Any, like: Any) -> Any:
            width = rows(xp, like).shape[1]
            if replicate and gradient.shape[1] != width:
                gradient = xp.sum(xp.reshape(gradient, (like.shape[0], -1, width)), axis=1)
            return xp.reshape(gradient[:, :width], like.shape)

        return fold(y * g, X), fold(x * g, Y)
