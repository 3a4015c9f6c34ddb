"""Pooling by PyTorch's own kernels, where its padding is of the same kind; else by the reference."""

from __future__ import annotations

from typing import Any

import torch

from netgrad.ops import pooling as reference
from netgrad.ops._arrays import channels_back, channels_first
from netgrad.ops._windows import Placed
from netgrad.runtime.backends.torch import override


def _fits(at: Placed, X: torch.Tensor) -> bool:
    """Whether PyTorch has this window: the same padding on both sides, at most half of it, on up to three axes."""
    halves = all(0 <= h <= k // 2 for h, k in zip(at.heads, at.kernel, strict=True))
    return at.heads == at.tails and halves and len(at.kernel) <= 3 and X.numel() > 0


def max_pool(xp: Any, X: Any, *, order: str, op: Any) -> Any:
    first, at = reference.place(xp, X, order, op)
    # on the CPU, PyTorch also keeps the places of the maxima, which costs more than the few passes of a small window
    small = at.elements <= 4 and X.device.type == "cpu"
    if at.whole or small or not _fits(at, X):
        return reference.MaxPool.kernel(xp, X, order=order, op=op)
    pool = (torch.max_pool1d, torch.max_pool2d, torch.max_pool3d)[len(at.kernel) - 1]
    return channels_back(xp, pool(first, at.kernel, at.stride, at.heads), order)


def average_pool(xp: Any, X: Any, *, order: str, count_include_pad: bool, op: Any) -> Any:
    first, at = reference.place(xp, X, order, op)
    if at.whole or not _fits(at, X):
        return reference.AveragePool.kernel(xp, X, order=order, count_include_pad=count_include_pad, op=op)
    pool = (torch.nn.functional.avg_pool1d, torch.nn.functional.avg_pool2d,
            torch.nn.functional.avg_pool3d)[len(at.kernel) - 1]
    return channels_back(xp, pool(first, at.kernel, at.stride, at.heads, False, count_include_pad), order)


def average_pool_gradient(xp: Any, X: Any, Y: Any, dY: Any, *, order: str, count_include_pad: bool, op: Any) -> Any:
    first, at = reference.place(xp, X, order, op)
    if at.whole or not _fits(at, X) or len(at.kernel) != 2:
        return reference.AveragePoolGradient.kernel(xp, X, Y, dY, order=order, count_include_pad=count_include_pad,
                                                    op=op)
    reference.check_gradient(X, dY, at, order)
    dX = torch.ops.aten.avg_pool2d_backward(channels_first(xp, dY, order), first, at.kernel, at.stride, at.heads, False,
                                            count_include_pad, None)
    return channels_back(xp, dX, order)


for _rank in ("", "1D", "2D", "3D"):
    override(f"MaxPool{_rank}")(max_pool)
    override(f"AveragePool{_rank}")(average_pool)
    override(f"AveragePool{_rank}Gradient")(average_pool_gradient)
