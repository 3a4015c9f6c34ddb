"""Pooling by PyTorch's own kernels, where its padding is of the same kind; else by the reference."""

from __future__ import annotations

import math
from typing import Any

import torch

from netgrad.ops import pooling as reference
from netgrad.ops._arrays import channels_back, channels_first
from netgrad.ops._windows import Placed
from netgrad.runtime.backends.torch import override
from netgrad.runtime.backends.torch.layouts import channels_last, is_channels_last

#: so many elements are worked on at a time, since all passes over them should find them in the cache
_CACHED = 1 << 17


def _fits(at: Placed, X: torch.Tensor) -> bool:
    """Whether PyTorch has this window: the same padding on both sides, at most half of it, on up to three axes."""
    halves = all(0 <= h <= k // 2 for h, k in zip(at.heads, at.kernel, strict=True))
    return at.heads == at.tails and halves and len(at.kernel) <= 3 and X.numel() > 0


def _is_tiled(at: Placed, X: torch.Tensor) -> bool:
    """Whether windows of two along every axis cover the image without overlap, and its numbers lie side by side.

    Such windows need no strided views with rows of half the length, which are slow to walk through.
    """
    twos = (2,) * len(at.kernel)
    exact = at.kernel == at.stride == twos and not any(at.heads + at.tails) and not any(s % 2 for s in at.sizes)
    usable = X.device.type == "cpu" and X.dtype in (torch.float32, torch.float64) and X.numel() > 0
    return exact and usable and (X.is_contiguous() or is_channels_last(X))


def _largest_of_tiles(at: Placed, X: torch.Tensor) -> torch.Tensor:
    """Max pooling of windows of two, an axis after the other, in whichever order the numbers lie."""
    last = is_channels_last(X)
    channels = X.shape[1] if last else 1
    Y = _as_it_lies(X)
    for axis in range(len(at.sizes)):
        first, second = Y.view(-1, 2, math.prod(at.sizes[axis + 1:]) * channels).unbind(1)
        Y = torch.maximum(first, second)
    if last:
        return Y.view(X.shape[0], *at.out, channels).movedim(-1, 1)
    return Y.view(*X.shape[:2], *at.out)


def _as_it_lies(X: torch.Tensor) -> torch.Tensor:
    """A contiguous view: the image's axes in the order in which it lies."""
    return X.movedim(1, -1) if is_channels_last(X) else X


def max_pool(xp: Any, X: Any, *, order: str, op: Any) -> Any:
    first, at = reference.place(xp, X, order, op)
    if _is_tiled(at, first):
        return channels_back(xp, _largest_of_tiles(at, first), order)
    # on the CPU, PyTorch also keeps the places of the maxima, which costs more than the few passes of a small window
    small = at.elements <= 4 and X.device.type == "cpu"
    if at.whole or small or not _fits(at, X):
        return reference.MaxPool.kernel(xp, X, order=order, op=op)
    pool = (torch.max_pool1d, torch.max_pool2d, torch.max_pool3d)[len(at.kernel) - 1]
    return channels_back(xp, pool(first, at.kernel, at.stride, at.heads), order)


def max_pool_gradient(xp: Any, X: Any, Y: Any, dY: Any, *, order: str, op: Any) -> Any:
    first, at = reference.place(xp, X, order, op)
    # where dY is not finite, the products below would spread it
    if at.whole or not X.numel() or min(at.heads + at.tails) < 0 or not bool(dY.sum().isfinite()):
        return reference.MaxPoolGradient.kernel(xp, X, Y, dY, order=order, op=op)
    reference.check_gradient(X, Y, at, order)
    reference.check_gradient(X, dY, at, order)
    if _is_tiled(at, first):
        lies = channels_last if is_channels_last(first) else torch.Tensor.contiguous
        Y, dY = (lies(channels_first(xp, a, order)) for a in (Y, dY))
        return channels_back(xp, _to_the_largest_of_tiles(at, first, Y, dY), order)
    if first.ndim == 4 and is_channels_last(first):
        Y, dY = (channels_first(xp, a, order).contiguous(memory_format=torch.channels_last) for a in (Y, dY))
        return channels_back(xp, _to_the_largest_of_pixels(at, first, Y, dY), order)
    images = [channels_first(xp, a, order).reshape(-1, 1, *sizes)
              for a, sizes in ((X, at.sizes), (Y, at.out), (dY, at.out))]
    dX = torch.empty_like(images[0])
    step = max(1, _CACHED // max(1, math.prod(at.sizes)))
    for start in range(0, dX.shape[0], step):
        part = slice(start, start + step)
        dX[part] = _to_the_largest(xp, at, *(a[part] for a in images))
    return channels_back(xp, dX.reshape(first.shape), order)


def _to_the_largest(xp: Any, at: Placed, X: Any, Y: Any, dY: Any) -> Any:
    """What max pooling of (N, 1, sizes) passes back; in a tie every largest element receives the gradient."""
    P = at.padded(xp, X, float("-inf"))
    dP = torch.zeros_like(P)
    largest = torch.empty_like(Y)
    for where in at.slices():
        torch.eq(P[where], Y, out=largest)
        dP[where].addcmul_(largest, dY)
    return at.cropped(xp, dP)


def _to_the_largest_of_pixels(at: Placed, X: torch.Tensor, Y: torch.Tensor, dY: torch.Tensor) -> torch.Tensor:
    """The same for images whose channels lie side by side, some rows at a time."""
    (N, C, H, W), (top, left), (step_h, step_w) = X.shape, at.heads, at.stride
    bordered = bool(any(at.heads) or any(at.tails))
    if bordered:
        P = X.new_full((N, H + top + at.tails[0], W + left + at.tails[1], C), float("-inf")).permute(0, 3, 1, 2)
        P[:, :, top:top + H, left:left + W] = X
    else:
        P = X
    dP = torch.zeros_like(P)
    rows = max(1, _CACHED // max(1, step_h * P.shape[3] * C))
    largest = torch.empty_like(Y[:1, :, :rows])
    for n in range(N):
        for a in range(0, at.out[0], rows):
            b = min(at.out[0], a + rows)
            y, dy, same = Y[n:n + 1, :, a:b], dY[n:n + 1, :, a:b], largest[:, :, :b - a]
            for i in range(at.kernel[0]):
                for j in range(at.kernel[1]):
                    where = (slice(n, n + 1), slice(None), slice(i + step_h * a, i + step_h * (b - 1) + 1, step_h),
                             slice(j, j + step_w * (at.out[1] - 1) + 1, step_w))
                    torch.eq(P[where], y, out=same)
                    dP[where].addcmul_(same, dy)
    return dP[:, :, top:top + H, left:left + W] if bordered else dP


def _to_the_largest_of_tiles(at: Placed, X: torch.Tensor, Y: torch.Tensor, dY: torch.Tensor) -> torch.Tensor:
    """The same for windows of two along every axis, without overlap. All three lie alike."""
    last = is_channels_last(X)
    channels = X.shape[1] if last else 1
    if last:
        twice = torch.arange(at.sizes[-1]) // 2
        doubled = [a.movedim(1, -1).reshape(-1, at.out[-1], channels).index_select(1, twice) for a in (Y, dY)]
    else:
        doubled = [torch.view_as_real(torch.complex(a, a)) for a in (Y, dY)]
    along = [part for n in at.out[:-1] for part in (n, 2)]  # every axis but the last: windows, and what is in them
    wide = [a.view(-1, *(1 if k % 2 else n for k, n in enumerate(along)), at.sizes[-1] * channels) for a in doubled]
    tiles = _as_it_lies(X).view(-1, *along, at.sizes[-1] * channels)
    largest = torch.empty_like(tiles)
    torch.eq(tiles, wide[0], out=largest)
    dX = largest.mul_(wide[1])
    if last:
        return dX.view(X.shape[0], *at.sizes, channels).movedim(-1, 1)
    return dX.view(X.shape)


def average_pool(xp: Any, X: Any, *, order: str, count_include_pad: bool, op: Any) -> Any:
    first, at = reference.place(xp, X, order, op)
    # PyTorch's in three dimensions wants the window to fit the image without its padding
    tight = len(at.kernel) == 3 and any(k > size for k, size in zip(at.kernel, at.sizes, strict=True))
    if at.whole or tight or not _fits(at, X):
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
    override(f"MaxPool{_rank}Gradient")(max_pool_gradient)
    override(f"AveragePool{_rank}")(average_pool)
    override(f"AveragePool{_rank}Gradient")(average_pool_gradient)
