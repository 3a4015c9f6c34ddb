"""`netgrad plan`: steps, what passes did, storage."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from netgrad.cli.commands import netgrad as group
from netgrad.graph.net import Net
from netgrad.proto import write_net
from netgrad.runtime import backends
from netgrad.runtime.planning import planner


@pytest.fixture
def training(tmp_path, monkeypatch):
    """A net with an update, and files of its inputs."""
    monkeypatch.chdir(tmp_path)
    net = Net("train")
    net.FC(["x", "w", "b"], "y")
    net.AveragedLoss("y", "loss")
    gradients = net.AddGradientOperators(["loss"])
    for name in "wb":
        net.WeightedSum([name, "one", gradients[name], "lr"], name)
    write_net(net.Proto(), "train.pb")
    np.savez("feeds.npz", x=np.ones((8, 256), np.float32), w=np.ones((1024, 256), np.float32),
             b=np.ones(1024, np.float32), one=np.ones(1, np.float32), lr=np.ones(1, np.float32))


def plan(*arguments, status=0):
    result = CliRunner().invoke(group, ["plan", *arguments])
    assert result.exit_code == status, result.output
    return result.output


@pytest.mark.parametrize("name", backends.available())
def test_it_says_what_runs_why_and_how_much_storage_that_takes(training, name):
    out = plan("train.pb", "--feed", "feeds.npz", "--backend", name)
    assert "0  FC(x, w, b) -> y\n" in out
    updates = "WeightedSum(w, one, w_grad, lr) -> w ... WeightedSum(b, one, b_grad, lr) -> b  [updates: 2 x WeightedSum"
    assert updates in out
    assert ("w_grad within the update, x_grad when fetched" if name == "torch" else "x_grad when fetched") in out
    assert "7 operators in 6 steps" in out
    line = next(line for line in out.splitlines() if line.startswith("storage at most"))
    plain, planned = (float(words.split()[0]) for words in line.removeprefix("storage at most: ").split(", "))
    assert planned < plain and "not known" not in line


def test_passes_can_be_left_out_and_listed(training):
    out = plan("train.pb", "--passes", "none", "--list")
    assert all(f"{name}: " in out for name in planner.NAMES)
    assert "7 operators in 7 steps" in out and "blobs whose size is not known" in out
    assert "within the update" not in plan("train.pb", "--passes=-deferred")
    assert "no pass 'fast'" in plan("train.pb", "--passes=fast", status=2)
