"""A process that saves checkpoints is killed at any moment: what can be loaded afterwards is always whole."""

from __future__ import annotations

import os
import random
import signal
import time

import numpy as np
import pytest

from netgrad.graph.operator import CreateOperator
from netgrad.runtime.workspace import Workspace

#: values of each of the two tensors of a checkpoint; saving them takes some milliseconds
SIZE = 200_000


def checkpoint(workspace, kind, folder, step):
    """Saves two tensors that are full of the step's number, over the last checkpoint and as one of their own."""
    workspace.feed_blob("step", np.array([step], np.int64))
    for name in ("w", "b"):
        workspace.feed_blob(name, np.full(SIZE, step, np.int32))
    for path in ("last", "at_%d"):
        workspace.run_operator(CreateOperator(
            "Checkpoint", ["step", "w", "b"], [], db=f"{folder}/{path}", db_type=kind, absolute_path=1, every=1,
            chunk_size=30_000))
    if os.path.exists(f"{folder}/at_{step - 2}"):
        _remove(f"{folder}/at_{step - 2}")


def _remove(path):
    if os.path.isdir(path):
        for name in os.listdir(path):
            os.remove(f"{path}/{name}")
        os.rmdir(path)
    else:
        os.remove(path)


def step_of(kind, path):
    """The step of a checkpoint, all of which must be from it."""
    workspace = Workspace(backend="numpy")
    workspace.run_operator(CreateOperator("Load", [], ["step", "w", "b"], db=path, db_type=kind, absolute_path=1))
    step = int(workspace.fetch_blob("step")[0])
    for name in ("w", "b"):
        value = workspace.fetch_blob(name)
        assert value.shape == (SIZE,) and (value == step).all(), (path, step, set(value.tolist()))
    return step


def killed(kind, folder, step, after):
    """Saves checkpoints from a step on, in a process that is killed after some seconds."""
    child = os.fork()
    if child == 0:
        try:
            workspace = Workspace(backend="numpy")
            while True:
                checkpoint(workspace, kind, folder, step)
                step += 1
        finally:
            os._exit(1)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the process had failed before it was killed"


def kills(kind, folder, count):
    """Returns how many of them hit a file that was being written."""
    chance, step = random.Random(f"{kind} {count}"), 1
    checkpoint(Workspace(backend="numpy"), kind, folder, 0)
    for _ in range(count):
        killed(kind, folder, step, chance.uniform(0.002, 0.06))
        last = step_of(kind, f"{folder}/last")
        assert last >= step - 1
        for name in os.listdir(folder):
            if name.startswith("at_") and len(os.listdir(f"{folder}/{name}") if kind == "lmdb" else "x"):
                try:
                    found = step_of(kind, f"{folder}/{name}")
                except RuntimeError:
                    assert kind == "lmdb" and not os.path.exists(f"{folder}/{name}/data.mdb")  # being removed
                else:
                    assert name == f"at_{found}"
        step = last + 1
    return sum(name.endswith(".tmp") for name in os.listdir(folder))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("kind", ["minidb", "lmdb", "protodb"])
def test_ten_kills(kind, tmp_path):
    kills(kind, str(tmp_path), 10)


@pytest.mark.soak
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("kind", ["minidb", "lmdb", "protodb"])
def test_two_hundred_kills(kind, tmp_path):
    assert kills(kind, str(tmp_path), 200) > 0
