"""Circular and hyperbolic functions, element by element, and their derivatives."""

from __future__ import annotations

from typing import Any

from netgrad.graph.example import Example
from netgrad.graph.rules import emits
from netgrad.ops._broadcasting import expect_like
from netgrad.ops._second import chain, with_curvature
from netgrad.ops.elementwise import FromInput, FromInputLast, Unary


class Sin(Unary):
    """Y = sin X, X in radians."""

    gradient = emits("SinGradient", "I0 GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[-0.997495, 0.479426], [0.909297, 0.14112]]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.sin(X)


class SinGradient(FromInput):
    """dX = cos(X) dY."""

    gradient = with_curvature(1, chain(("CosGradient", "Zt")))
    example = Example(
        {"X": [[-1.5, 0.5], [2.0, 3.0]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[0.0707372, 0.438791], [-0.832294, 0.989992]]})

    def kernel(xp: Any, X: Any, dY: Any) -> Any:
        return xp.cos(X) * expect_like(dY, X, model_name="X")


class Cos(Unary):
    """Y = cos X, X in radians."""

    gradient = emits("CosGradient", "I0 GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[0.0707372, 0.877583], [-0.416147, -0.989992]]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.cos(X)


class CosGradient(FromInput):
    """dX = -sin(X) dY."""

    gradient = with_curvature(1, chain(("SinGradient", "Zt"), ("Negative", "r")))
    example = Example(
        {"X": [[-1.5, 0.5], [2.0, 3.0]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[0.997495, -0.239713], [-1.81859, 0.14112]]})

    def kernel(xp: Any, X: Any, dY: Any) -> Any:
        return -xp.sin(X) * expect_like(dY, X, model_name="X")


class Tan(Unary):
    """Y = tan X, X in radians."""

    gradient = emits("TanGradient", "I0 GO0", "GI0")
    example = Example({"X": [-1.0, 0.0, 0.5]}, {"Y": [-1.55741, 0.0, 0.546302]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.tan(X)


class TanGradient(FromInput):
    """dX = dY / cos(X)^2."""

    example = Example({"X": [-1.0, 0.0, 0.5], "dY": [1.0, 0.5, 2.0]}, {"dX": [3.42552, 0.5, 2.59689]})

    def kernel(xp: Any, X: Any, dY: Any) -> Any:
        cosine = xp.cos(X)
        return expect_like(dY, X, model_name="X") / (cosine * cosine)


class Asin(Unary):
    """Y = the angle in [-pi/2, pi/2] whose sine is X."""

    gradient = emits("AsinGradient", "I0 GO0", "GI0")
    example = Example({"X": [-0.5, 0.0, 0.5]}, {"Y": [-0.523599, 0.0, 0.523599]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.asin(X)


class AsinGradient(FromInput):
    """dX = dY / sqrt(1 - X^2)."""

    gradient = with_curvature(1, chain(
        ("AsinGradient", "Zt"), ("AsinGradient", "Zr"), ("AsinGradient", "Zr"), ("Mul", "rZ")))
    example = Example({"X": [-0.5, 0.0, 0.5], "dY": [1.0, 0.5, 2.0]}, {"dX": [1.1547, 0.5, 2.3094]})

    def kernel(xp: Any, X: Any, dY: Any) -> Any:
        return expect_like(dY, X, model_name="X") / xp.sqrt(1 - X * X)


class Acos(Unary):
    """Y = the angle in [0, pi] whose cosine is X."""

    gradient = emits("AcosGradient", "I0 GO0", "GI0")
    example = Example({"X": [-0.5, 0.0, 0.5]}, {"Y": [2.0944, 1.5708, 1.0472]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.acos(X)


class AcosGradient(FromInput):
    """dX = -dY / sqrt(1 - X^2)."""

    gradient = with_curvature(1, chain(
        ("AcosGradient", "Zt"), ("AcosGradient", "Zr"), ("AcosGradient", "Zr"), ("Mul", "rZ")))
    example = Example({"X": [-0.5, 0.0, 0.5], "dY": [1.0, 0.5, 2.0]}, {"dX": [-1.1547, -0.5, -2.3094]})

    def kernel(xp: Any, X: Any, dY: Any) -> Any:
        return -expect_like(dY, X, model_name="X") / xp.sqrt(1 - X * X)


class Atan(Unary):
    """Y = the angle in (-pi/2, pi/2) whose tangent is X."""

    gradient = emits("AtanGradient", "I0 GO0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[-0.982794, 0.463648], [1.10715, 1.24905]]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.atan(X)


class AtanGradient(FromInput):
    """dX = dY / (1 + X^2)."""

    gradient = with_curvature(1, chain(
        ("AtanGradient", "Zt"), ("AtanGradient", "Zr"), ("Mul", "rZ"), ("Scale", "r", {"scale": -2.0})))
    example = Example(
        {"X": [[-1.5, 0.5], [2.0, 3.0]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[0.307692, 0.4], [0.4, -0.1]]})

    def kernel(xp: Any, X: Any, dY: Any) -> Any:
        return expect_like(dY, X, model_name="X") / (X * X + 1)


class Sinh(Unary):
    """Y = (e^X - e^-X) / 2."""

    gradient = emits("SinhGradient", "GO0 I0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[-2.12928, 0.521095], [3.62686, 10.0179]]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.sinh(X)


class SinhGradient(FromInputLast):
    """dX = cosh(X) dY."""

    gradient = with_curvature(0, chain(("CoshGradient", "tZ")))
    example = Example(
        {"dY": [[1.0, 0.5], [2.0, -1.0]], "X": [[-1.5, 0.5], [2.0, 3.0]]},
        {"dX": [[2.35241, 0.563813], [7.52439, -10.0677]]})

    def kernel(xp: Any, dY: Any, X: Any) -> Any:
        return expect_like(dY, X, model_name="X") * xp.cosh(X)


class Cosh(Unary):
    """Y = (e^X + e^-X) / 2."""

    gradient = emits("CoshGradient", "GO0 I0", "GI0")
    example = Example({"X": [[-1.5, 0.5], [2.0, 3.0]]}, {"Y": [[2.35241, 1.12763], [3.7622, 10.0677]]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.cosh(X)


class CoshGradient(FromInputLast):
    """dX = sinh(X) dY."""

    gradient = with_curvature(0, chain(("SinhGradient", "tZ")))
    example = Example(
        {"dY": [[1.0, 0.5], [2.0, -1.0]], "X": [[-1.5, 0.5], [2.0, 3.0]]},
        {"dX": [[-2.12928, 0.260548], [7.25372, -10.0179]]})

    def kernel(xp: Any, dY: Any, X: Any) -> Any:
        return expect_like(dY, X, model_name="X") * xp.sinh(X)
