"""Operators of installed packages: the entry points of the group ``netgrad.operators``.

An entry's name is the operator's type, its value the module that declares it, which is imported when the type is first
asked for::

    [project.entry-points."netgrad.operators"]
    Snake = "my_package.operators"
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

GROUP = "netgrad.operators"

_imported: set[str] = set()


class PluginError(ImportError):
    """A package that says it declares an operator could not be imported."""


class PluginWarning(UserWarning):
    """A package's module of operators could not be imported while another operator was looked for."""


@functools.cache
def _entries() -> Mapping[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def names() -> list[str]:
    """The operator types that installed packages name."""
    return list(_entries())


def load(type: str) -> None:
    """Imports what may declare an operator: the module that is named for it, or all modules that are named.

    Raises:
        PluginError: the module that is named for it cannot be imported.
    """
    entry = _entries().get(type)
    if entry is not None:
        _import(entry)
        return
    for other in _entries().values():
        try:
            _import(other)
        except PluginError as error:
            warnings.warn(f"looking for the operator {type}: {error}", PluginWarning, stacklevel=2)


def _import(entry: EntryPoint) -> None:
    if entry.module in _imported:
        return
    try:
        importlib.import_module(entry.module)
    except Exception as error:
        package = f" of {entry.dist.name}" if entry.dist is not None else ""
        raise PluginError(f"the module {entry.module!r}{package}, which should declare the operator {entry.name}, "
                          f"cannot be imported: {error.__class__.__name__}: {error}") from error
    _imported.add(entry.module)
