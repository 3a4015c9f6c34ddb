"""Imports put off until somebody asks for an operator that is not declared: they may declare it."""

from __future__ import annotations

from collections.abc import Callable

_pending: list[Callable[[], None]] = []


def RegisterLazyImport(lazy: Callable[[], None]) -> None:
    """Notes a function that imports what declares operators."""
    _pending.append(lazy)


def TriggerLazyImport() -> None:
    """Calls the functions noted, each once."""
    while _pending:
        _pending.pop(0)()
