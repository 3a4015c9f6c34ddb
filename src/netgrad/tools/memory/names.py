"""Which blobs of a net may be called differently, from when to when each is in use, and where it lies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from netgrad.graph import registry
from netgrad.graph.device_placement import InferOpBlobDevices
from netgrad.proto import caffe2_pb2
from netgrad.runtime.planning.liveness import BEFORE, Liveness, unnamed_reads


@dataclass
class Span:
    """When a name is in use: positions of the operators that touch it first and last."""

    first: int
    last: int


def spans(lives: Liveness) -> dict[str, Span]:
    """The spans of all blobs; what was there before the net begins at `BEFORE`."""
    found: dict[str, Span] = {}
    for value in lives.values:
        span = found.setdefault(value.blob, Span(value.made, value.made))
        span.first, span.last = min(span.first, value.made), max(span.last, value.last, value.made)
    return found


def fixed_names(net: caffe2_pb2.NetDef, lives: Liveness) -> set[str]:
    """Names that cannot change without changing what the net does, or what can be seen of it from outside.

    These are external inputs and outputs, what is read before it is written, results that nobody reads, names that
    arguments mention (nets of control operators, lists of blobs), what exists when an operator runs that may look at
    any blob, and outputs by whose names operators find their random numbers or what they keep from run to run.
    """
    fixed = {*net.external_input, *net.external_output}
    for value in lives.values:
        if value.made == BEFORE or (value.survives and not value.read):
            fixed.add(value.blob)
    written: set[str] = set()
    for op in net.op:
        declaration = registry.find(op.type)
        fixed.update(mentioned(op))
        if unnamed_reads(op, declaration) is None:
            fixed |= written
            fixed.update(op.input, op.output)
        elif declaration is not None and ("random" in declaration.effects or keeps_state(op)):
            fixed.update(op.output)
        written.update(op.output)
    return fixed


def keeps_state(op: Any) -> bool:
    """Whether an operator keeps something from run to run other than in blobs that it updates in place."""
    declaration = registry.find(op.type)
    if declaration is None:
        return True
    return "state" in declaration.effects and not any(i < len(op.input) for i, _ in declaration.inplace_required)


def mentioned(op: Any) -> Iterator[str]:
    """Names in the arguments of an operator: strings, and all that nets name."""
    for argument in op.arg:
        for text in (argument.s, *argument.strings):
            try:
                yield text.decode()
            except UnicodeDecodeError:
                continue
        for net in (argument.n, *argument.nets):
            yield from (*net.external_input, *net.external_output)
            for inner in net.op:
                yield from (*inner.input, *inner.output)
                yield from mentioned(inner)


def devices(net: caffe2_pb2.NetDef) -> dict[str, tuple[int, int, str]]:
    """Where the blobs that a net writes lie: type, number and node of the device."""
    found: dict[str, tuple[int, int, str]] = {}
    whole = (net.device_option.device_type, net.device_option.device_id, net.device_option.node_name)
    for op in net.op:
        if not op.HasField("device_option"):
            found.update((name, whole) for name in op.output)
            continue
        for name, device in zip(op.output, InferOpBlobDevices(op)[1]):
            found[name] = (device.device_type, device.device_id, device.node_name)
    return found


def unused_names(net: caffe2_pb2.NetDef, prefix: str) -> Iterator[str]:
    """``prefix__m0_shared``, ``prefix__m1_shared``, ... without those that the net has."""
    taken = names_of(net)
    k = 0
    while True:
        if (name := f"{prefix}__m{k}_shared") not in taken:
            yield name
        k += 1


def names_of(net: caffe2_pb2.NetDef) -> set[str]:
    """All names in a net, those that arguments mention among them."""
    names = {*net.external_input, *net.external_output}
    for op in net.op:
        names.update(op.input, op.output, mentioned(op))
    return names


def plain(names: Iterable[Any] | None) -> set[str]:
    """Names of blobs, of sparse gradients, or bytes, as strings."""
    found: set[str] = set()
    for name in names or ():
        if isinstance(name, bytes):
            found.add(name.decode())
        elif hasattr(name, "indices") and hasattr(name, "values"):
            found.update((str(name.indices), str(name.values)))
        else:
            found.add(str(name))
    return found
