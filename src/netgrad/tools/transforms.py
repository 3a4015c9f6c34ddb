"""Transforms of nets by name: Caffe2's `ApplyTransform` and a registry for one's own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import NetError
from netgrad.runtime.workspace import Workspace

#: name -> function that changes a net
_transforms: dict[str, Callable[[caffe2_pb2.NetDef], None]] = {}


def register_transform(name: str) -> Callable[[Callable[[caffe2_pb2.NetDef], None]],
                                              Callable[[caffe2_pb2.NetDef], None]]:
    """Decorates a function that changes the NetDef which it receives: ``ApplyTransform(name, net)`` applies it."""

    def register(transform: Callable[[caffe2_pb2.NetDef], None]) -> Callable[[caffe2_pb2.NetDef], None]:
        _transforms[name] = transform
        return transform

    return register


@register_transform("ConvToNNPack")
def _convolutions_by_nnpack(net: caffe2_pb2.NetDef) -> None:
    """Convolutions on the host ask for the engine NNPACK."""
    for op in net.op:
        if op.type == "Conv" and op.device_option.device_type == caffe2_pb2.CPU:
            op.engine = "NNPACK"


def ApplyTransform(transform_key: str | bytes, net: caffe2_pb2.NetDef) -> caffe2_pb2.NetDef:
    """A copy of a NetDef, transformed; raises `NetError` where there is no such transform."""
    name = transform_key.decode() if isinstance(transform_key, bytes) else str(transform_key)
    if name not in _transforms:
        raise NetError(f"there is no transform {name!r}; there are {', '.join(sorted(_transforms))}")
    copy = caffe2_pb2.NetDef()
    copy.CopyFrom(net)
    _transforms[name](copy)
    return copy


def ApplyTransformIfFaster(transform_key: str | bytes, net: caffe2_pb2.NetDef, init_net: caffe2_pb2.NetDef,
                           *, warmup_runs: int = 5, main_runs: int = 10,
                           improvement_threshold: float = 1.01) -> caffe2_pb2.NetDef:
    """The transformed net if it is faster by a factor, else the net itself.

    Both are timed in a workspace of their own, which ``init_net`` fills and which sees the current one's blobs.
    """
    transformed = ApplyTransform(transform_key, net)
    workspace = Workspace(Workspace.current)
    workspace.run_net_once(init_net)
    before, after = (_seconds(workspace, candidate, warmup_runs, main_runs) for candidate in (net, transformed))
    return transformed if before > improvement_threshold * after else net


def _seconds(workspace: Workspace, net: Any, warmup_runs: int, main_runs: int) -> float:
    created = workspace.create_net(net, overwrite=True)
    for _ in range(warmup_runs):
        created.run()
    start = time.perf_counter()
    for _ in range(main_runs):
        created.run()
    return time.perf_counter() - start
