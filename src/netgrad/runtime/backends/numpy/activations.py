"""Activations by one call of NumPy each."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.ops._broadcasting import expect_like
from netgrad.runtime.backends.numpy import override


@override("Relu")
def relu(xp: Any, X: np.ndarray) -> np.ndarray:
    made: np.ndarray = np.maximum(X, 0)
    return made


@override("ReluGradient")
def relu_gradient(xp: Any, Y: np.ndarray, dY: np.ndarray) -> np.ndarray:
    return np.where(Y <= 0, 0, expect_like(dY, Y))
