"""Is the backward pass in this file right? Checked without running it, by the dataflow alone.

The forward operators are differentiated anew, and the operators of the file are laid beside the derived ones. Names may
differ; what counts is that each operator reads the values that the derivation says it must, as they are at that moment.
So a read of an overwritten blob, a wrong summand or a missing operator is found, and a renamed blob is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netgrad.autodiff.backward import BackwardPass, build
from netgrad.autodiff.errors import GradientError, describe
from netgrad.autodiff.explanation import backward_start, is_fill, of_backward_pass
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


def verify(net: Any, ys: Sequence[Any] | Mapping[Any, Any] | None = None,
           wrt: Sequence[Any] | None = None) -> list[Finding]:
    """Compares a net's backward pass with the one that its forward operators call for.

    Args:
        net: a Net, a NetDef, or a list of OperatorDefs; operators up to the first gradient operator are the forward
            net.
        ys: what is differentiated; None: the blobs that the pass fills with ones (``<blob>_autogen_grad``).
        wrt: the blobs that the pass was restricted to, if it was.

    Returns:
        What is wrong, in the order of the operators; nothing when the pass is right.
    """
    proto = net.Proto() if hasattr(net, "Proto") else net
    ops = list(proto.op) if hasattr(proto, "op") else list(proto)
    start = backward_start(ops)
    if ys is None:
        if start == len(ops):
            return [Finding(-1, "the net has no backward pass: no operator is marked as a gradient operator")]
        if not any(is_fill(op) for op in ops[start:]):
            return [Finding(-1, "the pass fills no gradient with ones: say which blobs are differentiated, and which "
                            "blobs hold their gradients")]
        return [finding for first, end, of in _passes(ops, start)
                for finding in _against(ops[:first], ops[first:end], first, of, wrt)]
    return _against(ops[:start], ops[start:], start, ys, wrt)


def _passes(ops: list[Any], start: int) -> Iterator[tuple[int, int, list[str]]]:
    """First operator, end and ys of each pass. A later one begins with its fills; all before is forward to it."""
    fills = [k for k in range(start, len(ops)) if is_fill(ops[k])]
    firsts = [k for k in fills if k - 1 not in fills]
    for first, end in zip(firsts, [*firsts[1:], len(ops)]):
        yield first, end, [ops[k].input[0] for k in fills if first <= k < end]


def _against(forward: list[Any], found: list[Any], start: int, ys: Any, wrt: Any) -> list[Finding]:
    """Compares a pass with the derived one, under each of the options that it may have been made with."""
    best: list[Finding] | None = None
    for options in ({}, {"overwritten": "save"}, {"share_results": False},
                    {"overwritten": "save", "share_results": False}):
        findings = _differences(forward, found, start, ys, wrt, options)
        if best is None or len(findings) < len(best):
            best = findings
        if not findings:
            break
    return best or []


def _differences(forward: list[Any], found: list[Any], start: int, ys: Any, wrt: Any,
                 options: dict[str, Any]) -> list[Finding]:
    ys = dict(ys) if isinstance(ys, Mapping) else list(ys)
    try:
        wanted = build(forward, ys, wrt=wrt, **options)
    except GradientError as error:
        return [Finding(-1, str(error))]
    if wanted.saving.changes:  # what it would put aside was not
        try:
            build(forward, ys, wrt=wrt, share_results=options.get("share_results", True))
        except GradientError as error:
            return [Finding(-1, f"no backward pass of these forward operators can be right: {error}")]
    return _Comparison(forward, found, wanted, start).run()


#: a value of a pass: ("forward", value), ("outside", name) or ("made", operator, output)
_Value = tuple[Any, ...]


class _Comparison:
    """Lays the operators of a file beside the derived ones, each once, by what they compute."""

    def __init__(self, forward: list[Any], found: list[Any], derived: BackwardPass, start: int) -> None:
        self.forward = Forward(forward)
        self.gradients = derived.gradients
        wanted = derived.operators()
        self.start = start
        self.found, self.found_keys, self.found_reads = found, [_key(op) for op in found], self._reads(found)
        self.wanted, self.wanted_keys, self.wanted_reads = wanted, [_key(op) for op in wanted], self._reads(wanted)
        #: operator of the file -> the derived one it stands for
        self.match: dict[int, int] = {}

    def _reads(self, ops: list[Any]) -> list[list[_Value]]:
        """The values that each operator reads."""
        holds: dict[str, _Value] = {name: ("forward", value) for name, value in self.forward.current.items()}
        reads = []
        for index, op in enumerate(ops):
            reads.append([holds.get(name, ("outside", name)) for name in op.input])
            for k, name in enumerate(op.output):
                holds[name] = ("made", index, k)
        return reads

    def run(self) -> list[Finding]:
        self._match_equal()
        matched = set(self.match.values())
        findings = []
        for index, op in enumerate(self.wanted):
            if index not in matched and (finding := self._nearest(index, op)) is not None:
                findings.append(finding)
        end = max([*self.match, *(k for k, op in enumerate(self.found) if of_backward_pass(op))], default=-1)
        findings += [Finding(self.start + position,
                             f"{describe(op, self.start + position)} is not part of the derivative")
                     for position, op in enumerate(self.found[:end + 1])  # what comes later is an update, say
                     if position not in self.match]
        findings += self._overwrites() + self._misnamed()
        return sorted(findings, key=lambda finding: finding.position)

    def _overwrites(self) -> list[Finding]:
        """Operators of the pass that write over a forward blob, or over one that the caller gave."""
        given = {v[1] for reads in self.found_reads for v in reads if v[0] == "outside"}
        findings = []
        for position, index in self.match.items():
            op = self.found[position]
            for name, meant in zip(op.output, self.wanted[index].output):
                if name != meant and (name in given or name in self.forward.current):
                    findings.append(Finding(self.start + position, f"{describe(op, self.start + position)} writes over "
                                            f"{name!r}, which is not the pass's own; derive the pass anew"))
        return findings

    def _misnamed(self) -> list[Finding]:
        """Blobs called like the gradient of one blob (``<blob>_grad``) that hold that of another."""
        holds = {name: (position, k) for position, op in enumerate(self.found) for k, name in enumerate(op.output)}
        meant = {name: (index, k) for index, op in enumerate(self.wanted) for k, name in enumerate(op.output)}
        owners: dict[tuple[int, int], list[str]] = {}
        for blob, gradient in self.gradients.items():
            if isinstance(gradient, str) and gradient in meant:
                owners.setdefault(meant[gradient], []).append(blob)
        findings = []
        for name, (position, k) in holds.items():
            index = self.match.get(position)
            if index is None or not name.endswith("_grad") or self.wanted[index].output[k] == name:
                continue
            blob, of = name.removesuffix("_grad"), owners.get((index, k), [])
            if of and blob in self.gradients and blob not in of:
                findings.append(Finding(self.start + position, f"{name!r} holds the gradient of "
                                        f"{' and '.join(map(repr, of))}, not that of {blob!r}"))
        return findings

    def _match_equal(self) -> None:
        """Matches operators that compute the same from the same: known by their whole history, in numbers."""
        table: dict[Any, int] = {}
        waiting: dict[int, list[int]] = {}
        for index, history in enumerate(self._histories(self.wanted_keys, self.wanted_reads, self.wanted, table)):
            waiting.setdefault(history, []).append(index)
        for position, history in enumerate(self._histories(self.found_keys, self.found_reads, self.found, table)):
            if waiting.get(history):
                self.match[position] = waiting[history].pop(0)

    @staticmethod
    def _histories(keys: list[Any], reads: list[list[_Value]], ops: list[Any], table: dict[Any, int]) -> list[int]:
        histories: list[int] = []
        for key, operands, op in zip(keys, reads, ops):
            known: list[Any] = [("made", histories[v[1]], v[2]) if v[0] == "made" else v for v in operands]
            if op.type == "Sum":
                known.sort(key=repr)
            histories.append(table.setdefault((key, *known), len(table)))
        return histories

    def _nearest(self, index: int, op: Any) -> Finding | None:
        """What stands in the file for a derived operator that has no equal there, and what it reads wrongly.

        None where it only continues what is wrong already.
        """
        best: tuple[int, int, list[str]] | None = None
        for position, key in enumerate(self.found_keys):
            if position in self.match or key != self.wanted_keys[index]:
                continue
            wrong = self._wrong(position, index)
            if best is None or len(wrong) < best[0]:
                best = len(wrong), position, wrong
        if best is None:
            return Finding(-1, f"the derivative needs {describe(op)}, and the net has no such operator; derive the "
                           "pass anew (netgrad backward)")
        _, position, wrong = best
        self.match[position] = index
        if not wrong:
            return None
        return Finding(self.start + position,
                       f"{describe(self.found[position], self.start + position)} reads {', '.join(map(repr, wrong))} "
                       "when it holds another value than the derivative needs: it was overwritten, or is the wrong "
                       "blob; derive the pass anew (netgrad backward)")

    def _wrong(self, position: int, index: int) -> list[str]:
        """The inputs of an operator of the file that are not those of a derived one."""
        meant = list(self.wanted_reads[index])
        translated = [("made", self.match[v[1]], v[2]) if v[0] == "made" and v[1] in self.match else
                      ("unknown", *v) if v[0] == "made" else v for v in self.found_reads[position]]
        names = self.found[position].input
        if self.found[position].type == "Sum":
            wrong = []
            for name, value in zip(names, translated):
                if value in meant:
                    meant.remove(value)
                else:
                    wrong.append(name)
            return wrong or (list(names) if meant else [])
        wrong = [name for name, got, want in zip(names, translated, meant) if got != want]
        return wrong + list(names[len(meant):])


def _key(op: Any) -> Any:
    """What must be equal of two operators besides their operands."""
    bare = caffe2_pb2.OperatorDef(type=op.type)
    bare.arg.extend(sorted(op.arg, key=lambda a: (a.name, a.SerializeToString())))
    return bare.SerializeToString(deterministic=True)
