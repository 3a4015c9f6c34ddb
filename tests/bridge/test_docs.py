"""docs/pytorch.md keeps its word."""

import os
import re
import subprocess
import sys
from pathlib import Path

DOC = Path(__file__).parents[2] / "docs" / "pytorch.md"


def test_the_page_runs_as_it_stands(tmp_path):
    program, printed = ("".join(re.findall(rf"```{kind}\n(.*?)```", DOC.read_text(), re.DOTALL))
                        for kind in ("python", "text"))
    assert program and printed
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
