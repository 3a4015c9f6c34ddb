"""A file that is written bit by bit and takes its place at the end."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import ExitStack, suppress
from typing import IO

from netgrad.proto import replace_file


class _Abandoned(Exception):
    pass


class Replacement:
    """What will take the place of a file, all at once, when it is closed (see `netgrad.proto.replace_file`).

    Args:
        keep: begin with what is there.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, path: str, keep: bool = False) -> None:
        if os.path.isdir(path):
            raise IsADirectoryError(0, "this is a folder, where a file is expected", path)
        self._stack = ExitStack()
        self.file: IO[bytes] = self._stack.enter_context(replace_file(path))
        self.closed = False
        if keep:
            try:
                with suppress(FileNotFoundError), open(path, "rb") as old:
                    shutil.copyfileobj(old, self.file, 1 << 20)
            except BaseException:
                self.abandon()
                raise

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._stack.close()

    def abandon(self) -> None:
        """The file that is there stays."""
        if not self.closed:
            self.closed = True
            with suppress(_Abandoned):
                try:
                    raise _Abandoned
                except _Abandoned:
                    self._stack.__exit__(*sys.exc_info())
                    raise
