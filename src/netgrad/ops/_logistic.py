"""The logistic function and its integral, without overflow.

They are written so that a derivative taken of them step by step is right at 0 as well, where that of the magnitude,
which one would take the exponential of, is not: both branches change at one place.
"""

from __future__ import annotations

from typing import Any


def sigmoid(xp: Any, x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    negative = x < 0
    small = xp.exp(xp.where(negative, x, -x))
    return xp.where(negative, small, xp.ones_like(x)) / (small + 1)


def softplus(xp: Any, x: Any) -> Any:
    """log(1 + exp(x))."""
    positive = x > 0
    return xp.where(positive, x, xp.zeros_like(x)) + xp.log1p(xp.exp(xp.where(positive, -x, x)))
