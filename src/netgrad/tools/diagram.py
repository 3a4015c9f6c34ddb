"""What a drawing of a net shows: lanes of operators, rows, and the blobs between them.

A net with a backward pass has up to three lanes: the forward pass, which flows down; the backward pass, which flows up,
each gradient operator beside the operator that it belongs to; and the updates of parameters, near the gradients that
they use. An update that writes back into what it reads is joined to it by an edge with two arrows, and the new version
is not shown. A blob stands next to the operator that writes it. Where it is used far away, or in another lane, a copy
stands there, so that no edge runs across the picture.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from netgrad.graph.ssa import get_ssa

FORWARD, BACKWARD, UPDATE = range(3)
READ, WRITE, REWRITE = range(3)

#: blobs with more readers than this (a learning rate) do not hold their readers together
HUB = 3
#: how many lines an edge may go past before a copy of the blob takes its place
REACH = 6
#: blobs with more readers than this say little about which of them a gradient belongs to
FEW = 8
#: the kind of a place where an edge goes past a line
BEND = "bend"

Version = tuple[str, int]

_gradient_name = re.compile(r"_?(?P<blob>.*?)(_autogen)?_grad(_.*)?\Z")
_parameter_inputs = re.compile(r"(w|weights?|filter|b|bias|scale|slope|gamma|beta|mean|var|running_.*|est_.*)\Z", re.I)


@dataclass
class OperatorBox:
    """An operator: its position in the net, lane and row; `partner` is the forward operator of a gradient operator."""

    position: int
    op: Any
    lane: int
    row: int = 0
    partner: int | None = None


@dataclass
class BlobPill:
    """A version of a blob at a place: `copy` says that it stands elsewhere too, where it is written."""

    version: Version
    label: str
    lane: int
    line: int
    kind: str
    copy: bool
    writer: int | None
    readers: list[int] = field(default_factory=list)


@dataclass
class Diagram:
    """Operators, blobs, and what joins them.

    Attributes:
        edges: (blob, operator, READ, WRITE or REWRITE), by position in `blobs` and `operators`.
        links: (blob or bend, bend): pieces of a line that goes past other rows.
    """

    operators: list[OperatorBox]
    blobs: list[BlobPill]
    edges: list[tuple[int, int, int]]
    links: list[tuple[int, int]]
    lanes: list[int]


def diagram(proto: Any, parameters: Collection[str] | None = None) -> Diagram:
    """The diagram of a NetDef; without ``parameters`` they are guessed."""
    ssa = get_ssa(proto, {})[0]
    lanes = _lanes(proto, ssa)
    boxes = [OperatorBox(k, op, lanes[k]) for k, op in enumerate(proto.op)]
    _pair(boxes)
    _set_rows(boxes, ssa)
    if parameters is None:
        parameters = guess_parameters(proto, boxes)
    blobs = _Blobs(boxes, ssa, frozenset(parameters))
    return Diagram(boxes, blobs.pills, blobs.edges, blobs.links, sorted({box.lane for box in boxes}))


def lanes_and_partners(proto: Any) -> list[tuple[int, int | None]]:
    """For each operator of a NetDef its lane and, for a gradient operator, the position of its forward operator."""
    lanes = _lanes(proto, get_ssa(proto, {})[0])
    boxes = [OperatorBox(k, op, lanes[k]) for k, op in enumerate(proto.op)]
    _pair(boxes)
    return [(box.lane, box.partner) for box in boxes]


def _lanes(proto: Any, ssa: Any) -> list[int]:
    """The lane of each operator, from the marks of gradient operators and from who reads whom."""
    ops = proto.op
    marked = [
        k for k, op in enumerate(ops) if op.is_gradient_op or any(name.endswith("_autogen_grad") for name in op.output)
    ]
    if not marked:
        return [FORWARD] * len(ops)
    first, last = marked[0], marked[-1]
    gradients, found = set(marked), set[Version]()
    lanes: list[int] = []
    for k, (read, written) in enumerate(ssa):
        if k < first:
            lane = FORWARD
        elif k > last:
            joins = ops[k].type == "Sum" and lanes[-1] == BACKWARD and all(blob in found for blob in read)
            lane = BACKWARD if joins else UPDATE
        else:
            lane = BACKWARD if k in gradients or any(blob in found for blob in read) else FORWARD
        if lane == BACKWARD:
            found.update(written)
        lanes.append(lane)
    return lanes


def _pair(boxes: list[OperatorBox]) -> None:
    """Finds the forward operator of each gradient operator, by the names of what they read and write."""
    writers: dict[str, list[int]] = defaultdict(list)
    readers: dict[str, list[int]] = defaultdict(list)
    for box in boxes:
        if box.lane == FORWARD:
            for name in box.op.output:
                writers[name].append(box.position)
            for name in box.op.input:
                readers[name].append(box.position)
    for box in boxes:
        if box.lane != BACKWARD:
            continue
        read, written = _forward_names(box.op.input), _forward_names(box.op.output)
        candidates = {k for name in [*read, *box.op.input] for k in writers[name]}
        candidates.update(k for name in written if len(readers[name]) <= FEW for k in readers[name])

        def fit(k: int, box: OperatorBox = box, read: set[str] = read, written: set[str] = written) -> tuple[int, int]:
            op = boxes[k].op
            return (
                4 * (box.op.type == op.type + "Gradient")
                + 2 * len(read.intersection(op.output))
                + 2 * len(written.intersection(op.input)),
                -k,
            )

        if candidates and box.op.type not in {"Sum", "ConstantFill"}:
            box.partner = max(candidates, key=fit)


def _forward_names(names: Iterable[str]) -> set[str]:
    return {match["blob"] for name in names if (match := _gradient_name.match(name))}


def _set_rows(boxes: list[OperatorBox], ssa: Any) -> None:
    """Rows by longest paths: forward operators below what they read, gradient operators above it and beside their
    partners, updates beside their gradients."""
    writer = {blob: k for k, (_, written) in enumerate(ssa) for blob in written}
    readers = Counter(blob for read, _ in ssa for blob in set(read))
    below: list[tuple[int, int, int]] = []
    followers: dict[int, list[int]] = defaultdict(list)
    seen: set[Version] = set()
    for k, (read, _) in enumerate(ssa):
        lane = boxes[k].lane
        for blob in read:
            j = writer.get(blob)
            if j is None or j == k:
                continue
            if boxes[j].lane == lane == FORWARD:
                followers[j].append(k)
            if boxes[j].lane == lane and (lane != UPDATE or readers[blob] <= HUB or blob not in seen):
                below.append((k, j, 1) if lane == BACKWARD else (j, k, 1))
            elif boxes[j].lane == BACKWARD and lane == UPDATE:
                below.append((j, k, 0))
            seen.add(blob)
    beside = []
    for box in boxes:
        if box.partner is not None:
            beside.append((box.partner, box.position, 0))
            beside.extend((box.position, k, 1) for k in followers[box.partner])
    rows = _longest_paths(len(boxes), below + beside) or _longest_paths(len(boxes), below) or [0] * len(boxes)
    _pull_down(rows, below + beside)
    holding = {a for a, _, _ in below}
    _spread(rows, [box.position for box in boxes if box.lane == UPDATE and box.position not in holding])
    used = {row: k for k, row in enumerate(sorted(set(rows)))}
    for box in boxes:
        box.row = used[rows[box.position]]


def _longest_paths(n: int, edges: list[tuple[int, int, int]]) -> list[int] | None:
    """Least rows such that row[b] >= row[a] + d for each edge (a, b, d); None if edges go in a circle."""
    after: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    waiting = [0] * n
    for a, b, distance in edges:
        after[a].append((b, distance))
        waiting[b] += 1
    rows = [0] * n
    ready = [k for k in range(n) if not waiting[k]]
    for a in ready:
        for b, distance in after[a]:
            rows[b] = max(rows[b], rows[a] + distance)
            waiting[b] -= 1
            if not waiting[b]:
                ready.append(b)
    return rows if len(ready) == n else None


def _pull_down(rows: list[int], edges: list[tuple[int, int, int]]) -> None:
    """Moves what nothing holds up (constants) down to where it is used."""
    held = {b for _, b, _ in edges}
    limit: dict[int, int] = {}
    for a, b, distance in edges:
        if a not in held:
            limit[a] = min(limit.get(a, rows[b] - distance), rows[b] - distance)
    for k, row in limit.items():
        rows[k] = row


def _spread(rows: list[int], updates: list[int]) -> None:
    """Puts updates of one row below each other, as long as rows are free before the next ones."""
    groups: dict[int, list[int]] = defaultdict(list)
    for k in updates:
        groups[rows[k]].append(k)
    starts = [*sorted(groups), max(rows) + 1 if rows else 0]
    for start, end in pairwise(starts):
        for turn, k in enumerate(groups[start]):
            rows[k] = start + turn % max(end - start, 1)


def _lines(box: OperatorBox) -> tuple[int, int]:
    """The lines of a box's inputs and outputs; its own is between them."""
    above, under = 2 * box.row, 2 * box.row + 2
    return (under, above) if box.lane == BACKWARD else (above, under)


class _Blobs:
    """Puts the blobs beside their operators."""

    def __init__(self, boxes: list[OperatorBox], ssa: Any, parameters: Collection[str]) -> None:
        self.boxes = boxes
        self.parameters = parameters
        self.n_readers = Counter(blob for read, _ in ssa for blob in set(read))
        self.hidden = {
            blob
            for box in boxes
            if box.lane == UPDATE
            for blob in ssa[box.position][1]
            if not self.n_readers[blob] and blob[0] in box.op.input
        }
        self.last = {blob[0]: blob[1] for _, written in ssa for blob in written if blob not in self.hidden}
        self.external = {blob[0] for read, _ in ssa for blob in read if blob[1] == 0}
        self.pills: list[BlobPill] = []
        self.edges: list[tuple[int, int, int]] = []
        self.links: list[tuple[int, int]] = []
        self.home: dict[Version, int] = {}
        self.at: dict[tuple[Version, int, int], int] = {}
        for box in boxes:
            for blob in dict.fromkeys(ssa[box.position][1]):
                if blob not in self.hidden:
                    self.edges.append((self._pill(blob, box.lane, _lines(box)[1], box.position), box.position, WRITE))
        for box in boxes:
            rewritten = {name for name, version in ssa[box.position][1] if (name, version) in self.hidden}
            for blob in dict.fromkeys(ssa[box.position][0]):
                kind = REWRITE if blob[0] in rewritten else READ
                self.edges.append((self._near(blob, box), box.position, kind))
                self.pills[self.home[blob]].readers.append(box.position)

    def _near(self, blob: Version, box: OperatorBox) -> int:
        """What stands for a blob on the line above its reader: the blob, a line that comes from it, or a copy."""
        line = _lines(box)[0]
        near = self.at.get((blob, box.lane, line))
        if near is not None and not (self.pills[near].copy and box.lane == UPDATE):
            return near  # updates stand side by side: each has its own copy of what they share
        home = self.home.get(blob)
        if home is None:
            return self._pill(blob, box.lane, line, None)
        step = -1 if box.lane == BACKWARD else 1
        hub = box.lane == UPDATE and self.n_readers[blob] > HUB and bool(self.pills[home].readers)
        if self.pills[home].lane == box.lane and 0 < (line - self.pills[home].line) * step <= REACH and not hub:
            return self._lead(blob, home, line, step)
        return self._pill(blob, box.lane, line, self.pills[home].writer, copy=True)

    def _lead(self, blob: Version, home: int, line: int, step: int) -> int:
        """Leads a line from a blob to another line of its lane; returns its end."""
        end = home
        for there in range(self.pills[home].line + step, line + step, step):
            following = self.at.get((blob, self.pills[home].lane, there))
            if following is None:
                following = self._pill(blob, self.pills[home].lane, there, self.pills[home].writer, copy=True)
                self.pills[following].kind = BEND
                self.links.append((end, following))
            end = following
        return end

    def _pill(self, blob: Version, lane: int, line: int, writer: int | None, copy: bool = False) -> int:
        name, version = blob
        once = self.last.get(name, 0) == (0 if name in self.external else 1)
        if name in self.parameters:
            kind = "parameter"
        elif version == 0:
            kind = "input"
        else:
            kind = "gradient" if writer is not None and self.boxes[writer].lane == BACKWARD else "blob"
        k = self.at[blob, lane, line] = len(self.pills)
        self.pills.append(BlobPill(blob, name if once else f"{name}@{version}", lane, line, kind, copy, writer))
        if not copy:
            self.home[blob] = k
        return k


def guess_parameters(proto: Any, boxes: Iterable[OperatorBox]) -> set[str]:
    """Blobs from outside that the updates rewrite, or that operators read as weight, bias and the like."""
    from netgrad.graph import registry

    outside = set(proto.external_input)
    found = set()
    for box in boxes:
        if box.lane == UPDATE:
            found.update(outside.intersection(box.op.output))
        elif box.lane == FORWARD:
            declaration = registry.find(box.op.type)
            for name, declared in zip(box.op.input, declaration.inputs if declaration else ()):
                if name in outside and _parameter_inputs.match(getattr(declared, "name", "")):
                    found.add(name)
    return found
