"""Nets in which blobs that are never needed at the same time have one name.

The rule is one scan over the operators in the order in which they run: a blob that is written for the first time takes
the name of one whose last use lies before, on the same device; its name is free again after its own last use. A
result never takes the name of an operand, so no operator runs in place that did not before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from netgrad.graph import schema
from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import NetError
from netgrad.runtime.planning.liveness import Liveness
from netgrad.tools.memory import names
from netgrad.tools.memory.renaming import apply_assignments

#: a gradient: its own name, that of one contribution, or that of one that had to be renamed
_GRADIENT = re.compile(r"_grad(_autosplit)?(_\d+)?$")


class NotForInference(NetError, AssertionError):
    """A net holds what a net for inference has not."""


@dataclass
class _Slot:
    """A name in the making: the blobs that will carry it, and the elements of the largest."""

    size: int
    blobs: list[str] = field(default_factory=list)


def share(net: caffe2_pb2.NetDef, shareable: Iterable[str], prefix: str = "",
          shapes: Mapping[str, Sequence[int]] | None = None) -> caffe2_pb2.NetDef:
    """A copy of a net in which some blobs share names.

    Args:
        net: stays as it is.
        shareable: blobs that may be renamed; those that must keep their names do so all the same.
        prefix: what the new names begin with.
        shapes: of blobs, as far as known; then blobs of like size share.
    """
    lives = Liveness(net.op)
    spans = names.spans(lives)
    chosen = {name for name in shareable if name in spans} - names.fixed_names(net, lives)
    where, sizes = names.devices(net), {name: prod(shape) for name, shape in (shapes or {}).items()}
    slots: list[_Slot] = []
    free: dict[tuple[int, int, str], list[_Slot]] = {}
    held: dict[str, _Slot] = {}
    for position, op in enumerate(net.op):
        for name in dict.fromkeys(op.output):
            if name in chosen and spans[name].first == position:
                size, waiting = sizes.get(name, 0), free.setdefault(where[name], [])
                if waiting:
                    slot = min(reversed(waiting), key=lambda slot: abs(slot.size - size))
                    waiting.remove(slot)
                else:
                    slots.append(slot := _Slot(0))
                slot.size = max(slot.size, size)
                slot.blobs.append(name)
                held[name] = slot
        for name in dict.fromkeys((*op.input, *op.output)):
            if name in held and spans[name].last <= position:
                free[where[name]].append(held.pop(name))
        for name in [name for name in held if spans[name].last <= position]:  # what a net inside read last
            free[where[name]].append(held.pop(name))
    shared = caffe2_pb2.NetDef()
    shared.CopyFrom(net)
    unused = names.unused_names(net, prefix)
    apply_assignments(shared, {name: new for slot in slots if len(slot.blobs) > 1
                               for new in (next(unused),) for name in slot.blobs})
    return shared


def share_grad_blobs(net: Any, losses: Iterable[Any], param_grads: Iterable[Any], namescope: str,
                     dont_share_blobs: Iterable[Any] | None = None, share_activations: bool = False,
                     blob_shapes: Mapping[str, Sequence[int]] | None = None) -> caffe2_pb2.NetDef:
    """A copy of a training net in which gradients that pass from layer to layer share a few names.

    Args:
        net: the `Net`; the result may be put in its place, ``net._net = share_grad_blobs(net, ...)``.
        losses, param_grads, dont_share_blobs: blobs that keep their names.
        namescope: only blobs in this scope share names.
        share_activations: the results of layers (those with a weight ``<result>_w``) share names, too, but not the
            last two layers'.
        blob_shapes: shapes of blobs, as far as known.
    """
    proto = net.Proto()
    if namescope and not namescope.endswith("/"):
        namescope += "/"
    keep = names.plain(losses) | names.plain(param_grads) | names.plain(dont_share_blobs)
    found = {name for op in proto.op for name in (*op.input, *op.output)
             if name.startswith((namescope, "_" + namescope)) and _GRADIENT.search(name)}
    if share_activations:
        layers = [name for op in proto.op for name in op.output if f"{name}_w" in op.input]
        last = set(layers[-2:])
        found.update(name for name in layers if name.startswith(namescope) and name not in last)
    return share(proto, found - keep, namescope, blob_shapes)


def optimize_inference_for_dag(net: Any, input_blobs: Iterable[Any], namescope: str = "") -> caffe2_pb2.NetDef:
    """A copy of a net without gradients in which results inside the net share names.

    Args:
        net: a `Net`.
        input_blobs: blobs that keep their names, besides all external inputs and outputs and results nobody reads.
        namescope: what the new names begin with.

    Raises:
        NotForInference: a gradient operator, or a blob that is read, not written, and no external input.
        SchemaError: an operator breaks its declaration.
    """
    proto = net.Proto()
    known = set(proto.external_input)
    for position, op in enumerate(proto.op):
        if op.is_gradient_op:
            raise NotForInference(f"net {proto.name!r}: operator {position}, {op.type}, belongs to a backward pass; "
                                  "give a net for inference, or use share_grad_blobs")
        for name in op.input:
            if name and name not in known:
                raise NotForInference(f"net {proto.name!r}: operator {position}, {op.type}, reads {name!r}, which "
                                      "nothing wrote before and which is no external input")
        known.update(op.output)
    schema.check_net(proto)
    found = {name for op in proto.op for name in op.output} - names.plain(input_blobs)
    return share(proto, found, namescope if not namescope or namescope.endswith("/") else namescope + "/")


def optimize_inference_fast(net: caffe2_pb2.NetDef, static_blobs: Iterable[Any]) -> caffe2_pb2.NetDef:
    """A copy of a NetDef in which all blobs but ``static_blobs`` and what is seen from outside may share names."""
    return share(net, {name for op in net.op for name in op.output} - names.plain(static_blobs))
