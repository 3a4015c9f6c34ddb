"""The pass that makes the C library keep memory between runs.

Arrays of more than 128 kB are mapped from the system when they are made and given back when they are freed, and each of
their pages then costs a fault when it is first touched: 124,000 of them in a training step of ResNet-50. With higher
thresholds the pages are used again. The process keeps its largest size; it is the only price. Linux with glibc alone.
"""

from __future__ import annotations

import ctypes
import functools
import sys

from netgrad.runtime.planning.draft import Draft

# the parameters of mallopt(3)
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
#: the largest that glibc accepts for _MMAP_THRESHOLD
_LARGEST = 32 << 20


@functools.cache
def keep_memory() -> bool:
    """Raises the thresholds, once; whether that was possible."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 (other C libraries lack it)
        mallopt = library.mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST) and mallopt(_TRIM_THRESHOLD, 2**31 - 1)
                and mallopt(_TOP_PAD, 64 << 20))


def apply(draft: Draft) -> None:
    keep_memory()
