"""Derivatives of the gradients of control flow and recurrence: by running forward and gradient operators anew.

The gradient of a While reads, off a stack, what the rounds left, and has taken it away when a second pass comes. So the
second pass makes a net of all operators on that stack, forward ones and gradient, as a function of the values that they
read: the operator `NetVectorJacobianProduct` runs it in a workspace of its own and follows what it does. Values are put
under the names that the operators use just before each of them, so that it does not matter what became of these names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from netgrad.autodiff import dependence, python_rules
from netgrad.autodiff.errors import describe
from netgrad.graph import control, registry
from netgrad.graph.rules import Forbidden
from netgrad.proto import caffe2_pb2

if TYPE_CHECKING:
    from netgrad.autodiff.rule_context import RuleContext

_SCOPES = frozenset({"CreateScope", "CopyScope", "HasScope"})
_UNROLL = "netgrad.tools.unroll writes the net without control flow, which is differentiated to any order"


def gradient_of_gradient(rule: RuleContext) -> None:
    """The gradient of a gradient operator of If, While, Do or RecurrentNetwork."""
    chain = rule.walk.forward.chains.get(rule.index)
    if chain is None:
        raise rule.fail("it is itself a gradient, which is differentiated by running the forward operator anew; that "
                        "is not among these operators. Differentiate the net that holds both, or without either: "
                        + _UNROLL)
    _check_effects(rule, chain)
    given = [k for k in range(rule.num_outputs) if rule.has_GO(k)]
    outputs = [rule.GO(k) for k in given]
    together = _Together(rule, chain)
    together.net.external_output.extend(rule.walk.names[rule.outs[k]] for k in given)
    found, makers = dependence.Dependence(together.net.op).of(together.net.external_output)
    _check_rules(rule, makers)
    position = {value: k for k, value in enumerate(rule.ins)}
    by = [k for k, (name, value) in enumerate(zip(together.net.external_input, together.values))
          if name in found and value in position and value not in together.shapes and rule.wants(position[value])]
    if not by:
        return
    rule.copy_arguments = rule.copy_engine = False
    rule.emit(dependence.NET_PRODUCT, [*together.values, *outputs],
              [rule.GI(position[together.values[k]]) for k in by], net=together.net, by=by, given=range(len(given)))


class _Together:
    """The operators of a chain as one net.

    Attributes:
        net: the net, with its external inputs.
        values: what these hold: values of the walk.
        shapes: those of which nothing but the shape is ever read, if they are there at all.
    """

    def __init__(self, rule: RuleContext, chain: list[int]) -> None:
        self.rule = rule
        self.net = caffe2_pb2.NetDef(name="anew")
        self.values: list[int] = []
        self.shapes: set[int] = set()
        forward = rule.walk.forward
        hidden = forward.opaque
        reads = {index: forward.reads(index) for index in chain}
        last = {value: index for index in chain for value in reads[index].values()}
        #: value -> the name under which it is at hand
        self._names: dict[int, str] = {}
        #: name -> the value that it holds
        current: dict[str, int] = {}
        for index in chain:
            op = forward.ops[index]
            sure = control.effect(op).sure | reads[index].keys()
            for name, value in reads[index].items():
                if name not in hidden and (value is None or current.get(name) != value):
                    if value is None and name in forward.current:
                        raise rule.fail(f"{describe(op, index)} reads {name!r} in its nets, which is written later; "
                                        f"name {name!r} among its inputs")
                    value = rule.outside(name) if value is None else value
                    self._bind(value, name)
                    current[name] = value
            made = {rule.walk.names[value]: value for value in forward.outs[index]}
            for name, value in made.items():
                if name not in sure and name in op.output and value in last:
                    # What this run may leave as it was, is before it what it is after it. Only its shape is ever read.
                    self._bind(value, name)
                    self.shapes.add(value)
            self.net.op.add().CopyFrom(op)
            for name, value in made.items():
                current[name] = value
                if name not in hidden and last.get(value, -1) > index:
                    self._names[value] = f"{name}/{index}/made"
                    self._copy(name, self._names[value])

    def _bind(self, value: int, name: str) -> None:
        """Puts a value under a name."""
        if value not in self._names:
            self._names[value] = f"{name}/{len(self.values)}"
            self.values.append(value)
            self.net.external_input.append(self._names[value])
        self._copy(self._names[value], name)

    def _copy(self, source: str, target: str) -> None:
        self.net.op.add(type="Copy", input=[source], output=[target])


def _check_effects(rule: RuleContext, chain: Iterable[int]) -> None:
    """What is run anew must do the same again."""
    forward = rule.walk.forward
    for index in chain:
        for op in dependence.leaves([forward.ops[index]]):
            declaration = registry.find(op.type)
            effects = declaration.effects if declaration is not None else frozenset()
            if declaration is not None and not declaration.host:
                effects = effects - {"state"}  # a tensor that is read and made anew; objects of the host are shared
            if op.type in control.TYPES or op.type in _SCOPES or not effects or _is_test(op):
                continue
            if effects == {"random"}:
                raise rule.fail(f"it is differentiated by running {describe(forward.ops[index], index)} anew, in which "
                                f"{op.type} draws {', '.join(map(repr, op.output))} at random, and would draw other "
                                f"numbers; draw them before, and let the nets read them, or: {_UNROLL}")
            raise rule.fail(f"it is differentiated by running {describe(forward.ops[index], index)} anew, in which "
                            f"{op.type} makes {', '.join(map(repr, op.output))}, and running that has effects "
                            f"({', '.join(sorted(effects))}); compute it before, or: {_UNROLL}")


def _is_test(op: Any) -> bool:
    return any(argument.name == "is_test" and argument.i for argument in op.arg)


def _check_rules(rule: RuleContext, makers: Iterable[Any]) -> None:
    for op in makers:
        found = python_rules.find(op.type)
        if found is None or isinstance(found, Forbidden):
            reason = python_rules.why_none(op.type) if found is None else found.reason
            made = ", ".join(map(repr, op.output))
            raise rule.fail(f"{op.type}, which makes {made} in it, has no gradient: {reason}")


def gradient_of_product(rule: RuleContext) -> None:
    """The gradient of a `NetVectorJacobianProduct`: another one, which carries it."""
    by = [k for k in dependence.of_product(rule.op) if rule.wants(k)]
    if not by:
        return
    given = [k for k in range(rule.num_outputs) if rule.has_GO(k)]
    outputs = [rule.GO(k) for k in given]
    carried = caffe2_pb2.OperatorDef(type=rule.type, arg=rule.op.arg, is_gradient_op=True)
    carried.input.extend(f"x{k}" for k in range(rule.num_inputs))
    carried.output.extend(name and f"y{k}" for k, name in enumerate(rule.op.output))
    net = caffe2_pb2.NetDef(name="anew", op=[carried], external_input=carried.input, external_output=carried.output)
    rule.copy_arguments = rule.copy_engine = False
    rule.emit(rule.type, [rule.I(k) for k in range(rule.num_inputs)] + outputs, [rule.GI(k) for k in by], net=net,
              by=by, given=given)
