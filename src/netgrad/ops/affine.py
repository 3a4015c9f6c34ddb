"""Scales and shifts by channel, column or row, and their derivatives."""

from __future__ import annotations

import math
from typing import Any

from netgrad.graph.arguments import Bool, Int, Str
from netgrad.graph.declaration import In, Operator, Out, counts
from netgrad.graph.example import Example
from netgrad.graph.rules import Rule, emits, through_kernel
from netgrad.graph.shapes import same_as
from netgrad.ops._arrays import canonical_axis, require_size, rows
from netgrad.ops._broadcasting import expect_like, fold


def _laid(xp: Any, values: Any, X: Any, order: str, name: str) -> Any:
    """One value per channel, shaped to broadcast against X."""
    axis = 1 if order == "NCHW" else len(X.shape) - 1
    require_size(name, values, X.shape[axis], f", the channels of X of shape {tuple(X.shape)} with order {order}")
    return xp.reshape(values, tuple(X.shape[k] if k == axis else 1 for k in range(len(X.shape))))


class AffineChannel(Operator):
    """Y = scale X + bias, channel by channel."""

    inputs = [In("X", "(N, C, ...), or (N, ..., C) with order NHWC; float"), In("scale", "(C,)"), In("bias", "(C,)")]
    outputs = [Out("Y", "like X")]
    arguments = [Str("order", "NCHW"), Bool("is_learnable", False, "scale and bias receive gradients too")]
    inplace = {(0, 0)}
    shape = same_as(0)
    example = Example(
        {"X": [[[1.0], [2.0]]], "scale": [2.0, 3.0], "bias": [0.5, -0.5]},
        {"Y": [[[2.5], [5.5]]]},
        wrt=("X",))

    def kernel(xp: Any, X: Any, scale: Any, bias: Any, *, order: str) -> Any:
        return X * _laid(xp, scale, X, order, "scale") + _laid(xp, bias, X, order, "bias")

    def gradient(op: Rule) -> None:
        if op.arg("is_learnable", 0):
            op.emit("AffineChannelGradient", [op.GO(0), op.I(0), op.I(1)], [op.GI(0), op.GI(1), op.GI(2)])
        else:
            op.emit("AffineChannelGradient", [op.GO(0), op.I(1)], [op.GI(0)])


class AffineChannelGradient(Operator):
    """dX = scale dY; with is_learnable also dscale = the sum of X dY and dbias = the sum of dY, by channel."""

    inputs = [In("dY"), In("X", "like dY; left out where scale is not learnable"), In("scale", "(C,)", optional=True)]
    outputs = [Out("dX", "like dY"), Out("dscale", "(C,)", optional=True), Out("dbias", "(C,)", optional=True)]
    num_inputs = counts(2, 3)
    num_outputs = counts(1, 3)
    arguments = [Str("order", "NCHW"), Bool("is_learnable", False)]
    inplace = {(0, 0)}
    shape = same_as(0, 2, 2)
    internal = True
    example = Example({"dY": [[[1.0], [0.5]]], "X": [2.0, 3.0]}, {"dX": [[[2.0], [1.5]]]})

    def kernel(xp: Any, dY: Any, *more: Any, order: str) -> Any:
        scale = more[-1]
        laid = _laid(xp, scale, dY, order, "scale")
        if len(more) == 1:
            return dY * laid
        X = expect_like(more[0], dY, "X", "dY")
        return dY * laid, fold(xp, X * dY, scale.shape, laid.shape), fold(xp, dY, scale.shape, laid.shape)


class ElementwiseLinear(Operator):
    """Y = X w + b, column by column of X as a matrix."""

    inputs = [In("X", "as a matrix (N, D): the axes before axis, and the others"), In("w", "(D,)"), In("b", "(D,)")]
    outputs = [Out("Y", "like X")]
    arguments = [Int("axis", 1, "where the columns begin")]
    shape = same_as(0)
    gradient = emits("ElementwiseLinearGradient", "GO0 I0 I1", "GI0 GI1 GI2")
    example = Example(
        {"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "w": [2.0, 3.0, 4.0], "b": [0.5, 0.0, -0.5]},
        {"Y": [[2.5, 6.0, 11.5], [8.5, 15.0, 23.5]]})

    def kernel(xp: Any, X: Any, w: Any, b: Any, *, axis: int) -> Any:
        flat = rows(xp, X, canonical_axis(axis, len(X.shape)))
        for name, values in (("w", w), ("b", b)):
            require_size(name, values, flat.shape[1], f", the columns of X of shape {tuple(X.shape)} from axis {axis}")
        return xp.reshape(flat * w + b, X.shape)


class ElementwiseLinearGradient(Operator):
    """dX = dY w, dw = the sum of X dY over the rows, db = the sum of dY over the rows."""

    inputs = [In("dY", "float"), In("X", "like dY"), In("w", "(D,)")]
    outputs = [Out("dX", "like X"), Out("dw", "(D,)"), Out("db", "(D,)")]
    arguments = [Int("axis", 1)]
    shape = same_as(1, 2, 2)
    internal = True
    example = Example(
        {"dY": [[1.0, 0.5, 2.0], [-1.0, 0.25, 3.0]], "X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "w": [2.0, 3.0, 4.0]},
        {"dX": [[2.0, 1.5, 8.0], [-2.0, 0.75, 12.0]], "dw": [-3.0, 2.25, 24.0], "db": [0.0, 0.75, 5.0]})

    def kernel(xp: Any, dY: Any, X: Any, w: Any, *, axis: int) -> Any:
        expect_like(dY, X, model_name="X")
        axis = canonical_axis(axis, len(X.shape))
        gradients = rows(xp, dY, axis)
        require_size("w", w, gradients.shape[1], f", the columns of X of shape {tuple(X.shape)} from axis {axis} on")
        dw = xp.sum(gradients * rows(xp, X, axis), axis=0)
        db = xp.sum(gradients, axis=0)
        return xp.reshape(gradients * xp.reshape(w, (-1,)), X.shape), xp.reshape(dw, w.shape), xp.reshape(db, w.shape)


class RowMul(Operator):
    """Y[i] = w[i] mat[i]."""

    inputs = [In("mat", "(N, ...), float"), In("w", "N elements")]
    outputs = [Out("Y", "like mat")]
    shape = same_as(0)
    example = Example(
        {"mat": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "w": [2.0, 3.0]},
        {"Y": [[2.0, 4.0, 6.0], [12.0, 15.0, 18.0]]})

    def kernel(xp: Any, mat: Any, w: Any) -> Any:
        require_size("w", w, mat.shape[0], ", one for each row of mat")
        return mat * xp.reshape(w, (-1, *(1,) * (len(mat.shape) - 1)))

    def gradient(op: Rule) -> None:
        op.emit("RowMul", [op.GO(0), op.I(1)], [op.GI(0)])
        products = op.temp(op.input_name(1) + "_gradbefore_aggregate")
        op.emit("Mul", [op.GO(0), op.I(0)], [products])
        op.emit("ReduceTailSum", [products], [op.GI(1)])


class ReduceTailSum(Operator):
    """Y[i] = the sum of X[i]."""

    inputs = [In("X", "(N, ...), float")]
    outputs = [Out("Y", "(N,)")]
    gradient = through_kernel
    example = Example({"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"Y": [6.0, 15.0]})

    def shape(X: Any) -> Any:
        return X.with_dims(None if X.dims is None else X.dims[:1])

    def kernel(xp: Any, X: Any) -> Any:
        return xp.sum(xp.reshape(X, (X.shape[0], math.prod(X.shape[1:]))), axis=1, dtype=X.dtype)
