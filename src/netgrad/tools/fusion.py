"""Fusing an operator into the one before it, in a NetDef."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from netgrad.graph import registry
from netgrad.proto import caffe2_pb2
from netgrad.runtime.planning.liveness import Liveness, Value
from netgrad.tools.memory.names import names_of


@dataclass
class Pair:
    """Two operators, the second of which alone reads the first one's result.

    Attributes:
        first, second: their positions.
        result: what the second writes.
    """

    first: int
    second: int
    result: Value


def pairs(net: caffe2_pb2.NetDef, first: str, second: str) -> Iterator[Pair]:
    """The pairs of these types that may become one operator at the place of the second.

    The result between them, the first one's first output, must be no external output, and nothing between may change
    what the first reads, or touch what else it writes. The net may be changed between pairs.
    """
    k = 0
    while k < len(net.op):
        if net.op[k].type == first:
            found = _pair(net, k, second)
            if found is not None:
                yield found
        k += 1


def _pair(net: caffe2_pb2.NetDef, k: int, second: str) -> Pair | None:
    lives = Liveness(net.op)
    between = next(iter(lives.writes[k]), None)
    if between is None:
        return None
    # an operator without a declaration is taken at its word here: these are what such fusions are about
    read = [p for p in between.read if between in lives.reads[p] or registry.find(net.op[p].type) is not None]
    if len(read) != 1:
        return None
    if between.survives and between.blob in net.external_output:
        return None
    position = read[0]
    op = net.op[position]
    if op.type != second or op.input[0] != between.blob or list(op.input).count(between.blob) != 1:
        return None
    result, *more = lives.writes[position] or [None]
    if result is None or more:
        return None
    reads, others = set(net.op[k].input), set(net.op[k].output[1:]) - {""}
    if any(not (reads | others).isdisjoint(net.op[p].output) or not others.isdisjoint(net.op[p].input)
           for p in range(k + 1, position)) or not others.isdisjoint(op.output):
        return None
    return Pair(k, position, result)


def fuse(net: caffe2_pb2.NetDef, pair: Pair, op: caffe2_pb2.OperatorDef) -> None:
    """Puts one operator in the place of a pair; its result is called as the second one's was.

    Where that is an operand of the operator, which would then run in place, the result takes another name, and what
    read it reads that.
    """
    name = pair.result.blob
    if name in op.input:
        taken, k = names_of(net), 0
        while (other := f"{name}_fused_{k}") in taken:
            k += 1
        for position in pair.result.read:
            reader: Any = net.op[position]
            reader.input[:] = [other if blob == name else blob for blob in reader.input]
        name = other
    op.output[:] = [name, *op.output[1:]]
    net.op[pair.second].CopyFrom(op)
    del net.op[pair.first]
