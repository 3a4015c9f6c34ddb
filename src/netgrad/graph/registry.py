"""Which operators exist. Families of declarations load when one of their names is first asked for.

Built-in ones come from `netgrad.ops`, others from whoever subclasses `Operator`, and from installed packages that name
them as entry points (`netgrad.graph.plugins`).
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator, Set
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netgrad.graph.declaration import Operator

_declared: dict[str, type[Operator]] = {}
#: built-in declarations that a user's stands over
_covered: dict[str, type[Operator] | None] = {}
_lock = threading.RLock()
_index: dict[str, str] | None = None
_watchers: list[Callable[[str], None]] = []


def watch(changed: Callable[[str], None]) -> None:
    """Asks to be called with each type whose declaration is added, replaced or removed from now on."""
    _watchers.append(changed)


def _tell(type: str) -> None:
    for changed in _watchers:
        changed(type)


class BuiltInOperatorError(ValueError):
    """A declaration would change a built-in operator, and nobody said that it should."""


def register(declaration: type[Operator], replace: bool = False) -> None:
    """Adds a declaration; a later one of the same type replaces it.

    Raises:
        BuiltInOperatorError: the type is that of a built-in operator, and ``replace`` is not set.
    """
    type = declaration.type
    with _lock:
        if _is_built_in(declaration):
            if type in _covered:
                _covered[type] = declaration
                return
        elif type in family_index() and type not in _covered:
            if not replace:
                raise BuiltInOperatorError(f"{type} is a built-in operator; give yours another name, or declare it "
                                           f"with replace=True: class {type}(Operator, replace=True)")
            _covered[type] = _declared.get(type)
        _declared[type] = declaration
    _tell(type)


def unregister(type: str) -> None:
    """Forgets a declaration; a built-in one that it stood over is back."""
    with _lock:
        _declared.pop(type, None)
        built_in = _covered.pop(type, None)
        if built_in is not None:
            _declared[type] = built_in
    _tell(type)


def is_replaced(type: str) -> bool:
    """Whether a user's declaration stands over the built-in one of this type."""
    return type in _covered


def _is_built_in(declaration: type[Operator]) -> bool:
    return declaration.__module__.startswith("netgrad.ops.")


def family_index() -> dict[str, str]:
    """The module of `netgrad.ops` that declares each built-in operator."""
    global _index
    if _index is None:
        from netgrad.ops._index import INDEX

        _index = INDEX
    return _index


def find(type: str) -> type[Operator] | None:
    """The declaration of an operator type, its family or package loaded if need be; None when there is none."""
    found = _declared.get(type)
    if found is None and type:
        if family := family_index().get(type):
            with _lock:
                importlib.import_module(f"netgrad.ops.{family}")
        else:
            from netgrad.graph import plugins

            with _lock:
                plugins.load(type)
        found = _declared.get(type)
    return found


def names() -> set[str]:
    """The types of all operators, without loading the families."""
    from netgrad.graph import plugins

    return set(_declared) | set(family_index()) | set(plugins.names())


class _Registered(Set[str]):
    """`names` as a set that keeps up with what is declared."""

    def __contains__(self, type: object) -> bool:
        return type in names()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(names()))

    def __len__(self) -> int:
        return len(names())


registered = _Registered()


def every() -> Iterator[type[Operator]]:
    """All declarations, every family loaded, by name."""
    for name in sorted(names()):
        declaration = find(name)
        if declaration is not None:
            yield declaration


def close_names(type: str) -> list[str]:
    """Operator types that a misspelt one may have meant, at most five; upper and lower case count as the same."""
    import difflib

    spellings: dict[str, list[str]] = {}
    for name in sorted(names()):
        spellings.setdefault(name.lower(), []).append(name)
    close = difflib.get_close_matches(type.lower(), spellings, n=5, cutoff=0.6)
    return [name for lower in close for name in spellings[lower]][:5]
