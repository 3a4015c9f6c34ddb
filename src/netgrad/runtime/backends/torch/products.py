"""Gradients of weights that are not made before somebody wants them: a product, and what goes into it."""

from __future__ import annotations

import torch
from torch import Tensor


class Product:
    """dW = dY^T X of a fully connected layer, not computed so far.

    Args:
        dY: (N, M).
        X: (N, K).
    """

    __slots__ = ("X", "dY")

    def __init__(self, dY: Tensor, X: Tensor) -> None:
        self.dY = dY
        self.X = X

    def __call__(self) -> Tensor:
        with torch.no_grad():
            return torch.mm(self.dY.t(), self.X)

    def fits(self, W: Tensor) -> bool:
        """Whether it has the shape and type of the weights."""
        return W.shape == (self.dY.shape[1], self.X.shape[1]) and W.dtype == self.X.dtype and W.device == self.X.device

    def add_to(self, W: Tensor, beta: float, alpha: float) -> None:
        """W becomes beta W + alpha dW."""
        if not alpha or not beta:  # for addmm, nothing times NaN or an infinity is nothing
            W.mul_(beta).add_(self(), alpha=alpha)
            return
        W.addmm_(self.dY.t(), self.X, beta=beta, alpha=alpha)


def layer_gradient(X: Tensor, W: Tensor, dY: Tensor, wants_dX: bool) -> tuple[Product, Tensor, Tensor | None] | None:
    """dW, db, dX of a fully connected layer; None where its inputs are of another kind than the usual."""
    if X.ndim < 2 or not X.numel() or not X.dtype == W.dtype == dY.dtype or not X.is_floating_point():
        return None
    rows = X.reshape(X.shape[0], -1)
    if not W.ndim == dY.ndim == 2 or rows.shape[0] != dY.shape[0] or W.shape != (dY.shape[1], rows.shape[1]):
        return None
    return Product(dY, rows), torch.sum(dY, 0), torch.mm(dY, W).view(X.shape) if wants_dX else None

