"""Convolutions with what one of Caffe2's engines did besides."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.ops import convolution as reference
from netgrad.runtime.backends.numpy import override


@override("Conv", engine="NNPACK")
def convolution_and_activation(xp: Any, X: Any, filter: Any, bias: Any, *, order: str, group: int, op: Any) -> Any:
    """Conv, and the Relu that was fused into it (argument ``activation``)."""
    Y = reference.Conv.kernel(xp, X, filter, bias, order=order, group=group, op=op)
    return np.maximum(Y, 0) if reference.fused_relu(op) else Y
