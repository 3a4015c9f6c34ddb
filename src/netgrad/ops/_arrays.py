"""What many kernels need: buffers beside an array, checks of shapes and indices."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from netgrad.graph.shapes import ShapeError


def device_of(x: Any) -> Any:
    """Where an array lives; None for NumPy 1, whose arrays do not say."""
    return getattr(x, "device", None)


def full(xp: Any, shape: Sequence[int], value: float, like: Any, dtype: Any = None) -> Any:
    """An array of ``value`` with the dtype (unless given) and on the device of ``like``."""
    return xp.full(tuple(shape), value, dtype=dtype or like.dtype, device=device_of(like))


def zeros(xp: Any, shape: Sequence[int], like: Any, dtype: Any = None) -> Any:
    return xp.zeros(tuple(shape), dtype=dtype or like.dtype, device=device_of(like))


def array(xp: Any, values: Any, like: Any, dtype: Any = None) -> Any:
    """Python numbers as an array beside ``like``."""
    return xp.asarray(values, dtype=dtype or like.dtype, device=device_of(like))


def single(x: float) -> float:
    """Rounded to single precision, in which Caffe2 computes places and counts."""
    return float(struct.unpack("f", struct.pack("f", x))[0])


def product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


#: places along one axis, or samples of one region, that kernels list one by one
MOST_PLACES = 2**24


def countable(name: str, count: int) -> int:
    """``count``, refused where it is beyond what can be listed one by one."""
    if count > MOST_PLACES:
        raise ValueError(f"{name} would be {count}; the most is {MOST_PLACES}")
    return count


def checked_sizes(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of a tensor to be made; raises `ShapeError` where a size is negative."""
    if any(size < 0 for size in shape):
        raise ShapeError(f"the shape {tuple(shape)} has a negative size")
    return tuple(shape)


def require_shape(name: str, x: Any, shape: Sequence[int | None], why: str = "") -> None:
    """Raises `ShapeError` unless ``x`` has exactly this shape."""
    if x is None:
        raise ShapeError(f"{name} is missing; expected shape {tuple(shape)}{why}")
    if tuple(x.shape) != tuple(shape):
        raise ShapeError(f"{name} has shape {tuple(x.shape)}, expected {tuple(shape)}{why}")


def require_size(name: str, x: Any, size: int, why: str = "") -> None:
    """Raises `ShapeError` unless ``x`` has this many elements, whatever its shape."""
    if product(x.shape) != size:
        raise ShapeError(f"{name} has shape {tuple(x.shape)}, expected {size} elements{why}")


def require_one_dtype(**tensors: Any) -> None:
    """Refuses tensors of several dtypes; backends would promote, or refuse, each in its own way."""
    dtypes = {name: str(x.dtype).removeprefix("torch.") for name, x in tensors.items() if x is not None}
    if len(set(dtypes.values())) > 1:
        found = ", ".join(f"{name} is {dtype}" for name, dtype in dtypes.items())
        raise ValueError(f"{found}; they must have one dtype: feed them so, or put Cast between")


def require_rank(name: str, x: Any, rank: int) -> None:
    """Raises `ShapeError` unless ``x`` has this many dimensions."""
    if x.ndim != rank:
        raise ShapeError(f"{name} has shape {tuple(x.shape)}, expected {rank} dimension{'s' * (rank != 1)}")


def one_number(xp: Any, name: str, x: Any) -> Any:
    """A tensor of one element as one of shape (); raises `ShapeError` for any other."""
    require_size(name, x, 1)
    return xp.reshape(x, ())


def require_labels(xp: Any, labels: Any, classes: int, least: int = 0) -> None:
    """Raises ValueError unless ``least <= label < classes`` for every label."""
    if not product(labels.shape):
        return
    low, high = int(xp.min(labels)), int(xp.max(labels))
    if low < least or high >= classes:
        raise ValueError(f"label {low if low < least else high} is out of range: expected {least} to {classes - 1}, "
                         f"as there are {classes} classes")


def canonical_axis(axis: int, rank: int) -> int:
    """An axis counted from the front; raises ValueError when there is none such."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} does not exist in an input of {rank} dimensions")
    return axis % rank if rank else 0


def rows(xp: Any, X: Any, axis: int = 1) -> Any:
    """X as a matrix: the axes before ``axis`` become rows, the others columns."""
    return xp.reshape(X, (product(X.shape[:axis]), product(X.shape[axis:])))


def channels_first(xp: Any, X: Any, order: str) -> Any:
    """(N, ..., C) as a view (N, C, ...) where ``order`` is NHWC."""
    if order == "NCHW":
        return X
    if order != "NHWC":
        raise ValueError(f"the order {order!r} is unknown: expected NCHW or NHWC")
    return xp.permute_dims(X, (0, X.ndim - 1, *range(1, X.ndim - 1)))


def channels_back(xp: Any, X: Any, order: str) -> Any:
    """The inverse of `channels_first`."""
    return X if order == "NCHW" else xp.permute_dims(X, (0, *range(2, X.ndim), 1))
