"""What results of a net may depend on differentiably, found without running it: nets inside are followed by name.

A name counts as one thing however often it is written, and branches and rounds count as run: so more may be found than
there is, never less. A Do's names and those of its gradient, which runs in the workspace left, are the same things.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from netgrad.autodiff import kernel_rule, python_rules
from netgrad.graph import registry
from netgrad.graph.arguments import value_of
from netgrad.graph.control import INITIAL, bindings, effect_of_all, net_argument, nets_of
from netgrad.graph.rules import NoGradient, NoRule

#: (scope, name)
_Node = tuple[str, str]
NET_PRODUCT = "NetVectorJacobianProduct"


def leaves(ops: Iterable[Any]) -> Iterator[Any]:
    """All operators without nets, those in nets of others included."""
    for op in ops:
        nets = [argument.n for argument in op.arg if argument.HasField("n") and argument.name != "backward_step_net"]
        if not nets or op.type == kernel_rule.TYPE:
            yield op
        for net in nets if op.type != kernel_rule.TYPE else ():
            yield from leaves(net.op)


class Dependence:
    """The dependence of what some operators make.

    Args:
        ops: the operators, which read blobs outside.
    """

    def __init__(self, ops: Iterable[Any]) -> None:
        self._edges: dict[_Node, set[_Node]] = defaultdict(set)
        self._makers: dict[_Node, list[Any]] = defaultdict(list)
        #: a name inside, or a copy of a stack -> what it is outside, or a copy of
        self._same: dict[_Node, _Node] = {}
        self._recurrent: dict[_Node, Any] = {}
        self._read(ops, "")

    def of(self, results: Iterable[str]) -> tuple[set[str], list[Any]]:
        """The names outside of nets that these depend on, themselves included, and the operators on the way."""
        left: list[_Node] = [("", name) for name in results]
        seen = set(left)
        makers: dict[int, Any] = {}
        while left:
            node = left.pop()
            makers.update({id(op): op for op in self._makers[node]})
            new = self._edges[node] - seen
            seen |= new
            left += new
        return {name for scope, name in seen if not scope}, list(makers.values())

    def _root(self, node: _Node) -> _Node:
        while node in self._same:
            node = self._same[node]
        return node

    def _depends(self, scope: str, made: Iterable[str], read: Iterable[str]) -> None:
        nodes = {(scope, name) for name in read if name}
        for name in made:
            if name:
                self._edges[scope, name] |= nodes

    def _read(self, ops: Iterable[Any], scope: str) -> None:
        for op in ops:
            if op.type == "Do":
                self._read_do(op, scope)
            elif op.type == "CopyScope":
                self._same.setdefault((scope, op.output[0]), (scope, op.input[0]))
            elif op.type == "RecurrentNetwork":
                self._read_recurrent(op, scope)
            elif op.type == "RecurrentNetworkGradient":
                self._read_recurrent_gradient(op, scope)
            elif any(True for _ in nets_of(op)):
                for _, net in nets_of(op):
                    self._read(net.op, scope)
            elif not isinstance(python_rules.find(op.type), NoGradient):
                for name in op.output:
                    self._makers[scope, name].append(op)
                self._depends(scope, op.output, [op.input[k] for k in differentiable(op)])

    def _read_do(self, op: Any, scope: str) -> None:
        inner = "/".join(self._root((scope, op.output[-1])))
        net = net_argument(op, "net")
        changed = effect_of_all(net.op).writes
        for name, outer in bindings(op).items():
            self._same.setdefault((inner, name), (scope, outer))
            self._edges[inner, name].add((scope, outer))
            self._edges[inner, name + INITIAL].add((inner, name))
            if name in changed:
                self._edges[scope, outer].add((inner, name))
        self._read(net.op, inner)

    def _read_recurrent(self, op: Any, scope: str) -> None:
        arguments = {argument.name: value_of(argument) for argument in op.arg}
        inner = "/".join((scope, op.output[-1]))
        step = net_argument(op, "step_net")
        states = arguments.get("recurrent_states") or []
        linked = set()
        for name, outer in zip(arguments.get("link_internal") or [], arguments.get("link_external") or []):
            linked.add(name)
            if outer in states:
                self._edges[inner, name].add((inner, f"/{outer}"))
                self._edges[inner, f"/{outer}"].add((inner, name))
            else:
                self._edges[inner, name].add((scope, outer))
        for state, k in zip(states, arguments.get("initial_recurrent_state_ids") or []):
            self._edges[inner, f"/{state}"].add((scope, op.input[k]))
        effect = effect_of_all(step.op)
        for name in [name for name in effect.reads if name not in linked]:
            self._edges[inner, name].add((scope, name))
            if name in effect.writes:
                self._edges[scope, name].add((inner, name))
        for name in op.output[:-1]:
            self._edges[scope, name] |= {(inner, f"/{state}") for state in states}
        self._recurrent[scope, op.output[-1]] = op
        self._read(step.op, inner)

    def _read_recurrent_gradient(self, op: Any, scope: str) -> None:
        arguments = {argument.name: value_of(argument) for argument in op.arg}
        given = arguments.get("outputs_given") or arguments.get("outputs_with_grads") or []
        forward = self._recurrent.get(self._root((scope, op.input[-1])))
        outputs = list(op.input) if forward is None else [*op.input[:len(given)], *forward.output[:-1]]
        self._depends(scope, op.output, outputs)


def differentiable(op: Any) -> list[int]:
    """The inputs of an operator without nets by which it may have a derivative."""
    if op.type == NET_PRODUCT:
        return of_product(op)
    declaration = registry.find(op.type)
    if declaration is None:
        return list(range(len(op.input)))
    return kernel_rule.differentiable(op, len(op.input))


def of_product(op: Any) -> list[int]:
    """The inputs by which a `NetVectorJacobianProduct` has a derivative."""
    net = net_argument(op, "net")
    if net is None or not net.op:
        raise NoRule("its argument net holds no operators; it must hold what is differentiated")
    given = next((list(argument.ints) for argument in op.arg if argument.name == "given"), [])
    names, _ = Dependence(net.op).of(net.external_output[k] for k in given)
    count = len(net.external_input)
    return [*(k for k, name in enumerate(net.external_input) if name in names), *range(count, count + len(given))]
