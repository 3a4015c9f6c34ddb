"""Handles of a workspace's blobs: Caffe2's ``Blob`` and ``TensorCPU`` objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netgrad.runtime import backends, lending
from netgrad.runtime.blobs import Strings
from netgrad.runtime.errors import BlobError

if TYPE_CHECKING:
    from netgrad.runtime.workspace import Workspace


class Blob:
    """A handle of one blob of a workspace."""

    __slots__ = ("_workspace", "name")

    def __init__(self, workspace: Workspace, name: str) -> None:
        self._workspace = workspace
        self.name = name

    def feed(self, value: Any, device_option: Any = None) -> bool:
        return self._workspace.feed_blob(self.name, value, device_option)

    _feed = feed

    def fetch(self) -> Any:
        return self._workspace.fetch_blob(self.name)

    def is_tensor(self) -> bool:
        return isinstance(self._workspace.values[self.name], (self._workspace.backend.array_type, Strings))

    def tensor(self) -> BlobTensor:
        """The tensor that the blob holds; raises `BlobError` when it holds none."""
        if not self.is_tensor():
            raise BlobError(f"blob {self.name!r} holds no tensor; as_tensor() makes it one")
        return BlobTensor(self._workspace, self.name)

    def as_tensor(self) -> BlobTensor:
        """The tensor that the blob holds, an empty one where it holds none."""
        if not self.is_tensor():
            self.feed(np.zeros((0,), np.float32))
        return BlobTensor(self._workspace, self.name)

    def to_torch(self) -> Any:
        """A torch tensor that shares the blob's values from now on: what is written into it is the blob's.

        Nothing is copied where the backend is torch and nobody else holds the tensor: no other blob, no stack of
        earlier values. Raises `BlobError` where the blob holds no tensor of numbers.
        """
        values, backend = self._workspace.values, self._workspace.backend
        alone = self._is_alone()
        value = values[self.name]
        if isinstance(value, lending.Lent) and not isinstance(value.user, np.ndarray):
            return value.user
        if not self.is_tensor() or isinstance(value, Strings):
            raise BlobError(f"blob {self.name!r} holds no tensor of numbers, which torch could have")
        if backend.name != "torch":  # memory of torch's own, for only that can be resized
            tensor = backends.get("torch").from_numpy(value).clone()
        else:
            tensor = value if alone else value.clone()
        values[self.name] = lending.lend(tensor, backend)
        return tensor

    def _is_alone(self) -> bool:
        """Whether the blob alone holds its torch tensor, and that tensor its storage."""
        if self._workspace.backend.name != "torch":
            return False
        from netgrad.runtime.backends.torch.holding import is_held_once

        return is_held_once(self._workspace.values, self.name)

    def __dlpack__(self, **options: Any) -> Any:
        """The values for others who speak DLPack, shared."""
        return self.to_torch().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self.to_torch().__dlpack_device__()
        return device

    def serialize(self, name: str = "") -> bytes:
        """A BlobProto in wire form."""
        return self._workspace.serialize_blob(self.name, name or self.name)

    def deserialize(self, content: bytes) -> None:
        self._workspace.deserialize_blob(self.name, content)


class BlobTensor:
    """The tensor in a blob, to be written into: the blob gets a buffer of its own first, so that no other changes."""

    __slots__ = ("_own", "_workspace", "name")

    def __init__(self, workspace: Workspace, name: str) -> None:
        self._workspace = workspace
        self.name = name
        self._own: Any = None

    @property
    def data(self) -> np.ndarray:
        """The values; what is written into them is the blob's."""
        values, backend = self._workspace.values, self._workspace.backend
        value = values[self.name]
        if isinstance(value, lending.Lent) and (not isinstance(value, lending.Visible)
                                                or isinstance(value, lending.Joined)):
            return backend.to_numpy(lending.current(value))
        if self._own is None or value is not self._own:
            if isinstance(value, Strings):
                self._own = np.array(value, subok=True)
            else:
                plain = lending.current(value) if isinstance(value, lending.Lent) else value
                self._own = lending.show(backend.from_numpy(backend.to_numpy(plain)))
            values[self.name] = self._own
        return self._own.view(np.ndarray) if isinstance(self._own, Strings) else \
            backend.to_numpy(lending.current(self._own))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._workspace.values[self.name].shape)

    @property
    def _shape(self) -> list[int]:
        return list(self.shape)

    def init(self, dims: Sequence[int], data_type: int) -> None:
        """Makes it a tensor of zeros of this shape and `TensorProto.DataType`."""
        dtype = backends.get("numpy").xp.dtype_of(data_type)
        if dtype.hasobject:
            raise BlobError("a tensor of strings cannot be made without strings; feed it")
        self.feed(np.zeros(tuple(dims), dtype))

    def reshape(self, shape: Sequence[int]) -> None:
        """Changes the shape; values stay where their number does, and are zero otherwise."""
        old = self.fetch()
        new = old.reshape(shape) if old.size == np.prod(shape, dtype=int) else np.zeros(tuple(shape), old.dtype)
        self.feed(new)

    _reshape = reshape

    def feed(self, array: Any) -> None:
        self._workspace.feed_blob(self.name, array)

    def fetch(self) -> np.ndarray:
        found: np.ndarray = self._workspace.fetch_blob(self.name)
        return found
