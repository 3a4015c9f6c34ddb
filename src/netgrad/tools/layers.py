"""Layered drawing: order the nodes of each line so that few edges cross, then place them so that edges are short.

The method is Sugiyama's: barycenters for the order, isotonic regression (pool adjacent violators) for the places. Edges
join neighbouring lines only. Everything is linear or n log n, and deterministic.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Node:
    """Something to place: it has a width and stands on a line; `x` (its middle) is found."""

    width: float
    line: int
    x: float = 0.0
    up: list[int] = field(default_factory=list)
    down: list[int] = field(default_factory=list)


SWEEPS = 8
#: how much a node with a single edge pulls, beside one that a path goes through: paths are to be straight
LEAF = 0.04
CROSSINGS_COUNTED = 20_000


def arrange(nodes: Sequence[Node], edges: Sequence[tuple[int, int]], gap: float) -> None:
    """Finds `x` of every node; the leftmost edge of the drawing is 0.

    Args:
        nodes: with their lines; within a line their order is the one to start from.
        edges: pairs of positions in `nodes`, of neighbouring lines.
        gap: the least space between neighbours.
    """
    if not nodes:
        return
    for a, b in edges:
        upper, lower = (a, b) if nodes[a].line < nodes[b].line else (b, a)
        nodes[upper].down.append(lower)
        nodes[lower].up.append(upper)
    lines: dict[int, list[int]] = {}
    for k, node in enumerate(nodes):
        lines.setdefault(node.line, []).append(k)
    rows = [lines[line] for line in sorted(lines)]
    _order(nodes, rows, len(edges))
    _place(nodes, rows, gap)
    left = min(node.x - node.width / 2 for node in nodes)
    for node in nodes:
        node.x -= left


def _order(nodes: Sequence[Node], rows: list[list[int]], n_edges: int) -> None:
    place = {k: p for row in rows for p, k in enumerate(row)}
    best, fewest = [row[:] for row in rows], _crossings(nodes, rows, place) if n_edges < CROSSINGS_COUNTED else -1
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        for row in rows if downwards else reversed(rows):
            key = {}
            for k in row:
                near = nodes[k].up if downwards else nodes[k].down
                key[k] = sum(place[n] for n in near) / len(near) if near else place[k]
            row.sort(key=key.__getitem__)
            for p, k in enumerate(row):
                place[k] = p
        crossings = _crossings(nodes, rows, place) if fewest >= 0 else -1
        if crossings < fewest or fewest < 0:
            best, fewest = [row[:] for row in rows], crossings
        if fewest == 0:
            break
    rows[:] = best


def _crossings(nodes: Sequence[Node], rows: list[list[int]], place: dict[int, int]) -> int:
    """How many pairs of edges cross: inversions, line by line."""
    count = 0
    for row in rows:
        seen: list[int] = []
        for k in row:
            ends = [place[n] for n in nodes[k].down]
            count += sum(len(seen) - bisect_left(seen, end + 1) for end in ends)
            for end in ends:
                seen.insert(bisect_left(seen, end), end)
    return count


def _place(nodes: Sequence[Node], rows: list[list[int]], gap: float) -> None:
    pull = [1.0 if len(node.up) + len(node.down) > 1 else LEAF for node in nodes]
    for row in rows:
        _settle(nodes, row, [0.0] * len(row), [1.0] * len(row), gap)
    for sweep in range(SWEEPS):
        last = sweep == SWEEPS - 1
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wishes, weights = [], []
            for k in row:
                node = nodes[k]
                near = node.up + node.down if last else (node.up if sweep % 2 == 0 else node.down)
                weight = sum(pull[n] for n in near)
                wishes.append(sum(nodes[n].x * pull[n] for n in near) / weight if near else node.x)
                weights.append(max(weight * pull[k], LEAF**2))
            _settle(nodes, row, wishes, weights, gap)


def _settle(nodes: Sequence[Node], row: list[int], wishes: list[float], weights: list[float], gap: float) -> None:
    """Gives the nodes of a line the places nearest to their wishes (least squares) that keep order and distance."""
    offsets, offset, previous = [], 0.0, None
    for k in row:
        if previous is not None:
            offset += (nodes[previous].width + nodes[k].width) / 2 + gap
        offsets.append(offset)
        previous = k
    blocks: list[tuple[float, float, int]] = []
    for wish, weight, offset in zip(wishes, weights, offsets, strict=True):
        block = (wish - offset, weight, 1)
        while blocks and blocks[-1][0] >= block[0]:
            value, total, count = blocks.pop()
            mass = total + block[1]
            block = ((value * total + block[0] * block[1]) / mass, mass, count + block[2])
        blocks.append(block)
    position = 0
    for value, _, count in blocks:
        for k in row[position : position + count]:
            nodes[k].x = value + offsets[position]
            position += 1
