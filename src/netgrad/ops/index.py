"""Writes `_index.py`, which says what module declares each operator: ``python -m netgrad.ops.index``."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import netgrad.ops
from netgrad.graph import registry


def build() -> dict[str, str]:
    """Operator type -> module of `netgrad.ops`, by importing every family."""
    families = sorted(m.name for m in pkgutil.iter_modules(netgrad.ops.__path__)
                      if m.name not in ("catalogue", "index") and not m.name.startswith("_"))
    for family in families:
        importlib.import_module(f"netgrad.ops.{family}")
    found = {name: declaration.__module__ for name, declaration in registry._declared.items()}
    prefix = "netgrad.ops."
    return {name: module.removeprefix(prefix) for name, module in sorted(found.items()) if module.startswith(prefix)}


def text(index: dict[str, str]) -> str:
    lines = "".join(f'    "{name}": "{module}",\n' for name, module in index.items())
    return f'"""Made by ``python -m netgrad.ops.index``; do not edit."""\n\nINDEX: dict[str, str] = {{\n{lines}}}\n'


def main() -> None:
    index = build()
    (Path(netgrad.ops.__file__).parent / "_index.py").write_text(text(index))
    print(f"{len(index)} operators in {len(set(index.values()))} families")


if __name__ == "__main__":
    main()
