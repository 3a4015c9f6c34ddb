"""Types as TensorShape messages, and inference in their wire form, as Caffe2's compiled module offers it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from netgrad.graph.shapes import TensorType
from netgrad.proto import caffe2_pb2
from netgrad.runtime import dtypes
from netgrad.runtime.inference import infer_nets, types_of_map, types_of_workspace


def message_of(name: str, type: TensorType) -> caffe2_pb2.TensorShape:
    """A type as a TensorShape; unknown dimensions are -1, their positions in ``unknown_dims``."""
    shape = caffe2_pb2.TensorShape(name=name, unknown_shape=type.dims is None)
    for position, n in enumerate(type.dims or ()):
        shape.dims.append(-1 if n is None else n)
        if n is None:
            shape.unknown_dims.append(position)
    if type.dtype in dtypes.NUMBERS:
        shape.data_type = dtypes.NUMBERS[type.dtype]
    return shape


def type_in(shape: caffe2_pb2.TensorShape) -> TensorType:
    """The type that a TensorShape says."""
    unknown = set(shape.unknown_dims)
    dims = tuple(None if n < 0 or k in unknown else n for k, n in enumerate(shape.dims))
    return TensorType(dtypes.name_of(shape.data_type), None if shape.unknown_shape else dims)


def infer_from_workspace(nets: Iterable[bytes]) -> bytes:
    """TensorShapes of all blobs of some nets, from those in the current workspace."""
    return _shapes(infer_nets(nets, types_of_workspace()))


def infer_from_map(nets: Iterable[bytes], dims: Mapping[str, Sequence[int]],
                   types: Mapping[str, int] | None = None) -> bytes:
    """TensorShapes of all blobs of some nets, from shapes and `TensorProto.DataType` numbers (float unless given)."""
    return _shapes(infer_nets(nets, types_of_map(dims, types or {})))


def _shapes(types: Mapping[str, TensorType]) -> bytes:
    return caffe2_pb2.TensorShapes(shapes=[message_of(*item) for item in types.items()]).SerializeToString()
