"""Whether anybody but a workspace holds a tensor, so that writing into it could be seen.

Three counts tell: references to the Python object; holders of the tensor in C++ (a tape that saved it, DLPack); and
tensors on the same storage (views, NumPy arrays).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch

_users_of_storage: Any = getattr(torch._C, "_storage_Use_Count", None)


def _counts(blobs: Mapping[str, Any], name: str) -> tuple[int, int, int]:
    tensor: Any = blobs[name]
    if type(tensor) is not torch.Tensor:
        return sys.maxsize, 0, 0
    holders: Any = tensor
    count = sys.getrefcount(tensor)
    return count, holders._use_count(), _users_of_storage(holders.untyped_storage()._cdata)


_ALONE = _counts({"x": torch.zeros(1)}, "x") if _users_of_storage is not None else None


def is_held_once(blobs: Mapping[str, Any], name: str) -> bool:
    """Whether ``blobs`` alone hold the tensor of that name, and its storage. Callers must not refer to it."""
    return _counts(blobs, name) == _ALONE


def can_tell() -> bool:
    """Whether this torch and this interpreter count so that the answer can be relied on."""
    if _ALONE is None or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    blobs: dict[str, Any] = {"x": torch.zeros(4)}
    weights = torch.zeros(4, requires_grad=True)
    with torch.enable_grad():
        holders: list[Any] = [lambda: blobs["x"][1:], lambda: blobs["x"].numpy(), lambda: blobs["x"].detach(),
                              lambda: torch.utils.dlpack.to_dlpack(blobs["x"]), lambda: (weights * blobs["x"]).sum(),
                              lambda: blobs["x"]]
        for hold in holders:
            held = hold()
            if is_held_once(blobs, "x"):
                return False
            del held
            if not is_held_once(blobs, "x"):
                return False
    return True
