"""Caffe2's `transformations`: changes of a net by name, ``Transformer().FuseConvBN(net)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from netgrad.graph import registry
from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import BlobNotFound, NetError
from netgrad.runtime.planning.liveness import Liveness, unnamed_reads
from netgrad.runtime.workspace import Workspace
from netgrad.tools.fusion import fuse, pairs
from netgrad.tools.memory.names import keeps_state, names_of


class UnknownTransformation(NetError, AttributeError):
    """There is no transformation of that name."""


class Transformer:
    """``Transformer().X(net)`` changes a `Net` by the transformation X."""

    @classmethod
    def runTransform(cls, transform_name: str, net: Any) -> None:
        """Changes a `Net`.

        Raises:
            UnknownTransformation: there is none of that name; the message lists those that there are.
        """
        change = TRANSFORMATIONS.get(transform_name)
        if change is None:
            raise UnknownTransformation(f"there is no transformation {transform_name!r}; there are "
                                        f"{', '.join(sorted(TRANSFORMATIONS))}")
        change(net.Proto())
        net.refresh()

    def __getattr__(self, transform_name: str) -> Callable[[Any], None]:
        if transform_name.startswith("__"):
            raise AttributeError(transform_name)
        return lambda net: self.runTransform(transform_name, net)


def fuseNNPACKConvRelu(net: Any) -> None:
    """Fuses Relu into convolutions of engine NNPACK."""
    Transformer.runTransform("FuseNNPACKConvRelu", net)


def fuseConvBN(net: Any) -> None:
    """Folds SpatialBN in test mode into the convolutions before it; the current workspace holds their parameters."""
    Transformer.runTransform("FuseConvBN", net)


def optimizeForMKLDNN(net: Any, training_mode: bool = False) -> None:
    """Changes nothing: there are no operators of MKL-DNN here to change a net for. Kept so that scripts run."""


def _argument(op: Any, name: str) -> Any:
    return next((argument for argument in op.arg if argument.name == name), None)


def _in_nchw(op: Any) -> bool:
    order = _argument(op, "order")
    return order is None or order.s == b"NCHW"


def add_nnpack(net: caffe2_pb2.NetDef) -> None:
    """Names the engine NNPACK for the convolutions that it had kernels for: on the host, of order NCHW, with a bias, in
    two dimensions, stride 1, no filter of one row or column."""
    for op in net.op:
        if op.type != "Conv" or len(op.input) < 3 or not _in_nchw(op) or op.device_option.device_type != caffe2_pb2.CPU:
            continue
        numbers = {a.name: list(a.ints) or [a.i] for a in op.arg}
        kernel = numbers.get("kernels") or numbers.get("kernel", []) * 2 or [*numbers.get("kernel_h", []),
                                                                            *numbers.get("kernel_w", [])]
        strides = [n for name in ("stride", "strides", "stride_h", "stride_w") for n in numbers.get(name, ())]
        if len(kernel) == 2 and all(n == 1 for n in strides) and (kernel[0] == kernel[1] or 1 not in kernel):
            op.engine = "NNPACK"


def fuse_nnpack_relu(net: caffe2_pb2.NetDef) -> None:
    """Makes a convolution of engine NNPACK and the Relu that alone reads it one operator."""
    for pair in pairs(net, "Conv", "Relu"):
        op = caffe2_pb2.OperatorDef()
        op.CopyFrom(net.op[pair.first])
        if op.engine == "NNPACK" and _argument(op, "activation") is None:
            op.arg.add(name="activation", s=b"Relu")
            fuse(net, pair, op)


def fuse_batch_normalization(net: caffe2_pb2.NetDef) -> None:
    """Makes a convolution and the SpatialBN in test mode that alone reads it one convolution.

    Its filter and bias, in the current workspace, become those of both. Parameters that something else in the net
    reads, too, stay as they are, and the convolution gets new ones, which are external inputs.
    """
    workspace = Workspace.current
    for pair in pairs(net, "Conv", "SpatialBN"):
        conv, norm = net.op[pair.first], net.op[pair.second]
        test = _argument(norm, "is_test")
        if test is None or not test.i or len(norm.input) != 5:
            continue
        epsilon = _argument(norm, "epsilon")
        values = [_parameter(workspace, conv, name) for name in conv.input[1:]]
        scale, shift, mean, variance = (_parameter(workspace, norm, name) for name in norm.input[1:])
        factor = scale / np.sqrt(variance + (1e-5 if epsilon is None else epsilon.f))
        if factor.shape != values[0].shape[:1]:
            raise NetError(f"SpatialBN of {pair.result.blob!r} is for {factor.shape} channels, and the convolution "
                           f"before it has filters of shape {values[0].shape}: they do not go together")
        filters = values[0] * factor.reshape(-1, *(1 for _ in values[0].shape[1:]))
        bias = shift - mean * factor + (values[1] * factor if len(values) > 1 else 0)
        op = caffe2_pb2.OperatorDef()
        op.CopyFrom(conv)
        names = [*op.input[1:], _unused(net, workspace, "_bias")][:2]
        for k, name in enumerate(names):
            if k < len(values) and sum(name in other.input for other in net.op) > 1:
                names[k] = _unused(net, workspace, f"{name}_fused_")
        op.input[:] = [op.input[0], *names]
        for name, value in zip(names, (filters, bias)):
            workspace.feed_blob(name, value.astype(values[0].dtype))
            if name not in net.external_input:
                net.external_input.append(name)
        fuse(net, pair, op)


def _parameter(workspace: Workspace, op: Any, name: str) -> np.ndarray:
    if not workspace.has_blob(name):
        raise BlobNotFound(f"blob {name!r} of {op.type}, which makes {op.output[0]!r}, is not in the workspace; run "
                           "the init net, or load the parameters, before they are folded into each other")
    return np.asarray(workspace.fetch_blob(name))


def _unused(net: caffe2_pb2.NetDef, workspace: Workspace, prefix: str) -> str:
    taken, k = names_of(net), 0
    while (name := f"{prefix}{k}") in taken or workspace.has_blob(name):
        k += 1
    return name


def remove_dead_code(net: caffe2_pb2.NetDef) -> None:
    """Removes operators without effect whose results lead to no external output. A net that declares none keeps all
    results that nobody reads, and so all operators."""
    lives = Liveness(net.op)
    needed = {value for name in net.external_output if (value := lives.final(name)) is not None}
    if not net.external_output:
        return
    keep = set()
    for position in range(len(net.op) - 1, -1, -1):
        op, writes = net.op[position], [value for value in lives.writes[position] if value is not None]
        declaration = registry.find(op.type)
        pure = declaration is not None and not keeps_state(op) and declaration.effects <= {"random", "state"}
        if pure and needed.isdisjoint(writes) and not any(value.blob in net.external_input for value in writes):
            continue
        keep.add(position)
        needed.update(value for value in lives.reads[position] if value is not None)
        unnamed = unnamed_reads(op, declaration)
        needed.update(value for value in lives.values
                      if value.made < position in value.read and (unnamed is None or value.blob in unnamed))
    kept = [net.op[k] for k in sorted(keep)]
    copies = [caffe2_pb2.OperatorDef.FromString(op.SerializeToString()) for op in kept]
    del net.op[:]
    net.op.extend(copies)


#: name -> what changes a NetDef
TRANSFORMATIONS: dict[str, Callable[[caffe2_pb2.NetDef], None]] = {
    "AddNNPACK": add_nnpack,
    "FuseNNPACKConvRelu": fuse_nnpack_relu,
    "FuseConvBN": fuse_batch_normalization,
    "DeadCodeElim": remove_dead_code,
}
