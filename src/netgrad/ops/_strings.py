"""Tensors of strings, which are NumPy arrays of ``bytes`` on every backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def string_array(values: Sequence[bytes], shape: Sequence[int]) -> Any:
    """The strings as a tensor of that shape."""
    import numpy as np

    flat = np.empty(len(values), dtype=object)
    flat[:] = values
    return flat.reshape(tuple(shape))
