"""TensorProto and NumPy arrays, both ways."""

from __future__ import annotations

import numpy as np

from netgrad.proto import FormatError, caffe2_pb2
from netgrad.runtime.errors import BlobError


def array_of(tensor: caffe2_pb2.TensorProto) -> np.ndarray:
    """The values of a TensorProto; strings as an array of ``bytes`` objects.

    Raises `BlobError` when the values are fewer or more than the dimensions say.
    """
    from netgrad.persist.tensors import Assembly, decode

    try:
        return np.array(Assembly(decode(tensor.SerializeToString())).array())
    except FormatError as error:
        raise BlobError(str(error)) from None


def tensor_of(array: np.ndarray, name: str = "") -> caffe2_pb2.TensorProto:
    """The TensorProto of an array; arrays of ``str`` or ``bytes`` become strings."""
    from netgrad.persist.tensors import encode

    if array.dtype.kind in "OSU":
        from netgrad.runtime.blobs import as_strings

        array = as_strings(array).view(np.ndarray)
    return caffe2_pb2.TensorProto.FromString(encode(array, name, device=None))
