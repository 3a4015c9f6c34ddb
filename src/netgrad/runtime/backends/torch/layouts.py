"""Layouts of tensors in memory."""

from __future__ import annotations

import torch
from torch import Tensor


def channels_last(images: Tensor) -> Tensor:
    """(N, C, H, W), its channels side by side; anything else, and what lies so already, as it is."""
    if images.ndim != 4 or not images.is_cpu or not images.numel():
        return images
    if images.shape[1] == 1 and images.is_contiguous():  # both layouts, and torch would take it for the other one
        _, _, height, width = images.shape
        strides = (height * width, 1, width, 1)
        return images if images.stride() == strides else images.as_strided(images.shape, strides)
    return images.contiguous(memory_format=torch.channels_last)


def is_dense(tensor: Tensor) -> bool:
    """Whether its numbers lie side by side in one of the two layouts."""
    return tensor.is_contiguous() or (tensor.ndim == 4 and tensor.is_contiguous(memory_format=torch.channels_last))


def copy_like(tensor: Tensor, like: Tensor) -> Tensor:
    """A copy in the layout of another tensor, if that has the same shape and lies densely."""
    if tensor.shape == like.shape and is_dense(like):
        return torch.empty_strided(tensor.shape, like.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)
    return tensor.clone()
