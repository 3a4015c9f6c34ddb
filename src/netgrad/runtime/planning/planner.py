"""The fast planner: the plain plan, and passes over it, each of which can be switched off by name.

``NETGRAD_PASSES`` says which run: ``none``, names separated by commas, or names with a minus, which are left out, or a
plus, which run too::

    NETGRAD_PASSES=none            the plain plan
    NETGRAD_PASSES=-updates        all but one
    NETGRAD_PASSES=+bfloat16       one more, which runs only when asked for

and so does `passes` in Python, for nets that are created inside of it::

    with planner.passes("none"):
        workspace.CreateNet(net)
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netgrad.proto import caffe2_pb2
from netgrad.runtime.planning.draft import Apply, Draft
from netgrad.runtime.planning.plan import Plan, plain

if TYPE_CHECKING:
    from netgrad.runtime.workspace import Workspace


@dataclass(frozen=True)
class Pass:
    """One way to make a plan faster.

    Attributes:
        name: by which it is switched off; its module in this package.
        title: what it does.
        default: whether it runs unless left out; else it is asked for.
        tolerance: how far results may be from the plain plan's, relative to their size; 0: not at all.
    """

    name: str
    title: str
    tolerance: float = 0.0
    default: bool = True

    def apply(self, draft: Draft) -> None:
        run: Apply = importlib.import_module(f"{__package__}.{self.name}").apply
        run(draft)


#: in the order in which they run
PASSES = (
    Pass("allocator", "memory is kept between runs"),
    Pass("layout", "images lie with their channels side by side within convolution nets", 1e-5),
    Pass("bfloat16", "products and convolutions in bfloat16, parameters in single precision", 1e-2, default=False),
    Pass("recurrent", "LSTM layers run as one layer of oneDNN, their gradients too", 1e-5),
    Pass("updates", "updates of parameters write in place, those of a kind all at once", 1e-6),
    Pass("deferred", "gradients that the net does not read are computed when fetched, or within the update", 1e-5),
    Pass("chains", "chains of tiny elementwise operators run as one function on NumPy", 1e-6),
)
NAMES = tuple(p.name for p in PASSES)
_chosen: frozenset[str] | None = None


def choice(text: str) -> frozenset[str]:
    """The names of the passes that a text like that of ``NETGRAD_PASSES`` asks for; empty or "all": the usual ones.

    Raises ValueError for a name that is none.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    usual = frozenset(each.name for each in PASSES if each.default)
    if not words or words == ["all"]:
        return usual
    if words == ["none"]:
        return frozenset()
    if unknown := [word.lstrip("+-") for word in words if word.lstrip("+-") not in NAMES]:
        raise ValueError(f"there is no pass {unknown[0]!r}; there are {', '.join(NAMES)}, and the words all and none")
    signs = {word[0] for word in words}
    if signs <= {"+", "-"}:
        more = {word[1:] for word in words if word[0] == "+"}
        return (usual | more) - {word[1:] for word in words if word[0] == "-"}
    if signs & {"+", "-"}:
        raise ValueError(f"{text!r} names passes with and without a sign; name those that run, or with signs what "
                         "differs from the usual ones")
    return frozenset(words)


def chosen() -> frozenset[str]:
    """The names of the passes that run for nets created now."""
    return choice(os.environ.get("NETGRAD_PASSES", "")) if _chosen is None else _chosen


@contextmanager
def passes(names: str) -> Iterator[None]:
    """Nets created inside are planned with these passes (as in ``NETGRAD_PASSES``) and no others."""
    global _chosen
    before, _chosen = _chosen, choice(names)
    try:
        yield
    finally:
        _chosen = before


def planned(definition: caffe2_pb2.NetDef, workspace: Workspace, known: Collection[str] | None = ()) -> Plan:
    """The plain plan, made faster by the passes that are chosen.

    Raises:
        CannotPlan: as `plain` does.
    """
    plan = plain(definition, workspace, known)
    names = chosen()
    if not names:
        return plan
    draft = Draft(plan)
    for each in PASSES:
        if each.name in names:
            each.apply(draft)
    if draft.notes:
        plan.steps = [step for step in draft.entries if step is not None]
        plan.positions = [k for k, step in enumerate(draft.entries) if step is not None]
        plan.notes = draft.notes
    return plan
