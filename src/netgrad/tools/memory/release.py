"""Blobs emptied as soon as nobody needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from netgrad.graph.operator import CreateOperator
from netgrad.proto import caffe2_pb2
from netgrad.runtime.planning.liveness import Liveness
from netgrad.tools.memory import names


def release_blobs_when_used(netproto: caffe2_pb2.NetDef, dont_free_blobs: Iterable[Any] | None = None,
                            selector_fun: Callable[[str], bool] | None = None) -> caffe2_pb2.NetDef:
    """A copy of a net in which a Free follows the last use of each blob that the net makes and reads.

    External inputs and outputs, results that nobody reads and blobs with an Alias stay.

    Args:
        netproto: stays as it is.
        dont_free_blobs: blobs that are kept, too.
        selector_fun: told a name, says whether the blob may be freed.
    """
    lives = Liveness(netproto.op)
    kept = names.fixed_names(netproto, lives) | names.plain(dont_free_blobs)
    kept.update(name for op in netproto.op if op.type in ("Alias", "AliasWithName") for name in op.input)
    ends: dict[int, list[str]] = {}
    for blob, span in names.spans(lives).items():
        if blob not in kept and (selector_fun is None or selector_fun(blob)):
            ends.setdefault(span.last, []).append(blob)
    released = caffe2_pb2.NetDef()
    released.CopyFrom(netproto)
    del released.op[:]
    for position, op in enumerate(netproto.op):
        released.op.add().CopyFrom(op)
        for blob in ends.get(position, ()):
            released.op.append(CreateOperator("Free", [blob], [blob], device_option=op.device_option))
    return released
