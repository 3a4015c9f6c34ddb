"""Tensors of torch that a user and a workspace hold in common: fed, or fetched by FetchTorch, without a copy.

What the user writes into such a tensor, or resizes, is the blob's; an operator that runs in place on the blob writes
its result into the user's tensor, so that views of it, arrays of NumPy and DLPack see it too (a result of another shape
gives the tensor another storage). Other blobs never share with it: kernels that would pass its storage on have their
result copied, and what keeps values gets a copy. Such blobs take the executor's longer way, some microseconds per
operator.

Storage that users may write into but nets may not (arrays of other libraries, parameters of modules) is `Visible`.

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


class Visible(Lent):
    """The value of a blob whose storage others may write into; operators do not, and in place bind the name anew.

    Attributes:
        user: a plain array of the backend on that storage.
    """


class VisibleArray(Visible, np.ndarray):
    """The same for the NumPy backend."""


class Joined(Visible):
    """The value of a blob that is part of a storage which others hold too, and which operators in place write into."""


class JoinedArray(Joined, np.ndarray):
    """The same for the NumPy backend."""


def join(view: Any) -> Any:
    """The value of a blob that is to share, for good, the storage of a plain array."""
    return _on_storage_of(view, JoinedArray, "JoinedTensor")


def show(array: Any) -> Any:
    """The value of a blob that shares the storage of a plain array, into which others may write."""
    return _on_storage_of(array, VisibleArray, "VisibleTensor")


def _on_storage_of(array: Any, for_numpy: type[np.ndarray], for_torch: str) -> Any:
    if isinstance(array, np.ndarray):
        value: Any = array.view(for_numpy)
    else:
        from netgrad.runtime.backends.torch import lent

        value = array.as_subclass(getattr(lent, for_torch))
    value.user = array
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
    """What a lent value is now, as a plain array of its backend; another object each time."""
    if isinstance(value, Visible):
        return value.user.view() if isinstance(value, np.ndarray) else value.user.detach()
    tensor = value.user.detach()
    return tensor.numpy() if isinstance(value, np.ndarray) else tensor


def kept(value: Any, backend: Backend) -> Any:
    """A value for those who keep it: a copy of a lent one, which others may change."""
    if not isinstance(value, Lent):
        return value
    return backend.from_numpy(backend.to_numpy(current(value)), getattr(value, "device", None))


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
    if any(isinstance(value, Visible) and _overlap(result, value.user) for value in lent):
        result = backend.from_numpy(backend.to_numpy(result), getattr(result, "device", None))
    lent = [value for value in lent if not isinstance(value, Visible)]
    if not lent:
        return result
    import torch

    made = torch.from_numpy(result) if isinstance(result, np.ndarray) and result.dtype.kind in "biuf" else result
    if not isinstance(made, torch.Tensor):
        return result
    if any(before is value for value in lent):
        user = before.user
        if user.dtype == made.dtype and user.device == made.device:
            _give(user, made)
            return lend(user, backend)
        return result
    storage = made.untyped_storage().data_ptr()
    if storage and any(value.user.untyped_storage().data_ptr() == storage for value in lent):
        return np.array(result) if isinstance(result, np.ndarray) else made.clone()
    return result


def _give(user: Any, made: Any) -> None:
    """Makes a user's tensor hold a result."""
    import torch

    with torch.no_grad(), torch.inference_mode(user.is_inference()):
        shares = user.untyped_storage().data_ptr() == made.untyped_storage().data_ptr()
        if user.shape == made.shape and torch._debug_has_internal_overlap(user) != 1:
            user.copy_(made.clone() if shares else made)
            return
        if not shares and (user._use_count() > 1 or not user.untyped_storage().resizable()):
            # NumPy and DLPack hold the tensor and not its storage, which must outlive them
            user.former = [*getattr(user, "former", ()), user.untyped_storage()]
        user.set_(made)


def _overlap(a: Any, b: Any) -> bool:
    """Whether two arrays of one backend may hold the same storage."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return bool(np.may_share_memory(a, b))
    return bool(a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr())
