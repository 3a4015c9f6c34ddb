"""Operators that steer the backward pass and pass values on unchanged."""

from __future__ import annotations

from typing import Any

from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example
from netgrad.graph.rules import NoGradient, Rule, emits
from netgrad.graph.shapes import same_as


class StopGradient(Operator):
    """The input; no gradient flows back through it."""

    inputs = [In("input")]
    outputs = [Out("output", "the input")]
    strings = True
    inplace = {(0, 0)}
    shape = same_as(0)
    shares = {(0, 0)}
    gradient = NoGradient("the flow is stopped here on purpose")
    example = Example({"input": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"output": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]})

    def kernel(xp: Any, input: Any) -> Any:
        return input


class NegateGradient(Operator):
    """The input; its gradient is the negative of the output's."""

    inputs = [In("input")]
    outputs = [Out("output", "the input")]
    strings = True
    inplace = {(0, 0)}
    shape = same_as(0)
    shares = {(0, 0)}
    gradient = emits("Negative", "GO0", "GI0")
    example = Example(
        {"input": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]},
        {"output": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]},
        wrt=())

    def kernel(xp: Any, input: Any) -> Any:
        return input


class ZeroGradient(Operator):
    """Does nothing; on the way back its input takes a gradient of zeros, whether or not others arrive."""

    inputs = [In("input", shape_only=True)]
    strings = True
    example = Example({"input": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {})

    def kernel(xp: Any, input: Any) -> Any:
        return ()

    def gradient(op: Rule) -> None:
        op.emit("ConstantFill", [op.I(0)], [op.GI(0)], value=0.0)
