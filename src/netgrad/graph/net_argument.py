"""What stands where a function takes a net."""

from __future__ import annotations

import os
from typing import Any


def require_net(net: Any) -> None:
    """Refuses what is no `Net`, NetDef, or object whose ``Proto()`` is one.

    Raises:
        TypeError: with what was found; of a path, that `netgrad.load` reads it.
    """
    message = net.Proto() if hasattr(net, "Proto") and not isinstance(net, type) else net
    if hasattr(message, "op"):
        return
    if isinstance(net, (str, os.PathLike)):
        raise TypeError(f"expected a Net or a NetDef, found {os.fspath(net)!r}; "
                        "if that is a file, netgrad.load reads it")
    raise TypeError(f"expected a Net or a NetDef, found an object of type {type(net).__name__}")
