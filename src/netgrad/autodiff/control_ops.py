"""Caffe2's functions on one control operator: its gradient, its nets, other names for what the gradient writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.autodiff.gradient_registry import rule_of_one
from netgrad.graph.control import net_argument, nets_of


def _gradient(type: str, op: Any, g_output: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    if op.type != type:
        raise AssertionError(f"expected an operator {type}, found {op.type}")
    if len(g_output) != len(op.output):
        raise AssertionError(f"the operator has {len(op.output)} outputs and was given {len(g_output)} gradients; None "
                             "stands for one that there is not")
    return rule_of_one(op, [None if gradient is None else str(gradient) for gradient in g_output])


def gen_do_gradient(op: Any, g_output: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The gradient operators of a Do, and the gradients of its inputs, for those of its outputs."""
    return _gradient("Do", op, g_output)


def gen_if_gradient(op: Any, g_output: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The same for an If."""
    return _gradient("If", op, g_output)


def gen_while_gradient(op: Any, g_output: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The same for a While."""
    return _gradient("While", op, g_output)


def disambiguate_grad_if_op_output(grad_op: Any, idx: int, new_grad_output: str) -> None:
    """Gives an output of a gradient If another name, in both of its nets, too."""
    old = grad_op.output[idx]
    for _, net in nets_of(grad_op):
        for op in net.op:
            op.output[:] = [new_grad_output if name == old else name for name in op.output]
    grad_op.output[idx] = new_grad_output


getNetArgument = net_argument
