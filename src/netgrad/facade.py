"""Caffe2's modules as facades: names for objects that live in netgrad.

A facade module holds one table, from the netgrad modules to the names they stand behind::

    facade(__name__, {"netgrad.graph.blob": "BlobReference ScopedName"})

Its attributes are those of the owners, looked up when asked for (so that owners load when needed) and never copied:
assigning to one, which is what ``mock.patch`` does, assigns in the owner. Names that no table has (a script's own) are
kept in the facade.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any


class Facade(ModuleType):
    """A module whose attributes live elsewhere."""

    def __getattr__(self, name: str) -> Any:
        owner = self.__dict__.get("_owners", {}).get(name)
        if owner is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        module, attribute = owner
        if not attribute:
            return importlib.import_module(module)
        return getattr(importlib.import_module(module), attribute)

    def __setattr__(self, name: str, value: Any) -> None:
        owner = self.__dict__.get("_owners", {}).get(name)
        if owner is None or not owner[1]:
            super().__setattr__(name, value)
        else:
            setattr(importlib.import_module(owner[0]), owner[1], value)

    def __delattr__(self, name: str) -> None:
        owner = self.__dict__.get("_owners", {}).get(name)
        if owner is None or name in self.__dict__:
            super().__delattr__(name)
        else:
            delattr(importlib.import_module(owner[0]), owner[1])

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self.__dict__.get("_owners", {})})


def facade(module: str, table: Mapping[str, str], modules: Mapping[str, str] | None = None) -> None:
    """Makes the module of that name a facade.

    Args:
        module: its ``__name__``.
        table: netgrad module -> the names it stands behind, separated by blanks; ``theirs=ours`` where they differ.
        modules: further names, for whole modules: name -> module.
    """
    owners: dict[str, tuple[str, str]] = {}
    for owner, names in table.items():
        for entry in names.split():
            theirs, _, ours = entry.partition("=")
            owners[theirs] = (owner, ours or theirs)
    for name, owner in (modules or {}).items():
        owners[name] = (owner, "")
    self = sys.modules[module]
    self.__class__ = Facade
    self.__dict__["_owners"] = owners
    self.__dict__["__all__"] = [name for name in owners if not name.startswith("_")]
