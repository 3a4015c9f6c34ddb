"""All that is wrong with a net, at once: declarations, undefined blobs, what stands in a derivative's way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from netgrad.autodiff import python_rules
from netgrad.autodiff.errors import GradientError
from netgrad.autodiff.explanation import backward_start
from netgrad.graph import registry
from netgrad.graph.rules import Forbidden
from netgrad.graph.schema import check_operator, known_argument


@dataclass(frozen=True)
class Problem:
    """One thing to know about a net.

    Attributes:
        kind: "schema" (an operator breaks its declaration), "blob" (a blob is read or promised that nothing makes),
            "gradient" (the derivative that was asked for does not exist), or, for the notes, "argument" (an operator is
            given one that it does not have), "no rule" and "no kernel".
        position: the operator; -1 where the net as a whole is meant.
        text: what was found, what was expected, what to do.
        is_note: nothing that stops the net: arguments without effect, operators that cannot be run, or differentiated,
            should anybody want to.
    """

    kind: str
    position: int
    text: str
    is_note: bool = False

    def __str__(self) -> str:
        return self.text


def check(net: Any, ys: Sequence[Any] | Mapping[Any, Any] | None = None) -> list[Problem]:
    """All problems of a net, in the order of its operators, and then notes. Nothing is run.

    Args:
        net: a `Net` or a NetDef.
        ys: what is to be differentiated, if anything, as for `Net.AddGradientOperators`.
    """
    proto = net.Proto() if hasattr(net, "Proto") else net
    found = sorted([*_schema(proto), *_blobs(proto)], key=lambda problem: problem.position)
    start = backward_start(proto.op)
    if ys is not None:
        found += _gradient(proto.op[:start], ys)
    elif start == len(proto.op):
        found += _without_rule(proto)
    return [*found, *_unknown_arguments(proto), *_without_kernel(proto)]


def _schema(proto: Any) -> Iterator[Problem]:
    for position, op in enumerate(proto.op):
        for problem in check_operator(op):
            yield Problem("schema", position, f"operator {position}, {op.type}: {problem}")


def _blobs(proto: Any) -> Iterator[Problem]:
    """Blobs that are read before anything writes them, or promised and never written."""
    known = set(proto.external_input)
    first_writer: dict[str, int] = {}
    for position, op in enumerate(proto.op):
        for name in op.output:
            first_writer.setdefault(name, position)
    reported: set[str] = set()
    for position, op in enumerate(proto.op):
        for name in op.input:
            if name and name not in known and name not in reported:
                reported.add(name)
                text = (f"operator {position}, {op.type}, reads {name!r}, which no operator before it writes and which "
                        f"is no external input; {_cure(name, proto, first_writer)}")
                yield Problem("blob", position, text)
        known.update(op.output)
    for name in proto.external_output:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            yield Problem("blob", -1, f"the external output {name!r} is written by no operator and is no external "
                          "input; " + (f"did you mean {near[0]!r}?" if near else "correct the name, or remove it"))


def _cure(name: str, proto: Any, first_writer: Mapping[str, int]) -> str:
    if name in first_writer:
        position = first_writer[name]
        return f"operator {position}, {proto.op[position].type}, writes it: is the order right?"
    near = get_close_matches(name, {*proto.external_input, *first_writer}, n=1)
    return f"did you mean {near[0]!r}?" if near else "correct the name, or declare it as an external input"


def _gradient(ops: Sequence[Any], ys: Any) -> list[Problem]:
    from netgrad.autodiff.backward import build

    try:
        build(ops, ys)
    except (GradientError, ValueError) as error:
        return [Problem("gradient", -1, str(error))]
    return []


def _without_rule(proto: Any) -> Iterator[Problem]:
    kinds: dict[str, list[int]] = {}
    for position, op in enumerate(proto.op):
        rule = python_rules.find(op.type)
        if registry.find(op.type) is not None and (rule is None or isinstance(rule, Forbidden)):
            kinds.setdefault(op.type, []).append(position)
    for type, positions in kinds.items():
        reason = getattr(python_rules.find(type), "reason", "") or python_rules.why_none(type)
        yield Problem("no rule", positions[0], f"{_which(type, positions)}: no gradient: {reason}", is_note=True)


def _unknown_arguments(proto: Any) -> Iterator[Problem]:
    for position, op in enumerate(proto.op):
        declaration = registry.find(op.type)
        if declaration is None:
            continue
        for argument in op.arg:
            if not known_argument(declaration, argument.name):
                names = list(declaration.argument_table)
                near = get_close_matches(argument.name, names, n=3)
                hint = (f"did you mean {' or '.join(map(repr, near))}?" if near else
                        f"it has {', '.join(map(repr, names))}" if names else "it has none at all")
                yield Problem("argument", position, f"operator {position}, {op.type}: there is no argument "
                              f"{argument.name!r}, which has no effect; {hint}", is_note=True)


def _without_kernel(proto: Any) -> Iterator[Problem]:
    kinds: dict[str, list[int]] = {}
    for position, op in enumerate(proto.op):
        declaration = registry.find(op.type)
        if declaration is not None and declaration.kernel is None:
            kinds.setdefault(op.type, []).append(position)
    for type, positions in kinds.items():
        yield Problem("no kernel", positions[0], f"{_which(type, positions)}: cannot be run: it is declared, but has "
                      "no kernel yet", is_note=True)


def _which(type: str, positions: Sequence[int]) -> str:
    shown = ", ".join(map(str, positions[:8])) + (", ..." if len(positions) > 8 else "")
    return f"operator{'s' * (len(positions) > 1)} {shown}, {type}"
