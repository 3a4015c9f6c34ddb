"""Which operators exist. Families of declarations load when one of their names is first asked for."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netgrad.graph.declaration import Operator

_declared: dict[str, type[Operator]] = {}
_lock = threading.RLock()
_index: dict[str, str] | None = None
_watchers: list[Callable[[str], None]] = []


def watch(changed: Callable[[str], None]) -> None:
    """Asks to be called with each type whose declaration is added, replaced or removed from now on."""
    _watchers.append(changed)


def _tell(type: str) -> None:
    for changed in _watchers:
        changed(type)


def register(declaration: type[Operator]) -> None:
    """Adds a declaration; a later one of the same type replaces it (a user's operator over one of ours)."""
    with _lock:
        _declared[declaration.type] = declaration
    _tell(declaration.type)


def unregister(type: str) -> None:
    with _lock:
        _declared.pop(type, None)
    _tell(type)


def family_index() -> dict[str, str]:
    """The module of `netgrad.ops` that declares each built-in operator."""
    global _index
    if _index is None:
        from netgrad.ops._index import INDEX

        _index = INDEX
    return _index


def find(type: str) -> type[Operator] | None:
    """The declaration of an operator type, its family loaded if need be; None when there is none."""
    found = _declared.get(type)
    if found is None and (family := family_index().get(type)):
        with _lock:
            importlib.import_module(f"netgrad.ops.{family}")
        found = _declared.get(type)
    return found


def names() -> set[str]:
    """The types of all operators, without loading the families."""
    return set(_declared) | set(family_index())


def every() -> Iterator[type[Operator]]:
    """All declarations, every family loaded, by name."""
    for name in sorted(names()):
        declaration = find(name)
        if declaration is not None:
            yield declaration


def close_names(type: str) -> list[str]:
    """Operator types that a misspelt one may have meant."""
    import difflib

    return difflib.get_close_matches(type, names(), n=5, cutoff=0.6)
