"""8-bit tensors with a scale and a zero point: real value = scale (q - zero_point)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from netgrad.runtime.workspace import Workspace


class Int8Tensor(NamedTuple):
    """An opaque blob.

    Attributes:
        data: uint8 (a bias: int32), any shape.
        scale, zero_point: of all its entries.
    """

    data: np.ndarray
    scale: float
    zero_point: int


def fetch(workspace: Workspace, name: Any) -> Int8Tensor:
    """The 8-bit tensor in a blob; raises `AssertionError`, as Caffe2 does, where it holds something else."""
    value = workspace.values.get(str(name))
    if not isinstance(value, Int8Tensor):
        workspace.fetch_blob(name)  # says so if there is no such blob
        raise AssertionError(f"blob {str(name)!r} holds no 8-bit tensor; fetch it with FetchBlob")
    return value


def FetchInt8Blob(name: Any) -> Int8Tensor:
    """The 8-bit tensor in a blob of the current workspace: data, scale, zero_point."""
    return fetch(Workspace.current, name)


def FetchInt8BlobRealVal(name: Any) -> np.ndarray:
    """The real values of an 8-bit tensor, float32."""
    found = FetchInt8Blob(name)
    return (found.data.astype(np.int32) - found.zero_point).astype(np.float32) * np.float32(found.scale)
