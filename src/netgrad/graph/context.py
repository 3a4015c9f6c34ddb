"""Classes whose innermost ``with`` block is "the current one" of its class, per thread."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, Self, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class _Stacks(threading.local):
    def __init__(self) -> None:
        self.of: dict[type, list[Any]] = {}


_stacks = _Stacks()


def _stack(cls: type) -> list[Any]:
    return _stacks.of.setdefault(cls, [])


def _managed_bases(cls: type) -> list[type]:
    return [c for c in cls.__mro__ if issubclass(c, Managed) and c is not Managed and c is not DefaultManaged]


class Managed:
    """Base of context-managed classes: inside ``with Foo() as f``, ``Foo.current()`` is ``f``.

    An object is the current one of its class and of every managed class it derives from. It also decorates a function,
    which then runs inside it.
    """

    @classmethod
    def current(cls, value: Any = None, required: bool = True) -> Any:
        """The innermost active object of this class, or ``value`` where one is given.

        Raises:
            AssertionError: there is none and it is required, or ``value`` is of another class.
        """
        if not issubclass(cls, Managed) or cls is Managed:
            raise AssertionError(f"{cls.__name__} is no context of its own; derive a class from it")
        if value is not None:
            if not isinstance(value, cls):
                raise AssertionError(f"expected a {cls.__name__}, found {value!r}, a {type(value).__name__}")
            return value
        stack = _stack(cls)
        if stack:
            return stack[-1]
        if not required:
            return None
        if not issubclass(cls, DefaultManaged):
            raise AssertionError(f"no {cls.__name__} is active; write `with {cls.__name__}(...):` around this")
        stack.append(cls())
        return stack[-1]

    def __enter__(self) -> Self:
        for cls in _managed_bases(type(self)):
            _stack(cls).append(self)
        return self

    def __exit__(self, *error: object) -> None:
        for cls in _managed_bases(type(self)):
            stack = _stack(cls)
            if not stack or stack.pop() is not self:
                raise AssertionError(f"contexts of {cls.__name__} were not left in the order in which they were "
                                     f"entered")

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def inside(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return inside


class DefaultManaged(Managed):
    """A `Managed` that makes an object of its class when the current one is asked for and there is none."""
