"""The namespace that kernels receive on torch: the array API standard, and the functions it lacks."""

from __future__ import annotations

from typing import Any

import array_api_compat.torch as standard
import numpy as np
import torch

from netgrad.graph.shapes import ShapeError
from netgrad.runtime import dtypes
from netgrad.runtime.errors import BackendError, BadIndex


def check_rows(index: torch.Tensor, rows: int) -> None:
    """Raises `BadIndex` unless all of ``index`` are in [0, rows)."""
    if index.numel() and bool(((index < 0) | (index >= rows)).any()):
        wrong = index[(index < 0) | (index >= rows)].flatten()[0].item()
        raise BadIndex(f"index {wrong} is out of range: there are {rows} rows, so indices go from 0 to {rows - 1}")


def check_values(target: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> None:
    """Raises `ShapeError` unless there is a row of ``values`` for each index."""
    expected = (*index.shape, *target.shape[1:])
    if tuple(values.shape) != expected:
        raise ShapeError(f"values of shape {tuple(values.shape)} cannot go to the rows that were named; expected "
                         f"{expected}, a row of {tuple(target.shape[1:])} for each of {tuple(index.shape)} indices")


class Namespace:
    """``xp`` on torch."""

    def __init__(self) -> None:
        for name in dir(standard):
            if not name.startswith("__") and not hasattr(type(self), name):
                setattr(self, name, getattr(standard, name))

    def __getattr__(self, name: str) -> Any:
        return getattr(standard, name)

    def __repr__(self) -> str:
        return "<xp: torch>"

    @staticmethod
    def scatter_add(target: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """A copy of ``target`` to whose rows ``index`` the rows of ``values`` are added; repeated indices add up.

        ``values`` has shape ``index.shape + target.shape[1:]``. Raises `BadIndex` for an index out of range.
        """
        check_rows(index, target.shape[0])
        check_values(target, index, values)
        return target.index_put((index.long(),), values.to(target.dtype), accumulate=True)

    @staticmethod
    def index_put(target: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """A copy of ``target`` whose rows ``index`` are replaced by those of ``values``."""
        check_rows(index, target.shape[0])
        check_values(target, index, values)
        return target.index_put((index.long(),), values.to(target.dtype))

    @staticmethod
    def take_along_axis(x: torch.Tensor, indices: torch.Tensor, axis: int = -1) -> torch.Tensor:
        return torch.take_along_dim(x, indices.long(), dim=axis)

    @staticmethod
    def einsum(equation: str, *operands: torch.Tensor) -> torch.Tensor:
        return torch.einsum(equation, *operands)

    @staticmethod
    def erf(x: torch.Tensor) -> torch.Tensor:
        """The error function, of x's dtype and shape."""
        return torch.erf(x)

    @staticmethod
    def to_numpy(x: Any) -> np.ndarray:
        if not isinstance(x, torch.Tensor):
            return np.asarray(x)
        x = x.detach().cpu()
        array: np.ndarray = (x.float() if x.dtype == torch.bfloat16 else x).numpy()
        return array

    @staticmethod
    def from_numpy(a: Any, like: torch.Tensor | None = None) -> torch.Tensor:
        """A tensor of the values of a NumPy array, on the device of ``like``."""
        a = np.asarray(a)
        tensor = torch.from_numpy(a if a.flags.writeable and a.dtype.isnative and min(a.strides, default=0) >= 0
                                  else np.array(a, dtype=a.dtype.newbyteorder("="), order="C"))
        device = torch.get_default_device() if like is None else like.device
        return tensor if tensor.device == device else tensor.to(device)

    @staticmethod
    def ascontiguous(x: torch.Tensor) -> torch.Tensor:
        return x.contiguous()

    @staticmethod
    def dtype_of(number_or_name: Any) -> torch.dtype:
        """The dtype of a `TensorProto.DataType` number or of a name."""
        if isinstance(number_or_name, torch.dtype):
            return number_or_name
        if isinstance(number_or_name, (int, str)):
            name = dtypes.name_of(number_or_name)
        else:
            name = np.dtype(number_or_name).name
        found = getattr(torch, name, None)
        if not isinstance(found, torch.dtype):
            raise BackendError(f"torch has no dtype {name!r}; strings need an operator that runs on the host")
        return found

    @staticmethod
    def dtype_name(x: Any) -> str:
        """The name of the dtype of a tensor, or of a dtype."""
        return str(getattr(x, "dtype", x)).removeprefix("torch.")
