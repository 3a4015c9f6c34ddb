"""The gradients of If, While and Do: operators of the same kind that run the derivatives of their nets.

A net inside is differentiated like any other: from given gradients of what it writes to gradients of what it read.
What is special is where names live. A Do's net has blobs of its own, of which the forward run left the values on a
stack, where the gradient Do finds what it needs. The nets of If and While run on the blobs around them, so every name
in their gradients is a value of the walk around, written out (`Nets`) when that walk knows what its values are called.

Of a loop, one round is differentiated; the gradients of what it carries are states that each round reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netgrad.autodiff import control_again, encoding, saving
from netgrad.autodiff.errors import GradientError, OverwrittenError
from netgrad.graph.control import INITIAL, bindings, net_argument, written
from netgrad.graph.remapping import CONTROL_NETS, DEFAULT_REMAP_FUNCS
from netgrad.proto import caffe2_pb2

if TYPE_CHECKING:
    from netgrad.autodiff.rule_context import RuleContext

_GIVEN = "/_DO_OPERATOR_INNER_GRAD_"
_RESULT = "/_DO_OPERATOR_INNER_GRAD_COPY_"
_CONDITION = "gradient_loop_cond_net"
#: stand for values of the walk around in the nets of an If or While until these are written out
_FLOWING, _MADE = "/_FLOWING_GRAD_", "/_MADE_GRAD_"

Gradient = str | tuple[str, str]


class Nets:
    """The wire form of an emitted If or While, made when the values that its nets name have their final names."""

    def __init__(self, head: str, nets: list[tuple[str, Any, dict[str, int]]], tail: str) -> None:
        self.head = head
        self.nets = nets
        self.tail = tail

    def replace(self, values: Mapping[int, int]) -> None:
        """The nets shall name other values."""
        for _, _, meaning in self.nets:
            meaning.update({name: values[value] for name, value in meaning.items() if value in values})

    def text(self, names: Sequence[str]) -> str:
        arguments = {}
        for argument, net, values in self.nets:
            final = caffe2_pb2.NetDef()
            final.CopyFrom(net)
            rename(final, {name: names[value] for name, value in values.items()})
            arguments[argument] = final
        return self.head + encoding.argument_fields(arguments) + self.tail


def rename(net: Any, names: Mapping[str, str]) -> None:
    """Renames blobs in a net that runs on the blobs around it, and in the nets within that do."""
    for op in net.op:
        op.input[:] = [names.get(name, name) for name in op.input]
        op.output[:] = [names.get(name, name) for name in op.output]
        if op.type in CONTROL_NETS:
            for argument in op.arg:
                if argument.HasField("n"):
                    rename(argument.n, names)
        elif op.type in DEFAULT_REMAP_FUNCS:
            DEFAULT_REMAP_FUNCS[op.type](op, "", names)


@dataclass
class Inner:
    """The derivative of a net inside.

    Attributes:
        ops: the gradient operators.
        gradients: name -> gradient of the value that it had before the net.
        changed: the net's operators as they must be for that; None: as they are.
    """

    ops: list[Any] = field(default_factory=list)
    gradients: dict[str, Gradient] = field(default_factory=dict)
    changed: list[Any] | None = None


def differentiate(rule: RuleContext, net: Any, given: Mapping[str, str], wanted: Iterable[str] | None, where: str, *,
                  initial: Iterable[str] = (), in_loop: bool = False) -> Inner:
    """Differentiates a net.

    Args:
        given: name -> name of the gradient of the value that it has after the net.
        wanted: names whose gradients are asked for; None: all.
        where: what the net is called in messages.
        initial: names whose values from before the net can be had under another name (see `INITIAL`).
        in_loop: whether the net is run again and again, so that only what its Do left can be read.
    """
    wanted = None if wanted is None else tuple(wanted)
    initial = tuple(initial)
    key = (b"" if net is None else net.SerializeToString(), tuple(given.items()), wanted, initial, in_loop)
    known = rule.walk.derivatives
    if key not in known:  # loops ask again and again
        known[key] = _differentiate(rule, net, given, wanted, where, initial, in_loop)
    return known[key]  # type: ignore[no-any-return]


def _differentiate(rule: RuleContext, net: Any, given: Mapping[str, str], wanted: tuple[str, ...] | None, where: str,
                   initial: tuple[str, ...], in_loop: bool) -> Inner:
    from netgrad.autodiff import backward
    from netgrad.autodiff.verifier import Verifier, order_sums
    from netgrad.autodiff.walk import Walk

    outer, save = rule.walk, rule.walk.save
    ops = net.op if net is not None else []
    try:
        walk = Walk(ops, wrt=wanted, save=save)
        walk.in_loop, walk.derivatives = in_loop, outer.derivatives
        forward = walk.forward
        ys = {name: gradient for name, gradient in given.items() if name in forward.current}
        passed: dict[str, Gradient] = {name: g for name, g in given.items() if name not in ys}
        if not ys:
            return Inner([], passed)
        flowing = backward.start(walk, ys)
        walk.run()
        outside = {forward.names[v]: v for row in forward.ins for v in row if v not in forward.producer}
        gradients = {name: walk.gradients[v] for name, v in outside.items()
                     if walk.gradients[v] is not None and (wanted is None or name in wanted)}
        kept = {}
        for name in initial:
            if name in outside and forward.current[name] != outside[name]:
                kept[name + INITIAL] = outside[name]
                walk.names[outside[name]] = name + INITIAL
        plan = saving.Plan(saved=kept, replaced=walk.replaced)
        gradients = backward.verified(walk, Verifier(walk, outer.names), gradients, flowing, plan, save)
        order_sums(walk)
    except OverwrittenError as error:
        raise OverwrittenError(f"In the {where} of {rule.type} #{rule.index}: {error}") from None
    except GradientError as error:
        raise rule.fail(f"in its {where}: {error}") from error
    names = walk.names
    found: dict[str, Gradient] = {
        name: (names[g[0]], names[g[1]]) if isinstance(g, tuple) else names[g] for name, g in gradients.items()}
    encoding.write_nets(walk.emitted, names)
    emitted = caffe2_pb2.NetDef.FromString(encoding.encode(walk.emitted, names))
    return Inner(list(emitted.op), {**passed, **found}, saving.changed(ops, plan) if plan.changes else None)


def _op(type: str, inputs: Iterable[str], outputs: Iterable[str], **arguments: float) -> Any:
    made = caffe2_pb2.OperatorDef(type=type, input=inputs, output=outputs)
    for name, value in arguments.items():
        made.arg.add(name=name, f=value)
    return made


def _gradient_net(net: Any, ops: Iterable[Any], name: str = "_grad") -> Any:
    """A net like the forward one, with its name extended and other operators."""
    made = caffe2_pb2.NetDef()
    if net is not None:
        made.CopyFrom(net)
    for part in (made.op, made.external_input, made.external_output):
        del part[:]
    if made.name:
        made.name += name
    made.op.extend(ops)
    return made


def _flowing(rule: RuleContext) -> dict[str, int]:
    """Output -> the value of its gradient, dense. Outputs that share one get copies: names are bound one to one."""
    found: dict[str, int] = {}
    for k in range(rule.num_outputs):
        if rule.has_GO(k):
            value, name = rule._read(rule.GO(k)), rule.output_name(k)
            if value in found.values():
                copy = rule.temp(f"{name}_{rule.walk.names[value]}_DEDUP")
                rule.emitted.add("Copy", [value], [rule._written(copy)], "", rule.index)
                value = copy
            found[name] = value
    return found


def _inputs(rule: RuleContext, first: int = 0) -> dict[str, int]:
    """Name -> position of the inputs whose gradients are wanted."""
    found: dict[str, int] = {}
    for k in range(first, rule.num_inputs):
        if rule.wants(k):
            found.setdefault(rule.input_name(k), k)
    return found


def _replace_nets(rule: RuleContext, nets: Mapping[str, list[Any] | None]) -> None:
    """Notes that the forward operator must run other operators in some of its nets."""
    for argument, ops in nets.items():
        if ops is not None:
            forward = rule.walk.replacement(rule.index)
            net = net_argument(forward, argument)
            if forward.type in CONTROL_NETS:  # copies are put aside under names of the net around
                known = {*forward.output, *written(net.op)}
                forward.output.extend(sorted(written(ops) - known))
            del net.op[:]
            net.op.extend(ops)


# Do


def gradient_of_do(rule: RuleContext) -> None:
    """A Do that runs the derivative of the net in the workspace that the forward run left."""
    op = rule.op
    net, bound = net_argument(op, "net"), bindings(op)
    inner_of = {outer: inner for inner, outer in bound.items()}
    given = {inner_of[name] + _GIVEN: value for name, value in _flowing(rule).items() if name in inner_of}
    inputs = {inner_of[name]: k for name, k in _inputs(rule).items() if name in inner_of}
    inner = differentiate(rule, net, {name.removesuffix(_GIVEN): name for name in given},
                          None if rule.walk.wanted is None else list(inputs), "net", initial=bound)
    results = {name: k for name, k in inputs.items() if name in inner.gradients}
    if not results:
        return
    _replace_nets(rule, {"net": inner.changed})
    ops = list(inner.ops)
    for name in results:
        gradient = inner.gradients[name]
        if isinstance(gradient, tuple):
            shape = name + INITIAL if name in written(net.op) else name
            ops.append(_op("SparseToDense", [*gradient, shape], [name + _RESULT]))
        else:
            ops.append(_op("Copy", [gradient], [name + _RESULT]))
    reads, saved = _reads_of_do(rule, ops, given, bound)
    order = list(dict.fromkeys(reads.values()))
    workspace = rule.O(len(op.output) - 1)
    rule.copy_arguments = False
    rule.emit("Do", [*order, workspace], [*map(rule.GI, results.values()), workspace],
              net=_gradient_net(net, ops), inner_blobs=[*(name + _RESULT for name in results), *reads],
              outer_blobs_idx=[*range(len(order), len(order) + len(results)), *map(order.index, reads.values())],
              saved_fwd_blobs=saved)


def _reads_of_do(rule: RuleContext, ops: list[Any], given: Mapping[str, int],
                 bound: Mapping[str, str]) -> tuple[dict[str, int], list[str]]:
    """What gradient operators inside a Do read: names bound to values outside, and names in the workspace left."""
    after = _after(rule)
    reads: dict[str, int] = {}
    saved: dict[str, None] = {}
    made: set[str] = set()
    for op in ops:
        for name in op.input:
            if name in made:
                continue
            if name in given:
                reads[name] = given[name]
            elif name in bound and not rule.walk.in_loop:
                reads[name] = after[bound[name]]
            else:
                saved[name] = None
        made.update(op.output)
    if rule.walk.in_loop and any(name in bound for name in saved) and not rule.arg("copy_external_blobs"):
        if not rule.walk.save:
            raise rule.fail("it runs in a loop and does not keep the values of each round; give it the argument "
                            "copy_external_blobs=True (add_while_op does), or ask with overwritten=\"save\"")
        rule.walk.replacement(rule.index).arg.add(name="copy_external_blobs", i=1)
    return reads, list(saved)


def _after(rule: RuleContext) -> dict[str, int]:
    """What each name that the operator reads or writes holds after it."""
    names = rule.walk.names
    return {names[value]: value for value in (*rule.ins, *rule.outs)}


# nets on the blobs around


class _Writer:
    """Collects what the nets of one emitted If or While read and write."""

    def __init__(self, rule: RuleContext) -> None:
        self.rule = rule
        self.after = _after(rule)
        self.reads: dict[int, None] = {}
        self.writes: dict[int, None] = {}
        self.nets: list[tuple[str, Any, dict[str, int]]] = []
        self._new: dict[str, int] = {}

    def add(self, argument: str, net: Any, values: Mapping[str, int]) -> None:
        """Adds a net; ``values`` says what some of its names stand for. Others are forward blobs, or new."""
        meaning: dict[str, int] = {}
        made: set[str] = set()
        for op in net.op:
            for name in op.input:
                if name and name not in made:
                    meaning[name] = value = self._read(name, values)
                    self.reads.setdefault(value)
            for name in op.output:
                if name:
                    made.add(name)
                    meaning[name] = value = self._written(name, values)
                    self.writes.setdefault(value)
        self.nets.append((argument, net, meaning))

    def _read(self, name: str, values: Mapping[str, int]) -> int:
        value = values.get(name, self.after.get(name))
        return self.rule.outside(name) if value is None else value

    def _written(self, name: str, values: Mapping[str, int]) -> int:
        if name in values:
            return values[name]
        if name not in self._new:
            forward = self.after.get(name)
            self._new[name] = self.rule._written(self.rule.temp(name) if forward is None else forward)
        return self._new[name]

    def emit(self, first: int, *, states: Iterable[int] = ()) -> None:
        """Emits the operator. ``first``: its condition; ``states``: what it reads beside what its nets do."""
        rule = self.rule
        inputs = list(dict.fromkeys([first, *states, *self.reads]))
        tail = rule.walk.copied(rule.op, False, rule.copy_device, rule.copy_engine) + encoding.IS_GRADIENT
        rule.emitted.add_whole(rule.type, inputs, list(self.writes),
                               Nets(encoding.type_field(rule.type), self.nets, tail), rule.index)
        rule.walk.has_nets = True


def _into(gradient: Gradient, shape: str, target: str) -> Any:
    """The operator that brings a gradient, dense or sparse, under a name of its own."""
    if isinstance(gradient, tuple):
        return _op("SparseToDense", [*gradient, shape], [target])
    return _op("Copy", [gradient], [target])


def gradient_of_if(rule: RuleContext) -> None:
    """An If that runs the derivative of the branch that was taken; what the other branch alone reads gets zeros."""
    flowing = _flowing(rule)
    inputs = _inputs(rule, 1)
    inputs.pop(rule.input_name(0), None)
    wanted = None if rule.walk.wanted is None else list(inputs)
    nets = {argument: net_argument(rule.op, argument) for argument in ("then_net", "else_net")}
    inner = {argument: differentiate(rule, net, {name: name + _FLOWING for name in flowing}, wanted, argument)
             for argument, net in nets.items()}
    results = {name: k for name, k in inputs.items() if any(name in each.gradients for each in inner.values())}
    if not results:
        return
    _replace_nets(rule, {argument: each.changed for argument, each in inner.items()})
    made = {name: rule._written(rule.GI(k)) for name, k in results.items()}
    values = {name + _FLOWING: value for name, value in flowing.items()}
    values |= {name + _MADE: value for name, value in made.items()}
    writer = _Writer(rule)
    for argument, each in inner.items():
        ops, names = list(each.ops), dict(values)
        own = {name for op in ops for name in op.output}
        for name, value in made.items():
            gradient = each.gradients.get(name)
            if gradient is None:
                ops.append(_op("ConstantFill", [name], [name + _MADE], value=0.0))
            elif isinstance(gradient, str) and gradient in own:
                own.remove(gradient)  # the next one that is the same gets a copy
                names[gradient] = value
            else:
                ops.append(_into(gradient, name, name + _MADE))
        if nets[argument] is not None:
            writer.add(argument, _gradient_net(nets[argument], ops), names)
        elif ops:
            writer.add(argument, _gradient_net(nets["then_net"], ops, "_grad_auto_else_zero_blobs_"), names)
    writer.emit(rule.I(0))


# While


def gradient_of_while(rule: RuleContext) -> None:
    """A While that undoes the rounds, the last one first, for as long as the forward rounds have left workspaces."""
    op = rule.op
    body, condition = net_argument(op, "loop_net"), net_argument(op, "cond_net")
    flowing = _flowing(rule)
    stack = _stack_of(rule, body)
    inputs = _inputs(rule, 1)
    inputs.pop(rule.input_name(0), None)
    changing = written(body.op)
    wanted = None if rule.walk.wanted is None else [*inputs, *changing]
    states = {name for name in flowing if name in {*_names(rule.ins, rule)}}
    while True:
        inner = differentiate(rule, body, {name: name + _FLOWING for name in sorted(states)}, wanted, "loop_net",
                              in_loop=True)
        more = (inner.gradients.keys() & set(_names(rule.ins, rule))) - states - {rule.input_name(0)}
        if not more:
            break
        states |= more
    _check_condition_net(rule, condition, states)
    if not states:
        return
    _replace_nets(rule, {"loop_net": inner.changed})
    order = [name for name in dict.fromkeys(_names(rule.ins, rule)) if name in states]
    position = {name: k for k, name in reversed(list(enumerate(_names(rule.ins, rule))))}
    after = _after(rule)
    rule.copy_arguments = False
    test = rule.temp(f"{_CONDITION}/cond")
    first_test = rule._written(test)
    rule.emitted.add("HasScope", [after[stack]], [first_test], "", rule.index)
    first: dict[str, int] = {}
    for name in order:
        first[name] = rule._written(rule.GI(position[name]))
        if name in flowing:
            rule.emitted.add("Copy", [flowing[name]], [first[name]], "", rule.index)
        else:
            zero = encoding.argument_fields({"value": 0.0})
            rule.emitted.add("ConstantFill", [after[name]], [first[name]], zero, rule.index)
    last = {name: rule._written(rule.GI(position[name])) for name in order}
    last_test = rule._written(test)
    for name in order:
        rule.walk.tie(first[name], last[name])
    rule.walk.tie(first_test, last_test)
    values = {name + _FLOWING: last[name] for name in order} | {f"{_CONDITION}/cond": last_test}
    writer = _Writer(rule)
    rounds = list(inner.ops)
    if not any(stack in each.output for each in rounds):  # nothing flows through a round: it is taken off all the same
        rounds.append(caffe2_pb2.OperatorDef(type="Do", input=[stack], output=[stack], is_gradient_op=True))
        rounds[-1].arg.add(name="net", n=caffe2_pb2.NetDef())
    writer.add("loop_net", _gradient_net(body, [*rounds, *_next_states(order, inner.gradients)]), values)
    has_scope = caffe2_pb2.NetDef(name=_CONDITION, op=[_op("HasScope", [stack], [f"{_CONDITION}/cond"])])
    writer.add("cond_net", has_scope, values)
    for value in (*last.values(), last_test):  # a round begins with what stands there
        writer.reads.pop(value, None)
        writer.writes.setdefault(value)
    writer.emit(first_test, states=first.values())


def _names(values: Iterable[int], rule: RuleContext) -> list[str]:
    return [rule.walk.names[value] for value in values]


def _stack_of(rule: RuleContext, body: Any) -> str:
    """The blob on which the rounds of a loop leave their workspaces."""
    if body is None or len(body.op) != 1 or body.op[0].type != "Do":
        raise rule.fail("its loop_net is not a single Do, so that nothing is left of the rounds; let add_while_op (or "
                        "ops.WhileNet) write it")
    if any(argument.name == "reuse_workspace" and argument.i for argument in body.op[0].arg):
        raise rule.fail("the Do in its loop_net has reuse_workspace set, so that only the last round is left")
    return str(body.op[0].output[-1])


def _check_condition_net(rule: RuleContext, condition: Any, states: Iterable[str]) -> None:
    changed = sorted(written(condition.op).intersection(states)) if condition is not None else []
    if changed:
        raise rule.fail(f"its cond_net writes {changed[0]!r}, through which a gradient flows; compute that in the "
                        "loop_net")


def _next_states(order: Sequence[str], gradients: Mapping[str, Gradient]) -> list[Any]:
    """The operators that make the gradients after a round those before the next."""
    tokens = {name + _FLOWING for name in order}
    early: list[Any] = []
    late: list[Any] = []
    for name in order:
        token, gradient = name + _FLOWING, gradients.get(name)
        if gradient is None:
            late.append(_op("ConstantFill", [token], [token], value=0.0))
        elif gradient != token:
            if gradient in tokens:  # another state, which may have changed by then
                early.append(_op("Copy", [str(gradient)], [token + _MADE]))
                gradient = token + _MADE
            elif isinstance(gradient, tuple):
                early.append(_into(gradient, name, token + _MADE))
                gradient = token + _MADE
            late.append(_op("Copy", [gradient], [token]))
    return early + late


def _once(first: Callable[[RuleContext], None]) -> Callable[[RuleContext], None]:
    """A rule for forward operators; gradients that took runs off a stack have one of their own."""

    def rule_of(rule: RuleContext) -> None:
        forward = rule.walk.forward
        if rule.op.is_gradient_op and (rule.type in ("Do", "While") or rule.index in forward.chains):
            control_again.gradient_of_gradient(rule)
        else:
            first(rule)

    return rule_of


RULES: Mapping[str, Callable[[RuleContext], None]] = {
    "Do": _once(gradient_of_do), "If": _once(gradient_of_if), "AsyncIf": _once(gradient_of_if),
    "While": _once(gradient_of_while), "RecurrentNetworkGradient": control_again.gradient_of_gradient,
    "NetVectorJacobianProduct": control_again.gradient_of_product,
}
