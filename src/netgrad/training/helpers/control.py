"""Branches and loops whose bodies are models."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from netgrad.control.operators import add_if_op, add_while_op


def cond(model: Any, cond_blob: Any, external_blobs: Collection[str], then_model: Any, else_model: Any = None) -> None:
    """Adds an If that runs one model or another.

    Args:
        cond_blob: a single boolean.
        external_blobs: names of the blobs that the branches see.
    """
    add_if_op(model.net, cond_blob, external_blobs, then_model.net, else_model.net if else_model else None)


def loop(model: Any, cond_blob: Any, external_blobs: Collection[str], loop_model: Any, cond_model: Any = None) -> None:
    """Adds a While that runs a model as long as the condition holds.

    Args:
        cond_blob: a single boolean.
        external_blobs: names of the blobs that the models see.
        cond_model: is run before each round and writes the condition; None: ``loop_model`` does.
    """
    add_while_op(model.net, cond_blob, external_blobs, loop_model.net, cond_model.net if cond_model else None)
