"""The backward walk: from the last operator to the first, rules emit operators and cotangents add up.

The walk never looks at names to find a gradient: cotangents belong to SSA values. Names are a policy on top, chosen to
be Caffe2's: ``<blob>_grad`` for a gradient, ``_<name>_autosplit_<n>`` for further contributions to one blob. Where that
policy lets two values that are both still needed share a name, the verifier changes one of them afterwards.
"""

from __future__ import annotations

import warnings
from collections.abc import Container, Iterable, Sequence
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from netgrad.autodiff import accumulate, encoding, kernel_rule, python_rules
from netgrad.autodiff.encoding import Emitted
from netgrad.autodiff.errors import IgnoredGradientWarning, MissingRuleError, describe
from netgrad.autodiff.forward import Forward
from netgrad.autodiff.rule_context import Cotangent, RuleContext
from netgrad.graph import registry
from netgrad.graph.rules import Emits, GradientNotProvided, NoGradient, NoRule, pass_through
from netgrad.graph.schema import counts, in_place
from netgrad.proto import caffe2_pb2

_NOT_SEEN: Any = object()


class Contribution(NamedTuple):
    """One summand of a cotangent; plain tuples of this form stand in for it where many are made."""

    gradient: Cotangent
    #: whether an operator emitted for this contribution writes it (else it passes through, or the caller gave it);
    #: of a slice, whether its indices and its values are
    computed: bool | tuple[bool, bool]
    #: where it is made: a forward operator (its device), a DeviceOption, or None
    source: Any


class Template(NamedTuple):
    """An `Emits` rule compiled for an operator with given numbers of inputs and outputs."""

    num_inputs: int
    num_outputs: int
    type: str
    #: type and own arguments, encoded; and all there is to encode when the forward operator has nothing to copy
    field: str
    plain: str
    #: picks the operands out of inputs + outputs + output gradients
    operands: Any
    single: bool
    #: outputs whose gradients it reads
    gradients: tuple[int, ...]
    #: inputs whose gradients it writes
    targets: tuple[int, ...]
    copy_arguments: bool
    #: inputs without a gradient
    rest: tuple[int, ...]


def compile_template(rule: Emits, num_inputs: int, num_outputs: int) -> Template | None:
    """The rule as positions; None when it refers to inputs or outputs that this use of the operator lacks."""
    offsets = {"I": (0, num_inputs), "O": (num_inputs, num_outputs), "GO": (num_inputs + num_outputs, num_outputs)}
    picked = []
    for kind, k in rule.inputs:
        offset, count = offsets[kind]
        if k >= count:
            return None
        picked.append(offset + k)
    targets = tuple(k for _, k in rule.outputs)
    if not picked or any(k >= num_inputs for k in targets):
        return None
    field = encoding.type_field(rule.type) + encoding.argument_fields(dict(rule.arguments))
    return Template(num_inputs, num_outputs, rule.type, field, field + encoding.IS_GRADIENT, itemgetter(*picked),
                    len(picked) == 1, tuple(k for kind, k in rule.inputs if kind == "GO"), targets, rule.copy_arguments,
                    tuple(k for k in range(num_inputs) if k not in targets))


@lru_cache(maxsize=4096)
def counts_of(type: str, num_inputs: int, num_outputs: int) -> list[str]:
    """What a declaration has against these numbers of inputs and outputs."""
    declaration = registry.find(type)
    return [] if declaration is None else counts(declaration, num_inputs, num_outputs)


class Walk:
    """One backward pass in the making.

    Args:
        ops: the forward OperatorDefs.
        wrt: names of the blobs whose gradients are asked for; None: all.
        save: whether overwritten values will be put aside, a rule that needs the gradient of an output that has none
            gets zeros, and contributions on several devices are copied to the first one's (each is refused otherwise).
        line_of: operator index -> the Python line that wrote it, or None.
    """

    def __init__(self, ops: Sequence[Any], *, wrt: Iterable[str] | None = None, save: bool = False,
                 line_of: Any = None) -> None:
        self.forward = forward = Forward(ops)
        self.names = forward.names
        self.save = save
        self.line_of = line_of
        #: False where a rule is applied to one operator outside of any net
        self.in_pass = True
        self.emitted = Emitted()
        #: operators that write a name which had a value before
        self.rebinds = set(forward.rebinds)
        self._rules: dict[str, Any] = {}
        #: forward value -> its gradient, once known
        self.gradients: list[Any] = []
        #: forward value that is read more than once -> contributions so far
        self.pending: dict[int, list[Contribution]] = {}
        #: computed gradient -> the values that its rule wrote before under the same name
        self.rewritten: dict[int, list[int]] = {}
        #: whether any contribution may have a device
        self.has_devices = False
        #: values written by in-place operators across which no gradient flows
        self.barriers: set[int] = set()
        #: emitted values that replace a forward blob on purpose (workspaces of control flow)
        self.pinned: set[int] = set()
        #: emitted Sums, whose inputs may be reordered, and their results
        self.sums: list[int] = []
        self.totals: set[int] = set()
        #: forward operators that must be changed: their nets put values aside
        self.replaced: dict[int, Any] = {}
        #: emitted values that must have one name for ever: a state before a loop and after it -> that group
        self.tied: dict[int, tuple[int, ...]] = {}
        #: whether an emitted operator has nets that name values of this walk
        self.has_nets = False
        #: nets inside that were differentiated already
        self.derivatives: dict[Any, Any] = {}
        #: whether these operators are the body of a loop
        self.in_loop = False
        #: blobs that users' rules name and nobody mentions otherwise
        self.externals: dict[str, int] = {}
        self.problems: list[str] = []
        #: names of the blobs that are differentiated
        self.ys: list[str] = []
        #: the value called "": an output of a gradient operator that nobody asked for
        self.unwanted = -1
        self.wanted: list[bool] | None = None
        self._wrt = None if wrt is None else {str(name) for name in wrt}

    # names and values

    def new_value(self, name: str) -> int:
        self.names.append(name)
        return len(self.names) - 1

    def external(self, name: str) -> int:
        """The value of a blob that is outside of everything (a user's rule may return one as a gradient)."""
        known = self.forward.current.get(name)
        if known is not None and known not in self.forward.producer:
            return known  # some operator reads it, and none writes it
        if name not in self.externals:
            self.externals[name] = self.new_value(name)
        return self.externals[name]

    def replacement(self, index: int) -> Any:
        """What must stand in the place of a forward operator: a copy, to be changed."""
        if index not in self.replaced:
            self.replaced[index] = copy = caffe2_pb2.OperatorDef()
            copy.CopyFrom(self.forward.ops[index])
        return self.replaced[index]

    def tie(self, *values: int) -> None:
        """These values are one blob, written anew: their name stays one."""
        for value in values:
            self.tied[value] = values

    @staticmethod
    def gradient_name(name: str) -> str:
        return name + "_grad"

    def without_optional_tail(self, type: str, outputs: list[int]) -> list[int]:
        """Unwanted outputs are dropped from the end where the operator can do without; others stay, unnamed."""
        declaration = registry.find(type)
        kept = list(outputs)
        while declaration is not None and kept and kept[-1] == self.unwanted:
            slot = declaration.slot(declaration.outputs, len(kept) - 1)
            if slot is None or slot.variadic or len(kept) - 1 not in (declaration.num_outputs or ()):
                break  # of variadic outputs there must be as many as there are: a Split divides by their number
            kept.pop()
        return kept

    # the walk

    def start(self, initial: Sequence[tuple[int, Cotangent, bool, Any]]) -> None:
        """Enters the gradients of the ys: (forward value, gradient, whether a fill makes it, its device)."""
        forward = self.forward
        self.gradients = [None] * forward.size
        if self._wrt is not None:
            self.wanted = self._leads_from(self._wrt)
            self.unwanted = self.new_value("")
        for value, gradient, filled, device in initial:
            self.has_devices |= device is not None
            if value not in forward.unread:
                self.pending.setdefault(value, []).append(Contribution(gradient, filled, device))
            self.gradients[value] = gradient

    def _leads_from(self, names: set[str]) -> list[bool]:
        """Which forward values depend on a blob of these names (any version of it)."""
        forward = self.forward
        reached = [name in names for name in forward.names]
        for row, made in zip(forward.ins, forward.outs):
            if any(reached[v] for v in row):
                for v in made:
                    reached[v] = True
        return reached

    def run(self) -> None:
        """Visits every operator; raises one error for all that have no rule.

        Compiled rules, which are nearly all, are applied here and not in a method of their own: a call for each
        operator and the look-ups in it would cost a third as much again.
        """
        forward, names, gradients, pending, rebinds = (
            self.forward, self.names, self.gradients, self.pending, self.rebinds)
        types, all_plain, all_ins, all_outs = forward.types, forward.plain, forward.ins, forward.outs
        several = forward.shared | pending.keys()
        closes = forward.first_users(several)
        templates: dict[str, Template | None] = {}
        name_it, emitted, is_gradient = names.append, self.emitted, encoding.IS_GRADIENT
        add_type, add_inputs, add_outputs, add_rest, add_origin = (
            emitted.types.append, emitted.inputs.append, emitted.outputs.append, emitted.rests.append,
            emitted.origins.append)
        for index in range(len(types) - 1, -1, -1):
            outs = all_outs[index]
            if len(outs) == 1:
                gos = (gradients[outs[0]],)
                live = gos[0] is not None
            else:
                gos = tuple([gradients[value] for value in outs])
                live = any(g is not None for g in gos) or (not gos and types[index] == "ZeroGradient")
            if live:
                ins, type = all_ins[index], types[index]
                template = templates.get(type, _NOT_SEEN)
                if template is _NOT_SEEN or (template is not None and (
                        template[0] != len(ins) or template[1] != len(outs))):
                    template = templates[type] = self._template(type, len(ins), len(outs))
                if template is not None:
                    for k in template.gradients:
                        if gos[k].__class__ is not int:  # missing or sparse: no fast way
                            template = None
                            break
                if template is None:
                    self.ask(index, list(gos))
                else:
                    (_, _, gradient_type, field, rest, operands, single, needed, targets, copy_arguments,
                     left) = template
                    picked = operands(ins + outs + gos)
                    made = []
                    for k in targets:
                        value = ins[k]
                        gradients[value] = new = len(names)
                        name_it(names[value] + "_grad")
                        made.append(new)
                        if value in several:
                            pending.setdefault(value, []).append((new, True, index))  # type: ignore[arg-type]
                    if not all_plain[index]:
                        rest = field + self.copied(forward.ops[index], copy_arguments) + is_gradient
                    add_type(gradient_type)
                    add_inputs([picked] if single else picked)
                    add_outputs(made)
                    add_rest(rest)
                    add_origin(index)
                    if len(outs) > 1:
                        self.check_used(index, gos, needed, targets)
                    if left:
                        if index in rebinds:
                            self.mark_barriers(index, [ins[k] for k in left])
                        if len(set(ins)) < len(ins):
                            self.drop_partial(ins, targets)
            if index in closes:
                self.close(index, closes[index])
        if self.wanted is not None:
            self.prune()
        if self.problems:
            raise MissingRuleError("; ".join(self.problems) if len(self.problems) == 1 else
                                   f"{len(self.problems)} operators on the path have no gradient:\n  "
                                   + "\n  ".join(self.problems))

    def copied(self, op: Any, arguments: bool = True, device: bool = True, engine: bool = True) -> str:
        """What a gradient operator takes over from its forward operator, encoded."""
        rest = encoding.copied_arguments(op) if arguments and len(op.arg) else ""
        if device and op.HasField("device_option"):
            self.has_devices = True
            rest += encoding.device_field(op.device_option)
        if engine and op.HasField("engine"):
            rest += encoding.engine_field(op.engine)
        return rest

    def _template(self, type: str, num_inputs: int, num_outputs: int) -> Template | None:
        """The compiled form of a rule, where it has one and all gradients are wanted."""
        rule = self._rule(type)
        if counts_of(type, num_inputs, num_outputs):
            return None  # asking it in the general way finds what is wrong
        if not isinstance(rule, Emits) or self.wanted is not None:
            return None
        return compile_template(rule, num_inputs, num_outputs)

    def _rule(self, type: str) -> Any:
        if type not in self._rules:
            self._rules[type] = python_rules.find(type)
        return self._rules[type]

    def ask(self, index: int, gos: list[Cotangent | None]) -> None:
        """Asks one operator for its gradient operators through the general form of a rule."""
        forward, wanted = self.forward, self.wanted
        op = forward.ops[index]
        rule = self._rule(op.type)
        ins = forward.ins[index]
        if wanted is not None and not any(wanted[v] for v in ins):
            return
        if rule is pass_through and wanted is None and len(gos) == 1:
            self.has_devices |= op.HasField("device_option")
            for value in ins:
                self.contribute(value, (gos[0], False, index))  # type: ignore[arg-type]
            return
        problems = counts_of(op.type, len(ins), len(gos))
        if index in self.rebinds and (declaration := registry.find(op.type)) is not None:
            problems = problems + in_place(declaration, op.input[:], op.output[:])
        if problems:
            self.refuse(index, op, f"it does not pass its schema: {'; '.join(problems)}", len(self.names))
            return
        context = RuleContext(self, index, op, gos)
        arrived = list(gos)
        mark = len(self.names)
        try:
            if rule is None:
                raise NoRule(python_rules.why_none(op.type))
            rule(context)
        except GradientNotProvided as missing:
            if self._follows(index) and self._again:
                self._finish(index, self.through_kernel(index, arrived))
                return
            name = context.output_name(missing.output)
            self.refuse(index, op, f"it needs the gradient of its output {name!r}, to which nothing flows (the "
                        f"gradient is not provided); add net.ZeroGradient({name!r}, []) before, or ask with "
                        "overwritten=\"save\", which supplies zeros", mark)
            return
        except NoRule as reason:
            self.refuse(index, op, str(reason), mark)
            return
        gradients = context.finish()
        self.emitted.extend(context.emitted)
        for k, gradient, computed, device in gradients:
            self.contribute(ins[k], Contribution(gradient, computed, device))
        if not isinstance(rule, NoGradient):
            self.check_used(index, [g if a is not None else None for g, a in zip(gos, arrived)], context.used,
                            {k for k, *_ in gradients})
        self._finish(index, [k for k, *_ in gradients])

    def _finish(self, index: int, targets: Sequence[int]) -> None:
        """An operator was asked, and these of its inputs have gradients by it."""
        ins = self.forward.ins[index]
        if index in self.rebinds:
            given = {ins[k] for k in targets}
            self.mark_barriers(index, [v for v in ins if v not in given])
        if len(set(ins)) < len(ins):
            self.drop_partial(ins, targets)

    def drop_partial(self, ins: Sequence[int], targets: Sequence[int]) -> None:
        """A blob that an operator reads twice, the second time where the rule has no term, has no gradient by it alone.

        What it would have is only a part of its derivative (the same blob as table and as weights of
        SparseLengthsWeightedSum); with contributions of other operators it counts, as in Caffe2.
        """
        for k, value in enumerate(ins):
            if k not in targets and k == len(ins) - 1 - ins[::-1].index(value) and ins.index(value) < k:
                contributions = self.pending.get(value, ())
                if len(contributions) == sum(ins[t] == value for t in targets):
                    self.gradients[value] = None

    def refuse(self, index: int, op: Any, reason: str, mark: int) -> None:
        """Notes an operator without gradient; the walk goes on so that one report names them all."""
        del self.names[mark:]
        for value in self.forward.ins[index]:  # what comes before it is on the path all the same
            if self.gradients[value] is None:
                self.gradients[value] = self.new_value("")
        self.problems.append(f"no gradient for {describe(op, index, self.line_of(index) if self.line_of else None)}: "
                             f"{reason}")

    @cached_property
    def _again(self) -> bool:
        """Whether a derivative is differentiated: gradients reach outputs of which only its operators know."""
        return any(op.is_gradient_op for op in self.forward.ops)

    def _follows(self, index: int) -> bool:
        """Whether the gradients of an operator's outputs for which its rule has no term may be had from its kernel."""
        declaration = registry.find(self.forward.types[index])
        return self.in_pass and declaration is not None and not kernel_rule.why_not(declaration)

    def through_kernel(self, index: int, gos: list[Cotangent | None],
                       among: Container[int] | None = None) -> list[int]:
        """Contributes what an operator's kernel makes of gradients of its outputs to its inputs (``among``); to which.
        """
        context = RuleContext(self, index, self.forward.ops[index], gos)
        kernel_rule.apply(context, among)
        gradients = context.finish()
        self.emitted.extend(context.emitted)
        ins, made = self.forward.ins[index], set(context.emitted.outputs[-1]) if context.emitted.outputs else set()
        for k, gradient, computed, device in gradients:
            value, contribution = ins[k], Contribution(gradient, computed, device)
            before = self.gradients[value]
            alone = value not in self.forward.shared and value not in self.pending
            if before is None or before in made or not alone:
                self.contribute(value, contribution)
            else:  # the rule's own part is there already
                self.gradients[value] = accumulate.add_up(self, index, value,
                                                          [Contribution(before, True, device), contribution])
        return [k for k, *_ in gradients]

    def check_used(self, index: int, gos: Sequence[Cotangent | None], used: Iterable[int],
                   targets: Container[int]) -> None:
        """A gradient that reaches an output which the rule ignores goes through the kernel; else it is refused.

        It would be lost without a word.
        """
        rest: list[Cotangent | None] = [None] * len(gos)
        for k, gradient in enumerate(gos):
            if gradient is not None and k not in used:
                op = self.forward.ops[index]
                declaration = registry.find(op.type)
                slot = declaration.slot(declaration.outputs, k) if declaration is not None else None
                if slot is None or not slot.differentiable:
                    continue
                if self._follows(index) and (self._again or not slot.gradient_ignored):
                    rest[k] = gradient
                    continue
                name = self.names[self.forward.outs[index][k]]
                if slot.gradient_ignored:
                    line = self.line_of(index) if self.line_of else None
                    warnings.warn(f"{describe(op, index, line)}: the gradient that flows into its output {name!r} is "
                                  "ignored, as in Caffe2", IgnoredGradientWarning, stacklevel=2)
                    continue
                self.problems.append(
                    f"no gradient for {describe(op, index, self.line_of(index) if self.line_of else None)}: a gradient "
                    f"flows into its output {name!r}, and its rule has no term for that output; stop it there "
                    f"(StopGradient) or compute {name!r} by operators that have one")
        if any(g is not None for g in rest):
            self.through_kernel(index, rest, targets)

    def mark_barriers(self, index: int, without: Sequence[int]) -> None:
        """An in-place operator that gives its input no gradient hides the newer version's from the older one."""
        older = {self.names[v] for v in without}
        for value in self.forward.outs[index]:
            if self.names[value] in older:
                self.barriers.add(value)

    def contribute(self, value: int, contribution: Contribution) -> None:
        if value in self.forward.shared or value in self.pending:
            self.pending.setdefault(value, []).append(contribution)
        self.gradients[value] = contribution[0]

    def close(self, index: int, values: list[int]) -> None:
        """The first reader of these values has been visited: no more contributions will come, so add them up."""
        for value in values:
            contributions = self.pending.get(value)
            if contributions is not None and len(contributions) > 1:
                self.gradients[value] = accumulate.add_up(self, index, value, contributions)

    def prune(self) -> None:
        """Drops operators that lead to no wanted gradient: fills of ys that do not depend on what is wanted."""
        emitted = self.emitted
        needed = {v for g in self.gradient_map().values() for v in (g if isinstance(g, tuple) else (g,))} | self.pinned
        kept = []
        for position in range(len(emitted) - 1, -1, -1):
            if not needed.isdisjoint(emitted.outputs[position]):
                needed.update(emitted.inputs[position])
                kept.append(position)
        kept.reverse()
        moved = {old: new for new, old in enumerate(kept)}
        emitted.keep(kept)
        self.sums = [moved[position] for position in self.sums if position in moved]

    def release(self) -> None:
        """Lets go of what only the making needed; the map of gradients can still be had."""
        forward, emitted = self.forward, self.emitted
        forward.ops, forward.ins, forward.outs = [], [], []
        emitted.inputs, emitted.rests = [], []
        self.line_of = None

    # what came of it

    def gradient_map(self) -> dict[str, Cotangent]:
        """Blob name -> gradient: of several versions the oldest with one, unless an in-place operator stopped it."""
        found: dict[str, Cotangent] = {}
        names, gradients, barriers = self.names, self.gradients, self.barriers
        if not barriers and not self.forward.rebinds and self.wanted is None:
            return {names[v]: g for v, g in enumerate(gradients) if g is not None}
        for value in range(self.forward.size - 1, -1, -1):
            if gradients[value] is not None:
                found[names[value]] = gradients[value]
            if value in barriers:
                found.pop(names[value], None)
        if self._wrt is not None:
            found = {name: g for name, g in found.items() if name in self._wrt}
        return found


__all__ = ["Contribution", "Walk"]
