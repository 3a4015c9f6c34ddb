"""Padding by zeros in one pass over memory."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from netgrad.ops import joining
from netgrad.runtime.backends.torch import override


@override("SliceGradient")
def slice_gradient(xp: Any, X: Tensor, *rest: Tensor, starts_argument: Any, ends_argument: Any) -> Any:
    if len(rest) != 1 or starts_argument is None or ends_argument is None or not X.numel():
        return joining.SliceGradient.kernel(xp, X, *rest, starts_argument=starts_argument, ends_argument=ends_argument)
    place = joining.slice_bounds(X.shape, starts_argument, ends_argument)
    result = rest[0].new_zeros(X.shape)
    if result[place].shape != rest[0].shape:
        raise ValueError(f"dY has shape {tuple(rest[0].shape)}, but the part of X has {tuple(result[place].shape)}")
    result[place] = rest[0]
    return result
