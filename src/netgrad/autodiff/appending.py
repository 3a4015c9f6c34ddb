"""A net receives its backward pass: operators appended, and inserted where values are put aside; origins noted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from netgrad.autodiff.backward import BackwardPass, Ys, build, names_of, no_collection
from netgrad.autodiff.gradient_map import GradientMap
from netgrad.proto import caffe2_pb2


def add_gradient_operators(net: Any, ys: Ys, *, skip: int = 0, wrt: Iterable[Any] | None = None,
                           overwritten: str = "error", share_results: bool = True) -> GradientMap:
    """Derives the backward pass of a net's operators and appends it to the net; see `build` for the arguments.

    ``skip`` leaves the first operators out: what they write counts as given.
    """
    wrt = None if wrt is None else names_of(wrt)
    with no_collection():
        proto = net.Proto()
        ops = proto.op[skip:] if skip else proto.op
        protected: Iterable[str] = proto.external_input[:]
        if skip:
            protected = {*protected, *(name for op in proto.op[:skip] for name in (*op.input, *op.output))}
        backward = build(ops, ys, wrt=wrt, overwritten=overwritten, share_results=share_results,
                         protected=protected, line_of=_line_finder(net, skip))
        start = _append(net, backward, skip)
    return GradientMap(backward, explain=_explainer(net, backward.ys, wrt), start=start)


def _append(net: Any, backward: BackwardPass, skip: int) -> int:
    """Puts a finished pass into its net: changes to the forward operators first, then the gradient operators.

    Returns the position of the first gradient operator.
    """
    proto, provenance = net.Proto(), net._provenance
    sources: Sequence[int] = [k + skip if k >= 0 else -1 for k in backward.origins] if skip else backward.origins
    plan = backward.saving
    for index, op in plan.replaced.items():
        proto.op[index + skip].CopyFrom(op)
    for (index, position), name in plan.renames.items():
        proto.op[index + skip].output[position] = name
    if plan.copies:
        moved = _insert(proto, provenance, {index + skip: copies for index, copies in plan.copies.items()})
        sources = [moved[k] if k >= 0 else -1 for k in sources]
        net.refresh()
    start = len(proto.op)
    proto.MergeFromString(backward.wire)
    provenance.inherit(start, sources, backward.types, backward.first_output)
    return start


def _insert(proto: Any, provenance: Any, before: dict[int, list[Any]]) -> list[int]:
    """Inserts operators before given positions; returns the new position of every old operator."""
    ops = list(proto.op)
    moved: list[int] = []
    whole: list[Any] = []
    for position, op in enumerate(ops):
        for added in before.get(position, ()):
            origin = provenance.origin(len(whole), op) or (None, 0)
            provenance.insert(len(whole), added.type, added.output[0], *origin)
            whole.append(added)
        moved.append(len(whole))
        whole.append(op)
    kept = caffe2_pb2.NetDef(op=whole)
    del proto.op[:]
    proto.MergeFrom(kept)
    return moved


def _line_finder(net: Any, skip: int) -> Callable[[int], str | None]:
    def line_of(index: int) -> str | None:
        found = net.line_of(index + skip)
        return f"{found[0]}:{found[1]}" if found else None

    return line_of


def _explainer(net: Any, ys: list[str], wrt: list[str] | None) -> Callable[[str], str]:
    def explain(blob: str) -> str:
        from netgrad.autodiff.explanation import HAS, explain

        found = explain(net, blob, ys)
        if found.outcome == HAS and wrt is not None and blob not in wrt:
            return f"it was not asked for (wrt={wrt})"
        return str(found)

    return explain
