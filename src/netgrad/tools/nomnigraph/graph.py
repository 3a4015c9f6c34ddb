"""Graphs and subgraphs: nodes and edges put in and taken out, and how they are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from netgrad.proto import caffe2_pb2
from netgrad.tools.nomnigraph.nodes import Edge, GraphError, NeuralNetData, NeuralNetOperator, Node


def dot(nodes: Iterable[Node], edges: Iterable[Edge]) -> str:
    """Nodes and edges in the language of Graphviz: operators as boxes."""
    numbers: dict[Node, int] = {}
    lines = ["digraph G {", "rankdir=LR"]
    for node in nodes:
        numbers[node] = len(numbers)
        name = node.name.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'{numbers[node]}[label="{name}"{", shape=box" if node.isOperator() else ""}];')
    lines += [f"{numbers[edge.tail]} -> {numbers[edge.head]};" for edge in edges]
    return "\n".join((*lines, "}"))


class BaseGraph:
    """Nodes in the order in which they were made, and edges between them."""

    def __init__(self) -> None:
        self._nodes: dict[Node, None] = {}

    def __repr__(self) -> str:
        return dot(self._nodes, (edge for node in self._nodes for edge in node.out_edges))

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def nodes(self) -> list[Node]:
        return list(self._nodes)

    def getMutableNodes(self) -> list[Node]:
        return list(self._nodes)

    def _add(self, value: Any) -> Node:
        node = Node(value)
        self._nodes[node] = None
        return node

    def _own(self, *nodes: Node) -> None:
        for node in nodes:
            if node not in self._nodes:
                raise GraphError(f"{node!r} is not a node of this graph")

    def createEdge(self, a: Node, b: Node) -> Edge:
        """An edge from ``a`` to ``b``, after those that are there."""
        self._own(a, b)
        edge = Edge(a, b)
        a.out_edges.append(edge)
        b.in_edges.append(edge)
        return edge

    def deleteEdge(self, a: Edge | Node, b: Node | None = None) -> None:
        """Takes out one edge, or all from ``a`` to ``b``."""
        edges = [a] if isinstance(a, Edge) else [edge for edge in a.out_edges if edge.head is b]
        if not edges or any(edge not in edge.tail.out_edges for edge in edges):
            raise GraphError(f"there is no edge {a!r}" + ("" if b is None else f" -> {b!r}"))
        for edge in edges:
            edge.tail.out_edges.remove(edge)
            edge.head.in_edges.remove(edge)

    def deleteNode(self, node: Node) -> None:
        """Takes out a node and its edges."""
        self._own(node)
        for edge in (*node.in_edges, *node.out_edges):
            self.deleteEdge(edge)
        del self._nodes[node]

    def replaceNode(self, old_node: Node, new_node: Node) -> None:
        """Gives all edges of a node to another one; the old one stays, alone."""
        self._own(old_node, new_node)
        move_inputs(old_node, new_node)
        move_outputs(old_node, new_node)


def move_inputs(old: Node, new: Node) -> None:
    """Edges that lead to a node lead to another one."""
    for edge in old.in_edges:
        edge.head = new
    new.in_edges += old.in_edges
    old.in_edges = []


def move_outputs(old: Node, new: Node) -> None:
    """Edges that come from a node come from another one."""
    for edge in old.out_edges:
        edge.tail = new
    new.out_edges += old.out_edges
    old.out_edges = []


class Graph(BaseGraph):
    """A graph of anything."""

    def createNode(self, value: Any) -> Node:
        return self._add(value)


class NNGraph(BaseGraph):
    """The dataflow of a net: operators, the tensors that they read, and those that they write."""

    @property
    def operators(self) -> list[Node]:
        return [node for node in self._nodes if node.isOperator()]

    @property
    def tensors(self) -> list[Node]:
        return [node for node in self._nodes if node.isTensor()]

    def createNode(self, value: Any) -> Node:
        """A node for a `NeuralNetOperator`, a `NeuralNetData`, or an OperatorDef (whose blobs are not connected)."""
        if isinstance(value, (NeuralNetOperator, NeuralNetData)):
            return self._add(value)
        if isinstance(value, caffe2_pb2.OperatorDef):
            node = self._add(NeuralNetOperator(value.type))
            node.annotation.operator_def = caffe2_pb2.OperatorDef()
            node.annotation.operator_def.CopyFrom(value)
            return node
        raise GraphError(f"a node is a NeuralNetOperator, a NeuralNetData or an OperatorDef, not {value!r}")

    def createEdge(self, a: Node, b: Node) -> Edge:
        check_edge(a, b)
        return super().createEdge(a, b)


def check_edge(a: Node, b: Node) -> None:
    """Raises GraphError where an edge from ``a`` to ``b`` has no meaning in a dataflow."""
    if not ((a.isOperator() and b.isTensor()) or (a.isTensor() and b.isOperator())):
        raise GraphError(f"an edge leads from tensor to operator or from operator to tensor, not from {a} to {b}")
    if a.isOperator() and b.in_edges:
        raise GraphError(f"{b} is written by {b.producer} already; make another tensor for what {a} writes")


class NNSubgraph:
    """Some nodes of a graph, and some of the edges between them."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self._nodes: dict[Node, None] = dict.fromkeys(nodes)
        self._edges: list[Edge] = []

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def __repr__(self) -> str:
        return dot(self._nodes, self._edges)

    @property
    def nodes(self) -> list[Node]:
        return list(self._nodes)

    def addNode(self, node: Node) -> None:
        self._nodes[node] = None

    def hasNode(self, node: Node) -> bool:
        return node in self._nodes

    def removeNode(self, node: Node) -> None:
        if node not in self._nodes:
            raise GraphError(f"{node!r} is not in the subgraph")
        del self._nodes[node]
        self._edges = [edge for edge in self._edges if edge.tail is not node and edge.head is not node]

    def induceEdges(self) -> None:
        """Takes in all edges between the nodes."""
        self._edges = [edge for node in self._nodes for edge in node.out_edges if edge.head in self._nodes]
