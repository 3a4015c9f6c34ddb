"""Activations and their derivatives."""

from __future__ import annotations

import math
from typing import Any

from netgrad.graph.arguments import Bool, Float, Int, Str
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example
from netgrad.graph.rules import Rule, emits
from netgrad.graph.shapes import TensorType, same_as
from netgrad.ops._arrays import canonical_axis, rows
from netgrad.ops._broadcasting import expect_like, fold
from netgrad.ops._logistic import sigmoid, softplus
from netgrad.ops._second import chain, flat, of_softmax, with_curvature
from netgrad.ops.elementwise import FromInput, FromInputLast, FromOutput, Unary


class Relu(Unary):
    """Y = max(X, 0)."""

    inplace = {(0, 0)}
    gradient = emits("ReluGradient", "O0 GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[0.0, 0.5], [2.0, 3.0]]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.where(X < 0, xp.zeros_like(X), X)


class ReluGradient(FromOutput):
    """dX = dY; 0 where Y <= 0. A NaN in Y lets dY through, as in PyTorch."""

    gradient = flat(1)
    example = Example(
        {"Y": [[0.0, 0.5], [2.0, 3.0]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[0.0, 0.5], [2.0, -1.0]]},
        wrt=("dY",))

    def kernel(xp: Any, Y: Any, dY: Any) -> Any:
        return xp.where(Y <= 0, xp.zeros_like(dY), expect_like(dY, Y))


class ReluN(Unary):
    """Y = X, brought into [0, n]."""

    arguments = [Float("n", 6.0)]
    inplace = {(0, 0)}
    gradient = emits("ReluNGradient", "O0 GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[0.0, 0.5], [2.0, 2.5]]}, {"n": 2.5})

    def kernel(xp: Any, X: Any, *, n: float) -> Any:
        return xp.clip(X, 0.0, n)


class ReluNGradient(FromOutput):
    """dX = dY where 0 < Y < n; 0 elsewhere, the bounds included."""

    arguments = [Float("n", 6.0)]
    gradient = flat(1)
    example = Example(
        {"Y": [[0.0, 0.5], [2.0, 2.5]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[0.0, 0.5], [2.0, 0.0]]},
        {"n": 2.5},
        wrt=("dY",))

    def kernel(xp: Any, Y: Any, dY: Any, *, n: float) -> Any:
        return xp.where((Y > 0) & (Y < n), expect_like(dY, Y), xp.zeros_like(dY))


class ThresholdedRelu(Unary):
    """Y = X where X > alpha; 0 elsewhere."""

    arguments = [Float("alpha", 1.0)]
    inplace = {(0, 0)}
    gradient = emits("ThresholdedReluGradient", "O0 GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[0.0, 0.0], [2.0, 3.0]]}, {"alpha": 1.0})

    def kernel(xp: Any, X: Any, *, alpha: float) -> Any:
        return xp.where(X > alpha, X, xp.zeros_like(X))


class ThresholdedReluGradient(FromOutput):
    """dX = dY where Y is not 0; 0 elsewhere."""

    arguments = [Float("alpha", 1.0)]
    gradient = flat(1)
    example = Example(
        {"Y": [[0.0, 0.0], [2.0, 3.0]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[0.0, 0.0], [2.0, -1.0]]},
        {"alpha": 1.0})

    def kernel(xp: Any, Y: Any, dY: Any) -> Any:
        return xp.where(Y == 0, xp.zeros_like(dY), expect_like(dY, Y))


class LeakyRelu(Unary):
    """Y = X where X >= 0; alpha X elsewhere."""

    arguments = [Float("alpha", 0.01)]
    inplace = {(0, 0)}
    gradient = emits("LeakyReluGradient", "O0 GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[-0.15, 0.5], [2.0, 3.0]]}, {"alpha": 0.1})

    def kernel(xp: Any, X: Any, *, alpha: float) -> Any:
        return xp.where(X < 0, X * alpha, X)


class LeakyReluGradient(FromOutput):
    """dX = dY where Y >= 0; alpha dY elsewhere (alpha is not negative)."""

    arguments = [Float("alpha", 0.01)]
    gradient = flat(1)
    example = Example(
        {"Y": [[-0.15, 0.5], [2.0, 3.0]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[0.1, 0.5], [2.0, -1.0]]},
        {"alpha": 0.1})

    def kernel(xp: Any, Y: Any, dY: Any, *, alpha: float) -> Any:
        return xp.where(Y < 0, expect_like(dY, Y) * alpha, dY)


class Elu(Unary):
    """Y = X where X >= 0; alpha (e^X - 1) elsewhere. Clevert et al. 2015, https://arxiv.org/abs/1511.07289."""

    arguments = [Float("alpha", 1.0)]
    inplace = {(0, 0)}
    gradient = emits("EluGradient", "O0 GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[-0.388435, 0.5], [2.0, 3.0]]}, {"alpha": 0.5})

    def kernel(xp: Any, X: Any, *, alpha: float) -> Any:
        return xp.where(X < 0, xp.expm1(xp.clip(X, None, 0.0)) * alpha, X)


class EluGradient(FromOutput):
    """dX = dY where Y >= 0; (Y + alpha) dY elsewhere."""

    arguments = [Float("alpha", 1.0)]
    gradient = with_curvature(1, chain(("Negative", "Z"), ("ReluGradient", "rt")))
    example = Example(
        {"Y": [[-0.388435, 0.5], [2.0, 3.0]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[0.111565, 0.5], [2.0, -1.0]]},
        {"alpha": 0.5})

    def kernel(xp: Any, Y: Any, dY: Any, *, alpha: float) -> Any:
        return xp.where(Y < 0, (Y + alpha) * expect_like(dY, Y), dY)


_SELU = (Float("alpha", 1.6732632423543772848170429916717), Float("scale", 1.0507009873554804934193349852946))


class Selu(Unary):
    """Y = scale X where X > 0; scale alpha (e^X - 1) elsewhere. https://arxiv.org/abs/1706.02515."""

    arguments = _SELU
    inplace = {(0, 0)}
    gradient = emits("SeluGradient", "O0 GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[-1.36581, 0.525351], [2.1014, 3.1521]]})

    def kernel(xp: Any, X: Any, *, alpha: float, scale: float) -> Any:
        return xp.where(X > 0, X, xp.expm1(xp.clip(X, None, 0.0)) * alpha) * scale


class SeluGradient(FromOutput):
    """dX = scale dY where Y > 0; (Y + scale alpha) dY elsewhere. dY needs only as many elements as Y."""

    arguments = _SELU
    inplace_keeps_shape = False
    gradient = with_curvature(1, chain(("Negative", "Z"), ("ReluGradient", "rt")))
    example = Example(
        {"Y": [[-1.36581, 0.525351], [2.1014, 3.1521]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[0.392285, 0.525351], [2.1014, -1.0507]]})

    def kernel(xp: Any, Y: Any, dY: Any, *, alpha: float, scale: float) -> Any:
        if math.prod(dY.shape) == math.prod(Y.shape):
            dY = xp.reshape(dY, Y.shape)
        return xp.where(Y > 0, expect_like(dY, Y) * scale, (Y + scale * alpha) * dY)


class PRelu(Operator):
    """Y = X where X > 0; slope X elsewhere, with one slope for all or one for each channel.

    He et al. 2015, https://arxiv.org/abs/1502.01852.
    """

    inputs = [In("X", "(N, C, ...), or (N, ..., C) with order NHWC; float"), In("slope", "(1,) or (C,)")]
    outputs = [Out("Y", "like X")]
    arguments = [Str("order", "NCHW")]
    inplace = {(0, 0)}
    shape = same_as(0)
    gradient = emits("PReluGradient", "O0 GO0 I0 I1", "GI0 GI1")
    example = Example({"X": [[-1.0, 2.0], [-3.0, -4.0]], "slope": [0.1, 0.2]}, {"Y": [[-0.1, 2.0], [-0.3, -0.8]]})

    def kernel(xp: Any, X: Any, slope: Any, *, order: str) -> Any:
        return xp.where(X > 0, X, X * _per_channel(xp, X, slope, order))


class PReluGradient(Operator):
    """dX = dY where X > 0, slope dY elsewhere; dslope = the sum of X dY where X <= 0, for each slope."""

    inputs = [In("Y", shape_only=True), In("dY", "like X"), In("X"), In("slope", "(1,) or (C,)")]
    outputs = [Out("dX", "like X"), Out("dslope", "like slope")]
    arguments = [Str("order", "NCHW")]
    shape = same_as(2, 3)
    internal = True
    example = Example(
        {"Y": [[-0.1, 2.0], [-0.3, -0.8]], "dY": [[1.0, 0.5], [2.0, -1.0]], "X": [[-1.0, 2.0], [-3.0, -4.0]],
         "slope": [0.1, 0.2]},
        {"dX": [[0.1, 0.5], [0.2, -0.2]], "dslope": [-7.0, 4.0]})

    def kernel(xp: Any, Y: Any, dY: Any, X: Any, slope: Any, *, order: str) -> Any:
        expect_like(dY, X, model_name="X")
        laid = _per_channel(xp, X, slope, order)
        products = xp.where(X > 0, xp.zeros_like(X), X * dY)
        return xp.where(X > 0, dY, dY * laid), fold(xp, products, slope.shape, laid.shape)


def _per_channel(xp: Any, X: Any, slope: Any, order: str) -> Any:
    """``slope``, shaped to multiply X along its channels."""
    if math.prod(slope.shape) == 1:
        return xp.reshape(slope, (1,) * len(X.shape))
    axis = 1 if order == "NCHW" else len(X.shape) - 1
    if len(X.shape) <= axis or math.prod(slope.shape) != X.shape[axis]:
        raise ValueError(f"slope has shape {tuple(slope.shape)}, expected (1,) or the channels of X, axis {axis} "
                         f"of {tuple(X.shape)} with order {order}")
    return xp.reshape(slope, tuple(X.shape[k] if k == axis else 1 for k in range(len(X.shape))))


class Sigmoid(Unary):
    """Y = 1 / (1 + e^-X)."""

    inplace = {(0, 0)}
    gradient = emits("SigmoidGradient", "O0 GO0", "GI0")
    kernel = sigmoid
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[0.182426, 0.622459], [0.880797, 0.952574]]})


class SigmoidGradient(FromOutput):
    """dX = Y (1 - Y) dY."""

    gradient = with_curvature(1, chain(("Mul", "tZ"), ("Scale", "r", {"scale": 2.0}), ("Sub", "tr")))
    example = Example(
        {"Y": [[0.182426, 0.622459], [0.880797, 0.952574]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[0.149146, 0.117502], [0.209987, -0.0451767]]})

    def kernel(xp: Any, Y: Any, dY: Any) -> Any:
        return expect_like(dY, Y) * Y * (1 - Y)


class HardSigmoid(Unary):
    """Y = alpha X + beta, brought into [0, 1]."""

    arguments = [Float("alpha", 0.2), Float("beta", 0.5)]
    inplace = {(0, 0)}
    gradient = emits("HardSigmoidGradient", "O0 GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[0.2, 0.6], [0.9, 1.0]]}, {"alpha": 0.2, "beta": 0.5})

    def kernel(xp: Any, X: Any, *, alpha: float, beta: float) -> Any:
        return xp.clip(X * alpha + beta, 0.0, 1.0)


class HardSigmoidGradient(FromOutput):
    """dX = alpha dY where 0 < Y < 1; 0 elsewhere, the bounds included."""

    arguments = [Float("alpha", 0.2)]
    gradient = flat(1)
    example = Example(
        {"Y": [[0.2, 0.6], [0.9, 1.0]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[0.2, 0.1], [0.4, 0.0]]},
        {"alpha": 0.2, "beta": 0.5},
        wrt=("dY",))

    def kernel(xp: Any, Y: Any, dY: Any, *, alpha: float) -> Any:
        return xp.where((Y > 0) & (Y < 1), expect_like(dY, Y) * alpha, xp.zeros_like(dY))


class Tanh(Unary):
    """Y = (e^X - e^-X) / (e^X + e^-X)."""

    inplace = {(0, 0)}
    gradient = emits("TanhGradient", "O0 GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[-0.905148, 0.462117], [0.964028, 0.995055]]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.tanh(X)


class TanhGradient(FromOutput):
    """dX = (1 - Y^2) dY."""

    gradient = with_curvature(1, chain(("Mul", "tZ"), ("Scale", "r", {"scale": -2.0})))
    example = Example(
        {"Y": [[-0.905148, 0.462117], [0.964028, 0.995055]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[0.180707, 0.393224], [0.141302, -0.009866]]})

    def kernel(xp: Any, Y: Any, dY: Any) -> Any:
        return expect_like(dY, Y) * (1 - Y * Y)


class Softplus(Unary):
    """Y = log(1 + e^X)."""

    inplace = {(0, 0)}
    gradient = emits("SoftplusGradient", "O0 GO0", "GI0")
    kernel = softplus
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[0.201413, 0.974077], [2.12693, 3.04859]]})


class SoftplusGradient(FromOutput):
    """dX = (1 - e^-Y) dY."""

    gradient = with_curvature(1, chain(("SoftplusGradient", "Zt"), ("Sub", "tr")))
    example = Example(
        {"Y": [[0.201413, 0.974077], [2.12693, 3.04859]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[0.182426, 0.31123], [1.76159, -0.952574]]})

    def kernel(xp: Any, Y: Any, dY: Any) -> Any:
        return expect_like(dY, Y) * -xp.expm1(-Y)


class Softsign(Unary):
    """Y = X / (1 + |X|)."""

    inplace = {(0, 0)}
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[-0.6, 0.333333], [0.666667, 0.75]]})

    def kernel(xp: Any, X: Any) -> Any:
        return X / (xp.abs(X) + 1)

    def gradient(op: Rule) -> None:
        if not op.in_pass and op.input_name(0) == op.output_name(0):  # within a pass the verifier sees to it
            raise op.fail("its derivative reads X, which the in-place use overwrites: write Y to a name of its own")
        op.emit("SoftsignGradient", [op.I(0), op.GO(0)], [op.GI(0)])


class SoftsignGradient(FromInput):
    """dX = dY / (1 + |X|)^2."""

    inplace = {(1, 0)}
    example = Example(
        {"X": [[-1.5, 0.5], [2.0, 3.0]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[0.16, 0.222222], [0.222222, -0.0625]]})

    def kernel(xp: Any, X: Any, dY: Any) -> Any:
        denominator = xp.abs(X) + 1
        return expect_like(dY, X, model_name="X") / (denominator * denominator)


class Swish(Unary):
    """Y = X / (1 + e^-X). Ramachandran et al. 2017, https://arxiv.org/abs/1710.05941."""

    gradient = emits("SwishGradient", "I0 O0 GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[-0.273638, 0.31123], [1.76159, 2.85772]]})

    def kernel(xp: Any, X: Any) -> Any:
        return X * sigmoid(xp, X)


class SwishGradient(Operator):
    """dX = (Y + sigmoid(X) (1 - Y)) dY."""

    inputs = [In("X"), In("Y", "like X"), In("dY", "like X, float")]
    outputs = [Out("dX", "like X")]
    inplace = {(2, 0)}
    shape = same_as(0)
    internal = True
    example = Example(
        {"X": [[-1.5, 0.5], [2.0, 3.0]], "Y": [[-0.273638, 0.31123], [1.76159, 2.85772]],
         "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[-0.0412942, 0.369981], [2.18157, -1.0881]]})

    def kernel(xp: Any, X: Any, Y: Any, dY: Any) -> Any:
        return expect_like(dY, X, model_name="X") * (Y + sigmoid(xp, X) * (1 - expect_like(Y, X, "Y", "X")))


class Mish(Unary):
    """Y = X tanh(log(1 + e^X)). Misra 2019, https://arxiv.org/abs/1908.08681."""

    gradient = emits("MishGradient", "I0 O0 GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[-0.2981, 0.375245], [1.94396, 2.98654]]})

    def kernel(xp: Any, X: Any) -> Any:
        return X * xp.tanh(softplus(xp, X))


class MishGradient(Operator):
    """dX = (t + X (1 - t^2) sigmoid(X)) dY with t = tanh(log(1 + e^X))."""

    inputs = [In("X"), In("Y", "like X", shape_only=True), In("dY", "like X, float")]
    outputs = [Out("dX", "like X")]
    shape = same_as(0)
    internal = True
    example = Example(
        {"X": [[-1.5, 0.5], [2.0, 3.0]], "Y": [[-0.2981, 0.375245], [1.94396, 2.98654]],
         "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[-0.0640979, 0.443212], [2.13864, -1.02111]]})

    def kernel(xp: Any, X: Any, Y: Any, dY: Any) -> Any:
        t = xp.tanh(softplus(xp, X))
        return expect_like(dY, X, model_name="X") * (t + X * (1 - t * t) * sigmoid(xp, X))


_GELU_SLOPE, _GELU_CUBIC = math.sqrt(2 / math.pi), 0.044715


class Gelu(Unary):
    """Y = X times the normal distribution's mass below X; with fast_gelu, by way of tanh.

    Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415.
    """

    arguments = [Bool("fast_gelu", False, "approximate with tanh")]
    gradient = emits("GeluGradient", "GO0 I0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[-0.100211, 0.345731], [1.9545, 2.99595]]})

    def kernel(xp: Any, X: Any, *, fast_gelu: bool) -> Any:
        if fast_gelu:
            return X * (xp.tanh((X + X * X * X * _GELU_CUBIC) * _GELU_SLOPE) + 1) * 0.5
        return X * (xp.erf(X * math.sqrt(0.5)) + 1) * 0.5


class GeluGradient(FromInputLast):
    """dX = (mass below X + X density at X) dY, or the derivative of the approximation with fast_gelu."""

    arguments = [Bool("fast_gelu", False)]
    example = Example(
        {"dY": [[1.0, 0.5], [2.0, -1.0]], "X": [[-1.5, 0.5], [2.0, 3.0]]},
        {"dX": [[-0.127469, 0.433748], [2.17046, -1.01195]]})

    def kernel(xp: Any, dY: Any, X: Any, *, fast_gelu: bool) -> Any:
        expect_like(dY, X, model_name="X")
        if fast_gelu:
            t = xp.tanh((X + X * X * X * _GELU_CUBIC) * _GELU_SLOPE)
            inner = (X * X * (3 * _GELU_CUBIC) + 1) * _GELU_SLOPE
            return dY * ((t + 1) * 0.5 + X * (1 - t * t) * inner * 0.5)
        mass = (xp.erf(X * math.sqrt(0.5)) + 1) * 0.5
        return dY * (mass + X * xp.exp(X * X * -0.5) * (1 / math.sqrt(2 * math.pi)))


def _distributions(xp: Any, X: Any, axis: int) -> Any:
    """X as a matrix, a distribution in each row."""
    return rows(xp, X, canonical_axis(axis, len(X.shape)))


class Softmax(Unary):
    """Y = e^X / the sum of e^X over all axes from ``axis`` on together."""

    arguments = [Int("axis", 1, "the first axis of a distribution")]
    gradient = emits("SoftmaxGradient", "O0 GO0", "GI0")
    example = Example(
        {"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]},
        {"Y": [[0.0900306, 0.244728, 0.665241], [0.0900306, 0.244728, 0.665241]]})

    def kernel(xp: Any, X: Any, *, axis: int) -> Any:
        flat = _distributions(xp, X, axis)
        if math.prod(flat.shape) == 0:
            return xp.zeros_like(X)
        powers = xp.exp(flat - xp.max(flat, axis=1, keepdims=True))
        return xp.reshape(powers / xp.sum(powers, axis=1, keepdims=True), X.shape)


class SoftmaxGradient(Operator):
    """dX = Y (dY - the sum of Y dY over the distribution)."""

    inputs = [In("Y", "what the operator wrote"), In("dY", "like Y, float")]
    outputs = [Out("dX", "like Y")]
    arguments = [Int("axis", 1)]
    shape = same_as(0)
    internal = True
    gradient = of_softmax
    example = Example(
        {"Y": [[0.0900306, 0.244728, 0.665241], [0.0900306, 0.244728, 0.665241]],
         "dY": [[1.0, 0.5, 2.0], [-1.0, 0.25, 3.0]]},
        {"dX": [[-0.0488755, -0.255222, 0.304097], [-0.267109, -0.420168, 0.687277]]})

    def kernel(xp: Any, Y: Any, dY: Any, *, axis: int) -> Any:
        flat, gradients = _distributions(xp, Y, axis), _distributions(xp, expect_like(dY, Y), axis)
        return xp.reshape(flat * (gradients - xp.sum(flat * gradients, axis=1, keepdims=True)), Y.shape)


class Glu(Operator):
    """Y = the first half of X along ``dim`` times the sigmoid of the second. https://arxiv.org/abs/1612.08083."""

    inputs = [In("X", "an even size along dim, float")]
    outputs = [Out("Y", "half as long as X along dim")]
    arguments = [Int("dim", -1)]
    example = Example({"X": [[1.0, 2.0, 0.0, -1.0]]}, {"Y": [[0.5, 0.537883]]})

    def shape(X: TensorType, *, dim: int) -> TensorType:
        if X.dims is None:
            return X
        axis = dim % len(X.dims)
        return X.with_dims([d if k != axis or d is None else d // 2 for k, d in enumerate(X.dims)])

    def kernel(xp: Any, X: Any, *, dim: int) -> Any:
        rank = len(X.shape)
        if not -rank <= dim < rank or X.shape[dim] % 2:
            raise ValueError(f"X has shape {tuple(X.shape)}, expected an even size along axis {dim}")
        before = (slice(None),) * (dim % rank)
        half = X.shape[dim] // 2
        return X[(*before, slice(0, half))] * sigmoid(xp, X[(*before, slice(half, None))])
