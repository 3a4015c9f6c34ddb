"""TensorProto and NumPy arrays, both ways."""

from __future__ import annotations

import numpy as np

from netgrad.proto import caffe2_pb2
from netgrad.runtime import dtypes
from netgrad.runtime.errors import BlobError

#: dtype name -> the field that holds its values
_FIELDS = {
    "float32": "float_data", "float64": "double_data", "int64": "int64_data", "int32": "int32_data",
    "int16": "int32_data", "int8": "int32_data", "uint16": "int32_data", "uint8": "int32_data", "bool": "int32_data",
    "float16": "int32_data", "string": "string_data",
}


def array_of(tensor: caffe2_pb2.TensorProto) -> np.ndarray:
    """The values of a TensorProto; strings as an array of ``bytes`` objects.

    Raises `BlobError` when the values are fewer or more than the dimensions say.
    """
    name = dtypes.name_of(tensor.data_type)
    shape = tuple(tensor.dims)
    if tensor.raw_data:
        values = np.frombuffer(tensor.raw_data, dtype=name)
    elif name in ("uint8", "int8") and tensor.byte_data:
        values = np.frombuffer(tensor.byte_data, dtype=name)
    elif name == "string":
        values = np.array(list(tensor.string_data) + [None], dtype=object)[:-1]
    elif name == "float16":
        values = np.array(tensor.int32_data, dtype=np.uint16).view(np.float16)
    else:
        values = np.array(getattr(tensor, _FIELDS[name]), dtype=name)
    if values.size != int(np.prod(shape, dtype=np.int64)):
        raise BlobError(f"tensor {tensor.name!r} says it has shape {shape}, but holds {values.size} values")
    return values.reshape(shape)


def tensor_of(array: np.ndarray, name: str = "") -> caffe2_pb2.TensorProto:
    """The TensorProto of an array; arrays of ``str`` or ``bytes`` become strings."""
    tensor = caffe2_pb2.TensorProto(dims=array.shape, name=name)
    if array.dtype.kind in "OSU":
        from netgrad.runtime.blobs import as_strings

        tensor.data_type = dtypes.number_of("string")
        tensor.string_data.extend(as_strings(array).reshape(-1).tolist())
        return tensor
    tensor.data_type = dtypes.number_of(array.dtype.name)
    flat = array.reshape(-1)
    if array.dtype == np.float16:
        flat = flat.view(np.uint16)
    elif array.dtype == np.bool_:
        flat = flat.view(np.uint8)
    getattr(tensor, _FIELDS[array.dtype.name]).extend(flat.tolist())
    return tensor
