"""Layouts of tensors in memory."""

from __future__ import annotations

import torch
from torch import Tensor

#: rank -> the layout with channels side by side
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def channels_last(images: Tensor) -> Tensor:
    """(N, C, H, W) or (N, C, D, H, W), the channels side by side; anything else, and what lies so already, as it is."""
    layout = _CHANNELS_LAST.get(images.ndim)
    if layout is None or not images.is_cpu or not images.numel():
        return images
    if images.shape[1] == 1 and images.is_contiguous():  # both layouts, and torch would take it for the other one
        strides = (images.shape[2:].numel(), 1, *images.stride()[2:])
        return images if images.stride() == strides else images.as_strided(images.shape, strides)
    return images.contiguous(memory_format=layout)


def settled(images: Tensor) -> Tensor:
    """The same images, with the strides that kernels of torch take for granted along sides of length 1.

    A view may have any stride there, and batch normalization takes one of these for another layout.
    """
    if images.ndim not in _CHANNELS_LAST or 1 not in images.shape:
        return images
    if images.is_contiguous():
        order = range(images.ndim)
    elif is_channels_last(images):
        order = (0, *range(2, images.ndim), 1)  # type: ignore[assignment]
    else:
        return images
    strides, step = [0] * images.ndim, 1
    for k in reversed(order):
        strides[k], step = step, step * images.shape[k]
    return images.as_strided(images.shape, strides)


def is_channels_last(images: Tensor) -> bool:
    """Whether the channels lie side by side, and nothing else does."""
    layout = _CHANNELS_LAST.get(images.ndim)
    return layout is not None and not images.is_contiguous() and images.is_contiguous(memory_format=layout)


def is_dense(tensor: Tensor) -> bool:
    """Whether its numbers lie side by side in one of the two layouts."""
    return tensor.is_contiguous() or is_channels_last(tensor)


def copy_like(tensor: Tensor, like: Tensor) -> Tensor:
    """A copy in the layout of another tensor, if that has the same shape and lies densely."""
    if tensor.shape == like.shape and is_dense(like):
        return torch.empty_strided(tensor.shape, like.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)
    return tensor.clone()
