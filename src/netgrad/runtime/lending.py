"""Tensors of torch that a user and a workspace hold in common: fed, or fetched by FetchTorch, without a copy.

What the user writes into such a tensor, or resizes, is the blob's; an operator that runs in place on the blob changes
the user's tensor, which gets the result as its storage. Other blobs never share with it: kernels that would pass its
storage on have their result copied. Such blobs take the executor's longer way, some microseconds per operator.

Blobs that UnsafeCoalesce laid together hold one storage in the same way: what is fed to one of them, or made in place,
is written into it and seen in the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netgrad.runtime.backends import Backend


class Lent:
    """A blob's value that a user holds too; a base of array types.

    Attributes:
        user: the torch tensor that the user holds.
    """

    user: Any


class LentArray(Lent, np.ndarray):
    """The same for the NumPy backend: a view of the user's tensor."""


class Joined(Lent):
    """The value of a blob that is part of a storage which others hold too.

    Attributes:
        user: a view of that storage, a plain array of the backend.
    """


class JoinedArray(Joined, np.ndarray):
    """The same for the NumPy backend."""


def join(view: Any) -> Any:
    """The value of a blob that is to share, for good, the storage of a plain array."""
    if isinstance(view, np.ndarray):
        value: Any = view.view(JoinedArray)
    else:
        from netgrad.runtime.backends.torch.lent import JoinedTensor

        value = view.as_subclass(JoinedTensor)
    value.user = view
    return value


def written(before: Any, value: Any) -> Any:
    """What a blob holds after it was given a value; a joined one takes that into its storage, where it fits there."""
    if not isinstance(before, Joined) or not hasattr(value, "dtype") or value.dtype != before.user.dtype \
            or value.shape != before.user.shape or getattr(value, "device", None) != getattr(before, "device", None):
        return value
    before.user[...] = current(value) if isinstance(value, Lent) else value
    return before


def lend(tensor: Any, backend: Backend) -> Any | None:
    """The value of a blob that shares the storage of a torch tensor; None where the backend cannot share it."""
    import torch

    if tensor.layout is not torch.strided:
        return None
    if backend.name == "torch":
        from netgrad.runtime.backends.torch.lent import LentTensor

        value: Any = tensor.detach().as_subclass(LentTensor)
    elif tensor.device.type == "cpu" and tensor.dtype is not torch.bfloat16:
        value = tensor.detach().numpy().view(LentArray)
    else:
        return None
    value.user = tensor.detach() if tensor.requires_grad else tensor
    return value


def current(value: Any) -> Any:
    """What a lent value is now, as a plain array of its backend."""
    if isinstance(value, Joined):
        return value.user
    tensor = value.user.detach()
    return tensor.numpy() if isinstance(value, np.ndarray) else tensor


def followed(before: Any, result: Any, lent: Sequence[Any], backend: Backend) -> Any:
    """What a blob holds after an operator, some of whose inputs are lent.

    Args:
        before: the blob's value so far; if that is among the inputs, the operator ran in place and the user's tensor
            follows.
        result: what the kernel made.
        lent: the lent ones among the inputs.
    """
    if not isinstance(result, backend.array_type):
        return result
    if isinstance(before, Joined) and any(before is value for value in lent):
        return written(before, result)
    if any(isinstance(value, Joined) and _overlap(result, value.user) for value in lent):
        result = backend.from_numpy(backend.to_numpy(result), getattr(result, "device", None))
    lent = [value for value in lent if not isinstance(value, Joined)]
    if not lent:
        return result
    import torch

    made = torch.from_numpy(result) if isinstance(result, np.ndarray) and result.dtype.kind in "biuf" else result
    if not isinstance(made, torch.Tensor):
        return result
    if any(before is value for value in lent):
        user = before.user
        if user.dtype == made.dtype and user.device == made.device:
            with torch.no_grad():
                user.set_(made)
            return lend(user, backend)
        return result
    storage = made.untyped_storage().data_ptr()
    if storage and any(value.user.untyped_storage().data_ptr() == storage for value in lent):
        return np.array(result) if isinstance(result, np.ndarray) else made.clone()
    return result


def _overlap(a: Any, b: Any) -> bool:
    """Whether two arrays of one backend may hold the same storage."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return bool(np.may_share_memory(a, b))
    return bool(a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr())
