"""`optimize_interference`: operators put in an order that needs little memory, and blobs that share it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from netgrad.proto import caffe2_pb2
from netgrad.runtime.planning.liveness import Liveness
from netgrad.tools.memory import names
from netgrad.tools.memory.assignment import (
    AssignmentAlgorithm,
    LiveRange,
    Optimization,
    compute_assignments,
    compute_blob_assignments,
    compute_ranges,
)
from netgrad.tools.memory.ordering import compute_interference_graph, topological_sort_traversal
from netgrad.tools.memory.renaming import apply_assignments


def optimize_interference(
    net: caffe2_pb2.NetDef,
    static_blobs: Iterable[Any],
    ordering_function: Callable[[Any], Iterable[int]] = topological_sort_traversal,
    blob_sizes: Mapping[str, int] | None = None,
    algo: AssignmentAlgorithm = AssignmentAlgorithm.GREEDY,
) -> Optimization:
    """A copy of a net, reordered, in which blobs that are never needed at once have one name.

    Args:
        net: stays as it is.
        static_blobs: blobs that keep their names and memory, besides those that must (see `names.fixed_names`).
        ordering_function: finds the order: `topological_sort_traversal` or `..._longest_path`.
        blob_sizes: bytes of every blob (`collect_blob_sizes`); None: all count the same.
        algo: how blobs are put together.
    """
    result = caffe2_pb2.NetDef()
    result.CopyFrom(net)
    order = list(ordering_function(compute_interference_graph(net.op)))
    del result.op[:]
    result.op.extend(net.op[k] for k in order)
    ranges = compute_ranges(result.op, blob_sizes)
    static = names.plain(static_blobs) | names.fixed_names(result, Liveness(result.op))
    assignments = []
    for group in _by_device(result, ranges):
        assignments += compute_assignments(group, static, algo)
    renamed = compute_blob_assignments(assignments)
    apply_assignments(result, renamed)
    return Optimization(net=result, assignments=assignments, blob_assignments=renamed)


def _by_device(net: caffe2_pb2.NetDef, ranges: Mapping[str, LiveRange]) -> list[dict[str, LiveRange]]:
    where = names.devices(net)
    groups: dict[Any, dict[str, LiveRange]] = {}
    for blob, found in ranges.items():
        groups.setdefault(where.get(blob), {})[blob] = found
    return list(groups.values())
