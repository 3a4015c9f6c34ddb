"""NumPy: runs everywhere, and is the host side of every other backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from netgrad.runtime.backends import Kernel, Overrides
from netgrad.runtime.backends.numpy.namespace import Namespace

override = Overrides(__name__)


class NumpyBackend:
    name = "numpy"
    array_type = np.ndarray
    overrides = override

    def __init__(self) -> None:
        self.xp = Namespace()

    def from_numpy(self, array: np.ndarray, device: Any = None) -> np.ndarray:
        return np.array(array, order="C", copy=True)

    def to_numpy(self, array: np.ndarray) -> np.ndarray:
        return array

    def as_array(self, value: Any) -> np.ndarray | None:
        return np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else None

    def running(self) -> AbstractContextManager[Any]:
        return np.errstate(all="ignore")

    def device(self, device_option: Any) -> None:
        return None

    def on_device(self, kernel: Kernel, device: Any) -> Kernel:
        return kernel

    def vector_jacobian(self, function: Callable[[Any, list[Any]], tuple[Any, ...]], inputs: Sequence[Any],
                        by: Sequence[int], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        from netgrad.runtime.backends.numpy.tracing import vector_jacobian

        return vector_jacobian(function, inputs, by, cotangents)


BACKEND = NumpyBackend()
