"""Activations and their derivatives through torch's own kernels, one pass over memory each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from netgrad.ops._arrays import canonical_axis, rows
from netgrad.ops._broadcasting import expect_like
from netgrad.runtime.backends.torch import override

_aten: Any = torch.ops.aten


@override("Relu")
def relu(xp: Any, X: Tensor) -> Tensor:
    return torch.relu(X)


@override("ReluGradient")
def relu_gradient(xp: Any, Y: Tensor, dY: Tensor) -> Tensor:
    return _aten.threshold_backward(expect_like(dY, Y), Y, 0)


@override("LeakyRelu")
def leaky_relu(xp: Any, X: Tensor, *, alpha: float) -> Tensor:
    return torch.nn.functional.leaky_relu(X, alpha)


@override("LeakyReluGradient")
def leaky_relu_gradient(xp: Any, Y: Tensor, dY: Tensor, *, alpha: float) -> Tensor:
    # dY belongs to Y = 0 here, where torch would scale it
    return torch.where(Y < 0, expect_like(dY, Y) * alpha, dY)


@override("Elu")
def elu(xp: Any, X: Tensor, *, alpha: float) -> Tensor:
    return torch.nn.functional.elu(X, alpha)


@override("Sigmoid")
def sigmoid(xp: Any, X: Tensor) -> Tensor:
    return torch.sigmoid(X)


@override("SigmoidGradient")
def sigmoid_gradient(xp: Any, Y: Tensor, dY: Tensor) -> Tensor:
    return _aten.sigmoid_backward(expect_like(dY, Y), Y)


@override("TanhGradient")
def tanh_gradient(xp: Any, Y: Tensor, dY: Tensor) -> Tensor:
    return _aten.tanh_backward(expect_like(dY, Y), Y)


@override("Swish")
def swish(xp: Any, X: Tensor) -> Tensor:
    return torch.nn.functional.silu(X)


@override("Mish")
def mish(xp: Any, X: Tensor) -> Tensor:
    return torch.nn.functional.mish(X)


@override("Gelu")
def gelu(xp: Any, X: Tensor, *, fast_gelu: bool) -> Tensor:
    return torch.nn.functional.gelu(X, approximate="tanh" if fast_gelu else "none")


@override("GeluGradient")
def gelu_gradient(xp: Any, dY: Tensor, X: Tensor, *, fast_gelu: bool) -> Tensor:
    expect_like(dY, X, model_name="X")
    return _aten.gelu_backward(dY, X, approximate="tanh" if fast_gelu else "none")


@override("Softmax")
def softmax(xp: Any, X: Tensor, *, axis: int) -> Tensor:
    return torch.softmax(rows(xp, X, canonical_axis(axis, X.ndim)), dim=1).reshape(X.shape)


@override("SoftmaxGradient")
def softmax_gradient(xp: Any, Y: Tensor, dY: Tensor, *, axis: int) -> Tensor:
    axis = canonical_axis(axis, Y.ndim)
    gradients, flat = rows(xp, expect_like(dY, Y), axis), rows(xp, Y, axis)
    return _aten._softmax_backward_data(gradients, flat, 1, Y.dtype).reshape(Y.shape)
