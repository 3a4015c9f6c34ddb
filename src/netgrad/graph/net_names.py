"""Names of nets: unique in the process, each base name with its own counter."""

from __future__ import annotations

from collections.abc import Callable

#: the prefix of new nets' names; net builders set it
current_prefix: Callable[[], str] = str

_next_suffix: dict[str, int] = {}


def unique_net_name(basename: str, used: set[str]) -> str:
    """The base name, with the current prefix, and with ``_1``, ``_2``, ... where it is taken; it is then taken."""
    return unique_name("/".join(part for part in (current_prefix(), basename) if part), used, _next_suffix)


def unique_name(basename: str, used: set[str], next_suffix: dict[str, int]) -> str:
    """The base name, with ``_1``, ``_2``, ... where it is taken; ``next_suffix`` remembers where to go on."""
    name = basename
    if basename in used:
        k = next_suffix.get(basename, 1)
        if k > 1 and f"{basename}_{k - 1}" not in used:
            k = 1  # somebody has emptied the set
        while (name := f"{basename}_{k}") in used:
            k += 1
        next_suffix[basename] = k + 1
    used.add(name)
    return name
