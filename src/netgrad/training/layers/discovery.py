"""Finding the layers of a package, to register them all."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import Any


def import_recursive(package: ModuleType) -> None:
    """Imports all modules of a package, and of the packages in it."""
    for _, name, is_package in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{name}")
        if is_package:
            import_recursive(module)


def find_subclasses_recursively(base_cls: Any, sub_cls: set[Any]) -> None:
    """Adds to the set all classes that derive from one, however far."""
    for cls in base_cls.__subclasses__():
        sub_cls.add(cls)
        find_subclasses_recursively(cls, sub_cls)
