"""Static single assignment: each write of a blob makes a new version of it."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Mapping
from typing import Any

from netgrad.proto import caffe2_pb2

#: an operator, and the versions that it reads and writes by name
OpSSA = namedtuple("OpSSA", ["op", "in_versions", "out_versions"])

#: a blob and its version; 0 is what was there before the net ran
Version = tuple[str, int]
#: the versions that each operator reads and those that it writes
SSA = list[tuple[list[Version], list[Version]]]


def get_ssa(net: Any, blob_versions: dict[str, int] | None = None) -> tuple[Any, dict[str, int]]:
    """The versions that each operator of a net reads and writes.

    Args:
        net: a `Net`, a NetDef, or a list of NetDefs, which run one after another.
        blob_versions: versions to start from; updated. Others start at 0.

    Returns:
        A list with one pair (inputs, outputs) of lists of (blob, version) per operator, and the last version of each
        blob.
    """
    versions = {} if blob_versions is None else blob_versions
    if isinstance(net, (list, tuple)):
        return [get_ssa(n, versions)[0] for n in net], versions
    proto = net.Proto() if hasattr(net, "Proto") else net
    if not isinstance(proto, caffe2_pb2.NetDef):
        raise AssertionError(f"expected a Net or a NetDef, found {net!r}")
    for name in proto.external_input:
        versions.setdefault(name, 0)
    undeclared = not proto.external_input
    ssa: SSA = []
    for op in proto.op:
        read = op.input[:]
        if undeclared:
            for name in read:
                versions.setdefault(name, 0)
        inputs = [(name, versions.get(name, 0)) for name in read]
        written = op.output[:]
        for name in written:
            versions[name] = versions.get(name, 0) + 1
        ssa.append((inputs, [(name, versions[name]) for name in written]))
    return ssa, versions


def get_undefined_blobs(ssa: SSA) -> set[str]:
    """The blobs that are read before they are written: those used at version 0."""
    return {name for inputs, _ in ssa for name, version in inputs if version == 0}


def get_output_producers(ssa: SSA) -> dict[Version, int]:
    """The position of the operator that makes each version."""
    return {version: position for position, (_, outputs) in enumerate(ssa) for version in outputs}


def get_op_ids_in_path(
    ssa: SSA, blob_versions: Mapping[str, int], inputs: Iterable[Any], outputs: Iterable[Any],
) -> list[int]:
    """The positions of the operators needed to compute ``outputs`` from ``inputs``, both at their last versions."""
    given = {(str(blob), blob_versions[str(blob)]) for blob in inputs}
    producers = get_output_producers(ssa)
    pending = [(str(blob), blob_versions[str(blob)]) for blob in outputs]
    needed: set[int] = set()
    while pending:
        version = pending.pop()
        position = producers.get(version)
        if version not in given and position is not None and position not in needed:
            needed.add(position)
            pending.extend(ssa[position][0])
    return sorted(needed)
