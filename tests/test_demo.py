"""The demo: it learns, saves, and a new process predicts the same from what it saved."""

from __future__ import annotations

import importlib.util
import io
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from rich.console import Console

import netgrad.demo
from netgrad.proto.files import read_net

needs_packages = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("sklearn", "matplotlib")),
    reason="needs scikit-learn and matplotlib: pip install netgrad[demo]")


def run(folder, **options):
    said = io.StringIO()
    return netgrad.demo.run(folder, console=Console(file=said, width=120), **options), said.getvalue()


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    outcome, said = run(folder, backend="numpy", epochs=4, seed=1)
    return folder, outcome, said


@needs_packages
def test_it_learns_and_a_new_process_predicts_what_it_predicted(short):
    folder, outcome, said = short
    assert outcome.accuracy > 0.85
    with np.load(folder / "predictions.npz", allow_pickle=False) as found, \
            np.load(folder / "held_out.npz", allow_pickle=False) as held_out:
        assert found["process"] != os.getpid()
        right = found["probability"].argmax(axis=1) == held_out["label"]
    assert len(right) == 360 and right.mean() == pytest.approx(outcome.accuracy)
    assert f"{right.sum()} of 360" in said


@needs_packages
def test_it_leaves_every_file_that_it_names_and_each_can_be_read(short):
    folder, outcome, said = short
    assert {path.name for path in folder.iterdir()} == set(outcome.files)
    assert all(name in said for name in outcome.files)
    for name in ("init_net", "train_net", "predict_net"):
        assert read_net(folder / f"{name}.pb") == read_net(folder / f"{name}.pbtxt")
    with np.load(folder / "parameters.npz", allow_pickle=False) as parameters:
        needed = set(read_net(folder / "predict_net.pb").external_input) - {"image"}
        assert set(parameters.files) == needed and len(needed) == 8
    assert (folder / "training_curve.png").read_bytes().startswith(b"\x89PNG")
    assert "Backward" in "".join(ET.parse(folder / "net.svg").getroot().itertext())


@needs_packages
def test_it_shows_the_forward_net_and_the_backward_pass(short):
    _, _, said = short
    forward, backward = said.index("conv1 = Conv(image, conv1_w, conv1_b"), said.index("= ConvGradient(image, conv1_w")
    assert forward < said.index("which netgrad wrote") < backward


@needs_packages
def test_the_same_seed_gives_the_same_parameters(short, tmp_path):
    folder, _, _ = short
    run(tmp_path, backend="numpy", epochs=4, seed=1)
    with np.load(folder / "parameters.npz") as first, np.load(tmp_path / "parameters.npz") as second:
        for name in first.files:
            np.testing.assert_array_equal(first[name], second[name])


@needs_packages
@pytest.mark.soak
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_the_whole_demo_reaches_97_percent_on_either_backend(backend, tmp_path):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    for seed in range(3):
        outcome, _ = run(tmp_path, backend=backend, seed=seed)
        assert outcome.accuracy >= 0.97


@needs_packages
@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_control_c_ends_it_without_a_traceback(tmp_path):
    script = f"import netgrad.demo; netgrad.demo.run({str(tmp_path)!r}, backend='numpy', epochs=10_000)"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-u", "-c", script], **pipes) as demo:
        for line in demo.stdout:
            if "Gradients of the parameters" in line:
                break
        time.sleep(1)
        demo.send_signal(signal.SIGINT)
        said, complained = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert "Stopped. Nothing was written yet" in said and "Traceback" not in complained
    assert not list(tmp_path.iterdir())


@needs_packages
def test_control_c_while_it_saves_says_where_the_files_are(monkeypatch, tmp_path):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(netgrad.demo.artifacts, "save_curve", interrupt)
    said = io.StringIO()
    with pytest.raises(SystemExit) as stopped:
        netgrad.demo.run(tmp_path, backend="numpy", epochs=1, console=Console(file=said, width=500))
    assert stopped.value.code == 130
    assert f"What was written so far stays in {tmp_path}" in said.getvalue()
    assert (tmp_path / "predict_net.pb").exists()


def test_missing_packages_are_named_with_the_cure(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    needed = r"scikit-learn.*matplotlib.*pip install 'netgrad\[demo\]'"
    with pytest.raises(netgrad.demo.MissingPackageError, match=needed):
        netgrad.demo.run(tmp_path / "out", backend="numpy")
    assert not (tmp_path / "out").exists()
