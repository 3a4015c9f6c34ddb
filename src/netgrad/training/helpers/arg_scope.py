"""Arguments that helpers take by default inside a ``with`` block, per thread."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class _Scope(threading.local):
    def __init__(self) -> None:
        self.current: dict[str, dict[str, Any]] = {}


_scope = _Scope()


@contextmanager
def arg_scope(single_helper_or_list: Callable[..., Any] | list[Callable[..., Any]], **kwargs: Any) -> Iterator[None]:
    """``with arg_scope([brew.conv, brew.fc], weight_init=...)``: those helpers get the arguments unless the call names
    them itself."""
    helpers = single_helper_or_list if isinstance(single_helper_or_list, list) else [single_helper_or_list]
    for helper in helpers:
        if not callable(helper):
            raise AssertionError(f"arg_scope takes a helper function or a list of them, not {helper!r}")
    before = _scope.current
    inside = copy.deepcopy(before)
    for helper in helpers:
        inside.setdefault(helper.__name__, {}).update(kwargs)
    _scope.current = inside
    try:
        yield
    finally:
        _scope.current = before


def get_current_scope() -> dict[str, dict[str, Any]]:
    """Helper name -> its default arguments."""
    return _scope.current
