"""A plan in the making: what passes read and change."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netgrad.runtime.backends import Backend
from netgrad.runtime.planning.fused import Fused
from netgrad.runtime.planning.liveness import Liveness, Value
from netgrad.runtime.steps import Step

if TYPE_CHECKING:
    from netgrad.runtime.planning.plan import Plan
    from netgrad.runtime.workspace import Workspace


@dataclass(frozen=True)
class Note:
    """What a pass did to the operators at some positions, and why, in a few words."""

    by: str
    positions: tuple[int, ...]
    what: str


class Draft:
    """A plan in the making.

    Attributes:
        entries: for each position of the net, the step that runs there; None where another's step does its work.
        homes: position -> the step of a pass that does the work of the operator there.
        notes: what was done.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.workspace: Workspace = plan.workspace
        self.backend: Backend = plan.workspace.backend
        self.entries: list[Step | Fused | None] = list(plan.reference)
        self.homes: dict[int, Fused] = {}
        self.notes: list[Note] = []

    @functools.cached_property
    def liveness(self) -> Liveness:
        return self.plan.liveness

    def plain(self, position: int) -> Step | None:
        """The plain step at a position, unless a pass has taken it."""
        step = self.entries[position]
        return step if isinstance(step, Step) else None

    def put(self, step: Fused, by: str, what: str, at: int | None = None) -> None:
        """Puts a step in the place of its members, at the position of the last unless another of theirs is given."""
        for position in step.positions:
            self.entries[position] = None
            self.homes[position] = step
        self.entries[step.positions[-1] if at is None else at] = step
        self.notes.append(Note(by, step.positions, what))

    def final(self, name: str) -> Value | None:
        return self.liveness.final(name)


Apply = Callable[[Draft], None]
