"""Dropout."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Float, Int
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example
from netgrad.graph.rules import Rule
from netgrad.graph.shapes import TensorType, same_as
from netgrad.ops._arrays import require_shape


def _check(ratio: float) -> None:
    if not 0 <= ratio < 1:
        raise ValueError(f"the argument ratio is {ratio}, expected at least 0 and less than 1")


class Dropout(Operator):
    """Y = X with each element dropped by probability ratio and the others divided by 1 - ratio; X itself in test mode.

    Source: Srivastava et al. 2014, https://jmlr.org/papers/v15/srivastava14a.html.
    """

    inputs = [In("X", "any shape, float")]
    outputs = [Out("Y", "like X"), Out("mask", "like X, bool: what was kept", optional=True, differentiable=False)]
    arguments = [Float("ratio", 0.5, "probability of dropping"), Int("is_test", 0, "1: the identity")]
    inplace = {(0, 0)}
    inplace_keeps_shape = True
    shares = {(0, 0)}
    effects = {"random"}
    example = Example(
        {"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]},
        {"Y": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]},
        {"is_test": 1})

    def shape(X: TensorType, **_: Any) -> tuple[TensorType, TensorType]:
        return X, X.with_dtype("bool")

    def kernel(xp: Any, X: Any, *, ratio: float, is_test: int, op: Any) -> Any:
        _check(ratio)
        if is_test:
            return X, xp.ones_like(X, dtype=xp.bool)
        kept = xp.from_numpy(op.rng.uniform(tuple(X.shape)) >= ratio, like=X)
        return xp.where(kept, X * (1 / (1 - ratio)), xp.zeros_like(X)), kept

    def gradient(op: Rule) -> None:
        if op.arg("is_test", 0):
            op.emit("DropoutGrad", [op.GO(0)], [op.GI(0)])
        elif op.num_outputs < 2:
            raise op.fail("in training it needs its second output, the mask (or is_test=1)")
        else:
            op.emit("DropoutGrad", [op.GO(0), op.O(1)], [op.GI(0)])


class DropoutGrad(Operator):
    """dX = dY where the element was kept, divided by 1 - ratio; dY itself in test mode."""

    inputs = [In("dY", "float"), In("mask", "like dY, bool", optional=True)]
    outputs = [Out("dX", "like dY")]
    arguments = [Float("ratio", 0.5), Int("is_test", 0)]
    inplace = {(0, 0)}
    shares = {(0, 0)}
    internal = True
    shape = same_as(0)
    example = Example(
        {"dY": [[1.0, 0.5, 2.0], [-1.0, 0.25, 3.0]]},
        {"dX": [[1.0, 0.5, 2.0], [-1.0, 0.25, 3.0]]},
        {"is_test": 1})

    def shape_only(arguments: Any, count: int) -> set[int]:
        return {1} if arguments["is_test"] and count > 1 else set()

    def kernel(xp: Any, dY: Any, mask: Any, *, ratio: float, is_test: int) -> Any:
        _check(ratio)
        if is_test:
            return dY
        require_shape("the mask", mask, dY.shape, ", the gradient's")
        return xp.where(mask, dY * (1 / (1 - ratio)), xp.zeros_like(dY))
