"""What only Caffe2's compiled module offered, and scripts and tests reach for: questions and services in wire form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netgrad.proto import caffe2_pb2
from netgrad.runtime import dtypes
from netgrad.runtime.errors import NetError
from netgrad.runtime.workspace import Workspace


def op_registry_key(type: str, engine: str) -> str:
    """The name under which Caffe2 kept an implementation of an operator type."""
    return type if engine in ("", "DEFAULT") else f"{type}_ENGINE_{engine}"


def get_build_options() -> dict[str, str]:
    """What this runtime is made of."""
    from netgrad import __version__
    from netgrad.runtime import backends

    return {"NETGRAD_VERSION": __version__, "BACKENDS": ",".join(backends.available()), "BUILD_TYPE": "Release"}


def create_child_workspace(parent: str, child: str) -> None:
    """Makes a workspace that sees, and writes, the blobs of another one; raises `NetError` where that is not there."""
    if parent not in Workspace.by_name:
        raise NetError(f"there is no workspace {parent!r}; there are {', '.join(map(repr, Workspace.by_name))}")
    Workspace.by_name[child] = Workspace(Workspace.by_name[parent])


def infer_op_input_output_device(op: bytes) -> tuple[list[bytes], list[bytes]]:
    """The devices, in wire form, that an operator expects its inputs on and leaves its outputs on."""
    from netgrad.graph.device_placement import InferOpBlobDevices

    inputs, outputs = InferOpBlobDevices(caffe2_pb2.OperatorDef.FromString(op))
    return [d.SerializeToString() for d in inputs], [d.SerializeToString() for d in outputs]


class GradientWrapper:
    """A gradient: dense, or rows (indices and values), or none."""

    def __init__(self) -> None:
        self.dense = ""
        self.indices = ""
        self.values = ""

    def is_dense(self) -> bool:
        return self.dense != ""

    def is_sparse(self) -> bool:
        return self.indices != "" or self.values != ""

    def is_empty(self) -> bool:
        return not self.is_dense() and not self.is_sparse()


def get_gradient_defs(op: bytes, outputs: Sequence[GradientWrapper]) -> tuple[list[bytes], list[GradientWrapper]]:
    """The gradient operators of one operator, and the gradients of its inputs, for those of its outputs."""
    from netgrad.autodiff.gradient_registry import GradientRegistry
    from netgrad.graph.operator import GradientSlice

    given = [GradientSlice(g.indices, g.values) if g.is_sparse() else g.dense or None for g in outputs]
    ops, gradients = GradientRegistry.GetGradientForOp(caffe2_pb2.OperatorDef.FromString(op), given)
    return [o.SerializeToString() for o in ops], [_wrapped(g) for g in gradients]


def _wrapped(gradient: Any) -> GradientWrapper:
    wrapper = GradientWrapper()
    if isinstance(gradient, tuple):
        wrapper.indices, wrapper.values = str(gradient[0]), str(gradient[1])
    elif gradient is not None:
        wrapper.dense = str(gradient)
    return wrapper


def fill_random_network_inputs(net: bytes, dims: Sequence[Sequence[Sequence[int]]],
                               types: Sequence[Sequence[str]]) -> None:
    """Feeds the external inputs that operators of a net read first with random numbers, zeros where they are integers.

    Args:
        dims, types: for each operator that reads such inputs, in order, the shapes and dtypes of these.
    """
    definition = caffe2_pb2.NetDef.FromString(net)
    made: set[str] = set()
    wanted: list[list[str]] = []
    for op in definition.op:
        if fresh := [name for name in dict.fromkeys(op.input) if name and name not in made]:
            wanted.append(fresh)
        made.update(op.input, op.output)
    found = ([len(names) for names in wanted], [len(d) for d in dims], [len(t) for t in types])
    if not found[0] == found[1] == found[2]:
        raise NetError(f"operators of net {definition.name!r} read {found[0]} external inputs; there are shapes for "
                       f"{found[1]} and dtypes for {found[2]}")
    rng = np.random.default_rng(0)
    for names, shapes, kinds in zip(wanted, dims, types):
        for name, shape, kind in zip(names, shapes, kinds):
            dtype = np.dtype({"float": "float32", "double": "float64", "int": "int32"}.get(kind, kind))
            value = rng.random(tuple(shape)) if dtype.kind == "f" else np.zeros(tuple(shape))
            Workspace.current.feed_blob(name, value.astype(dtype))


def FillRandomNetworkInputs(net: Any, input_dims: Sequence[Sequence[Sequence[int]]],
                            input_types: Sequence[Sequence[str]]) -> None:
    """`fill_random_network_inputs` of a Net."""
    fill_random_network_inputs(net.Proto().SerializeToString(), input_dims, input_types)


class OfflineTensor:
    """A tensor whose shape and dtype are known and whose values are not here; an opaque blob."""

    def __init__(self, dims: Sequence[int], dtype: str) -> None:
        self.dims = tuple(dims)
        self.type = dtype


def CreateOfflineTensor(name: str, dims: Sequence[int], data_type: int) -> bool:
    """Makes an `OfflineTensor` blob in the current workspace."""
    Workspace.current.values[str(name)] = OfflineTensor(dims, dtypes.name_of(data_type))
    return True


def ssa_rewrite(net: bytes) -> bytes:
    """A net in which every operator writes names of its own: the versions of a blob are numbered from 0."""
    definition = caffe2_pb2.NetDef.FromString(net)
    now: dict[str, str] = {}
    written: dict[str, int] = {}
    for op in definition.op:
        op.input[:] = [now.get(name, name) for name in op.input]
        for k, name in enumerate(op.output):
            now[name] = f"{name}_{written.get(name, 0)}"
            written[name] = written.get(name, 0) + 1
            op.output[k] = now[name]
    definition.external_output[:] = [now.get(name, name) for name in definition.external_output]
    return definition.SerializeToString()


def GetStats() -> dict[str, int]:
    """The statistics that operators have counted, by name; they go on."""
    from netgrad.ops._shared_state import global_registry

    found: Mapping[str, int] = global_registry().export(False)
    return dict(found)


def IsNUMAEnabled() -> bool:
    """False: where memory lies is the operating system's business."""
    return False


def GetNumNUMANodes() -> int:
    return -1


def GetBlobNUMANode(name: str) -> int:
    """-1, not known; raises `BlobNotFound` where there is no such blob."""
    Workspace.current.fetch_blob(name)
    return -1
