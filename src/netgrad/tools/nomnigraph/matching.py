"""Patterns, and where a graph has them.

A pattern is a graph of operators and tensors with names that count (the operator's type) or do not (a tensor's). A
match of it maps every node of the pattern to a node of its own kind, and edges to edges. The search begins at the node
that nothing in the pattern reads and goes from there against the edges: inputs of an operator are matched in order.
"""

from __future__ import annotations

from typing import Any

from netgrad.tools.nomnigraph.graph import BaseGraph, NNSubgraph, check_edge
from netgrad.tools.nomnigraph.nodes import Edge, GraphError, NeuralNetData, NeuralNetOperator, Node


class NNMatchGraph(BaseGraph):
    """A pattern."""

    def __init__(self) -> None:
        super().__init__()
        self._strict: set[Node] = set()

    def createNode(self, value: Any, strict: bool = False) -> Node:
        """A node that matches operators of the same type, or tensors of any name.

        Args:
            value: a `NeuralNetOperator` or `NeuralNetData`.
            strict: what matches has no other edges than the pattern says: an operator reads and writes nothing more, a
                tensor has no other readers.
        """
        if not isinstance(value, (NeuralNetOperator, NeuralNetData)):
            raise GraphError(f"a node of a pattern is a NeuralNetOperator or a NeuralNetData, not {value!r}")
        node = self._add(value)
        if strict:
            self._strict.add(node)
        return node

    def createEdge(self, a: Node, b: Node) -> Edge:
        check_edge(a, b)
        return super().createEdge(a, b)

    def is_strict(self, node: Node) -> bool:
        return node in self._strict

    def root(self) -> Node:
        """The one node that nothing in the pattern reads."""
        ends = [node for node in self._nodes if not node.out_edges]
        if len(ends) != 1:
            raise GraphError(f"a pattern ends in one node, which nothing in it reads; this one ends in {ends}")
        return ends[0]


def matchSubgraph(node: Node, pattern: NNMatchGraph) -> NNSubgraph | None:
    """The subgraph that matches a pattern whose last node is ``node``; None if there is none."""
    found = _extend(pattern, [(pattern.root(), node)], {})
    if found is None:
        return None
    subgraph = NNSubgraph(found.values())
    subgraph.induceEdges()
    return subgraph


def _extend(pattern: NNMatchGraph, pending: list[tuple[Node, Node]],
            found: dict[Node, Node]) -> dict[Node, Node] | None:
    """Completes a partial match, depth first; tries other inputs where an operator has more than the pattern."""
    if not pending:
        return found
    (wanted, node), *rest = pending
    if wanted in found:
        return _extend(pattern, rest, found) if found[wanted] is node else None
    if node in found.values() or not _alike(pattern, wanted, node):
        return None
    found = {**found, wanted: node}
    for sources in _choices([edge.tail for edge in wanted.in_edges], node.in_edges):
        complete = _extend(pattern, [*sources, *rest], found)
        if complete is not None:
            return complete
    return None


def _choices(wanted: list[Node], edges: list[Edge]) -> list[list[tuple[Node, Node]]]:
    """The ways to pair nodes, in order, with sources of edges, in order."""
    if not wanted:
        return [[]]
    return [[(wanted[0], edge.tail), *others] for k, edge in enumerate(edges)
            for others in _choices(wanted[1:], edges[k + 1:])]


def _alike(pattern: NNMatchGraph, wanted: Node, node: Node) -> bool:
    if wanted.isOperator():
        if not node.isOperator() or wanted.name != node.name:
            return False
    elif not node.isTensor():
        return False
    if len(node.in_edges) < len(wanted.in_edges) or len(node.out_edges) < len(wanted.out_edges):
        return False
    return not pattern.is_strict(wanted) or (
        len(node.in_edges) == len(wanted.in_edges) and len(node.out_edges) == len(wanted.out_edges))
