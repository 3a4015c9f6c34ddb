"""Caffe2's `GradientRegistry` and `IR`: rules of single operators, and backward passes of plain operator lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from netgrad.autodiff import accumulate, encoding, python_rules
from netgrad.autodiff.backward import Ys, build
from netgrad.autodiff.errors import MissingOutputGradientError, MissingRuleError, describe
from netgrad.autodiff.rule_context import Cotangent, RuleContext
from netgrad.autodiff.walk import Walk, counts_of
from netgrad.graph.blob import BlobReference
from netgrad.graph.operator import GradientSlice
from netgrad.graph.rules import GradientNotProvided, NoRule
from netgrad.proto import caffe2_pb2


class GradientRegistry:
    """Rules by operator type, and the backward pass of plain operator lists."""

    gradient_registry_ = python_rules.registered

    @classmethod
    def RegisterGradient(cls, op_type: str, override: bool = False) -> Callable[[Any], Any]:
        """Decorator: registers ``f(op, output_gradients) -> (operators, input_gradients)`` for an operator type.

        It takes effect for types without a rule of their own; with ``override=True`` for any.
        """

        def wrapper(function: Any) -> Any:
            python_rules.register(op_type, function, override=override)
            return function

        return wrapper

    @classmethod
    def GetGradientForOp(cls, op: Any, g_output: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The gradient operators of one operator, and the gradients of its inputs (None, name or `GradientSlice`).

        Raises:
            MissingRuleError: there is no rule, or it refused; the message says why.
        """
        ops, gradients = rule_of_one(op, [_given(g) for g in g_output])
        return ops, gradients

    @classmethod
    def GetBackwardPass(cls, operators: Sequence[Any], ys: Ys, ys_generate_gradient: bool = False,
                        **options: Any) -> tuple[list[Any], dict[Any, Any]]:
        """Gradient operators for a list of operators, and the map blob -> gradient name or slice.

        ``options`` are those of `build`. With ``overwritten="save"`` use `Net.AddGradientOperators`: saving changes the
        forward operators too.
        """
        if options.get("overwritten", "error") != "error":
            raise ValueError("GetBackwardPass cannot change the forward operators: use Net.AddGradientOperators to "
                             "save overwritten values")
        backward = build(operators, ys, **options)
        return backward.operators(), {blob: BlobReference(g) if isinstance(g, str) else
                                      GradientSlice(*map(BlobReference, g)) for blob, g in backward.gradients.items()}


GetBackwardPass = GradientRegistry.GetBackwardPass


def _given(gradient: Any) -> Any:
    if gradient is None or isinstance(gradient, GradientSlice):
        return gradient
    if isinstance(gradient, (list, tuple)):
        return GradientSlice(*gradient)
    return str(gradient)


def rule_of_one(op: Any, g_output: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Applies the rule of one operator outside of any net; see `GradientRegistry.GetGradientForOp`."""
    walk = Walk([op])
    walk.in_pass = False
    forward = walk.forward
    gos: list[Cotangent | None] = []
    for gradient in g_output:
        if isinstance(gradient, GradientSlice):
            gos.append((walk.new_value(str(gradient.indices)), walk.new_value(str(gradient.values))))
        else:
            gos.append(None if gradient is None else walk.new_value(str(gradient)))
    gos += [None] * (len(forward.outs[0]) - len(gos))
    context = RuleContext(walk, 0, op, gos)
    rule = python_rules.find(op.type)
    try:
        if rule is None:
            raise NoRule(python_rules.why_none(op.type))
        if problems := counts_of(op.type, len(op.input), len(op.output)):
            raise NoRule(f"it does not pass its schema: {'; '.join(problems)}")
        rule(context)
    except GradientNotProvided as missing:
        raise MissingOutputGradientError(
            f"no gradient for {describe(op)}: it needs the gradient of its output "
            f"{context.output_name(missing.output)!r}, which is not provided") from None
    except NoRule as reason:
        raise MissingRuleError(f"no gradient for {describe(op)}: {reason}") from None
    names = walk.names
    found: list[Any] = [None] * len(forward.ins[0])
    for k, gradient, _, _ in context.finish():
        if isinstance(gradient, tuple):
            found[k] = GradientSlice(names[gradient[0]], names[gradient[1]])
        else:
            found[k] = names[gradient]
    encoding.write_nets(context.emitted, names)
    return list(caffe2_pb2.NetDef.FromString(encoding.encode(context.emitted, names)).op), found


class IR(NamedTuple):
    """Caffe2's intermediate representation, as far as scripts use it: tags, and the backward pass of its operators."""

    operators: Sequence[Any]

    def GetBackwardPass(self, ys: Ys) -> tuple[list[Any], dict[Any, Any]]:
        return GetBackwardPass(self.operators, ys)


IR.IS_AUTO_GEN_SUM_OPS_TAG = accumulate.AUTO_SUM_TAG  # type: ignore[attr-defined]
IR.ONLY_KEEP_IS_AUTO_GEN_SUM_OPS_TAG = accumulate.ONLY_KEEP_TAG  # type: ignore[attr-defined]
