"""Shapes and dtypes of operators' outputs, computed from those of their inputs.

A declaration's ``shape`` is a function of `TensorType` values, one per input, and of the declared arguments by keyword;
it returns one `TensorType` per output. The functions here build the common ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Dim = int | None


@dataclass(frozen=True)
class TensorType:
    """The dtype (a NumPy name, or "string", or None: unknown) and shape of a blob.

    ``dims`` is None where even the rank is unknown; a single unknown dimension is None.
    """

    dtype: str | None = None
    dims: tuple[Dim, ...] | None = None

    @property
    def rank(self) -> int | None:
        return None if self.dims is None else len(self.dims)

    def with_dims(self, dims: Sequence[Dim] | None) -> TensorType:
        return TensorType(self.dtype, None if dims is None else tuple(dims))

    def with_dtype(self, dtype: str | None) -> TensorType:
        return TensorType(dtype, self.dims)


UNKNOWN = TensorType()


class ShapeError(ValueError, RuntimeError):
    """Shapes that do not go together; the message says which and what was expected."""


ShapeFunction = Callable[..., Any]


@dataclass(frozen=True)
class Same:
    """Every output is like one input (the k-th output like ``inputs[k]``, or all like the only one)."""

    inputs: tuple[int, ...]
    #: an in-place use leaves the shape of the name as it was
    keeps_shape = True

    def __call__(self, *types: TensorType, **_: Any) -> tuple[TensorType, ...]:
        return tuple(types[i] if i < len(types) else UNKNOWN for i in self.inputs)


def same_as(*inputs: int) -> Same:
    """Output k has the shape and dtype of input ``inputs[k]``."""
    return Same(inputs)


def broadcast_dims(*shapes: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
    """NumPy's broadcast of several shapes; raises `ShapeError` when two do not fit."""
    if any(s is None for s in shapes):
        return None
    known = [s for s in shapes if s is not None]
    rank = max((len(s) for s in known), default=0)
    out: list[Dim] = []
    for axis in range(-rank, 0):
        sizes = [s[axis] for s in known if len(s) >= -axis]
        fixed = {d for d in sizes if d is not None and d != 1}
        if len(fixed) > 1:
            raise ShapeError(f"shapes {', '.join(map(str, known))} do not broadcast")
        out.append(fixed.pop() if fixed else (None if None in sizes else 1))
    return tuple(out)


@dataclass(frozen=True)
class Broadcast:
    """The one output has the broadcast shape of all inputs and ``dtype``, or that of the first input."""

    dtype: str | None = None
    keeps_shape = True

    def __call__(self, *types: TensorType, **arguments: Any) -> TensorType:
        dtype = self.dtype or types[0].dtype
        if arguments.get("broadcast"):  # Caffe2's first broadcasting rule: the second is laid over a part of the first
            return TensorType(dtype, types[0].dims)
        return TensorType(dtype, broadcast_dims(*(t.dims for t in types)))


def broadcast(dtype: str | None = None) -> Broadcast:
    return Broadcast(dtype)


@dataclass(frozen=True)
class DataDependent:
    """Outputs whose sizes depend on values: their dtypes (None: like input 0) and ranks (None: unknown)."""

    outputs: tuple[tuple[str | None, int | None], ...]
    keeps_shape = False

    def __call__(self, *types: TensorType, **_: Any) -> tuple[TensorType, ...]:
        first = types[0].dtype if types else None
        return tuple(TensorType(d or first, None if r is None else (None,) * r) for d, r in self.outputs)


def data_dependent(*outputs: tuple[str | None, int | None]) -> DataDependent:
    """Declares outputs by (dtype, rank) only."""
    return DataDependent(outputs)


@dataclass(frozen=True)
class Fixed:
    """The outputs have known types, whatever the inputs are."""

    outputs: tuple[TensorType, ...]
    keeps_shape = False

    def __call__(self, *types: TensorType, **_: Any) -> tuple[TensorType, ...]:
        first = types[0].dtype if types else None
        return tuple(t if t.dtype else t.with_dtype(first) for t in self.outputs)


def scalar(dtype: str | None = None) -> Fixed:
    """One output of shape (), of ``dtype`` or that of the first input."""
    return Fixed((TensorType(dtype, ()),))
