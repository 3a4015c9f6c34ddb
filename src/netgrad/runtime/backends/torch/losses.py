"""The softmax loss through torch's own kernels, in its common form: class numbers, no weights."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from netgrad.ops import losses as reference
from netgrad.ops._arrays import canonical_axis, require_labels, require_shape, require_size, rows
from netgrad.runtime.backends.torch import override


def _classes(xp: Any, labels: Tensor, count: int, classes: int) -> Tensor:
    """The labels as a column of int64; raises ValueError for one that is no class."""
    require_size("the label", labels, count, ", one per row")
    require_labels(xp, labels, classes)
    return labels.reshape(-1, 1).long()


def _of_classes(xp: Any, rows: Tensor, labels: Tensor) -> Tensor:
    """The entry of each row at its label; raises ValueError for a label that is no class."""
    if labels.numel() == rows.shape[0]:
        with contextlib.suppress(RuntimeError):  # of gather, for labels out of range; below it is said which
            return rows.gather(1, labels.reshape(-1, 1).long())
    return rows.gather(1, _classes(xp, labels, *rows.shape))


@override("SoftmaxWithLoss")
def softmax_with_loss(xp: Any, logits: Tensor, labels: Tensor, weight_tensor: Tensor | None, *, label_prob: int,
                      axis: int, scale: float, average_by_batch_size: bool) -> Any:
    if label_prob or weight_tensor is not None or not logits.numel() or labels.is_floating_point():
        return reference.SoftmaxWithLoss.kernel(xp, logits, labels, weight_tensor, label_prob=label_prob, axis=axis,
                                                scale=scale, average_by_batch_size=average_by_batch_size)
    X = rows(xp, logits, canonical_axis(axis, logits.ndim))
    logs = torch.log_softmax(X, 1)
    loss = _of_classes(xp, logs, labels).sum() * (-scale / X.shape[0])
    return logs.exp().reshape(logits.shape), loss, logits.new_zeros(0)


@override("SoftmaxWithLossGradient")
def softmax_with_loss_gradient(xp: Any, logits: Tensor, labels: Tensor, *rest: Tensor, label_prob: int, axis: int,
                               scale: float, average_by_batch_size: bool) -> Any:
    if label_prob or len(rest) != 2 or not logits.numel() or labels.is_floating_point():
        return reference.SoftmaxWithLossGradient.kernel(xp, logits, labels, *rest, label_prob=label_prob, axis=axis,
                                                        scale=scale, average_by_batch_size=average_by_batch_size)
    softmax, dloss = rest
    require_shape("the softmax", softmax, logits.shape, ", the logits'")
    require_size("the loss's gradient", dloss, 1)
    P = rows(xp, softmax, canonical_axis(axis, softmax.ndim))
    factor = dloss.reshape(()) * (scale / P.shape[0])
    slope = P * factor
    column = _classes(xp, labels, *P.shape)
    return slope.scatter_add_(1, column, -factor.expand_as(column)).reshape(softmax.shape)
