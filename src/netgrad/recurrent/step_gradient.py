"""The gradient of a step net: what runs backward once per time step.

It is made by `netgrad.autodiff.backward.build`, as any backward pass, from gradients given for what the step hands on.
Two things are particular. A gradient that is given and also flows in from inside the step is added up under the given
name, as Caffe2 writes it. And the gradients that leave the step (for the states, the input) have names of their own,
even where an operator passes its output's gradient on: one name cannot be linked to two places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from netgrad.autodiff import saving
from netgrad.autodiff.backward import build
from netgrad.graph.blob import BlobReference
from netgrad.graph.net import Net
from netgrad.graph.operator import CreateOperator
from netgrad.graph.schema import check_operator
from netgrad.graph.ssa import get_ssa, get_undefined_blobs
from netgrad.proto import caffe2_pb2


class StepGradient:
    """The backward pass of a step net.

    Args:
        step: the step net.
        outputs: what the step hands on to the next one; the gradient of ``h`` is given as ``h_grad``.
        leaving: blobs whose gradients the network around it needs: states, input.
        recomputed: blobs that are computed anew and need not be kept.
        overwritten: "error", or "save": the step net is changed so that values it overwrites and its gradient needs are
            kept.

    Attributes:
        net: the Net "RecurrentBackwardStep".
        gradient_of: blob of the step net -> its gradient, for those that have one.
        accumulated: names of what is added to given gradients.
    """

    def __init__(self, step: Net, outputs: Sequence[str], leaving: Sequence[str], recomputed: Iterable[str],
                 overwritten: str = "error") -> None:
        forward = step.Proto()
        known = {name for op in forward.op for name in (*op.input, *op.output)}
        given = {name: f"{name}_grad" for name in dict.fromkeys(outputs)}
        found = build(forward.op, {name: gradient for name, gradient in given.items() if name in known},
                      overwritten=overwritten)
        ops = found.operators()
        if found.saving.changes:
            changed = saving.changed(forward.op, found.saving)
            del forward.op[:]
            forward.op.extend(changed)
        self.gradient_of: dict[str, Any] = {**{name: given[name] for name in given if name not in known},
                                            **found.gradients}
        self.accumulated: list[str] = []
        passed_on = {blob for blob in leaving if self.gradient_of.get(blob) in given.values()}
        self._add_up_in_place(ops, set(given.values()))
        self._write_given_names(ops, set(given.values()), leaving)
        self._separate(ops, leaving, set(given.values()), passed_on)
        self._make_dense(ops, forward.external_input)
        self.net = Net("RecurrentBackwardStep")
        proto = self.net.Proto()
        proto.op.extend(_recomputing(forward.op, recomputed))
        proto.op.extend(ops)
        proto.type = "simple"
        self._declare_kept(forward, proto)

    def _declare_kept(self, forward: Any, backward: Any) -> None:
        """Declares inputs: what the step makes, does not hand on, and its gradient reads."""
        ssa, _ = get_ssa(backward)
        undefined = get_undefined_blobs(ssa)
        _, versions = get_ssa(forward)
        backward.external_input.extend(name for name, version in versions.items()
                                       if version > 0 and name in undefined and name not in forward.external_output)

    def _add_up_in_place(self, ops: list[Any], given: set[str]) -> None:
        """Turns ``h_grad_2 = Sum(h_grad, h_grad_1, ...)`` into ``h_grad = Sum(h_grad, h_grad_accum)`` and so on."""
        for total in [op for op in ops if op.type == "Sum" and op.input[0] in given
                      and _is_numbered(op.output[0], op.input[0])]:
            name, result, terms = total.input[0], total.output[0], list(total.input[1:])
            first = next((term for term in terms if _is_numbered(term, name)), None)
            accumulated = f"{name}_accum"
            if any(op is not total and (name in op.input or first in op.input) for op in ops):
                continue
            if first is not None:
                maker = next(op for op in ops if first in op.output)
                maker.output[list(maker.output).index(first)] = accumulated
                total.input.remove(first)
            elif len(terms) > 1:
                maker = total
                total.input.remove(name)
                total.output[0] = accumulated
            else:
                continue
            self.accumulated.append(accumulated)
            position = _position(ops, maker) + 1
            while position < len(ops) and list(ops[position].input[1:]) == [f"{ops[position].output[0]}_accum"]:
                position += 1  # those of the maker's other outputs come first
            ops.insert(position, _operator("Sum", [name, accumulated], name))
            self._rename(ops, position + 1, result, name)
            if len(total.input) == 1:
                del ops[_position(ops, total)]

    def _write_given_names(self, ops: list[Any], given: set[str], leaving: Sequence[str]) -> None:
        """Where the last reader of a given gradient makes that of an older value of its name, lets it take the name."""
        kept = {self.gradient_of.get(blob) for blob in leaving}
        for position, op in enumerate(ops):
            for result in list(op.output):
                for name in given.intersection(op.input):
                    if _is_numbered(result, name) and result not in kept and _may_overwrite(op, name, result) \
                            and not any(name in later.input for later in ops[position + 1:]):
                        self._rename(ops, position, result, name)

    def _rename(self, ops: Sequence[Any], start: int, old: str, new: str) -> None:
        for op in ops[start:]:
            op.input[:] = [new if name == old else name for name in op.input]
            op.output[:] = [new if name == old else name for name in op.output]
        self.gradient_of = {blob: new if gradient == old else gradient for blob, gradient in self.gradient_of.items()}

    def _separate(self, ops: list[Any], leaving: Sequence[str], given: set[str], passed_on: set[str]) -> None:
        """Copies gradients that leave the step for several places, or are given ones.

        Args:
            passed_on: blobs whose gradient is a given one as it is; it is copied before something is added to it.
        """
        written = {name for op in ops for name in op.output}
        taken = set(given)
        names = {name for op in ops for name in (*op.input, *op.output)} | taken
        for blob in leaving:
            gradient = self.gradient_of.get(blob)
            if isinstance(gradient, str) and gradient in taken:
                fresh = _fresh(f"{blob}_grad", names)
                copy = _operator("Copy", [gradient], fresh, is_gradient=True)
                ops.insert(0 if blob in passed_on and gradient in written else len(ops), copy)
                self.gradient_of[blob] = gradient = fresh
            if isinstance(gradient, str):
                taken.add(gradient)

    def _make_dense(self, ops: list[Any], parameters: Iterable[str]) -> None:
        """Makes sparse gradients dense: those of the steps are added up."""
        names = {name for op in ops for name in (*op.input, *op.output)}
        for blob in parameters:
            gradient = self.gradient_of.get(blob)
            if isinstance(gradient, tuple):
                fresh = _fresh(f"{blob}_grad", names)
                ops.append(_operator("SparseToDense", [*gradient, blob], fresh, is_gradient=True))
                self.gradient_of[blob] = fresh


def _position(ops: Sequence[Any], wanted: Any) -> int:
    return next(k for k, op in enumerate(ops) if op is wanted)


def _may_overwrite(op: Any, name: str, result: str) -> bool:
    """Whether an operator may write one of its outputs over an input."""
    copy = caffe2_pb2.OperatorDef()
    copy.CopyFrom(op)
    copy.output[:] = [name if output == result else output for output in op.output]
    return not check_operator(copy)


def _is_numbered(name: str, base: str) -> bool:
    """Whether a name is the base with a number, as where the base was taken."""
    return name.startswith(base + "_") and name[len(base) + 1:].isdigit()


def _operator(type: str, inputs: Sequence[str], output: str, is_gradient: bool = False) -> Any:
    op = CreateOperator(type, list(map(BlobReference, inputs)), [BlobReference(output)])
    if is_gradient:
        op.is_gradient_op = True
    return op


def _fresh(name: str, taken: set[str]) -> str:
    found, k = name, 0
    while found in taken:
        k += 1
        found = f"{name}_{k}"
    taken.add(found)
    return found


def _recomputing(ops: Sequence[Any], blobs: Iterable[str]) -> list[Any]:
    """The operators that compute some blobs, in order; what else these make is computed anew with them."""
    wanted = set(blobs)
    chosen: Mapping[int, Any] = {}
    while len(chosen) < len(chosen := {k: op for k, op in enumerate(ops) if not wanted.isdisjoint(op.output)}):
        wanted.update(name for op in chosen.values() for name in op.output)
    copies = []
    for op in chosen.values():
        copy = caffe2_pb2.OperatorDef()
        copy.CopyFrom(op)
        copies.append(copy)
    return copies
