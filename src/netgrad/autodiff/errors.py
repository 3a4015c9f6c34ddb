"""What can go wrong with a backward pass. Every error also is what Caffe2 raised, so that old handlers keep working."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.graph.rules import NoRule


class GradientError(RuntimeError):
    """Base of all refusals of the backward pass."""


class OverwrittenError(GradientError):
    """A gradient needs a version of a blob that a later operator overwrote."""


class MissingRuleError(GradientError, NoRule):
    """Operators on the path have no gradient rule, or refused; all of a net in one report."""


class MissingOutputGradientError(MissingRuleError):
    """A rule needs the gradient of an output to which nothing flows."""


class DeviceMismatchError(GradientError):
    """Contributions to one gradient lie on different devices."""


class UnknownBlobError(GradientError, ValueError, KeyError):
    """A blob that was asked for does not occur in the net."""

    __str__ = RuntimeError.__str__  # KeyError's would print the repr


class NoGradientError(KeyError):
    """A blob was looked up in a map of gradients and has none; the message says why."""

    __str__ = RuntimeError.__str__  # KeyError's would print the repr


class IgnoredGradientWarning(UserWarning):
    """A gradient reaches an output for which its operator's rule has no term; Caffe2 dropped it without a word."""


class YsTypeError(TypeError):
    """``ys`` is neither a list nor a dict."""


def describe(op: Any, index: int | None = None, line: str | None = None) -> str:
    """One line that says which operator is meant: type, position, inputs, outputs, Python line."""
    place = f" #{index}" if index is not None else ""
    where = f", written at {line}" if line else ""
    return f"{op.type}{place} ({_names(op.input)} -> {_names(op.output)}{where})"


def _names(names: Sequence[str], most: int = 6) -> str:
    shown = list(names[:most])
    return ", ".join(shown) + (f", ... {len(names) - most} more" if len(names) > most else "")
