"""docs/recipes.md keeps its word: its programs run one after the other and print what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "recipes.md").read_text()


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_the_page_runs_as_it_stands(backend, tmp_path):
    program, printed = ("".join(re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)) for kind in ("python", "text"))
    assert program and printed
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, "NETGRAD_BACKEND": backend, "OMP_NUM_THREADS": "1"}, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
