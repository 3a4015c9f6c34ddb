"""Why a blob has the gradient that it has, or none: zero, not connected, undefined; where paths end; what mends it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

from netgrad.autodiff import python_rules
from netgrad.autodiff.accumulate import AUTO_SUM_TAG
from netgrad.autodiff.backward import build
from netgrad.autodiff.errors import GradientError, OverwrittenError, UnknownBlobError, describe
from netgrad.autodiff.forward import Forward
from netgrad.graph import registry
from netgrad.graph.rules import Forbidden, NoGradient

HAS, ZERO, UNCONNECTED, UNDEFINED = "has a gradient", "zero", "not connected", "undefined"


@dataclass(repr=False)
class Explanation:
    """What is known of one blob's gradient.

    Attributes:
        blob: the blob.
        outcome: `HAS`, `ZERO` (every path ends in an operator through which nothing flows), `UNCONNECTED` (no path
            leads from the blob to what is differentiated) or `UNDEFINED` (an operator on the path has no rule, or
            refuses).
        path: the operators along the way, from the blob on, each in one line.
        ends: operators where paths end, and why.
        cure: what would mend it; empty where nothing needs mending.
    """

    blob: str
    outcome: str
    path: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    cure: str = ""

    def __str__(self) -> str:
        head = {HAS: f"{self.blob!r} has a gradient",
                ZERO: f"the gradient of {self.blob!r} is zero: every path from it ends",
                UNCONNECTED: f"{self.blob!r} is not connected to what is differentiated",
                UNDEFINED: f"the gradient of {self.blob!r} is undefined"}[self.outcome]
        lines = [head]
        if self.path:
            lines += ["path:", *(f"  {step}" for step in self.path)]
        if self.ends:
            lines += ["where it ends:", *(f"  {end}" for end in self.ends)]
        if self.cure:
            lines.append(f"what to do: {self.cure}")
        return "\n".join(lines)

    __repr__ = __str__  # at a prompt, too, it is to be read


def explain(net: Any, blob: Any, ys: Sequence[Any] | Mapping[Any, Any] | None = None) -> Explanation:
    """Explains the gradient of a blob.

    Args:
        net: a Net, a NetDef, or a list of OperatorDefs.
        blob: the blob in question.
        ys: what is differentiated, as for `Net.AddGradientOperators`; None: what the net's own backward pass
            differentiates (its automatic fills), or else the outputs that nothing reads.

    Raises:
        UnknownBlobError: the blob does not occur in the net.
    """
    proto = net.Proto() if hasattr(net, "Proto") else net
    ops = list(proto.op) if hasattr(proto, "op") else list(proto)
    line_of = _lines(net)
    start = backward_start(ops)
    forward = Forward(ops[:start])
    name = str(blob)
    if name not in forward.current:
        raise UnknownBlobError(f"the blob {name!r} does not occur in the forward operators of this net")
    targets = _targets(ops, start, forward, ys, list(getattr(proto, "external_output", ())))
    return _Explainer(forward, targets, line_of).explain(name)


def backward_start(ops: Sequence[Any]) -> int:
    """The position of the first operator of a net's backward pass; the number of operators if it has none."""
    return next((index for index, op in enumerate(ops) if of_backward_pass(op)), len(ops))


def of_backward_pass(op: Any) -> bool:
    """Whether an operator belongs to a backward pass: a gradient operator, the fill of a y, or an automatic sum."""
    return bool(op.is_gradient_op) or is_fill(op) or f"{AUTO_SUM_TAG}:1" in op.device_option.extra_info


def is_fill(op: Any) -> bool:
    """Whether an operator fills the gradient of a y with ones: known by its name, which may end in a number."""
    if op.type != "ConstantFill" or op.is_gradient_op or len(op.input) != 1 or len(op.output) != 1:
        return False
    named = re.search(re.escape(op.input[0]) + r"_autogen_grad(_\d+)?\Z", op.output[0])
    return named is not None and [(a.name, a.f) for a in op.arg] == [("value", 1.0)]


def _lines(net: Any) -> Any:
    if not hasattr(net, "line_of"):
        return None

    def line_of(index: int) -> str | None:
        found = net.line_of(index)
        return f"{found[0]}:{found[1]}" if found else None

    return line_of


def _targets(ops: Sequence[Any], start: int, forward: Forward, ys: Any, outputs: list[str]) -> dict[str, int]:
    """The blobs that are differentiated, and their values."""
    if ys is None:
        names: Iterable[str] = [op.input[0] for op in ops[start:] if is_fill(op)]
        names = list(names) or _losses(forward, outputs)
    else:
        names = [str(y) for y in ([ys] if isinstance(ys, str) else ys)]
    for name in names:
        if name not in forward.current:
            raise UnknownBlobError(f"the blob {name!r}, which is to be differentiated, does not occur in this net")
    return {name: forward.current[name] for name in names}


def _losses(forward: Forward, outputs: list[str]) -> list[str]:
    """What a net seems to be made for: its declared outputs, else outputs that nothing reads of operators that have a
    gradient, else all that nothing reads."""
    declared = [name for name in outputs if name in forward.current]
    if declared:
        return declared
    last = [v for row in forward.outs for v in row if v in forward.unread]
    usable = [v for v in last if not isinstance(python_rules.find(forward.types[forward.producer[v]]),
                                                (Forbidden, NoGradient, NoneType))]
    return [forward.names[v] for v in usable or last]


class _Explainer:
    def __init__(self, forward: Forward, targets: dict[str, int], line_of: Any) -> None:
        self.forward = forward
        self.targets = targets
        self.line_of = line_of

    def explain(self, name: str) -> Explanation:
        forward = self.forward
        goals = set(self.targets.values())
        first = forward.versions(name)[0]
        of = ", ".join(map(repr, self.targets))
        path, ends = self._search(first, goals)
        if path is None and "ZeroGradient" in forward.types and self._has_gradient(name):
            return Explanation(name, HAS, ends=["ZeroGradient supplies zeros"])
        if path is None and not ends:
            return Explanation(name, UNCONNECTED, cure=f"no operator leads from it to {of}: check the names on the way "
                               "(a misspelt name makes a new blob), or differentiate something that depends on it")
        if path is None:
            return Explanation(name, ZERO, ends=ends,
                               cure="nothing, if that is meant; else replace the operators named")
        steps = [self._describe(k) for k in path]
        try:
            backward = build(forward.ops, list(self.targets), wrt=[name], line_of=self.line_of)
        except GradientError as error:
            cure = 'keep a copy (overwritten="save") or another name' if isinstance(error, OverwrittenError) else \
                self._cure(path)
            return Explanation(name, UNDEFINED, steps, [str(error)], cure)
        if name in backward.gradients:
            return Explanation(name, HAS, steps)
        return Explanation(name, ZERO, steps, ends or ["an operator on the path has no term for this input"],
                           "nothing, if that is meant; else replace the operators named")

    def _has_gradient(self, name: str) -> bool:
        try:
            return name in build(self.forward.ops, list(self.targets), wrt=[name]).gradients
        except GradientError:
            return False

    def _search(self, first: int, goals: set[int]) -> tuple[list[int] | None, list[str]]:
        """A shortest path of operators from a value to a goal through which gradient may flow, and where others end."""
        forward = self.forward
        readers: dict[int, list[int]] = {}
        for index, row in enumerate(forward.ins):
            for value in set(row):
                readers.setdefault(value, []).append(index)
        came: dict[int, tuple[int, int]] = {}
        queue = [first]
        seen = {first}
        ends: list[str] = []
        reaches = self._reaches(goals)
        for value in queue:
            if value in goals:
                path = []
                while value != first:
                    operator, value = came[value]
                    path.append(operator)
                return path[::-1], ends
            for index in readers.get(value, ()):
                outs = forward.outs[index]
                if isinstance(python_rules.find(forward.types[index]), NoGradient):
                    if any(v in reaches for v in outs):
                        ends.append(f"{self._describe(index)}: no gradient passes through it")
                    continue
                for made in outs:
                    if made not in seen:
                        seen.add(made)
                        came[made] = (index, value)
                        queue.append(made)
        return None, ends

    def _reaches(self, goals: set[int]) -> set[int]:
        """Values on which a goal depends."""
        forward = self.forward
        found = set(goals)
        for row, made in zip(reversed(forward.ins), reversed(forward.outs)):
            if not found.isdisjoint(made):
                found.update(row)
        return found

    def _describe(self, index: int) -> str:
        return describe(self.forward.ops[index], index, self.line_of(index) if self.line_of else None)

    def _cure(self, path: list[int]) -> str:
        for index in path:
            type = self.forward.types[index]
            rule = python_rules.find(type)
            if rule is None or isinstance(rule, Forbidden):
                near = "" if registry.find(type) else f" or correct the type ({', '.join(registry.close_names(type))})"
                return f"register a gradient for {type}, put StopGradient before it, or use another operator{near}"
        return "say what is differentiated, where the message speaks of another output; else as the message says"
