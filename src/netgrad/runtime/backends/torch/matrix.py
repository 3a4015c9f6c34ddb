"""Fully connected layers in one fused product and sum."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from netgrad.ops.matrix import FCGradient, fully_connected
from netgrad.runtime.backends.torch import override


def _layer(xp: Any, X: Tensor, W: Tensor, b: Tensor, axis: int, axis_w: int, transposed: bool) -> Tensor:
    weights = W if transposed else W.t() if W.ndim == 2 else W
    plain = X.ndim == W.ndim == 2 and axis == axis_w == 1
    if plain and X.dtype == W.dtype == b.dtype and X.shape[1] == weights.shape[0] and b.shape == weights.shape[1:]:
        return torch.addmm(b, X, weights)
    return fully_connected(xp, X, W, b, axis, axis_w, transposed)


@override("FC")
def fc(xp: Any, X: Tensor, W: Tensor, b: Tensor, *, axis: int, axis_w: int) -> Tensor:
    return _layer(xp, X, W, b, axis, axis_w, transposed=False)


@override("FCTransposed")
def fc_transposed(xp: Any, X: Tensor, W: Tensor, b: Tensor, *, axis: int, axis_w: int) -> Tensor:
    return _layer(xp, X, W, b, axis, axis_w, transposed=True)


@override("FCGradient")
def fc_gradient(xp: Any, X: Tensor, W: Tensor, dY: Tensor, *, axis: int, axis_w: int, op: Any) -> tuple[Tensor, ...]:
    if not (X.ndim == W.ndim == dY.ndim == 2 and axis == axis_w == 1 and X.shape[0] == dY.shape[0]
            and W.shape == (dY.shape[1], X.shape[1])):
        result: tuple[Tensor, ...] = FCGradient.kernel(xp, X, W, dY, axis=axis, axis_w=axis_w, op=op)  # type: ignore[misc]
        return result
    dW, db = torch.mm(dY.t(), X), torch.sum(dY, 0)
    return (dW, db, torch.mm(dY, W)) if op.num_outputs == 3 else (dW, db)
