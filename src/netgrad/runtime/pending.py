"""Blobs that are computed when somebody looks at them.

A plan may leave out what nothing in its net reads, and leave in its place how it is computed. To all who read a
workspace's blobs it is there: the computation runs at the first look, and its result is the blob from then on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from typing import Any

_lock = threading.RLock()


class Blobs(dict[str, Any]):
    """Name -> value. Names in `pending` that the dictionary itself lacks are computed when they are looked up.

    A name that is bound anew has its new value, whatever is pending.
    """

    __slots__ = ("pending",)

    def __init__(self) -> None:
        super().__init__()
        #: name -> computes the value
        self.pending: dict[str, Callable[[], Any]] = {}

    def defer(self, name: str, compute: Callable[[], Any]) -> None:
        """Puts a computation in the place of a blob's value. What it reads must not be written until it has run."""
        super().pop(name, None)
        self.pending[name] = compute

    def is_pending(self, name: str) -> bool:
        """Whether looking at a blob would compute it."""
        return name in self.pending and not super().__contains__(name)

    def __missing__(self, name: str) -> Any:
        with _lock:
            if super().__contains__(name):  # another thread has just computed it
                return super().__getitem__(name)
            if name not in self.pending:
                raise KeyError(name)
            value = self.pending[name]()
            super().__setitem__(name, value)
            self.pending.pop(name, None)
        return value

    def _settle(self) -> None:
        """Computes all that is pending."""
        for name in list(self.pending):
            if not super().__contains__(name):
                self.__missing__(name)
        self.pending.clear()

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.pending

    def get(self, name: str, default: Any = None) -> Any:
        if super().__contains__(name) or name in self.pending:
            return self[name]
        return default

    def setdefault(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self.pending else super().setdefault(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        if self.is_pending(name):
            self.__missing__(name)
        self.pending.pop(name, None)
        return super().pop(name, *default)

    def __delitem__(self, name: str) -> None:
        was_pending = self.pending.pop(name, None) is not None
        if super().__contains__(name) or not was_pending:
            super().__delitem__(name)

    def clear(self) -> None:
        self.pending.clear()
        super().clear()

    def __iter__(self) -> Iterator[str]:
        names = list(super().__iter__())
        return iter(names + [name for name in self.pending if not super(Blobs, self).__contains__(name)])

    def __len__(self) -> int:
        return super().__len__() + sum(not super(Blobs, self).__contains__(name) for name in self.pending)

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        return KeysView(self)

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        self._settle()
        return super().items()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        self._settle()
        return super().values()

    def copy(self) -> dict[str, Any]:
        self._settle()
        return dict(super().items())

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __eq__(self, other: object) -> bool:
        self._settle()
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]
