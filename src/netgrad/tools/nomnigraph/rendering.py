"""Graphs on the terminal."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any


def render(s: Any) -> None:
    """Prints a graph: as characters, by ``graph-easy``, where that is installed, else in the language of Graphviz."""
    program = shutil.which("graph-easy")
    if program is None:
        print(s)
    else:
        subprocess.run([program], input=str(s).encode(), check=False)
