"""What stands in a graph: operators, tensors, and the notes on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import NetError


class GraphError(NetError, ValueError, TypeError):
    """A graph cannot be used or changed as asked."""


class NeuralNetOperator:
    """What an operator node holds: the operator's type."""

    def __init__(self, name: str) -> None:
        self._name = str(name)

    def getName(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"NeuralNetOperator({self._name!r})"


class NeuralNetData:
    """What a tensor node holds: the blob's name."""

    def __init__(self, name: str) -> None:
        self._name = str(name)

    def getName(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"NeuralNetData({self._name!r})"


class Annotation:
    """Notes on a node: where it runs, the operator it came from, and what tools for distribution keep.

    Attributes:
        operator_def: the OperatorDef that is written out for an operator node; None: only its type is known.
    """

    def __init__(self) -> None:
        self._device = ""
        self._device_type = 0
        self._device_option: caffe2_pb2.DeviceOption | None = None
        self._key: Node | None = None
        self._length: Node | None = None
        self._levels: list[str] = []
        self.operator_def: caffe2_pb2.OperatorDef | None = None

    def getDevice(self) -> str:
        return self._device

    def setDevice(self, device: str) -> None:
        self._device = device

    def getDeviceType(self) -> int:
        return self._device_type

    def setDeviceType(self, device_type: int) -> None:
        self._device_type = device_type

    @property
    def device_option(self) -> caffe2_pb2.DeviceOption:
        """The device; the operator's where none was set."""
        if self._device_option is not None:
            return self._device_option
        found = caffe2_pb2.DeviceOption()
        if self.operator_def is not None:
            found.CopyFrom(self.operator_def.device_option)
        return found

    @device_option.setter
    def device_option(self, option: caffe2_pb2.DeviceOption) -> None:
        self._device_option = caffe2_pb2.DeviceOption()
        self._device_option.CopyFrom(option)

    def hasDeviceOption(self) -> bool:
        return self._device_option is not None or (
            self.operator_def is not None and self.operator_def.HasField("device_option"))

    def getKeyNode(self) -> Node | None:
        return self._key

    def setKeyNode(self, node: Node) -> None:
        self._key = node

    def getLengthNode(self) -> Node | None:
        return self._length

    def setLengthNode(self, node: Node) -> None:
        self._length = node

    def getComponentLevels(self) -> list[str]:
        return list(self._levels)

    def setComponentLevels(self, levels: Sequence[str]) -> None:
        self._levels = list(levels)


class Edge:
    """From one node to another; a tensor that an operator reads twice has two."""

    __slots__ = ("head", "tail")

    def __init__(self, tail: Node, head: Node) -> None:
        self.tail = tail
        self.head = head

    def __repr__(self) -> str:
        return f"{self.tail} -> {self.head}"


class Node:
    """An operator or a tensor (one version of a blob) in a graph; edges are in the order of inputs and outputs."""

    __slots__ = ("annotation", "in_edges", "out_edges", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.annotation = Annotation()
        self.in_edges: list[Edge] = []
        self.out_edges: list[Edge] = []

    def __repr__(self) -> str:
        return f"{self.getType().lower()} {self.name!r}"

    def isOperator(self) -> bool:
        return isinstance(self.value, NeuralNetOperator)

    def isTensor(self) -> bool:
        return isinstance(self.value, NeuralNetData)

    def getType(self) -> str:
        """ "Operator" or "Tensor"."""
        return "Operator" if self.isOperator() else "Tensor" if self.isTensor() else "Node"

    type = property(getType)

    def getName(self) -> str:
        """The operator's type or the tensor's name."""
        return str(self.value.getName()) if hasattr(self.value, "getName") else str(self.value)

    name = property(getName)

    def getOperator(self) -> NeuralNetOperator:
        return self._held(NeuralNetOperator, "operator")

    operator = property(getOperator)

    def getTensor(self) -> NeuralNetData:
        return self._held(NeuralNetData, "tensor")

    tensor = property(getTensor)

    def _held(self, kind: Any, word: str) -> Any:
        if not isinstance(self.value, kind):
            raise GraphError(f"{self} is no {word}")
        return self.value

    # neighbours

    def getInputs(self) -> list[Node]:
        """The tensors that an operator reads."""
        self.getOperator()
        return [edge.tail for edge in self.in_edges]

    inputs = property(getInputs)

    def getOutputs(self) -> list[Node]:
        """The tensors that an operator writes."""
        self.getOperator()
        return [edge.head for edge in self.out_edges]

    outputs = property(getOutputs)

    def hasProducer(self) -> bool:
        """Whether an operator of the graph writes a tensor."""
        self.getTensor()
        return bool(self.in_edges)

    def getProducer(self) -> Node:
        """The operator that writes a tensor."""
        self.getTensor()
        if not self.in_edges:
            raise GraphError(f"no operator writes {self}; ask hasProducer() first")
        return self.in_edges[0].tail

    producer = property(getProducer)

    def getConsumers(self) -> list[Node]:
        """The operators that read a tensor."""
        self.getTensor()
        return [edge.head for edge in self.out_edges]

    consumers = property(getConsumers)

    def getOperatorPredecessors(self) -> list[Node]:
        """The operators that write what an operator reads."""
        return list(dict.fromkeys(t.producer for t in self.inputs if t.hasProducer()))

    def getOperatorSuccessors(self) -> list[Node]:
        """The operators that read what an operator writes."""
        return list(dict.fromkeys(node for t in self.outputs for node in t.consumers))

    # notes

    def getAnnotation(self) -> Annotation:
        return self.annotation

    def setAnnotation(self, annotation: Annotation) -> None:
        self.annotation = annotation
