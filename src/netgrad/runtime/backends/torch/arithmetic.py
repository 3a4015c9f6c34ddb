"""Weighted sums in one pass over memory for each term."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from netgrad.ops import arithmetic as reference
from netgrad.runtime.backends.torch import override


@override("WeightedSum")
def weighted_sum(xp: Any, *pairs: Tensor) -> Tensor:
    arrays, weights = pairs[::2], pairs[1::2]
    first = arrays[0]
    plain = first.device.type == "cpu" and first.is_floating_point() and all(
        X.shape == first.shape and X.dtype == first.dtype and w.numel() == 1 and w.dtype == first.dtype
        for X, w in zip(arrays, weights))
    if not plain:
        result: Tensor = reference.WeightedSum.kernel(xp, *pairs)  # type: ignore[misc]
        return result
    numbers = [w.item() for w in weights]
    total = torch.mul(first, numbers[0]) if numbers[0] != 1 or len(arrays) == 1 else first
    for X, number in zip(arrays[1:], numbers[1:]):
        total = torch.add(total, X, alpha=number)
    return total
