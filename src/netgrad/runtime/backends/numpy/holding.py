"""Whether anybody but a workspace holds an array, so that writing into it could be seen."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np


def _references(blobs: Mapping[str, Any], name: str) -> int:
    """How often the array in a blob is referred to, if it has memory of its own; else a great number."""
    array = blobs[name]
    if type(array) is not np.ndarray or not array.flags.owndata:
        return sys.maxsize
    return sys.getrefcount(array)  # views refer to the array whose memory they show


_ALONE = _references({"x": np.zeros(1)}, "x")


def is_held_once(blobs: Mapping[str, Any], name: str) -> bool:
    """Whether ``blobs`` alone hold the array of that name, and its memory. Callers must not refer to it themselves."""
    return _references(blobs, name) == _ALONE


def can_tell() -> bool:
    """Whether this interpreter counts references so that the answer can be relied on."""
    blobs: dict[str, Any] = {"x": np.zeros(4)}
    view = blobs["x"][1:]
    seen = is_held_once(blobs, "x")
    del view
    return not seen and is_held_once(blobs, "x") and getattr(sys, "_is_gil_enabled", lambda: True)()
