"""What can go wrong in the demo."""

from __future__ import annotations


class DemoError(RuntimeError):
    """The demo cannot go on; the message says why, in one line."""


class MissingPackageError(DemoError, ImportError):
    """A package that the demo needs is not installed."""
