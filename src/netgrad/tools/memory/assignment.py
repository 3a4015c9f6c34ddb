"""Blobs grouped so that each group needs the memory of its largest member, no two being in use at once.

A range is a pair (blob, `LiveRange`); an assignment is a list of ranges that follow one another in time; the result is
a list of assignments.
"""

from __future__ import annotations

import enum
from collections import namedtuple
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import NetError
from netgrad.runtime.planning.liveness import BEFORE, Liveness
from netgrad.tools.memory import names

#: position of the operator that makes a blob, of the one that uses it last, and bytes; None: not known, or never
LiveRange = namedtuple("LiveRange", ["defined", "used", "size"])

Range: TypeAlias = tuple[str, LiveRange]
Assignment: TypeAlias = list[Range]

#: how many unfinished assignments are pursued at a time, at most and at least; where more compete, the best are kept
_WIDTHS = (512, 4)


class AssignmentAlgorithm(enum.Enum):
    """Greedy is quick; dynamic programming finds the least memory (of large nets: nearly)."""

    GREEDY = 0
    DYNAMIC_PROGRAMMING = 1


def compute_ranges(linearized_ops: Sequence[Any], blob_sizes: Mapping[str, int] | None = None) -> dict[str, LiveRange]:
    """The range of each blob of operators that run in the order given.

    ``defined`` is None for what is there before; ``used`` is None for what nobody reads and one operator writes. A
    blob that is written again is in use until then.

    Args:
        linearized_ops: OperatorDefs.
        blob_sizes: bytes of every blob; None: not known.

    Raises:
        NetError: a blob has no size.
    """
    lives = Liveness(linearized_ops)
    seen: dict[str, None] = {}
    for op in linearized_ops:
        seen.update(dict.fromkeys((*op.input, *op.output)))
    again = {value.blob for value in lives.values if value.read or value.version > 1}
    found = {}
    spans = names.spans(lives)
    for blob in seen:
        span = spans.get(blob)
        if span is None:  # an absent input or output, which has no name
            continue
        if blob_sizes and blob_sizes.get(blob) is None:
            raise NetError(f"blob_sizes has no size for blob {blob!r}; collect_blob_sizes measures all, after a run")
        found[blob] = LiveRange(None if span.first == BEFORE else span.first, span.last if blob in again else None,
                                blob_sizes[blob] if blob_sizes else None)
    return found


def get_updated_ranges(ranges: Iterable[Range], max_live: int | None = None) -> list[Range]:
    """The ranges without None: defined at -1, used until ``max_live`` (one after the last use of all), of size 1."""
    ranges = list(ranges)
    if max_live is None:
        max_live = max((r.used for _, r in ranges if r.used), default=-1) + 1

    def known(value: Any, otherwise: int) -> Any:
        return otherwise if value is None else value

    return [(blob, LiveRange(known(r.defined, -1), known(r.used, max(max_live, known(r.defined, -1))),
                             known(r.size, 1))) for blob, r in ranges]


def is_compatible(candidate_range: LiveRange, assignment: Assignment, static_blobs: Collection[str]) -> bool:
    """Whether a range begins after an assignment's last one has ended."""
    blob, last = assignment[-1]
    if blob in static_blobs or None in (candidate_range.defined, last.defined, last.used):
        return False
    return bool(candidate_range.defined > last.used)


def get_memory_usage(assignments: Iterable[Assignment]) -> int:
    """The sum of the sizes of the assignments, each as large as its largest member."""
    return sum(_size(assignment) for assignment in assignments)


def _size(assignment: Assignment) -> int:
    return max((r.size or 0 for _, r in assignment), default=0)


def compute_assignments_greedy(ranges_sorted: Sequence[Range],
                               init_assignments: list[Assignment] | None = None) -> list[Assignment]:
    """Each range, in the order given, joins the assignment it fits whose size is closest to its own, else a new one.

    Args:
        ranges_sorted: by their last use.
        init_assignments: to begin with; they are extended.
    """
    assignments = init_assignments or []
    placed = {blob for assignment in assignments for blob, _ in assignment}
    for blob, r in ranges_sorted:
        if blob in placed:
            continue
        fitting = [assignment for assignment in assignments if is_compatible(r, assignment, ())]
        if fitting:
            min(fitting, key=lambda assignment: abs(_size(assignment) - (r.size or 0))).append((blob, r))
        else:
            assignments.append([(blob, r)])
    return assignments


def compute_assignments_dp(ranges_sorted: Sequence[Range], init_assignment: list[Assignment] | None,
                           counter: Any = None) -> list[Assignment]:
    """The assignments of least memory; of a large net, for which that would take too long, good ones.

    Ranges are placed in the order in which they begin. Of what was placed so far only this matters for the rest: the
    sizes of the assignments, and until when each is in use if that is after the next range begins. Of all ways to
    arrive at the same of these any one will do. And of the assignments that are free only two are worth a try, besides
    a new one: the smallest that is large enough, since a larger one may serve later in its stead, and the largest that
    has to grow, since a smaller one, left free, can grow later for what is saved now. Where too many states compete,
    the best go on.

    Args:
        ranges_sorted: with numbers throughout (see `get_updated_ranges`).
        init_assignment: to begin with.
        counter: not used.
    """
    start = [list(assignment) for assignment in init_assignment or ()]
    placed = {blob for assignment in start for blob, _ in assignment}
    ranges = sorted((item for item in ranges_sorted if item[0] not in placed), key=lambda item: item[1].defined)
    most, least = _WIDTHS
    width = max(least, min(most, 2_000_000 // (len(ranges) ** 2 + 1)))
    # a slot: (size, in use until); a state: its slots, and who joined which slot, as a chain (slot, before)
    slots = tuple((_size(assignment), assignment[-1][1].used) for assignment in start)
    states: list[tuple[tuple[tuple[int, int], ...], Any]] = [(slots, None)]
    for _, r in ranges:
        size = r.size or 0
        best: dict[tuple[tuple[int, int], ...], tuple[tuple[tuple[int, int], ...], Any]] = {}
        for slots, chain in states:
            free = [(slot_size, k) for k, (slot_size, until) in enumerate(slots) if r.defined > until]
            fits = min((slot for slot in free if slot[0] >= size), default=None)
            grows = max((slot for slot in free if slot[0] < size), default=None)
            for slot in (fits, grows):
                if slot is not None:
                    k = slot[1]
                    new = (*slots[:k], (max(slot[0], size), r.used), *slots[k + 1:])
                    best.setdefault(_essence(new, r.defined), (new, (k, chain)))
            if fits is None or fits[0] > size:
                new = (*slots, (size, r.used))
                best.setdefault(_essence(new, r.defined), (new, (len(slots), chain)))
        states = sorted(best.values(), key=_cost)[:width]
    slots, chain = min(states, key=_cost)
    choices = []
    while chain is not None:
        k, chain = chain
        choices.append(k)
    result = start + [[] for _ in range(len(slots) - len(start))]
    for item, k in zip(ranges, reversed(choices)):
        result[k].append(item)
    greedy = compute_assignments_greedy(ranges_sorted, [list(assignment) for assignment in init_assignment or ()])
    return min(result, greedy, key=get_memory_usage)


def _essence(slots: tuple[tuple[int, int], ...], now: int) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((size, max(until, now)) for size, until in slots))


def _cost(state: tuple[tuple[tuple[int, int], ...], Any]) -> tuple[int, int]:
    return sum(size for size, _ in state[0]), len(state[0])


def compute_assignments(ranges: Mapping[str, LiveRange], static_blobs: Collection[str],
                        algo: AssignmentAlgorithm) -> list[Assignment]:
    """Assignments for all blobs; each of ``static_blobs`` has one of its own."""
    if not isinstance(algo, AssignmentAlgorithm):
        raise NetError(f"there is no assignment algorithm {algo!r}; there are GREEDY and DYNAMIC_PROGRAMMING of "
                       "AssignmentAlgorithm")
    ordered = get_updated_ranges(sorted(ranges.items(), key=lambda item: (item[1].used is None, item[1].used or 0)))
    static = names.plain(static_blobs)
    free = [item for item in ordered if item[0] not in static]
    compute = compute_assignments_greedy if algo is AssignmentAlgorithm.GREEDY else compute_assignments_dp
    return compute(free, []) + [[item] for item in ordered if item[0] in static]


def compute_blob_assignments(assignments: Iterable[Assignment]) -> dict[str, str]:
    """Blob -> the name it takes: that of the last member of its assignment. Those that stay alone are not listed."""
    return {blob: assignment[-1][0] for assignment in assignments if len(assignment) > 1 for blob, _ in assignment}


def verify_assignments(assignments: Iterable[Assignment]) -> None:
    """Raises NetError if two members of an assignment are in use at once."""
    for assignment in assignments:
        for (a, first), (b, second) in pairwise(assignment):
            if not first.used < second.defined:
                raise NetError(f"blobs {a!r} and {b!r} share memory, but {a!r} is used at {first.used}, and {b!r} made "
                               f"at {second.defined}")


class Optimization(namedtuple("Optimization", ["net", "assignments", "blob_assignments"])):
    """A NetDef with shared names, the assignments, and old name -> new name."""

    net: caffe2_pb2.NetDef
    assignments: list[Assignment]
    blob_assignments: dict[str, str]
