"""Normalization of rows: layer and root-mean-square normalization, and division by a norm."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Bool, Float, Int
from netgrad.graph.declaration import In, Operator, Out, counts
from netgrad.graph.example import Example
from netgrad.graph.rules import Rule, emits
from netgrad.graph.shapes import UNKNOWN, TensorType, same_as
from netgrad.ops._arrays import canonical_axis, require_shape, require_size, rows

#: norms are not taken to be smaller than this when dividing by them
LEAST_NORM = 1e-12


class _LayerNorm(Operator, abstract=True):
    inputs = [In("input", "float; the axes from ``axis`` on form a row"),
              In("gamma", "a row; used with elementwise_affine", optional=True), In("beta", "a row", optional=True)]
    outputs = [Out("output", "like input"), Out("mean", "one number per row", gradient_ignored=True),
               Out("stddev", "sqrt(variance + epsilon), one number per row", gradient_ignored=True)]
    arguments = [Int("axis", 1), Float("epsilon", 1e-5),
                 Bool("elementwise_affine", False, "scale and shift the result")]

    def shape(input: TensorType, *_: TensorType, axis: int = 1, **__: Any) -> tuple[TensorType, ...]:
        if input.dims is None:
            return input, input, input
        statistics = input.with_dims((*input.dims[:canonical_axis(axis, len(input.dims))], 1))
        return input, statistics, statistics

    def kernel(xp: Any, input: Any, gamma: Any, beta: Any, *, axis: int, epsilon: float,
               elementwise_affine: bool) -> Any:
        axis = canonical_axis(axis, input.ndim)
        X = rows(xp, input, axis)
        n = max(X.shape[1], 1)
        mean = xp.sum(X, axis=1, keepdims=True) / n
        centred = X - mean
        std = xp.sqrt(xp.sum(centred * centred, axis=1, keepdims=True) / n + epsilon)
        Y = centred / std
        if elementwise_affine:
            for name, row in (("gamma", gamma), ("beta", beta)):
                require_size(name, row, X.shape[1], ", those of a row")
            Y = Y * xp.reshape(gamma, (-1,)) + xp.reshape(beta, (-1,))
        statistics = (*input.shape[:axis], 1)
        return xp.reshape(Y, input.shape), xp.reshape(mean, statistics), xp.reshape(std, statistics)


class LayerNorm(_LayerNorm):
    """Y = (X - mean) / stddev, statistics per row; with elementwise_affine times gamma plus beta.

    Source: Ba et al. 2016, https://arxiv.org/abs/1607.06450.
    """

    num_inputs = counts(1, 3)
    example = Example(
        {"input": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]},
        {"output": [[-1.22474, 0.0, 1.22474], [-1.22474, 0.0, 1.22474]], "mean": [[2.0], [5.0]],
         "stddev": [[0.816503], [0.816503]]},
        ys=("output",))

    def gradient(op: Rule) -> None:
        affine = bool(op.arg("elementwise_affine", 0))
        if affine and op.num_inputs < 3:
            raise op.fail("with elementwise_affine it has three inputs: input, gamma and beta")
        op.emit("LayerNormGradient", [op.GO(0), op.O(0), op.O(1), op.O(2), op.I(0), *([op.I(1)] if affine else [])],
                [op.GI(0), *([op.GI(1), op.GI(2)] if affine else [])])


class C10LayerNorm_DontUseThisOpYet(_LayerNorm):
    """LayerNorm under the name of an experiment; it has no gradient."""

    num_inputs = counts(1, 3)
    example = Example(
        {"input": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]},
        {"output": [[-1.22474, 0.0, 1.22474], [-1.22474, 0.0, 1.22474]], "mean": [[2.0], [5.0]],
         "stddev": [[0.816503], [0.816503]]})


class LayerNormGradient(Operator):
    """Gradients of LayerNorm for the input and, where gamma is given, for gamma and beta."""

    inputs = [In("dY", "like X, float"), In("Y", shape_only=True), In("mean"), In("stddev"), In("X"),
              In("gamma", optional=True)]
    outputs = [Out("dX", "like X"), Out("dgamma", "like gamma", optional=True),
               Out("dbeta", "like gamma", optional=True)]
    num_inputs = counts(5, 6)
    num_outputs = counts(1, 3)
    arguments = [Int("axis", 1), Float("epsilon", 1e-3), Bool("elementwise_affine", False)]
    internal = True
    example = Example(
        {"dY": [[1.0, 0.5, 2.0], [-1.0, 0.25, 3.0]], "Y": [[-1.22474, 0.0, 1.22474], [-1.22474, 0.0, 1.22474]],
         "mean": [[2.0], [5.0]], "stddev": [[0.816503], [0.816503]], "X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]},
        {"dX": [[0.408236, -0.81649, 0.408255], [0.306147, -0.612368, 0.306221]]})

    def shape(dY: TensorType, Y: TensorType, mean: TensorType, stddev: TensorType, X: TensorType,
              gamma: TensorType = UNKNOWN, **_: Any) -> tuple[TensorType, ...]:
        return X, gamma, gamma

    def kernel(xp: Any, dY: Any, Y: Any, mean: Any, stddev: Any, X: Any, gamma: Any, *, axis: int) -> Any:
        require_shape("the output's gradient", dY, X.shape, ", the input's")
        axis = canonical_axis(axis, X.ndim)
        x, dy = rows(xp, X, axis), rows(xp, dY, axis)
        require_size("the mean", mean, x.shape[0], ", one per row")
        require_size("the deviation", stddev, x.shape[0], ", one per row")
        std = xp.reshape(stddev, (-1, 1))
        normal = (x - xp.reshape(mean, (-1, 1))) / std
        g = dy if gamma is None else dy * xp.reshape(gamma, (-1,))
        n = max(x.shape[1], 1)
        means = xp.sum(g, axis=1, keepdims=True) + normal * xp.sum(g * normal, axis=1, keepdims=True)
        dX = xp.reshape((g - means / n) / std, X.shape)
        if gamma is None:
            return dX
        return dX, xp.reshape(xp.sum(dy * normal, axis=0), gamma.shape), xp.reshape(xp.sum(dy, axis=0), gamma.shape)


class RMSNorm(Operator):
    """Y = X rrms gamma + beta with rrms = 1 / sqrt(mean of X^2 in the row + eps).

    Source: Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467.
    """

    inputs = [In("input", "float; the axes from ``axis`` on form a row"), In("gamma", "a row"), In("beta", "a row")]
    outputs = [Out("output", "like input"), Out("rrms", "one number per row")]
    arguments = [Int("axis", 1), Float("eps", None, "0 unless given"), Float("epsilon", None, "another name of eps")]
    gradient = emits("RMSNormGradient", "GO0 I0 I1 O1", "GI0 GI1 GI2")
    example = Example(
        {"input": [[3.0, 4.0]], "gamma": [1.0, 2.0], "beta": [0.0, 0.5]},
        {"output": [[0.848528, 2.76274]], "rrms": [0.282843]},
        ys=("output",))

    def shape(input: TensorType, *_: TensorType, axis: int = 1, **__: Any) -> tuple[TensorType, TensorType]:
        dims = input.dims
        return input, input.with_dims(None if dims is None else dims[:canonical_axis(axis, len(dims))])

    def kernel(xp: Any, input: Any, gamma: Any, beta: Any, *, axis: int, eps: float | None,
               epsilon: float | None) -> Any:
        axis = canonical_axis(axis, input.ndim)
        X = rows(xp, input, axis)
        for name, row in (("gamma", gamma), ("beta", beta)):
            require_size(name, row, X.shape[1], ", those of a row")
        least = eps if eps is not None else epsilon or 0.0
        rrms = 1 / xp.sqrt(xp.sum(X * X, axis=1, keepdims=True) / max(X.shape[1], 1) + least)
        Y = X * rrms * xp.reshape(gamma, (-1,)) + xp.reshape(beta, (-1,))
        return xp.reshape(Y, input.shape), xp.reshape(rrms, input.shape[:axis])


class RMSNormGradient(Operator):
    """Gradients of RMSNorm for its three inputs."""

    inputs = [In("dY", "like X, float"), In("X"), In("gamma"), In("rrms", "one number per row")]
    outputs = [Out("dX", "like X"), Out("dgamma", "like gamma"), Out("dbeta", "like gamma")]
    arguments = [Int("axis", 1)]
    internal = True
    shape = same_as(1, 2, 2)
    example = Example(
        {"dY": [[1.0, 0.5]], "X": [[3.0, 4.0]], "gamma": [1.0, 2.0], "rrms": [0.282843]},
        {"dX": [[0.0452548, -0.0339412]], "dgamma": [0.848528, 0.565685], "dbeta": [1.0, 0.5]})

    def kernel(xp: Any, dY: Any, X: Any, gamma: Any, rrms: Any, *, axis: int) -> Any:
        require_shape("the output's gradient", dY, X.shape, ", the input's")
        axis = canonical_axis(axis, X.ndim)
        x, dy = rows(xp, X, axis), rows(xp, dY, axis)
        require_size("rrms", rrms, x.shape[0], ", one per row")
        require_size("gamma", gamma, x.shape[1], ", one per column")
        factor = xp.reshape(rrms, (-1, 1))
        normal = x * factor
        g = dy * xp.reshape(gamma, (-1,))
        dX = (g - normal * xp.sum(g * normal, axis=1, keepdims=True) / max(x.shape[1], 1)) * factor
        return (xp.reshape(dX, X.shape), xp.reshape(xp.sum(dy * normal, axis=0), gamma.shape),
                xp.reshape(xp.sum(dy, axis=0), gamma.shape))


def _norm(xp: Any, X: Any, axis: int) -> Any:
    norm = xp.sqrt(xp.sum(X * X, axis=axis, keepdims=True))
    return xp.where(norm < LEAST_NORM, xp.full_like(norm, LEAST_NORM), norm)


class Normalize(Operator):
    """Y = X divided by its Euclidean norm along an axis."""

    inputs = [In("X", "float")]
    outputs = [Out("Y", "like X")]
    arguments = [Int("axis", -1)]
    shape = same_as(0)
    gradient = emits("NormalizeGradient", "I0 GO0", "GI0")
    example = Example({"X": [[3.0, 4.0]]}, {"Y": [[0.6, 0.8]]})

    def kernel(xp: Any, X: Any, *, axis: int) -> Any:
        return X / _norm(xp, X, canonical_axis(axis, X.ndim))


class NormalizeGradient(Operator):
    """dX = dY / norm - X (X . dY) / norm^3."""

    inputs = [In("X"), In("dY", "like X, float")]
    outputs = [Out("dX", "like X")]
    arguments = [Int("axis", -1)]
    internal = True
    shape = same_as(0)
    example = Example({"X": [[3.0, 4.0]], "dY": [[1.0, 0.5]]}, {"dX": [[0.08, -0.06]]})

    def kernel(xp: Any, X: Any, dY: Any, *, axis: int) -> Any:
        require_shape("the output's gradient", dY, X.shape, ", the input's")
        axis = canonical_axis(axis, X.ndim)
        norm = _norm(xp, X, axis)
        unit = X / norm
        return (dY - unit * xp.sum(unit * dY, axis=axis, keepdims=True)) / norm


class NormalizeL1(Operator):
    """Y = X divided by the sum of its absolute values along an axis; zeros stay zeros."""

    inputs = [In("X", "float")]
    outputs = [Out("Y", "like X")]
    arguments = [Int("axis", -1)]
    shape = same_as(0)
    example = Example({"X": [[3.0, -1.0]]}, {"Y": [[0.75, -0.25]]}, wrt=())

    def kernel(xp: Any, X: Any, *, axis: int) -> Any:
        total = xp.sum(xp.abs(X), axis=canonical_axis(axis, X.ndim), keepdims=True)
        return X / xp.where(total == 0, xp.ones_like(total), total)
