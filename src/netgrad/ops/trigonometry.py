"""Circular and hyperbolic functions, element by element, and their derivatives."""

from __future__ import annotations

from typing import Any

from netgrad.graph.rules import emits
from netgrad.ops._broadcasting import expect_like
from netgrad.ops.elementwise import FromInput, FromInputLast, Unary


class Sin(Unary):
    """Y = sin X, X in radians."""

    gradient = emits("SinGradient", "I0 GO0", "GI0")

    def kernel(xp: Any, X: Any) -> Any:
        return xp.sin(X)


class SinGradient(FromInput):
    """dX = cos(X) dY."""

    def kernel(xp: Any, X: Any, dY: Any) -> Any:
        return xp.cos(X) * expect_like(dY, X, model_name="X")


class Cos(Unary):
    """Y = cos X, X in radians."""

    gradient = emits("CosGradient", "I0 GO0", "GI0")

    def kernel(xp: Any, X: Any) -> Any:
        return xp.cos(X)


class CosGradient(FromInput):
    """dX = -sin(X) dY."""

    def kernel(xp: Any, X: Any, dY: Any) -> Any:
        return -xp.sin(X) * expect_like(dY, X, model_name="X")


class Tan(Unary):
    """Y = tan X, X in radians."""

    gradient = emits("TanGradient", "I0 GO0", "GI0")

    def kernel(xp: Any, X: Any) -> Any:
        return xp.tan(X)


class TanGradient(FromInput):
    """dX = dY / cos(X)^2."""

    def kernel(xp: Any, X: Any, dY: Any) -> Any:
        cosine = xp.cos(X)
        return expect_like(dY, X, model_name="X") / (cosine * cosine)


class Asin(Unary):
    """Y = the angle in [-pi/2, pi/2] whose sine is X."""

    gradient = emits("AsinGradient", "I0 GO0", "GI0")

    def kernel(xp: Any, X: Any) -> Any:
        return xp.asin(X)


class AsinGradient(FromInput):
    """dX = dY / sqrt(1 - X^2)."""

    def kernel(xp: Any, X: Any, dY: Any) -> Any:
        return expect_like(dY, X, model_name="X") / xp.sqrt(1 - X * X)


class Acos(Unary):
    """Y = the angle in [0, pi] whose cosine is X."""

    gradient = emits("AcosGradient", "I0 GO0", "GI0")

    def kernel(xp: Any, X: Any) -> Any:
        return xp.acos(X)


class AcosGradient(FromInput):
    """dX = -dY / sqrt(1 - X^2)."""

    def kernel(xp: Any, X: Any, dY: Any) -> Any:
        return -expect_like(dY, X, model_name="X") / xp.sqrt(1 - X * X)


class Atan(Unary):
    """Y = the angle in (-pi/2, pi/2) whose tangent is X."""

    gradient = emits("AtanGradient", "I0 GO0", "GI0")

    def kernel(xp: Any, X: Any) -> Any:
        return xp.atan(X)


class AtanGradient(FromInput):
    """dX = dY / (1 + X^2)."""

    def kernel(xp: Any, X: Any, dY: Any) -> Any:
        return expect_like(dY, X, model_name="X") / (X * X + 1)


class Sinh(Unary):
    """Y = (e^X - e^-X) / 2."""

    gradient = emits("SinhGradient", "GO0 I0", "GI0")

    def kernel(xp: Any, X: Any) -> Any:
        return xp.sinh(X)


class SinhGradient(FromInputLast):
    """dX = cosh(X) dY."""

    def kernel(xp: Any, dY: Any, X: Any) -> Any:
        return expect_like(dY, X, model_name="X") * xp.cosh(X)


class Cosh(Unary):
    """Y = (e^X + e^-X) / 2."""

    gradient = emits("CoshGradient", "GO0 I0", "GI0")

    def kernel(xp: Any, X: Any) -> Any:
        return xp.cosh(X)


class CoshGradient(FromInputLast):
    """dX = sinh(X) dY."""

    def kernel(xp: Any, dY: Any, X: Any) -> Any:
        return expect_like(dY, X, model_name="X") * xp.sinh(X)
