"""Functions of one number, element by element, and their derivatives."""

from __future__ import annotations

import math
from typing import Any

from netgrad.graph.arguments import Float
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example
from netgrad.graph.rules import Rule, emits, forbidden, not_implemented
from netgrad.graph.shapes import same_as
from netgrad.ops._broadcasting import expect_like
from netgrad.ops._second import chain, flat, with_curvature


class Unary(Operator, abstract=True):
    """Y from X, element by element."""

    inputs = [In("X", "any shape, float")]
    outputs = [Out("Y", "like X")]
    shape = same_as(0)


class FromInput(Operator, abstract=True):
    """dX from X and dY, in this order."""

    inputs = [In("X", "what the operator read"), In("dY", "like X, float")]
    outputs = [Out("dX", "like X")]
    shape = same_as(0)
    internal = True


class FromInputLast(Operator, abstract=True):
    """dX from dY and X, in this order."""

    inputs = [In("dY", "like X, float"), In("X", "what the operator read")]
    outputs = [Out("dX", "like X")]
    shape = same_as(0)
    internal = True


class FromOutput(Operator, abstract=True):
    """dX from Y and dY, in this order."""

    inputs = [In("Y", "what the operator wrote"), In("dY", "like Y, float")]
    outputs = [Out("dX", "like Y")]
    inplace = {(1, 0)}
    shape = same_as(0)
    internal = True


class FromOutputLast(Operator, abstract=True):
    """dX from dY and Y, in this order."""

    inputs = [In("dY", "like Y, float"), In("Y", "what the operator wrote")]
    outputs = [Out("dX", "like Y")]
    inplace = {(0, 0)}
    shape = same_as(0)
    internal = True


class Abs(Unary):
    """Y = |X|."""

    gradient = emits("AbsGradient", "I0 GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[1.5, 0.5], [2.0, 3.0]]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.abs(X)


class AbsGradient(FromInput):
    """dX = sign(X) dY; 0 at 0."""

    gradient = flat(1)
    example = Example(
        {"X": [[-1.5, 0.5], [2.0, 3.0]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[-1.0, 0.5], [2.0, -1.0]]})

    def kernel(xp: Any, X: Any, dY: Any) -> Any:
        return xp.sign(X) * expect_like(dY, X, model_name="X")


class Sign(Unary):
    """Y = -1, 0 or 1: the sign of X, and 0 for what is not a number."""

    inputs = [In("X", "any shape, numeric")]
    gradient = forbidden("it is constant between its jumps")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[-1.0, 1.0], [1.0, 1.0]]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.astype(X > 0, X.dtype) - xp.astype(X < 0, X.dtype)


class Negative(Unary):
    """Y = -X."""

    inputs = [In("X", "any shape, numeric")]
    inplace = {(0, 0)}
    gradient = emits("Negative", "GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[1.5, -0.5], [-2.0, -3.0]]})

    def kernel(xp: Any, X: Any) -> Any:
        return -X


class Reciprocal(Unary):
    """Y = 1 / X."""

    inplace = {(0, 0)}
    gradient = emits("ReciprocalGradient", "O0 GO0", "GI0")
    example = Example({"X": [[0.25, 1.0], [4.0, 0.5]]}, {"Y": [[4.0, 1.0], [0.25, 2.0]]})

    def kernel(xp: Any, X: Any) -> Any:
        return 1 / X


class ReciprocalGradient(FromOutput):
    """dX = -Y^2 dY."""

    gradient = with_curvature(1, chain(("Mul", "tZ"), ("Scale", "r", {"scale": -2.0})))
    example = Example(
        {"Y": [[4.0, 1.0], [0.25, 2.0]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[-16.0, -0.5], [-0.125, 4.0]]})

    def kernel(xp: Any, Y: Any, dY: Any) -> Any:
        return -expect_like(dY, Y) * Y * Y


class Scale(Unary):
    """Y = scale X."""

    arguments = [Float("scale", 1.0)]
    inplace = {(0, 0)}
    gradient = emits("Scale", "GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[-3.0, 1.0], [4.0, 6.0]]}, {"scale": 2.0})

    def kernel(xp: Any, X: Any, *, scale: float) -> Any:
        return X * scale


class Sqr(Unary):
    """Y = X^2."""

    inplace = {(0, 0)}
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[2.25, 0.25], [4.0, 9.0]]})

    def kernel(xp: Any, X: Any) -> Any:
        return X * X

    def gradient(op: Rule) -> None:
        op.emit("Scale", [op.GO(0)], [op.GO(0)], scale=2.0)
        op.emit("Mul", [op.GO(0), op.I(0)], [op.GI(0)])


class Sqrt(Unary):
    """Y = the square root of X; not a number where X is negative."""

    inplace = {(0, 0)}
    example = Example({"X": [[0.25, 1.0], [4.0, 0.5]]}, {"Y": [[0.5, 1.0], [2.0, 0.707107]]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.sqrt(X)

    def gradient(op: Rule) -> None:
        op.emit("Scale", [op.GO(0)], [op.GI(0)], scale=0.5)
        op.emit("Div", [op.GI(0), op.O(0)], [op.GI(0)])


class Rsqrt(Unary):
    """Y = 1 / the square root of X."""

    inplace = {(0, 0)}
    gradient = emits("RsqrtGradient", "GO0 O0", "GI0")
    example = Example({"X": [[0.25, 1.0], [4.0, 0.5]]}, {"Y": [[2.0, 1.0], [0.5, 1.41421]]})

    def kernel(xp: Any, X: Any) -> Any:
        return 1 / xp.sqrt(X)


class RsqrtGradient(FromOutputLast):
    """dX = -Y^3 dY / 2."""

    gradient = with_curvature(0, chain(("Mul", "tZ"), ("Mul", "rZ"), ("Scale", "r", {"scale": -1.5})))
    example = Example(
        {"dY": [[1.0, 0.5], [2.0, -1.0]], "Y": [[2.0, 1.0], [0.5, 1.41421]]},
        {"dX": [[-4.0, -0.25], [-0.125, 1.41421]]})

    def kernel(xp: Any, dY: Any, Y: Any) -> Any:
        return expect_like(dY, Y) * (Y * Y * Y) * -0.5


class Cbrt(Unary):
    """Y = the cube root of X, of its sign."""

    inplace = {(0, 0)}
    gradient = emits("CbrtGradient", "GO0 O0", "GI0")
    example = Example({"X": [[0.25, 1.0], [4.0, 0.5]]}, {"Y": [[0.62996, 1.0], [1.5874, 0.793701]]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.sign(X) * xp.abs(X) ** (1 / 3)


class CbrtGradient(FromOutputLast):
    """dX = dY / (3 Y^2)."""

    example = Example(
        {"dY": [[1.0, 0.5], [2.0, -1.0]], "Y": [[0.62996, 1.0], [1.5874, 0.793701]]},
        {"dX": [[0.839948, 0.166667], [0.264567, -0.529134]]})

    def kernel(xp: Any, dY: Any, Y: Any) -> Any:
        return expect_like(dY, Y) / (Y * Y * 3)


class Cube(Unary):
    """Y = X^3."""

    inputs = [In("X", "any shape, numeric")]
    gradient = emits("CubeGradient", "GO0 I0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[-3.375, 0.125], [8.0, 27.0]]})

    def kernel(xp: Any, X: Any) -> Any:
        return X * X * X


class CubeGradient(FromInputLast):
    """dX = 3 X^2 dY."""

    inputs = [In("dY", "like X"), In("X", "what the operator read, numeric")]
    gradient = with_curvature(0, chain(("Mul", "tZ"), ("Scale", "r", {"scale": 6.0})))
    example = Example(
        {"dY": [[1.0, 0.5], [2.0, -1.0]], "X": [[-1.5, 0.5], [2.0, 3.0]]},
        {"dX": [[6.75, 0.375], [24.0, -27.0]]})

    def kernel(xp: Any, dY: Any, X: Any) -> Any:
        return expect_like(dY, X, model_name="X") * (X * X * 3)


class Exp(Unary):
    """Y = e^X."""

    inplace = {(0, 0)}
    gradient = emits("Mul", "O0 GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[0.22313, 1.64872], [7.38906, 20.0855]]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.exp(X)


class Log(Unary):
    """Y = the natural logarithm of X."""

    inplace = {(0, 0)}
    gradient = emits("Div", "GO0 I0", "GI0")
    example = Example({"X": [[0.25, 1.0], [4.0, 0.5]]}, {"Y": [[-1.38629, 0.0], [1.38629, -0.693147]]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.log(X)


class Logit(Unary):
    """Y = log(X / (1 - X)), with X first brought into [eps, 1 - eps]."""

    arguments = [Float("eps", 1e-6)]
    inplace = {(0, 0)}
    gradient = emits("LogitGradient", "I0 GO0", "GI0")
    example = Example({"X": [0.1, 0.5, 0.9]}, {"Y": [-2.19722, 0.0, 2.19722]})

    def kernel(xp: Any, X: Any, *, eps: float) -> Any:
        inside = xp.clip(X, eps, 1 - eps)
        return xp.log(inside / (1 - inside))


class LogitGradient(FromInput):
    """dX = dY / (X (1 - X)); 0 outside [eps, 1 - eps]."""

    arguments = [Float("eps", 1e-6)]
    example = Example({"X": [0.1, 0.5, 0.9], "dY": [1.0, 0.5, 2.0]}, {"dX": [11.1111, 2.0, 22.2222]})

    def kernel(xp: Any, X: Any, dY: Any, *, eps: float) -> Any:
        expect_like(dY, X, model_name="X")
        outside = (X < eps) | (X > 1 - eps)
        return xp.where(outside, xp.zeros_like(dY), dY / xp.where(outside, xp.ones_like(X), X * (1 - X)))


class Clip(Unary):
    """Y = X, brought into [min, max]."""

    arguments = [Float("min", -math.inf), Float("max", math.inf)]
    inplace = {(0, 0)}
    gradient = emits("ClipGradient", "O0 GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[-1.0, 0.5], [2.0, 2.5]]}, {"min": -1.0, "max": 2.5})

    def kernel(xp: Any, X: Any, *, min: float, max: float) -> Any:
        return xp.clip(X, min, max)


class ClipGradient(FromOutput):
    """dX = dY where min < Y < max; 0 elsewhere, the bounds included."""

    arguments = [Float("min", -math.inf), Float("max", math.inf)]
    gradient = flat(1)
    example = Example(
        {"Y": [[-1.0, 0.5], [2.0, 2.5]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[0.0, 0.5], [2.0, -0.0]]},
        {"min": -1.0, "max": 2.5},
        wrt=("dY",))

    def kernel(xp: Any, Y: Any, dY: Any, *, min: float, max: float) -> Any:
        return expect_like(dY, Y) * xp.astype((Y > min) & (Y < max), dY.dtype)


class Ceil(Unary):
    """Y = the smallest whole number not below X."""

    inplace = {(0, 0)}
    gradient = not_implemented("it is constant between its jumps; Caffe2 has no rule for it")
    example = Example({"X": [-1.5, 0.5, 2.0]}, {"Y": [-1.0, 1.0, 2.0]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.ceil(X)


class Floor(Unary):
    """Y = the largest whole number not above X."""

    inplace = {(0, 0)}
    gradient = not_implemented("it is constant between its jumps; Caffe2 has no rule for it")
    example = Example({"X": [-1.5, 0.5, 2.0]}, {"Y": [-2.0, 0.0, 2.0]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.floor(X)


class Erf(Unary):
    """Y = the error function of X: 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to X."""

    gradient = emits("ErfGradient", "I0 GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[-0.966105, 0.5205], [0.995322, 0.999978]]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.erf(X)


class ErfGradient(FromInput):
    """dX = 2 / sqrt(pi) e^(-X^2) dY."""

    gradient = with_curvature(1, chain(("ErfGradient", "Zt"), ("Mul", "rZ"), ("Scale", "r", {"scale": -2.0})))
    example = Example(
        {"X": [[-1.5, 0.5], [2.0, 3.0]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[0.11893, 0.439391], [0.041334, -0.000139253]]})

    def kernel(xp: Any, X: Any, dY: Any) -> Any:
        return xp.exp(-X * X) * expect_like(dY, X, model_name="X") * (2 / math.sqrt(math.pi))
