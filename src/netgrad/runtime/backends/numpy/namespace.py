"""The namespace that kernels receive on NumPy: the array API standard, and the functions it lacks."""

from __future__ import annotations

from typing import Any

import array_api_compat.numpy as standard
import numpy as np

from netgrad.graph.shapes import ShapeError
from netgrad.runtime import dtypes
from netgrad.runtime.backends.numpy import special
from netgrad.runtime.errors import BackendError, BadIndex


def check_rows(index: np.ndarray, rows: int) -> None:
    """Raises `BadIndex` unless all of ``index`` are in [0, rows)."""
    if index.size and (index.min() < 0 or index.max() >= rows):
        wrong = index[(index < 0) | (index >= rows)].flat[0]
        raise BadIndex(f"index {wrong} is out of range: there are {rows} rows, so indices go from 0 to {rows - 1}")


def check_values(target: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    """Raises `ShapeError` unless there is a row of ``values`` for each index."""
    expected = (*index.shape, *target.shape[1:])
    if tuple(values.shape) != expected:
        raise ShapeError(f"values of shape {tuple(values.shape)} cannot go to the rows that were named; expected "
                         f"{expected}, a row of {tuple(target.shape[1:])} for each of {tuple(index.shape)} indices")


class Namespace:
    """``xp`` on NumPy."""

    def __init__(self) -> None:
        for name in dir(standard):
            if not name.startswith("__") and not hasattr(type(self), name):
                setattr(self, name, getattr(standard, name))

    def __getattr__(self, name: str) -> Any:
        return getattr(standard, name)

    def __repr__(self) -> str:
        return "<xp: NumPy>"

    @staticmethod
    def scatter_add(target: np.ndarray, index: np.ndarray, values: np.ndarray) -> np.ndarray:
        """A copy of ``target`` to whose rows ``index`` the rows of ``values`` are added; repeated indices add up.

        ``values`` has shape ``index.shape + target.shape[1:]``. Raises `BadIndex` for an index out of range.
        """
        check_rows(index, target.shape[0])
        check_values(target, index, values)
        out = np.array(target)
        np.add.at(out, index, values)
        return out

    @staticmethod
    def index_put(target: np.ndarray, index: np.ndarray, values: np.ndarray) -> np.ndarray:
        """A copy of ``target`` whose rows ``index`` are replaced by those of ``values``, the last of repeated ones."""
        check_rows(index, target.shape[0])
        check_values(target, index, values)
        out = np.array(target)
        out[index] = values
        return out

    @staticmethod
    def take_along_axis(x: np.ndarray, indices: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.take_along_axis(x, indices, axis=axis)

    @staticmethod
    def einsum(equation: str, *operands: np.ndarray) -> np.ndarray:
        return np.asarray(np.einsum(equation, *operands, optimize=len(operands) > 2))

    @staticmethod
    def erf(x: np.ndarray) -> np.ndarray:
        """The error function, of x's dtype and shape."""
        return special.erf(x)

    @staticmethod
    def to_numpy(x: Any) -> np.ndarray:
        return np.asarray(x)

    @staticmethod
    def from_numpy(a: Any, like: Any = None) -> np.ndarray:
        return np.asarray(a)

    @staticmethod
    def ascontiguous(x: np.ndarray) -> np.ndarray:
        return x if x.flags.c_contiguous else np.ascontiguousarray(x)

    @staticmethod
    def dtype_of(number_or_name: Any) -> np.dtype[Any]:
        """The dtype of a `TensorProto.DataType` number or of a name; strings are arrays of objects."""
        if not isinstance(number_or_name, (int, str)):
            found: np.dtype[Any] = np.dtype(number_or_name)
            return found
        name = dtypes.name_of(number_or_name)
        if name == "bfloat16":
            raise BackendError("NumPy has no bfloat16; use float32, or the torch backend")
        return np.dtype(object if name == "string" else name)

    @staticmethod
    def dtype_name(x: Any) -> str:
        """The name of the dtype of an array, or of a dtype ("string" for arrays of objects)."""
        name = np.dtype(getattr(x, "dtype", x)).name
        return "string" if name == "object" else name
