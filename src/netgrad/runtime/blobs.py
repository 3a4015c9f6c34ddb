"""The kinds of blob: a tensor (an array of the backend), a tensor of strings (host), and anything else (opaque, host).

None is a blob that was created and never filled; ``bytes`` is a single string, which Caffe2 keeps apart from tensors.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from netgrad.proto import caffe2_pb2
from netgrad.runtime import lending
from netgrad.runtime.backends import Backend
from netgrad.runtime.errors import BlobError


class Strings(np.ndarray):
    """A tensor of strings: an array of objects, all of them ``bytes``. Told from numeric arrays by its type alone."""


def as_strings(array: np.ndarray) -> Strings:
    """An array of ``str`` or ``bytes`` as a tensor of strings; raises `BlobError` when it holds anything else."""
    out = np.empty(array.shape, dtype=object)
    flat = out.reshape(-1)
    for k, item in enumerate(array.astype(object).reshape(-1)):
        if isinstance(item, str):
            item = item.encode("utf-8", "surrogateescape")
        if not isinstance(item, bytes):
            raise BlobError(f"an array of objects holds {type(item).__name__} {item!r}; a tensor may hold numbers, "
                            "truth values, or str and bytes")
        flat[k] = item
    return out.view(Strings)


def describe(name: str, value: Any) -> str:
    """A blob in a few words: ``x: float32 (2, 3)``."""
    if value is None:
        return f"{name}: never filled"
    if isinstance(value, Strings):
        return f"{name}: strings {value.shape}"
    if isinstance(value, bytes):
        return f"{name}: a string"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{name}: {str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    return f"{name}: an object of type {type(value).__name__}"


def from_user(value: Any, backend: Backend, device: Any = None) -> Any:
    """What a user feeds, as a blob that shares nothing with it; torch tensors are shared (`netgrad.runtime.lending`).

    Takes arrays, NumPy scalars, torch tensors, other objects that speak DLPack, TensorProtos, numbers and lists of
    numbers (floats become float32, Caffe2's default), str and bytes (one string), and lists and arrays of them, and
    8-bit tensors. Raises `BlobError` for the rest.
    """
    if isinstance(value, np.ndarray):
        return _from_array(value, backend, device)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, caffe2_pb2.TensorProto):
        from netgrad.runtime.tensors import array_of

        return _from_array(array_of(value), backend, device)
    if type(value).__name__ == "Int8Tensor":
        return value
    if _is_torch(value):
        return _from_torch(value, backend, device)
    if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
        if backend.name == "torch":
            from torch.utils.dlpack import from_dlpack

            tensor = from_dlpack(value)  # which another library may change, but nets may not
            return lending.show(tensor) if device is None else _from_torch(tensor, backend, device)
        return _from_array(np.from_dlpack(value), backend, device)
    if isinstance(value, np.generic):
        return _from_array(np.asarray(value), backend, device)
    if isinstance(value, (bool, int, float, list, tuple)):
        try:
            array = np.array(value)
        except ValueError as error:
            raise BlobError(f"this {type(value).__name__} is not rectangular: {error}") from None
        return _from_array(array.astype(np.float32) if array.dtype == np.float64 else array, backend, device)
    raise BlobError(f"cannot feed an object of type {type(value).__name__}; feed a NumPy array, a torch tensor, "
                    "a TensorProto, numbers, or strings")


def _is_torch(value: Any) -> bool:
    """Whether it is a tensor of torch, which is not imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _from_array(array: np.ndarray, backend: Backend, device: Any) -> Any:
    if array.dtype.kind in "biuf":
        if array.dtype.itemsize > 8:
            raise BlobError(f"cannot feed an array of {array.dtype}; cast it to float64 or float32 first")
        return backend.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False), device)
    if array.dtype.kind in "OSU":
        return as_strings(array)
    raise BlobError(f"cannot feed an array of {array.dtype}: tensors hold real numbers, truth values or strings")


def _from_torch(tensor: Any, backend: Backend, device: Any) -> Any:
    if device is None and (shared := lending.lend(tensor, backend)) is not None:
        return shared
    if issubclass(type(tensor), backend.array_type):
        return tensor.detach().clone() if device is None else tensor.detach().to(device, copy=True)
    tensor = tensor.detach().cpu()
    name = str(tensor.dtype)
    return _from_array((tensor.float() if name == "torch.bfloat16" else tensor).numpy(), backend, device)


def to_user(name: str, value: Any, backend: Backend) -> Any:
    """A blob as a user may have it: a NumPy array of its own (strings: of objects, ``bytes``), or bytes.

    An opaque blob comes as a sentence about it, as in Caffe2.
    """
    if isinstance(value, lending.Lent):
        value = lending.current(value)
        if not isinstance(value, np.ndarray):  # the user could not resize a tensor that NumPy has seen
            value = value.clone()
    if isinstance(value, backend.array_type) and not isinstance(value, Strings):
        return np.array(backend.to_numpy(value), order="C")  # whatever the layout is here
    if isinstance(value, Strings):
        return np.array(value, dtype=object, subok=False)
    if isinstance(value, bytes):
        return value
    if type(value).__name__ == "Int8Tensor":
        raise BlobError(f"blob {name!r} holds an 8-bit tensor; fetch it with FetchInt8Blob")
    kind = "nullptr (uninitialized)" if value is None else type(value).__name__
    return f"{name}, a C++ native class of type {kind}.".encode()
