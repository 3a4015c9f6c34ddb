"""What can go wrong with what is on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from netgrad.proto import FormatError
from netgrad.runtime.errors import NetError


class StorageError(NetError, FormatError):
    """Something on disk cannot be read or written: says what, where, and what to do. Also what Caffe2 raised."""


@contextmanager
def told_of(source: str) -> Iterator[None]:
    """What goes wrong inside is told as a `StorageError` about ``source``."""
    try:
        yield
    except StorageError:
        raise
    except FormatError as error:
        raise StorageError(f"{source}: {error}") from None
    except OSError as error:
        raise StorageError(f"{source}: {error.strerror or error}") from None
