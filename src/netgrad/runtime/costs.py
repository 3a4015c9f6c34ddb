"""What operators cost: floating-point operations and bytes, from the shapes of their inputs, without running them.

Counts follow Caffe2's where it has them (a multiplication and an addition are two operations). The rest is estimated:
one operation per entry of the outputs. Gradients cost what their products do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netgrad.graph import registry
from netgrad.graph.shapes import TensorType
from netgrad.proto import caffe2_pb2
from netgrad.runtime.binding import arguments_of
from netgrad.runtime.errors import NetError
from netgrad.runtime.inference import infer_operator, type_of
from netgrad.runtime.workspace import Workspace, definition_of

_SIZES = {"float16": 2, "float64": 8, "int64": 8, "uint64": 8, "int16": 2, "uint16": 2, "int8": 1, "uint8": 1,
          "bool": 1}


@dataclass(frozen=True)
class Cost:
    """Attributes:
        flops: floating-point operations.
        bytes_read, bytes_written: of the inputs and outputs.
        bytes_of_parameters: of the inputs that Caffe2 calls parameters (weights, biases, scales).
    """

    flops: int
    bytes_read: int
    bytes_written: int
    bytes_of_parameters: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.bytes_read + other.bytes_read,
                    self.bytes_written + other.bytes_written, self.bytes_of_parameters + other.bytes_of_parameters)


def size_of(type: TensorType) -> int | None:
    """Bytes of a tensor; None where its shape is not known."""
    entries = _entries(type)
    return None if entries is None else entries * _SIZES.get(type.dtype or "float32", 4)


def _entries(type: TensorType) -> int | None:
    return None if type.dims is None or None in type.dims else math.prod(type.dims)  # type: ignore[arg-type]


Flops = Callable[[Sequence[TensorType], Sequence[TensorType], Mapping[str, Any]], int]


def _of(type: TensorType) -> int:
    return _entries(type) or 0


def _fully_connected(inputs: Sequence[TensorType], outputs: Sequence[TensorType], _: Mapping[str, Any]) -> int:
    rows = inputs[1].dims[0] if inputs[1].dims else 0
    inner = _of(inputs[1]) // max(1, rows or 1)
    return _of(outputs[0]) * (2 * inner + (1 if len(inputs) > 2 else 0))


def _convolution(inputs: Sequence[TensorType], outputs: Sequence[TensorType], _: Mapping[str, Any]) -> int:
    filters = inputs[1].dims[0] if inputs[1].dims else 0
    taps = _of(inputs[1]) // max(1, filters or 1)
    return _of(outputs[0]) * 2 * taps


def _matrix_product(inputs: Sequence[TensorType], outputs: Sequence[TensorType], arguments: Mapping[str, Any]) -> int:
    dims = inputs[0].dims or ()
    inner = dims[-2 if arguments.get("trans_a") else -1] if len(dims) > 1 else _of(inputs[0])
    return 2 * _of(outputs[0]) * (inner or 0)


def _convolution_gradient(inputs: Sequence[TensorType], outputs: Sequence[TensorType],
                          arguments: Mapping[str, Any]) -> int:
    filters = inputs[1].dims[0] if inputs[1].dims else 0
    product = 2 * _of(inputs[-1]) * (_of(inputs[1]) // max(1, filters or 1))
    has_bias = not arguments.get("no_bias")
    return product * (1 + (len(outputs) > 1 + has_bias)) + (_of(inputs[-1]) if has_bias else 0)


def _fully_connected_gradient(inputs: Sequence[TensorType], outputs: Sequence[TensorType],
                              _: Mapping[str, Any]) -> int:
    products = 2 if len(outputs) > 2 else 1
    rows = inputs[1].dims[0] if inputs[1].dims else 0
    return products * 2 * _of(inputs[2]) * (_of(inputs[1]) // max(1, rows or 1)) + _of(inputs[2])


def _per_entry(count: int) -> Flops:
    return lambda inputs, outputs, _: count * _of(outputs[0]) if outputs else 0


def _nothing(inputs: Sequence[TensorType], outputs: Sequence[TensorType], _: Mapping[str, Any]) -> int:
    return 0


def _sum(inputs: Sequence[TensorType], outputs: Sequence[TensorType], _: Mapping[str, Any]) -> int:
    return (len(inputs) - 1) * _of(outputs[0])


_FLOPS: dict[str, Flops] = {
    **dict.fromkeys(("FC", "FCTransposed"), _fully_connected),
    **dict.fromkeys(("FCGradient", "FCTransposedGradient"), _fully_connected_gradient),
    **dict.fromkeys(("Conv", "Conv1D", "Conv2D", "Conv3D", "ConvRelu"), _convolution),
    **dict.fromkeys(("ConvGradient", "Conv1DGradient", "Conv2DGradient", "Conv3DGradient"), _convolution_gradient),
    **dict.fromkeys(("MatMul", "BatchMatMul"), _matrix_product),
    **dict.fromkeys(("Relu", "Concat", "Split", "Reshape", "Copy", "Flatten", "Squeeze", "ExpandDims", "Slice",
                     "Gather", "Transpose", "NCHW2NHWC", "NHWC2NCHW", "StopGradient", "Cast"), _nothing),
    **dict.fromkeys(("Sum", "WeightedSum"), _sum),
    "SpatialBN": _per_entry(2),
}


def operator_cost(op: caffe2_pb2.OperatorDef, inputs: Sequence[TensorType]) -> Cost:
    """The cost of one operator on inputs of these types; what is unknown counts as nothing.

    Raises `NetError` where there is no such operator.
    """
    declaration = registry.find(op.type)
    if declaration is None:
        raise NetError(f"there is no operator of type {op.type!r}")
    outputs = infer_operator(op, inputs)
    arguments = arguments_of(op, declaration)
    flops = _FLOPS.get(op.type, _per_entry(1))(inputs, outputs, arguments)
    read = sum(size_of(t) or 0 for t in inputs)
    parameters = sum(size_of(t) or 0 for t in inputs[1:]) if op.type in _WITH_PARAMETERS else 0
    return Cost(flops, read, sum(size_of(t) or 0 for t in outputs), parameters)


#: operators whose inputs but the first are parameters
_WITH_PARAMETERS = frozenset(
    {"FC", "FCTransposed", "Conv", "Conv1D", "Conv2D", "Conv3D", "ConvRelu", "SpatialBN"})


def GetOperatorCost(operator: Any, blobs: Sequence[Any]) -> tuple[int, int]:
    """Floating-point operations and bytes written by an operator on blobs of the current workspace.

    Raises `NetError` where there is no such operator.
    """
    values = Workspace.current.values
    op = definition_of(operator, caffe2_pb2.OperatorDef)
    cost = operator_cost(op, [type_of(values.get(str(name))) for name in blobs])
    return cost.flops, cost.bytes_written
