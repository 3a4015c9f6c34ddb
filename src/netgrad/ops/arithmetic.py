"""Arithmetic on two or more tensors, broadcasting, and its derivatives."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Bool
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.rules import Rule
from netgrad.graph.shapes import same_as


class WeightedSum(Operator):
    """Y = w_0 X_0 + w_1 X_1 + ..., each weight a single number in a blob."""

    inputs = [In("X", "all of one shape", variadic=True), In("weight", "one element", variadic=True)]
    outputs = [Out("Y", "like X_0")]
    arguments = [Bool("grad_on_w", False, "give the weights gradients too")]
    inplace = {(0, 0)}
    shape = same_as(0)

    def kernel(xp: Any, *pairs: Any) -> Any:
        total = pairs[0] * xp.reshape(pairs[1], ())
        for X, weight in zip(pairs[2::2], pairs[3::2], strict=True):
            total = total + X * xp.reshape(weight, ())
        return total

    def gradient(op: Rule) -> None:
        wanted = list(range(0, op.num_inputs, 2))
        if op.arg("grad_on_w", 0):
            wanted += range(1, op.num_inputs, 2)
        op.emit("WeightedSumGradient", [op.GO(0), *map(op.I, range(op.num_inputs))], [op.GI(k) for k in wanted])


class WeightedSumGradient(Operator):
    """dX_k = w_k dY; with grad_on_w also dw_k = sum(X_k dY)."""

    inputs = [In("dY"), In("X", variadic=True), In("weight", variadic=True)]
    outputs = [Out("dX", variadic=True)]
    arguments = [Bool("grad_on_w", False)]
    internal = True

    def shape_only(arguments: Any, count: int) -> set[int]:
        return set() if arguments["grad_on_w"] else set(range(1, count, 2))

    def kernel(xp: Any, dY: Any, *pairs: Any, grad_on_w: bool) -> Any:
        gradients = [dY * xp.reshape(weight, ()) for weight in pairs[1::2]]
        if grad_on_w:
            gradients += [xp.reshape(xp.sum(X * dY), w.shape) for X, w in zip(pairs[::2], pairs[1::2], strict=True)]
        return tuple(gradients)
