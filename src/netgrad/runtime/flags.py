"""Flags of the process, as command lines of Caffe2's programs give them: ``--caffe2_name=value``.

Only those are read that mean something here; the others steered parts of Caffe2 that do not exist, and are let be.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

#: flag -> whether it is set
_set: dict[str, bool] = {
    "caffe2_operator_throw_if_fp_exceptions": False,
    "caffe2_operator_throw_if_fp_overflow_exceptions": False,
    "netgrad_strict_devices": os.environ.get("NETGRAD_STRICT_DEVICES", "0") not in ("", "0"),
}


def parse(arguments: Sequence[str]) -> None:
    """Sets the flags that a command line holds; raises `ValueError` for a value that is no truth value."""
    waiting = ""
    for argument in arguments:
        name, given, value = argument.lstrip("-").partition("=")
        if waiting and not argument.startswith("-"):
            _set[waiting], waiting = _truth(waiting, argument), ""
        elif argument.startswith("-") and name in _set:
            waiting = "" if given else name
            _set[name] = _truth(name, value) if given else True


def _truth(name: str, value: str) -> bool:
    if value.lower() not in ("0", "1", "true", "false", "yes", "no"):
        raise ValueError(f"flag {name} is {value!r}; it can be 0 or 1")
    return value.lower() in ("1", "true", "yes")


def is_set(name: str) -> bool:
    return _set[name]


def set_flag(name: str, value: bool) -> None:
    """Sets a flag from Python; raises `KeyError` for one that means nothing here."""
    if name not in _set:
        raise KeyError(f"there is no flag {name!r}; there are {', '.join(_set)}")
    _set[name] = value
