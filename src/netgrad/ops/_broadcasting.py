"""How operands of different shapes are laid over each other, and how a gradient is folded back to each of them.

There are two rules. Without ``broadcast``, NumPy's. With ``broadcast=1``, Caffe2's first one: the second operand is
laid over a contiguous part of the first one's axes, beginning at ``axis`` (or at the axis that ``axis_str`` names in
``order``, or so that the last axes meet); leading and trailing axes of size one in the second operand span any size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from netgrad.graph.arguments import Bool, Int, Str
from netgrad.graph.shapes import ShapeError, broadcast_dims

#: the arguments of an operator that broadcasts by either rule
BROADCASTING = (
    Bool("broadcast", False, "lay B over a part of A instead of broadcasting as NumPy does"),
    Int("axis", -1, "with broadcast: where in A the axes of B begin; -1: so that the last axes meet"),
    Str("axis_str", "", "with broadcast: the same as a letter of order"),
    Str("order", "NCHW", "the letters of A's axes"),
)


def expect_like(value: Any, model: Any, value_name: str = "dY", model_name: str = "Y") -> Any:
    """``value``, after its shape was found to be that of ``model``; raises `ShapeError` otherwise."""
    if tuple(value.shape) != tuple(model.shape):
        raise ShapeError(f"{value_name} has shape {tuple(value.shape)}, expected {tuple(model.shape)}, "
                         f"the shape of {model_name}")
    return value


def expect_shape(value: Any, shape: Any, value_name: str, why: str) -> Any:
    """``value``, after its shape was found to be ``shape``; raises `ShapeError` otherwise."""
    if tuple(value.shape) != tuple(shape):
        raise ShapeError(f"{value_name} has shape {tuple(value.shape)}, expected {tuple(shape)}, {why}")
    return value


def expect_one_dtype(A: Any, B: Any, name_a: str = "A", name_b: str = "B") -> None:
    if A.dtype != B.dtype:
        raise ValueError(f"{name_a} is {A.dtype} and {name_b} is {B.dtype}, expected one dtype: use Cast")


def laid_shape(a: tuple[int, ...], b: tuple[int, ...], axis: int, axis_str: str, order: str) -> tuple[int, ...]:
    """The shape, of the rank of ``a``, under which ``b`` broadcasts against ``a`` by the first rule."""
    if math.prod(b) == 1:
        return (1,) * len(a)
    if len(b) > len(a):
        raise ShapeError(f"with broadcast=1 B must have no more axes than A, but A has shape {a} and B {b}; "
                         "leave broadcast out for NumPy's rule")
    if axis_str:
        if len(axis_str) != 1 or axis_str not in order:
            raise ShapeError(f"axis_str {axis_str!r} is not a letter of order {order!r}")
        axis = order.index(axis_str)
    elif axis == -1:
        axis = len(a) - len(b)
    if not 0 <= axis <= len(a) - len(b):
        raise ShapeError(f"axis is {axis}, expected 0 to {len(a) - len(b)} for B of shape {b} over A of shape {a}")
    first = next(k for k, d in enumerate(b) if d != 1)
    last = next(k for k in reversed(range(len(b))) if b[k] != 1)
    for k in range(first, last + 1):
        if b[k] != a[axis + k]:
            raise ShapeError(f"B of shape {b} does not fit over A of shape {a} from axis {axis} on: "
                             f"sizes {b[k]} and {a[axis + k]} differ")
    return (1,) * axis + tuple(b) + (1,) * (len(a) - axis - len(b))


def align(xp: Any, A: Any, B: Any, broadcast: bool, axis: int, axis_str: str, order: str) -> Any:
    """B, reshaped where need be so that A and B broadcast as NumPy does."""
    expect_one_dtype(A, B)
    if broadcast:
        return xp.reshape(B, laid_shape(tuple(A.shape), tuple(B.shape), axis, axis_str, order))
    if A.shape != B.shape:
        broadcast_dims(tuple(A.shape), tuple(B.shape))
    return B


def fold(xp: Any, gradient: Any, shape: tuple[int, ...], aligned: tuple[int, ...] | None = None) -> Any:
    """The gradient of an operand that was broadcast: ``gradient`` summed over the axes that the operand spanned.

    ``aligned`` is the shape the operand was given before it was broadcast, ``shape`` the one it has.
    """
    shape, aligned = tuple(shape), tuple(shape if aligned is None else aligned)
    if tuple(gradient.shape) == shape:
        return gradient
    extra = len(gradient.shape) - len(aligned)
    axes = (*range(extra), *(extra + k for k, d in enumerate(aligned) if d == 1 and gradient.shape[extra + k] != 1))
    if axes:
        gradient = xp.sum(gradient, axis=axes, dtype=gradient.dtype)
    return xp.reshape(gradient, shape)


def elementwise(function: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
    """The kernel of a binary operator that broadcasts by either rule: ``function(xp, A, B)`` on aligned operands."""

    def kernel(xp: Any, A: Any, B: Any, *, broadcast: bool, axis: int, axis_str: str, order: str) -> Any:
        return function(xp, A, align(xp, A, B, broadcast, axis, axis_str, order))

    return kernel


def elementwise_gradient(function: Callable[..., tuple[Any, Any]]) -> Callable[..., Any]:
    """The kernel of such an operator's gradient: ``function(xp, dY, A, B, *more)`` gives dA and dB before folding."""

    def kernel(xp: Any, dC: Any, A: Any, B: Any, *more: Any,
               broadcast: bool, axis: int, axis_str: str, order: str) -> Any:
        laid = align(xp, A, B, broadcast, axis, axis_str, order)
        whole = A.shape if A.shape == laid.shape else broadcast_dims(tuple(A.shape), tuple(laid.shape))
        expect_shape(dC, whole, "dC", "the shape of C")
        dA, dB = function(xp, dC, A, laid, *more)
        return fold(xp, dA, A.shape), fold(xp, dB, B.shape, laid.shape)

    return kernel
