"""Small aids for scripts: a debugger where an exception escapes, enumerations as classes of strings."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class DebugMode:
    """Runs a function, and the debugger where it raised: ``DebugMode.run(main)``."""

    @classmethod
    def run(cls, func: Callable[[], R]) -> R:
        """What the function returns; after the debugger, the process ends with status 1."""
        try:
            return func()
        except KeyboardInterrupt:
            raise
        except Exception as error:
            import pdb

            print(f"{type(error).__name__}: {error}\nThe debugger stands where it was raised: `bt` shows the stack.")
            pdb.post_mortem()
            sys.exit(1)


def debug(f: Callable[P, R]) -> Callable[P, R]:
    """Decorates a function to run in `DebugMode`."""

    @functools.wraps(f)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return DebugMode.run(lambda: f(*args, **kwargs))

    return wrapper


def raiseIfNotEqual(a: Any, b: Any, msg: str) -> None:
    """Raises an exception with that message unless two values are equal."""
    if a != b:
        raise Exception(f"{msg}. {a} != {b}")


def EnumClassKeyVals(cls: type) -> dict[str, str]:
    """The string attributes of a class whose names are in capitals; raises AssertionError where two share a value."""
    found: dict[str, str] = {}
    for name in dir(cls):
        value = getattr(cls, name)
        if name == name.upper() and isinstance(value, str):
            if value in found.values():
                raise AssertionError(f"{cls.__name__}: the value {value!r} has two names, one of them {name}")
            found[name] = value
    return found
