"""Training ends as it does in Caffe2: every optimizer, dense and sparse, and every learning-rate policy, 50 steps."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")  # one of the backends

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("trained", HERE / "trained.py")
trained = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(trained)

#: what Caffe2 1.8.1 has found
EXPECTED = dict(np.load(HERE / "trained.npz"))
#: blobs of these names are parameters; the others are what optimizers keep, small differences of larger numbers
PARAMETERS = {"w1", "b1", "w2", "b2", "w", "b", "table", "one", "two"}


#: what differs in no parameter
ALIKE = [
    ["sgd", "policy_fixed"],
    ["table_adagrad_rowwise", "table_adagrad_counted"],
    # a row is a number, and vectors do not decay
    ["column_adagrad", "column_adagrad_weight_decay", "column_adagrad_rowwise", "column_adagrad_counted",
     "column_adagrad_rowwise_weight_decay"],
    ["column_adam", "column_adam_rowwise"],
    ["grid_adagrad_rowwise", "grid_adagrad_counted"],
]


@pytest.fixture(scope="module", params=["numpy", "torch"])
def found(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "found.npz"
    done = subprocess.run([sys.executable, HERE / "make_trained.py", path], capture_output=True, text=True, check=False,
                          env={**os.environ, "NETGRAD_BACKEND": request.param, "PYTHONWARNINGS": "ignore"})
    assert done.returncode == 0, done.stderr
    assert "refused" not in done.stdout, done.stdout
    return dict(np.load(path))


def _of(results, name):
    return {key.split("/")[1]: value for key, value in results.items() if key.split("/")[0] == name}


@pytest.mark.parametrize("name", trained.TRAININGS)
def test_training_ends_as_in_caffe2(found, name):
    ours, theirs = _of(found, name), _of(EXPECTED, name)
    assert ours.keys() == theirs.keys() and ours.keys() & PARAMETERS
    for blob, expected in theirs.items():
        assert ours[blob].dtype == expected.dtype and np.isfinite(expected).all()
        largest = float(np.abs(expected).max(initial=0))
        exactness = (1e-4, 1e-6) if blob in PARAMETERS else (1e-3, 1e-3)
        np.testing.assert_allclose(ours[blob], expected, rtol=exactness[0], atol=exactness[1] * largest + 1e-30,
                                   err_msg=f"{name}: {blob}")


def test_options_make_a_difference():
    """Trainings that end alike are those that are meant to: else one of them would show nothing."""
    alike = {}
    for name in trained.TRAININGS:
        parameters = {blob: value for blob, value in _of(EXPECTED, name).items() if blob in PARAMETERS}
        alike.setdefault(b"".join(parameters[blob].tobytes() for blob in sorted(parameters)), []).append(name)
    assert [names for names in alike.values() if len(names) > 1] == ALIKE
