"""Every example runs, and says what it should."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "higher_derivatives.py": ["curvature along the gradient agrees: True", "gradient penalty", "gradcheck: True"],
    "net_in_torch.py": ["points -> scores", "parameters: hidden_w, hidden_b", "gradcheck: True"],
    "torch_module_as_net.py": ["as torch: True", "shared: True", "SpatialBN", "2 operations have no counterpart"],
}


def test_every_example_is_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_it_runs(name, tmp_path):
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, cwd=tmp_path, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    for text in SAYS[name]:
        assert text in done.stdout
