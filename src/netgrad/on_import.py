"""What is to be imported along with a package that the user may import or not: nothing is imported for its sake."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def import_along(package: str, module: str) -> None:
    """Imports ``module`` as soon as ``package`` has been imported: now, if it has."""
    if package in sys.modules:
        importlib.import_module(module)
    else:
        sys.meta_path.insert(0, _Watcher(package, module))


class _Watcher(MetaPathFinder):
    """Finds one package by way of the other finders, and has a module imported after it, once."""

    def __init__(self, package: str, module: str) -> None:
        self.package = package
        self.module = module

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None,
                  ) -> ModuleSpec | None:
        if fullname != self.package:
            return None
        others = [finder for finder in sys.meta_path if not isinstance(finder, _Watcher)]
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Along(spec.loader, self)
        return spec


class _Along(Loader):
    """A loader that imports a module after the package it loads."""

    def __init__(self, loader: Loader, watcher: _Watcher) -> None:
        self.loader = loader
        self.watcher = watcher

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # the package sees its own loader, which knows its files
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        if self.watcher in sys.meta_path:
            sys.meta_path.remove(self.watcher)
            importlib.import_module(self.watcher.module)
