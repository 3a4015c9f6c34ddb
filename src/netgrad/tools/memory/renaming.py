"""Blobs of a net renamed, and nets compared that differ in names alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from netgrad.graph.remapping import DEFAULT_REMAP_FUNCS, remap_operator
from netgrad.proto import caffe2_pb2


def apply_assignments(net: caffe2_pb2.NetDef, blob_assignments: Mapping[str, str]) -> None:
    """Renames blobs in the operators of a NetDef, nets inside them included. External inputs and outputs stay."""
    if not blob_assignments:
        return
    new = {str(name): str(other) for name, other in blob_assignments.items()}
    for op in net.op:
        if any(name in new for name in (*op.input, *op.output, *op.control_input)) or op.type in DEFAULT_REMAP_FUNCS:
            remap_operator(op, new, "", DEFAULT_REMAP_FUNCS)
            for k, name in enumerate(op.control_input):
                op.control_input[k] = new.get(name, name)


def apply_recurrent_blob_assignments(op: Any, blob_assignments: Mapping[str, str],
                                     canonical_name: Callable[[str], str]) -> None:
    """Renames blobs in the step nets of a recurrent operator, and notes it in arguments ``<blob>.rename``."""
    for argument in op.arg:
        if argument.name.endswith("step_net"):
            apply_assignments(argument.n, blob_assignments)
            for k, name in enumerate(argument.n.external_input):
                argument.n.external_input[k] = canonical_name(name)
    for name, new in blob_assignments.items():
        if name in op.input or name in op.output:
            op.arg.add(name=f"{name}.rename", s=str(new).encode())


def verify_graph_equality(net_a: caffe2_pb2.NetDef, net_b: caffe2_pb2.NetDef) -> bool:
    """Whether two nets have the same operators (type, device, engine) in the same order, and each reads what the same
    operators wrote. Names do not matter; nor do those of blobs from outside."""
    if len(net_a.op) != len(net_b.op):
        return False
    same = all(a.type == b.type and a.device_option == b.device_option and a.engine == b.engine
               for a, b in zip(net_a.op, net_b.op))
    return same and _sources(net_a) == _sources(net_b)


def _sources(net: caffe2_pb2.NetDef) -> list[list[tuple[int, int] | None]]:
    """For each operator, which output of which operator each of its inputs is; None for what comes from outside."""
    writer: dict[str, tuple[int, int]] = {}
    found = []
    for position, op in enumerate(net.op):
        found.append([writer.get(name) for name in op.input])
        writer.update((name, (position, k)) for k, name in enumerate(op.output))
    return found


def verify_inplace_blobs(net_a: caffe2_pb2.NetDef, net_b: caffe2_pb2.NetDef) -> bool:
    """Whether the operators of two nets are of the same types and work in place in the same way."""

    def in_place(op: Any) -> list[tuple[int, int]]:
        outputs = list(op.output)
        return [(k, outputs.index(name)) for k, name in enumerate(op.input) if name in outputs]

    return all(a.type == b.type and in_place(a) == in_place(b) for a, b in zip(net_a.op, net_b.op))
