"""The order of image axes, and arrays out of old Caffe blobs."""

from __future__ import annotations

from typing import Any

import numpy as np


def NHWC2NCHW(tensor: np.ndarray) -> np.ndarray:
    """A view with the last axis (channels) moved behind the first."""
    return np.moveaxis(tensor, -1, 1) if tensor.ndim > 1 else tensor


def NCHW2NHWC(tensor: np.ndarray) -> np.ndarray:
    """A view with the second axis (channels) moved to the end."""
    return np.moveaxis(tensor, 1, -1)


def CaffeBlobToNumpyArray(blob: Any) -> np.ndarray:
    """The float32 array of a ``BlobProto`` of the old Caffe, whose shape is in four fields (old) or a list (new)."""
    shape = (blob.num, blob.channels, blob.height, blob.width) if blob.num != 0 else tuple(blob.shape.dim)
    return np.asarray(blob.data, dtype=np.float32).reshape(shape)
