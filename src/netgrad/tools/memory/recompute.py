"""Values of the forward pass computed anew in the backward pass, so that they need not be kept in between.

What is saved shows with `release_blobs_when_used`: a blob that the backward pass does not read any more is freed in the
forward pass. The price is one more run of the operators that make these blobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from netgrad.graph import registry
from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import NetError
from netgrad.runtime.planning.liveness import BEFORE, Liveness, Value
from netgrad.tools.memory import names


class CannotRecompute(NetError, ValueError):
    """A blob cannot be computed a second time with the same result."""


def recompute(net: caffe2_pb2.NetDef, blobs: Iterable[Any]) -> caffe2_pb2.NetDef:
    """A copy of a training net whose gradient operators read fresh copies of some blobs.

    The operators that made a blob run again, under other names, before the first gradient operator that reads it. Of
    what these read, blobs that are listed too are computed anew, others must still be there.

    Args:
        net: stays as it is.
        blobs: results of the forward pass, such as every second layer's.

    Raises:
        CannotRecompute: an operator draws random numbers, keeps state or has other effects, must work in place, or
            reads what is overwritten by then. The message names operator and blob.
    """
    work = _Work(net, names.plain(blobs))
    for position, op in enumerate(net.op):
        changed = caffe2_pb2.OperatorDef()
        changed.CopyFrom(op)
        if op.is_gradient_op:
            for k, value in enumerate(work.lives.reads[position]):
                if value is not None and work.is_wanted(value) and value.blob not in op.output:
                    changed.input[k] = work.anew(value, position)
        work.ops.append(changed)
    result = caffe2_pb2.NetDef()
    result.CopyFrom(net)
    del result.op[:]
    result.op.extend(work.ops)
    return result


class _Work:
    """The net in the making."""

    def __init__(self, net: caffe2_pb2.NetDef, wanted: set[str]) -> None:
        self.net = net
        self.lives = Liveness(net.op)
        self.ops: list[caffe2_pb2.OperatorDef] = []
        self._wanted = wanted
        self._taken = names.names_of(net)
        self._made: dict[Value, str] = {}
        self._versions: dict[str, list[Value]] = {}
        for value in self.lives.values:
            self._versions.setdefault(value.blob, []).append(value)
        if unknown := sorted(wanted - set(self._versions)):
            raise CannotRecompute(f"net {net.name!r} has no blob {unknown[0]!r}")

    def is_wanted(self, value: Value) -> bool:
        return value.blob in self._wanted and value.made != BEFORE and not self.net.op[value.made].is_gradient_op

    def anew(self, value: Value, position: int) -> str:
        """The name of a value's second copy, computed before the operator at ``position`` unless it is there."""
        pending = [value]
        while pending:
            current = pending[-1]
            op, reads = self.net.op[current.made], self.lives.reads[current.made]
            missing = [v for v in reads if v is not None and self.is_wanted(v) and v not in self._made]
            if current not in self._made and missing:
                pending += missing
                continue
            pending.pop()
            if current not in self._made:
                self._again(current, op, position)
        return self._made[value]

    def _again(self, value: Value, op: Any, position: int) -> None:
        where = f"operator {value.made}, {op.type}, which makes {value.blob!r},"
        declaration = registry.find(op.type)
        if declaration is None or declaration.effects:
            why = "has effects" if declaration is None else f"has effects ({', '.join(sorted(declaration.effects))})"
            raise CannotRecompute(f"{where} {why}: run again it need not give the same; keep the blob")
        if declaration.inplace_required:
            raise CannotRecompute(f"{where} must work in place; keep the blob")
        copy = caffe2_pb2.OperatorDef()
        copy.CopyFrom(op)
        for k, read in enumerate(self.lives.reads[value.made]):
            if read is None:
                continue
            if read in self._made:
                copy.input[k] = self._made[read]
            elif self._at(read.blob, position) is not read:
                user = f"operator {position}, {self.net.op[position].type},"
                raise CannotRecompute(f"{where} reads {read.blob!r}, which is overwritten before {user} needs the "
                                      f"result; list {read.blob!r} too, or keep {value.blob!r}")
        for k, written in enumerate(self.lives.writes[value.made]):
            if written is not None:
                copy.output[k] = self._made[written] = self._name(written.blob)
        self.ops.append(copy)

    def _at(self, blob: str, position: int) -> Value | None:
        """The version that a blob has before the operator at a position runs."""
        return next((value for value in reversed(self._versions[blob]) if value.made < position), None)

    def _name(self, blob: str) -> str:
        name, k = f"{blob}_recomputed", 0
        while name in self._taken:
            k += 1
            name = f"{blob}_recomputed_{k}"
        self._taken.add(name)
        return name
