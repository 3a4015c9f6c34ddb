"""Which operators must run before which, and orders in which they may run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from netgrad.graph import registry
from netgrad.runtime.planning.liveness import unnamed_reads
from netgrad.tools.memory.names import keeps_state


class DependencyGraph:
    """Operators and which must come before which, in the manner of networkx's ``DiGraph``."""

    def __init__(self) -> None:
        #: position -> attributes: ``op``
        self.nodes: dict[int, dict[str, Any]] = {}
        self._after: dict[int, dict[int, dict[str, Any]]] = {}
        self._before: dict[int, dict[int, dict[str, Any]]] = {}

    def add_node(self, node: int, **attributes: Any) -> None:
        self.nodes.setdefault(node, {}).update(attributes)
        self._after.setdefault(node, {})
        self._before.setdefault(node, {})

    def add_edge(self, a: int, b: int, **attributes: Any) -> None:
        """``a`` before ``b``."""
        self.add_node(a)
        self.add_node(b)
        edge = self._after[a].setdefault(b, {})
        edge.update(attributes)
        self._before[b][a] = edge

    def edges(self) -> list[tuple[int, int]]:
        return [(a, b) for a in self.nodes for b in sorted(self._after[a])]

    def has_edge(self, a: int, b: int) -> bool:
        return b in self._after.get(a, ())

    def __getitem__(self, node: int) -> dict[int, dict[str, Any]]:
        """What comes after a node -> attributes of the edge: ``deps``, the blobs that it is for."""
        return self._after[node]

    def successors(self, node: int) -> Iterator[int]:
        return iter(self._after[node])

    def predecessors(self, node: int) -> Iterator[int]:
        return iter(self._before[node])

    def __iter__(self) -> Iterator[int]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __contains__(self, node: int) -> bool:
        return node in self.nodes


def compute_interference_graph(ops: Sequence[Any]) -> DependencyGraph:
    """The order that operators must keep: by the blobs that one writes and another reads or writes again, and, for
    those that do more than that (files, state, blobs that they do not name), the order that they have.
    """
    graph = DependencyGraph()
    writers: dict[str, list[int]] = {}
    readers: dict[str, list[int]] = {}
    special: int | None = None
    wall = -1
    for k, op in enumerate(ops):
        graph.add_node(k, op=op)
        found: dict[int, set[str]] = {}
        for name in op.input:
            for j in writers.get(name, ()):
                found.setdefault(j, set()).add(name)
        for name in op.output:
            for j in (*writers.get(name, ()), *readers.get(name, ())):
                found.setdefault(j, set()).add(name)
        if _sees_all(op):
            found.update((j, found.get(j, set())) for j in range(k))
            wall = k
        elif wall >= 0:
            found.setdefault(wall, set())
        if _does_more(op):
            if special is not None:
                found.setdefault(special, set())
            special = k
        for j in sorted(found):
            graph.add_edge(j, k, deps=found[j])
        for name in op.input:
            readers.setdefault(name, []).append(k)
        for name in op.output:
            writers.setdefault(name, []).append(k)
    return graph


def _sees_all(op: Any) -> bool:
    declaration = registry.find(op.type)
    return declaration is None or "blobs" in declaration.effects or unnamed_reads(op, declaration) is None


def _does_more(op: Any) -> bool:
    declaration = registry.find(op.type)
    return declaration is None or keeps_state(op) or not {"io", "python", "binds"}.isdisjoint(declaration.effects)


def topological_sort_traversal(g: Any) -> list[int]:
    """An order that keeps chains of operators together: what only one operator needs is computed right before it."""
    return _depth_first(g, list(g), {})


def topological_sort_traversal_longest_path(g: Any) -> list[int]:
    """The same, but where there is a choice, what begins the longest path comes first: it is needed for longest anyway,
    and what shorter paths make is then made later, close to its use."""
    lengths: dict[int, int] = {}
    for node in reversed(topological_sort_traversal(g)):
        lengths[node] = 1 + max((lengths[after] for after in g.successors(node)), default=0)
    sources = [node for node in g if next(iter(g.predecessors(node)), None) is None]
    return _depth_first(g, sorted(sources, key=lambda node: (lengths[node], -node)), lengths)


def _depth_first(g: Any, starts: Iterable[int], lengths: dict[int, int]) -> list[int]:
    """Nodes in reverse order of being finished by a depth-first search; shorter paths are finished first."""
    finished: dict[int, None] = {}
    for start in starts:
        pending = [(start, False)]
        while pending:
            node, done = pending.pop()
            if done:
                finished.setdefault(node)
            elif node not in finished:
                pending.append((node, True))
                after = sorted(g.successors(node), key=lambda n: (lengths.get(n, 0), -n), reverse=True)
                pending.extend((n, False) for n in after if n not in finished)
    return list(reversed(finished))
