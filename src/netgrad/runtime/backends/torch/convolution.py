"""Convolutions by PyTorch's own kernels."""

from __future__ import annotations

from typing import Any

import torch

from netgrad.ops import convolution as reference
from netgrad.ops._arrays import channels_back, channels_first, require_shape
from netgrad.ops._windows import Placed, join_dims
from netgrad.runtime.backends.torch import override


def _border(xp: Any, X: torch.Tensor, at: Placed) -> tuple[torch.Tensor, tuple[int, ...]]:
    """X and the padding that the kernel is to add: the same on both sides, or none where X got its border here."""
    if at.heads == at.tails and min(at.heads) >= 0:
        return X, at.heads
    return at.padded(xp, X), (0,) * len(at.heads)


def convolution(xp: Any, X: Any, filter: Any, bias: Any, *, order: str, group: int, op: Any) -> Any:
    first, weights, at = reference.place(xp, X, filter, order, group, op)
    if len(at.kernel) > 3 or not weights.numel():
        return reference.Conv.kernel(xp, X, filter, bias, order=order, group=group, op=op)
    if bias is not None:
        require_shape("the bias", bias, weights.shape[:1], ", one number per filter")
    first, padding = _border(xp, first, at)
    Y = torch.convolution(first, weights, bias, at.stride, padding, at.dilation, False, (0,) * len(padding), group)
    return channels_back(xp, Y, order)


def convolution_and_activation(xp: Any, X: Any, filter: Any, bias: Any, *, order: str, group: int, op: Any) -> Any:
    """Conv, and the Relu that was fused into it (argument ``activation``)."""
    Y = convolution(xp, X, filter, bias, order=order, group=group, op=op)
    return torch.relu(Y) if reference.fused_relu(op) else Y


def convolution_gradient(xp: Any, X: Any, filter: Any, dY: Any, *, order: str, group: int, no_bias: bool,
                         op: Any) -> Any:
    first, weights, at = reference.place(xp, X, filter, order, group, op)
    wanted = join_dims(first.shape[0], weights.shape[0], at.out, order)
    require_shape("the output's gradient", dY, wanted, ", the output's")
    if len(at.kernel) > 3 or not dY.numel() or not weights.numel():
        return reference.ConvGradient.kernel(xp, X, filter, dY, order=order, group=group, no_bias=no_bias, op=op)
    wants_image = op.num_outputs > (1 if no_bias else 2)
    gray = wants_image and first.shape[1] == 1 and len(at.kernel) == 2 and first.device.type == "cpu"
    bordered, padding = _border(xp, first, at)
    dy = channels_first(xp, dY, order)
    dX, dfilter, dbias = torch.ops.aten.convolution_backward(
        dy, bordered, weights, None if no_bias else [weights.shape[0]], at.stride, padding, at.dilation, False,
        (0,) * len(padding), group, (wants_image and not gray, True, not no_bias))
    if gray:
        dX = _gray_gradient(dy, weights, bordered.shape[2:], padding, at)
    gradients = [channels_back(xp, dfilter, order)]
    if not no_bias:
        gradients.append(dbias)
    if wants_image:
        gradients.append(channels_back(xp, at.cropped(xp, dX) if bordered is not first else dX, order))
    return tuple(gradients)


def _gray_gradient(dY: torch.Tensor, weights: torch.Tensor, sizes: Any, padding: Any, at: Placed) -> torch.Tensor:
    """dX of images of one channel, by one product and a sum of windows: PyTorch's kernels want more channels."""
    windows = torch.matmul(weights.reshape(weights.shape[0], -1).t(), dY.flatten(2))
    return torch.nn.functional.fold(windows, sizes, at.kernel, at.dilation, padding, at.stride)


for _rank in ("", "1D", "2D", "3D"):
    override(f"Conv{_rank}")(convolution)
    override(f"Conv{_rank}Gradient")(convolution_gradient)
override("Conv", engine="NNPACK")(convolution_and_activation)
