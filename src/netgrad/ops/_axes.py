"""Sizes and indices: what operators on shapes share."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from netgrad.graph.shapes import Dim


def count(dims: Sequence[Dim]) -> Dim:
    """The number of elements; None while a dimension is unknown, unless another one is zero."""
    if 0 in dims:
        return 0
    return None if None in dims else prod(d for d in dims if d is not None)


def int_list(xp: Any, values: Any) -> list[int]:
    """The elements of an integer array, as Python numbers."""
    if xp.dtype_name(values) not in ("int32", "int64"):
        raise ValueError(f"found {xp.dtype_name(values)} values where integers (int32 or int64) are expected")
    return [int(v) for v in xp.to_numpy(values).reshape(-1)]


def number(xp: Any, values: Any, what: str) -> Any:
    """The only element of an array, as a Python number."""
    host = xp.to_numpy(values)
    if host.size != 1:
        raise ValueError(f"{what} must have one element, found shape {tuple(host.shape)}")
    return host.reshape(-1)[0].item()


def check_indices(xp: Any, indices: Any, size: int, least: int = 0) -> None:
    """Raises ValueError unless all indices (of an integer array) are in [least, size)."""
    if xp.dtype_name(indices) not in ("int32", "int64"):
        raise ValueError(f"indices must be int32 or int64, found {xp.dtype_name(indices)}")
    host = xp.to_numpy(indices)
    if host.size:
        low, high = int(host.min()), int(host.max())
        if low < least or high >= size:
            raise ValueError(f"indices hold {low if low < least else high}, which is out of range: "
                             f"expected {least} to {size - 1}")


def side_by_side(shift: int = 0, most: int = 64) -> frozenset[tuple[int, int]]:
    """Pairs (k + shift, k): each output goes with the input beside it."""
    return frozenset((k + shift, k) for k in range(most))


def views_of_first(most: int = 64) -> frozenset[tuple[int, int]]:
    """Pairs (0, k): every output may be a view of the first input."""
    return frozenset((0, k) for k in range(most))
