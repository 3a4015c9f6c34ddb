"""`NNModule`: a net as a graph, changed, and written out again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from netgrad.proto import caffe2_pb2
from netgrad.tools.nomnigraph.graph import NNGraph, NNSubgraph, move_inputs, move_outputs
from netgrad.tools.nomnigraph.matching import NNMatchGraph, matchSubgraph
from netgrad.tools.nomnigraph.nodes import Edge, GraphError, NeuralNetData, Node


class NNModule:
    """A graph of operators and tensors, and the order in which the operators run.

    Each write of a blob is a tensor of its own, so edges say who reads which version, whatever names say.
    """

    def __init__(self, net: Any = None, device_map: Mapping[str, caffe2_pb2.DeviceOption] | None = None) -> None:
        """Reads a net.

        Args:
            net: a `Net` or NetDef; None: empty.
            device_map: blob -> where it lies; noted on its tensors.

        Raises:
            GraphError: the net is none, or has no blob of a name in the map.
        """
        self._graph = NNGraph()
        self._inputs: list[Node] = []
        self._outputs: list[Node] = []
        if net is None:
            return
        proto = net.Proto() if callable(getattr(net, "Proto", None)) else net
        if not isinstance(proto, caffe2_pb2.NetDef):
            raise GraphError(f"NNModule reads a Net or a NetDef, not {net!r}")
        self._read(proto)
        for name, device in (device_map or {}).items():
            named = [tensor for tensor in self.tensors if tensor.name == str(name)]
            if not named:
                raise GraphError(f"the device map names blob {name!r}, which net {proto.name!r} has not")
            for tensor in named:
                tensor.annotation.device_option = device
                tensor.annotation.setDeviceType(device.device_type)

    def _read(self, proto: caffe2_pb2.NetDef) -> None:
        graph = self._graph
        now: dict[str, Node] = {}
        for name in dict.fromkeys(proto.external_input):
            now[name] = graph.createNode(NeuralNetData(name))
            self._inputs.append(now[name])
        for op in proto.op:
            node = graph.createNode(op)
            for name in op.input:
                if name not in now:
                    now[name] = graph.createNode(NeuralNetData(name))
                graph.createEdge(now[name], node)
            for name in op.output:
                now[name] = graph.createNode(NeuralNetData(name))
                graph.createEdge(node, now[name])
        self._outputs = [now[name] if name in now else graph.createNode(NeuralNetData(name))
                         for name in dict.fromkeys(proto.external_output)]

    # what is there

    @property
    def dataFlow(self) -> NNGraph:
        return self._graph

    @property
    def nodes(self) -> list[Node]:
        return self._graph.nodes

    @property
    def operators(self) -> list[Node]:
        return self._graph.operators

    @property
    def tensors(self) -> list[Node]:
        return self._graph.tensors

    @property
    def controlFlow(self) -> list[Node]:
        """The operators in an order in which they can run: that in which they were made, as far as edges allow.

        Raises:
            GraphError: an operator needs, by some way, what it writes itself.
        """
        operators = self._graph.operators
        before: dict[Node, set[Node]] = {node: set() for node in operators}
        for node in operators:
            before[node].update(tensor.producer for tensor in node.inputs if tensor.hasProducer())
        order: list[Node] = []
        placed: set[Node] = set()
        waiting = list(operators)
        while waiting:
            ready = next((node for node in waiting if before[node] <= placed), None)
            if ready is None:
                raise GraphError(f"operators need what they write themselves: {waiting}")
            waiting.remove(ready)
            placed.add(ready)
            order.append(ready)
        return order

    # changes

    def createNode(self, val: Any) -> Node:
        return self._graph.createNode(val)

    def deleteNode(self, node: Node) -> None:
        self._graph.deleteNode(node)
        self._forget()

    def createEdge(self, a: Node, b: Node) -> Edge:
        return self._graph.createEdge(a, b)

    def deleteEdge(self, a: Edge | Node, b: Node | None = None) -> None:
        self._graph.deleteEdge(a, b)

    def replaceNode(self, old_node: Node, new_node: Node) -> None:
        self._graph.replaceNode(old_node, new_node)

    def replaceProducer(self, tensor: Node, new_producer: Node) -> None:
        replaceProducer(tensor, new_producer)

    def replaceAllUsesWith(self, old_tensor: Node, new_tensor: Node) -> None:
        replaceAllUsesWith(old_tensor, new_tensor)

    def replaceAsConsumer(self, old_consumer: Node, new_consumer: Node) -> None:
        replaceAsConsumer(old_consumer, new_consumer)

    def replaceSubgraph(self, subgraph: NNSubgraph, new_node: Node, inputs: Sequence[Node],
                        outputs: Sequence[Node]) -> None:
        """Puts an operator in the place of a subgraph.

        Args:
            subgraph: its nodes are deleted, but for the tensors that are listed.
            new_node: the operator.
            inputs, outputs: tensors that it reads and writes.
        """
        kept = {*inputs, *outputs}
        for tensor in outputs:
            for edge in list(tensor.in_edges):
                self._graph.deleteEdge(edge)
        for node in subgraph.nodes:
            if node not in kept:
                self._graph.deleteNode(node)
        for tensor in inputs:
            self._graph.createEdge(tensor, new_node)
        for tensor in outputs:
            self._graph.createEdge(new_node, tensor)
        self._forget()

    def deleteSubgraph(self, subgraph: NNSubgraph) -> None:
        for node in subgraph.nodes:
            self._graph.deleteNode(node)
        self._forget()

    def createUniqueDataNode(self, prefix: str = "_unique") -> Node:
        """A tensor whose name begins like this and that no other has."""
        taken = {tensor.name for tensor in self._graph.tensors}
        name, k = str(prefix), 0
        while name in taken:
            name, k = f"{prefix}_{k}", k + 1
        return self._graph.createNode(NeuralNetData(name))

    def _forget(self) -> None:
        """External inputs and outputs that were deleted are none any more."""
        nodes = self._graph._nodes
        self._inputs = [tensor for tensor in self._inputs if tensor in nodes]
        self._outputs = [tensor for tensor in self._outputs if tensor in nodes]

    # back to a net

    def convertToCaffe2Proto(self, old_proto: Any = None) -> caffe2_pb2.NetDef:
        """The net that the graph describes.

        Args:
            old_proto: a NetDef or Net that other fields (name, type, arguments, device) are taken from.

        Raises:
            GraphError: a tensor's name is written anew while the older tensor of this name is still read.
        """
        net = caffe2_pb2.NetDef()
        if old_proto is not None:
            net.CopyFrom(old_proto.Proto() if hasattr(old_proto, "Proto") else old_proto)
            del net.op[:]
        order = _with_names_in_order(self.controlFlow)
        for node in order:
            op = net.op.add()
            if node.annotation.operator_def is not None:
                op.CopyFrom(node.annotation.operator_def)
            op.type = op.type or node.name
            if node.annotation._device_option is not None:
                op.device_option.CopyFrom(node.annotation._device_option)
            op.input[:] = [tensor.name for tensor in node.inputs]
            op.output[:] = [tensor.name for tensor in node.outputs]
        inputs = dict.fromkeys(tensor.name for tensor in self._inputs)
        written: set[str] = set()
        for op in net.op:
            inputs.update(dict.fromkeys(name for name in op.input if name and name not in written))
            written.update(op.output)
        net.external_input[:] = list(inputs)
        net.external_output[:] = list(dict.fromkeys(tensor.name for tensor in self._outputs))
        return net

    def match(self, pattern: NNMatchGraph) -> Iterator[NNSubgraph]:
        """The places that match a pattern; the graph may be changed between them."""
        for node in self._graph.nodes:
            if node in self._graph._nodes:
                found = matchSubgraph(node, pattern)
                if found is not None:
                    yield found


def _with_names_in_order(order: list[Node]) -> list[Node]:
    """The order, with readers of a name before the operator that writes it anew.

    Raises:
        GraphError: there is no such order.
    """
    holder: dict[str, Node] = {}
    pending: dict[Node, int] = {}
    for node in order:
        for tensor in node.inputs:
            pending[tensor] = pending.get(tensor, 0) + 1
            if not tensor.hasProducer():
                holder.setdefault(tensor.name, tensor)
    result: list[Node] = []
    made: set[Node] = set()
    waiting = list(order)
    while waiting:
        for node in waiting:
            if all(t.producer in made for t in node.inputs if t.hasProducer()) and not any(
                pending.get(old, 0) - node.inputs.count(old) > 0
                for t in node.outputs if (old := holder.get(t.name)) is not None and old is not t
            ):
                break
        else:
            node = waiting[0]
            raise GraphError(f"{node} writes a name whose older value is still needed: "
                             f"{', '.join(repr(t.name) for t in node.outputs)}; give it a tensor of another name")
        waiting.remove(node)
        made.add(node)
        result.append(node)
        for tensor in node.inputs:
            pending[tensor] -= 1
        for tensor in node.outputs:
            holder[tensor.name] = tensor
    return result


def replaceProducer(tensor: Node, new_producer: Node) -> None:
    """A tensor is written by another operator."""
    edge = tensor.in_edges[0] if tensor.in_edges else None
    new_producer.getOperator()
    if edge is None:
        raise GraphError(f"no operator writes {tensor}; connect it with createEdge")
    edge.tail.out_edges.remove(edge)
    edge.tail = new_producer
    new_producer.out_edges.append(edge)


def replaceAllUsesWith(old_tensor: Node, new_tensor: Node) -> None:
    """What reads a tensor reads another one."""
    old_tensor.getTensor()
    new_tensor.getTensor()
    move_outputs(old_tensor, new_tensor)


def replaceAsConsumer(old_consumer: Node, new_consumer: Node) -> None:
    """What an operator reads another one reads."""
    old_consumer.getOperator()
    new_consumer.getOperator()
    move_inputs(old_consumer, new_consumer)
