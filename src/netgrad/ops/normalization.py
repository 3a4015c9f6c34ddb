"""Normalization: batch, instance, group, layer, local response."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Float, Int, Str
from netgrad.graph.declaration import In, Operator, Out, counts
from netgrad.graph.rules import Rule
from netgrad.graph.shapes import TensorType


class SpatialBN(Operator):
    """Batch normalization over all axes but the channels'.

    In training, batch statistics are used and the running ones updated in place; in test mode the running ones are used.
    Source: Ioffe and Szegedy 2015, https://arxiv.org/abs/1502.03167.
    """

    inputs = [
        In("X", "(N, C, ...) or (N, ..., C), float"), In("scale", "(C,)"), In("bias", "(C,)"),
        In("mean", "running mean, (C,)"), In("var", "running variance, (C,)"),
        In("sums", "per-channel sums when several batches form one", optional=True),
        In("sumsq", "per-channel sums of squares, likewise", optional=True),
    ]
    outputs = [
        Out("Y", "like X"),
        Out("mean", "updated running mean", optional=True, differentiable=False),
        Out("var", "updated running variance", optional=True, differentiable=False),
        Out("saved_mean", "mean of this batch", optional=True, differentiable=False),
        Out("saved_inv_std", "1 / sqrt(variance of this batch + epsilon)", optional=True, differentiable=False),
    ]
    num_inputs = counts(5, 7)
    num_outputs = counts(1, 5)
    arguments = [
        Int("is_test", 0), Float("epsilon", 1e-5), Str("order", "NCHW"),
        Float("momentum", 0.9, "weight of the old running value"), Int("num_batches", 1),
    ]
    inplace = {(0, 0), (5, 3), (6, 4)}
    inplace_required = {(3, 1), (4, 2)}
    effects = {"state"}

    def shape(X: TensorType, scale: TensorType, *_: TensorType, **arguments: Any) -> tuple[TensorType, ...]:
        return (X, scale, scale, scale, scale)

    inplace_keeps_shape = True

    def gradient(op: Rule) -> None:
        if op.arg("is_test", 0):
            if op.num_outputs != 1:
                raise op.fail("in test mode it must have one output")
            statistics = [op.I(3), op.I(4)]
        else:
            if op.num_outputs != 5:
                raise op.fail("in training it needs its five outputs, the saved statistics among them")
            statistics = [op.O(3), op.O(4)]
        op.emit("SpatialBNGradient", [op.I(0), op.I(1), op.GO(0), *statistics], [op.GI(0), op.GI(1), op.GI(2)])
