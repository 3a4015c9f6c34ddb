"""Batch normalization by PyTorch's own kernels."""

from __future__ import annotations

from typing import Any

import torch

from netgrad.ops import normalization as reference
from netgrad.ops._arrays import channels_back, channels_first, require_shape
from netgrad.runtime.backends.torch import override
from netgrad.runtime.backends.torch.layouts import settled


@override("SpatialBN")
def spatial_bn(xp: Any, X: Any, scale: Any, bias: Any, mean: Any, var: Any, sums: Any, sumsq: Any, *, is_test: int,
               epsilon: float, order: str, momentum: float, num_batches: int, op: Any) -> Any:
    x = channels_first(xp, X, order)
    if num_batches > 1 or x.numel() <= x.shape[1] or (not is_test and op.num_outputs != 5):
        return reference.SpatialBN.kernel(xp, X, scale, bias, mean, var, sums, sumsq, is_test=is_test, epsilon=epsilon,
                                          order=order, momentum=momentum, num_batches=num_batches, op=op)
    reference.require_vectors(x.shape[1], scale=scale, bias=bias, mean=mean, var=var)
    if is_test:
        Y, _, _ = torch.native_batch_norm(x, scale, bias, mean, var, False, 0.0, epsilon)
        return channels_back(xp, Y, order)
    mean, var = mean.clone(), var.clone()  # they are updated in place
    Y, batch_mean, inv_std = torch.native_batch_norm(x, scale, bias, mean, var, True, 1 - momentum, epsilon)
    return channels_back(xp, Y, order), mean, var, batch_mean, inv_std


@override("SpatialBNGradient")
def spatial_bn_gradient(xp: Any, X: Any, scale: Any, dY: Any, mean: Any, inv_std: Any, dscale_sum: Any,
                        dbias_sum: Any, *, is_test: int, epsilon: float, order: str, num_batches: int) -> Any:
    if num_batches > 1 or not X.numel():
        return reference.SpatialBNGradient.kernel(
            xp, X, scale, dY, mean, inv_std, dscale_sum, dbias_sum, is_test=is_test, epsilon=epsilon, order=order,
            num_batches=num_batches)
    require_shape("the output's gradient", dY, X.shape, ", the input's")
    x, dy = settled(channels_first(xp, X, order)), settled(channels_first(xp, dY, order))
    reference.require_vectors(x.shape[1], scale=scale, mean=mean, inv_std=inv_std)
    running = (mean, inv_std) if is_test else (None, None)  # in test mode the second holds the variance
    saved = (None, None) if is_test else (mean, inv_std)
    dX, dscale, dbias = torch.ops.aten.native_batch_norm_backward(
        dy, x, scale, *running, *saved, not is_test, epsilon, (True, True, True))
    return channels_back(xp, dX, order), dscale, dbias
