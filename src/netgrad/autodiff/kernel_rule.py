"""The rule of operators that have none by hand: one `VectorJacobianProduct` that carries the operator.

It serves the gradient operators of `netgrad.ops`, so that nets are differentiated twice, and whoever declares
``gradient = netgrad.through_kernel``. Its derivative is the rule itself, applied to the operator that it emitted.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Any

from netgrad.graph import registry
from netgrad.graph.declaration import Operator
from netgrad.graph.rules import NoRule
from netgrad.proto import caffe2_pb2

if TYPE_CHECKING:
    from netgrad.autodiff.rule_context import RuleContext

TYPE = "VectorJacobianProduct"


def serves(declaration: type[Operator] | None) -> bool:
    """Whether an operator without a rule is differentiated through its kernel: the gradient operators are."""
    return declaration is not None and declaration.gradient is None and declaration.internal and \
        not why_not(declaration)


def why_not(declaration: type[Operator]) -> str:
    """Why a kernel cannot be followed, as far as its declaration tells; "" where it can."""
    if declaration.kernel is None:
        return "it has no kernel here"
    if declaration.host and declaration.strings:
        return "it is computed on the host, outside of xp"
    if declaration.effects - {"state"}:  # state is read and made anew: the kernel is a function all the same
        return f"running it has effects ({', '.join(sorted(declaration.effects))})"
    return ""


def apply(rule: RuleContext, among: Container[int] | None = None) -> None:
    """Emits the product of the gradients that have arrived with the kernel's derivatives.

    Args:
        among: the inputs whose gradients count; None: all by which the kernel has a derivative.
    """
    declaration = registry.find(rule.type)
    reason = "it is not known" if declaration is None else why_not(declaration)
    if declaration is None or reason:
        raise rule.fail(f"its derivative is to be had from its kernel, but {reason}")
    by = [k for k in differentiable(rule.op, rule.num_inputs) if rule.wants(k) and (among is None or k in among)]
    given = [k for k in range(rule.num_outputs) if rule.has_GO(k) and _is_differentiable(declaration, k)]
    if not by or not given:
        return
    carried = caffe2_pb2.NetDef(op=[_carried(rule, declaration)])
    rule.copy_arguments = rule.copy_engine = False
    rule.emit(TYPE, [*map(rule.I, range(rule.num_inputs)), *map(rule.GO, given)], [rule.GI(k) for k in by],
              net=carried, by=by, given=given)


def _is_differentiable(declaration: type[Operator], k: int) -> bool:
    slot = declaration.slot(declaration.outputs, k)
    return slot is None or bool(slot.differentiable)


def differentiable(op: Any, count: int) -> list[int]:
    """Inputs of an operator by which its kernel has a derivative: no indices, and nothing read for its shape alone."""
    declaration = registry.find(op.type)
    if op.type == TYPE:
        inner, given = _carried_by(op)
        return [*differentiable(inner, count - given), *range(count - given, count)]
    assert declaration is not None
    without = shapes_only(op, count)
    if declaration.differentiable_inputs is not None:
        return [k for k in declaration.differentiable_inputs(count) if k not in without]
    found = []
    for k in range(count):
        slot = declaration.slot(declaration.inputs, k)
        if k not in without and (slot is None or slot.differentiable) and (k >= len(op.input) or op.input[k]):
            found.append(k)
    return found


def shapes_only(op: Any, count: int) -> frozenset[int]:
    """Inputs that an operator reads for their shape alone."""
    from netgrad.graph.arguments import parse_arguments

    declaration = registry.find(op.type)
    if declaration is None:
        return frozenset()
    if declaration.shape_only is not None:
        return frozenset(declaration.shape_only(parse_arguments(op, declaration.argument_table), count))
    slots = (declaration.slot(declaration.inputs, k) for k in range(count))
    return frozenset(k for k, slot in enumerate(slots) if slot is not None and slot.shape_only)


def _carried_by(op: Any) -> tuple[Any, int]:
    """The operator that a `VectorJacobianProduct` carries, and how many of its outputs' gradients are given."""
    arguments = {argument.name: argument for argument in op.arg}
    ops = list(arguments["net"].n.op) if "net" in arguments else []
    if len(ops) != 1:
        raise NoRule(f"its argument net holds {len(ops)} operators; it must hold the one that is differentiated")
    return ops[0], len(arguments["given"].ints) if "given" in arguments else 0


def _carried(rule: RuleContext, declaration: type[Operator]) -> Any:
    """The operator by itself: its blobs are called what its declaration calls them, so that equal ones are equal."""
    made = caffe2_pb2.OperatorDef(type=rule.type, arg=rule.op.arg)
    if rule.op.is_gradient_op:
        made.is_gradient_op = True
    inputs = [rule.input_name(k) and _slot_name(declaration, declaration.inputs, k) for k in range(rule.num_inputs)]
    outputs = [rule.output_name(k) and _slot_name(declaration, declaration.outputs, k) for k in range(rule.num_outputs)]
    made.input.extend(_distinct(inputs, set()))
    made.output.extend(_distinct(outputs, set(made.input)))
    for i, o in declaration.inplace_required:
        if i < len(made.input) and o < len(made.output):
            made.output[o] = made.input[i]
    return made


def _slot_name(declaration: type[Operator], slots: Any, k: int) -> str:
    slot = declaration.slot(slots, k)
    return "x" if slot is None else str(slot.name).replace(" ", "_")


def _distinct(names: Iterable[str], taken: set[str]) -> list[str]:
    found = []
    for name in names:
        own, n = name, 1
        while own and own in taken:
            own, n = f"{name}_{n}", n + 1
        taken.add(own)
        found.append(own)
    return found
