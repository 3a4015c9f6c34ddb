"""What a pass puts in the place of operators: one step that does the work of several, or of one in another way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from netgrad.runtime.steps import Step


class Fused:
    """A step in the place of some operators; a pass subclasses it and defines `run`.

    Attributes:
        members: the plain steps of these operators, in order, for when the quick way is not open.
        positions: the operators' positions in the net.
        at: which of them runs; an error is blamed on it.
    """

    __slots__ = ("at", "members", "positions")

    def __init__(self, members: Sequence[Step], positions: Sequence[int]) -> None:
        self.members = tuple(members)
        self.positions = tuple(positions)
        self.at = 0

    def run(self) -> None:
        raise NotImplementedError

    def run_plainly(self) -> None:
        """Runs the operators as the plain plan does."""
        for k, step in enumerate(self.members):
            self.at = k
            step.run()
        self.at = 0

    def without_storage(self) -> Iterator[tuple[int, int]]:
        """Positions and numbers of the outputs that get no storage of their own."""
        return iter(())

    @property
    def blamed(self) -> int:
        """The position of the operator that an error is blamed on."""
        return self.positions[self.at]
