"""Examples of operators, run: what `netgrad.graph.example` writes down, as arrays and operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from netgrad.graph.declaration import Operator
from netgrad.graph.example import Example, Quantized, Tensor, TensorType
from netgrad.graph.operator import CreateOperator
from netgrad.proto import caffe2_pb2
from netgrad.runtime import random
from netgrad.runtime.workspace import Workspace

#: how close a value must come to the one written down, by the dtype's size in bytes
_TOLERANCES = {2: (1e-2, 1e-3), 4: (1e-4, 1e-5), 8: (1e-4, 1e-5)}


def array(value: Any) -> np.ndarray:
    """A value of an example as an array."""
    if isinstance(value, Tensor):
        dtype = object if value.dtype == "string" else value.dtype
        values = np.array(value.values, dtype=dtype)
        return values if value.shape is None else values.reshape(value.shape)
    found = np.array(value)
    if found.dtype.kind in "SU":
        return np.array(value, dtype=object)
    return found.astype({"f": np.float32, "i": np.int32}.get(found.dtype.kind, found.dtype))


def feeds(example: Example) -> dict[str, Any]:
    """Blob -> array or 8-bit tensor, of all that is fed."""
    return {name: _int8_tensor(value) if isinstance(value, Quantized) else array(value)
            for name, value in example.feeds.items()}


def _int8_tensor(value: Quantized) -> Any:
    from netgrad.runtime.int8 import Int8Tensor

    return Int8Tensor(np.array(value.values, dtype=value.dtype), value.scale, value.zero_point)


def operator(declaration: type[Operator]) -> caffe2_pb2.OperatorDef:
    """The operator of a declaration's example."""
    example: Example = declaration.example
    made: caffe2_pb2.OperatorDef = CreateOperator(declaration.type, list(example.input_names), list(example.outputs),
                                                  **example.arguments)
    return made


def prepared(declaration: type[Operator], backend: str | None = None) -> Workspace:
    """A workspace in which the example's operator can run."""
    example: Example = declaration.example
    workspace = Workspace(backend=backend)
    for name, value in feeds(example).items():
        workspace.feed_blob(name, value)
    for step in example.before:
        workspace.run_operator(CreateOperator(step.type, list(step.inputs), list(step.outputs), **step.arguments))
    return workspace


def run(declaration: type[Operator], backend: str | None = None) -> dict[str, Any]:
    """The outputs of a declaration's example as this backend computes them."""
    workspace = prepared(declaration, backend)
    with random.seeded(0):
        workspace.run_operator(operator(declaration))
    return {name: workspace.values[name] if isinstance(expected, Quantized) else workspace.fetch_blob(name)
            for name, expected in declaration.example.outputs.items() if name and expected is not None}


def differences(declaration: type[Operator], backend: str | None = None) -> Iterator[str]:
    """In which outputs the example does not come out as it is written down, and how."""
    found = run(declaration, backend)
    for name, expected in declaration.example.outputs.items():
        if expected is None or not name:
            continue
        value = found[name]
        if isinstance(expected, Quantized):
            wanted = _int8_tensor(expected)
            if value.data.tolist() != wanted.data.tolist() or value.data.dtype != wanted.data.dtype \
                    or not np.allclose(value[1:], wanted[1:]):
                yield f"{name} is {value}, expected {wanted}"
            continue
        if isinstance(expected, TensorType):
            dtype = "string" if value.dtype == object else str(value.dtype)
            if (dtype, value.shape) != (expected.dtype, expected.dims):
                yield f"{name} is {dtype} {value.shape}, expected {expected.dtype} {expected.dims}"
            continue
        wanted = array(expected)
        if isinstance(value, bytes):
            value = np.array(value, dtype=object)
        if value.dtype != wanted.dtype or value.shape != wanted.shape:
            yield f"{name} is {value.dtype} {value.shape}, expected {wanted.dtype} {wanted.shape}"
        elif not _close(value, wanted):
            yield f"{name} is {value.tolist()}, expected {wanted.tolist()}"


def _close(value: np.ndarray, wanted: np.ndarray) -> bool:
    if wanted.dtype == object:
        return [_bytes(x) for x in value.ravel()] == [_bytes(x) for x in wanted.ravel()]
    if wanted.dtype.kind != "f":
        return bool(np.array_equal(value, wanted))
    rtol, atol = _TOLERANCES[wanted.dtype.itemsize]
    return bool(np.allclose(value, wanted, rtol=rtol, atol=atol, equal_nan=True))


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
