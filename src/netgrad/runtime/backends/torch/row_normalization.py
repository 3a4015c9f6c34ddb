"""Layer normalization by PyTorch's own kernels, one pass over memory each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from netgrad.ops import row_normalization as reference
from netgrad.ops._arrays import canonical_axis, require_shape, require_size, rows
from netgrad.runtime.backends.torch import override


def _serves(X: Tensor, *others: Tensor | None) -> bool:
    """Whether PyTorch's kernels compute this: one common float type, and rows that are not empty."""
    return X.dtype in (torch.float32, torch.float64) and X.numel() > 0 and all(
        other is None or other.dtype == X.dtype for other in others)


@override("LayerNorm")
def layer_norm(xp: Any, input: Tensor, gamma: Tensor | None, beta: Tensor | None, *, axis: int, epsilon: float,
               elementwise_affine: bool) -> Any:
    if not elementwise_affine:
        gamma = beta = None
    if not _serves(input, gamma, beta) or (elementwise_affine and (gamma is None or beta is None)):
        return reference.LayerNorm.kernel(xp, input, gamma, beta, axis=axis, epsilon=epsilon,
                                          elementwise_affine=elementwise_affine)
    axis = canonical_axis(axis, input.ndim)
    X = rows(xp, input, axis)
    for name, row in (("gamma", gamma), ("beta", beta)):
        if row is not None:
            require_size(name, row, X.shape[1], ", those of a row")
    Y, mean, inverse = torch.native_layer_norm(X, X.shape[1:], None if gamma is None else gamma.reshape(-1),
                                               None if beta is None else beta.reshape(-1), epsilon)
    statistics = (*input.shape[:axis], 1)
    return Y.reshape(input.shape), mean.reshape(statistics), inverse.reciprocal().reshape(statistics)


@override("LayerNormGradient")
def layer_norm_gradient(xp: Any, dY: Tensor, Y: Tensor, mean: Tensor, stddev: Tensor, X: Tensor, gamma: Tensor | None,
                        *, axis: int) -> Any:
    if not _serves(X, dY, mean, stddev, gamma):
        return reference.LayerNormGradient.kernel(xp, dY, Y, mean, stddev, X, gamma, axis=axis)
    require_shape("the output's gradient", dY, X.shape, ", the input's")
    axis = canonical_axis(axis, X.ndim)
    x, dy = rows(xp, X, axis), rows(xp, dY, axis)
    require_size("the mean", mean, x.shape[0], ", one per row")
    require_size("the deviation", stddev, x.shape[0], ", one per row")
    if gamma is not None:
        require_size("gamma", gamma, x.shape[1], ", those of a row")
    affine = gamma is not None
    row = None if gamma is None else gamma.reshape(-1)
    # of the shift, which is last but one, the kernel wants nothing but its being there
    dX, dgamma, dbeta = torch.ops.aten.native_layer_norm_backward(
        dy, x, x.shape[1:], mean.reshape(-1, 1), stddev.reshape(-1, 1).reciprocal(), row, row, (True, affine, affine))
    dX = dX.reshape(X.shape)
    return dX if gamma is None else (dX, dgamma.reshape(gamma.shape), dbeta.reshape(gamma.shape))
