"""Is the backward pass in this file right? Checked without running it, by the dataflow alone.

The forward operators are differentiated anew, and the operators of the file are laid beside the derived ones. Names may
differ; what counts is that each operator reads the values that the derivation says it must, as they are at that moment.
So a read of an overwritten blob, a wrong summand or a missing operator is found, and a renamed blob is not reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netgrad.autodiff.backward import build
from netgrad.autodiff.errors import GradientError, OverwrittenError, describe
from netgrad.autodiff.explanation import backward_start
from netgrad.autodiff.forward import Forward
from netgrad.proto import caffe2_pb2


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a backward pass.

    Attributes:
        position: the operator in the net; -1 where the net as a whole is meant.
        text: what is wrong, what was expected, what to do.
    """

    position: int
    text: str

    def __str__(self) -> str:
        return self.text


def verify(net: Any, ys: Sequence[Any] | Mapping[Any, Any] | None = None) -> list[Finding]:
    """Compares a net's backward pass with the one that its forward operators call for.

    Args:
        net: a Net, a NetDef, or a list of OperatorDefs; operators up to the first gradient operator are the forward net.
        ys: what is differentiated; None: the blobs that the pass fills with ones (``<blob>_autogen_grad``).

    Returns:
        What is wrong, in the order of the operators; nothing when the pass is right.
    """
    proto = net.Proto() if hasattr(net, "Proto") else net
    ops = list(proto.op) if hasattr(proto, "op") else list(proto)
    start = backward_start(ops)
    if start == len(ops):
        return [Finding(-1, "the net has no backward pass: no operator is marked as a gradient operator")]
    if ys is None:
        ys = _ys(ops, start)
        if not ys:
            return [Finding(-1, "the pass fills no gradient with ones: say which blobs are differentiated, and which blobs "
                            "hold their gradients")]
    forward, passes = _split(ops, start)
    try:
        derived = build(forward, dict(ys) if isinstance(ys, Mapping) else list(ys))
        wanted = derived.operators()
        kept = forward
    except OverwrittenError as error:
        return [Finding(-1, f"no backward pass of these forward operators can be right: {error}")]
    except GradientError as error:
        return [Finding(-1, str(error))]
    return _Comparison(kept, passes, wanted, start).run()


def _ys(ops: Sequence[Any], start: int) -> list[str]:
    return [op.input[0] for op in ops[start:]
            if op.type == "ConstantFill" and not op.is_gradient_op and op.input and op.output[0].endswith("_autogen_grad")]


def _split(ops: Sequence[Any], start: int) -> tuple[list[Any], list[Any]]:
    """Forward operators, and those of the pass (what comes after it, an update say, is left out)."""
    end = max((k + 1 for k, op in enumerate(ops) if op.is_gradient_op or k == start), default=start)
    while end < len(ops) and _automatic(ops[end]):
        end += 1
    return list(ops[:start]), list(ops[start:end])


def _automatic(op: Any) -> bool:
    return op.type in ("Sum", "Concat") and "is_auto_gen_sum_ops:1" in op.device_option.extra_info


class _Comparison:
    """Plays both passes: the file's and the derived one. Equal operators have equal values."""

    def __init__(self, forward: list[Any], found: list[Any], wanted: list[Any], start: int) -> None:
        self.forward = Forward(forward)
        self.found = found
        self.wanted = wanted
        self.start = start

    def run(self) -> list[Finding]:
        keys = [_key(op) for op in self.found]
        meant, available = self._play(self.wanted), self._play(self.found)
        waiting: dict[Any, list[int]] = {}
        for position, key in enumerate(keys):
            waiting.setdefault((key, _operands(self.found[position], available[position])), []).append(position)
        matched: set[int] = set()
        findings: list[Finding] = []
        for op, operands in zip(self.wanted, meant):
            candidates = waiting.get((_key(op), _operands(op, operands)))
            if candidates:
                matched.add(candidates.pop(0))
                continue
            findings.append(self._missing(op, operands, keys, available, matched))
        left = [position for position in range(len(self.found)) if position not in matched
                and position not in {f.position - self.start for f in findings}]
        for position in left:
            op = self.found[position]
            findings.append(Finding(self.start + position, f"{describe(op, self.start + position)} is not part of the "
                                    "derivative, or reads values that it must not"))
        return sorted(findings, key=lambda f: f.position)

    def _play(self, ops: list[Any]) -> list[list[Any]]:
        """For each operator the values it reads. A value is known by how it was made: equal histories, equal values."""
        holds: dict[str, Any] = {name: ("forward", name, self.forward.versions(name).index(value))
                                 for name, value in self.forward.current.items()}
        table: dict[Any, int] = {}
        reads = []
        for op in ops:
            operands = [holds.get(name, ("outside", name)) for name in op.input]
            reads.append(operands)
            made = table.setdefault((_key(op), _operands(op, operands)), len(table))
            identity = (_key(op), made, _operands(op, operands))
            for k, name in enumerate(op.output):
                holds[name] = ("made", _intern(identity), k)
        return reads

    def _missing(self, op: Any, operands: list[Any], keys: list[Any], available: list[list[Any]],
                 matched: set[int]) -> Finding:
        """The derived operator has no equal in the file: the nearest one is named, and what it reads wrongly."""
        for position, key in enumerate(keys):
            if position in matched or key != _key(op):
                continue
            wrong = [name for name, got, want in zip(self.found[position].input, available[position], operands)
                     if got != want]
            if wrong and len(wrong) < max(2, len(operands)):
                return Finding(self.start + position,
                               f"{describe(self.found[position], self.start + position)} reads {', '.join(map(repr, wrong))} "
                               "when it holds another value than the derivative needs: it was overwritten, or is the wrong "
                               "blob; derive the pass anew (netgrad backward)")
        return Finding(-1, f"the derivative needs {describe(op)}, and the net has no such operator on these values; derive "
                       "the pass anew (netgrad backward)")


_interned: dict[Any, int] = {}


def _intern(identity: Any) -> int:
    """A small number for a value's history, so that histories do not nest."""
    return _interned.setdefault(identity, len(_interned))


def _key(op: Any) -> Any:
    """What must be equal of two operators besides their operands."""
    bare = caffe2_pb2.OperatorDef(type=op.type)
    bare.arg.extend(sorted(op.arg, key=lambda a: (a.name, a.SerializeToString())))
    return bare.SerializeToString(deterministic=True)


def _operands(op: Any, operands: list[Any]) -> Any:
    """Operands as a key; a Sum's in any order."""
    return tuple(sorted(operands, key=repr)) if op.type == "Sum" else tuple(operands)
