"""Every example runs, and says what it should; those that train learn, on both backends."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "higher_derivatives.py": ["curvature along the gradient agrees: True", "gradient penalty", "gradcheck: True"],
    "net_in_torch.py": ["points -> scores", "parameters: hidden_w, hidden_b", "gradcheck: True"],
    "torch_module_as_net.py": ["as torch: True", "shared: True", "SpatialBN", "2 operations have no counterpart"],
}


@dataclass
class Learns:
    """What a training example reaches, as (at all its steps on torch, at ``few`` steps on NumPy).

    Attributes:
        few: steps on NumPy.
        least, most: figure -> what it is at least, at most.
        falls: what is recorded at each step and falls -> to which share of what it began with.
        files: what it writes beside figures and curves.
        says: on standard output.
    """

    few: int
    least: dict[str, tuple[float, float]] = field(default_factory=dict)
    most: dict[str, tuple[float, float]] = field(default_factory=dict)
    falls: dict[str, tuple[float, float]] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    says: tuple[str, ...] = ()


LEARNS = {
    "image_classification": Learns(
        100, least={"accuracy": (0.96, 0.9), "accuracy_of_the_loaded_predictor": (0.96, 0.9)},
        falls={"loss": (0.1, 0.25)}, files=("digits.minidb",), says=("loaded it again",)),
    "char_lstm": Learns(
        100, most={"bits_per_letter": (2.1, 3.1)}, falls={"bits_per_letter": (0.35, 0.5)}, files=("written.txt",),
        says=("it writes: You may ",)),
    "seq2seq_attention": Learns(
        120, least={"sentences_right": (0.95, 0.8)}, falls={"loss_per_word": (0.01, 0.1)}, files=("attention.png",),
        says=("abcdef -> fedcba<EOS>",)),
    "recommender": Learns(
        250, least={"ranked_right": (0.91, 0.87)}, falls={"loss": (0.65, 0.72)}, says=("row by row: users, items",)),
    "two_losses": Learns(
        200, least={"accuracy": (0.94, 0.9), "share_of_variance_drawn": (0.75, 0.6)},
        falls={"digit_loss": (0.1, 0.25), "image_loss": (0.25, 0.4)}, files=("drawn.png",),
        says=("the trunk gets code_grad = ",)),
    "differential_equation": Learns(
        600, most={"largest_difference": (0.05, 0.25)}, falls={"loss": (0.005, 0.05)}, files=("solution.png",)),
    "policy_gradient": Learns(30, least={"steps_upright": (130, 90)}),
    "fine_tuning": Learns(
        150, least={"accuracy": (0.87, 0.8)}, most={"frozen_parameters_moved_by": (0, 0)}, falls={"loss": (0.2, 0.3)},
        files=("init_net.pb", "predict_net.pb"), says=("gradients of: new_scores_w, new_scores_b",)),
    "adversarial_examples": Learns(
        120, least={"accuracy": (0.95, 0.92), "accuracy_with_noise": (0.88, 0.85)},
        most={"accuracy_under_attack": (0.5, 0.5)}, falls={"loss": (0.1, 0.25)}, files=("attacked.png",),
        says=("are its backward pass",)),
}

needs_packages = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("sklearn", "matplotlib")),
    reason="needs scikit-learn and matplotlib: pip install netgrad[demo]")


def run(name, *options, folder, code=None):
    script = ["-c", code] if code else [str(EXAMPLES / name)]
    return subprocess.run([sys.executable, *script, *map(str, options)], capture_output=True, text=True, cwd=folder,
                          check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})


def figures(folder):
    return json.loads((folder / "figures.json").read_text())


def test_every_example_is_here_and_in_the_table():
    here = {path.name for path in EXAMPLES.glob("*.py")} - {"running.py"}
    assert here == {*SAYS, *(f"{name}.py" for name in LEARNS)}
    for text in ((EXAMPLES / "README.md").read_text(), (EXAMPLES.parent / "README.md").read_text()):
        assert [name for name in sorted(here) if name not in text] == []


@pytest.mark.parametrize("name", SAYS)
def test_it_runs(name, tmp_path):
    pytest.importorskip("torch")
    done = run(name, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    for text in SAYS[name]:
        assert text in done.stdout


@needs_packages
@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("name", LEARNS)
def test_it_learns(name, backend, tmp_path):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    expected, k = LEARNS[name], backend == "numpy"
    options = ["--backend", backend, "--out", tmp_path / "out", *(["--steps", expected.few] if k else [])]
    done = run(f"{name}.py", *options, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(text in done.stdout for text in expected.says), done.stdout
    found = figures(tmp_path / "out")
    for figure, bounds in expected.least.items():
        assert found["figures"][figure] >= bounds[k], figure
    for figure, bounds in expected.most.items():
        assert found["figures"][figure] <= bounds[k], figure
    for recorded, shares in expected.falls.items():
        values = found["history"][recorded]
        assert sum(values[-5:]) / 5 <= shares[k] * values[0], recorded
    if k:
        assert {len(values) for values in found["history"].values()} == {expected.few}
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written >= {"curves.png", *expected.files}
    for picture in (tmp_path / "out").glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_seed_gives_the_same_numbers_again(tmp_path):
    histories = []
    for k, seed in enumerate((3, 3, 4)):
        out = tmp_path / str(k)
        done = run("policy_gradient.py", "--steps", 3, "--seed", seed, "--backend", "numpy", "--out", out,
                   folder=tmp_path)
        assert done.returncode == 0, done.stderr
        histories.append(figures(out)["history"])
    assert histories[0] == histories[1] != histories[2]


@needs_packages
@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_control_c_ends_it_without_a_traceback(tmp_path):
    command = [sys.executable, "-u", EXAMPLES / "two_losses.py", "--backend", "numpy", "--steps", "1000000",
               "--out", tmp_path]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as example:
        for line in example.stdout:
            if "the trunk gets" in line:
                break
        time.sleep(0.5)
        example.send_signal(signal.SIGINT)
        said, complained = example.communicate(timeout=60)
    assert example.returncode == 130
    assert said.rstrip().endswith("stopped") and "Traceback" not in complained
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("options", "words"), [
    (["--steps", "0"], "'0' is no number of steps"), (["--backend", "jax"], "invalid choice: 'jax'"),
    (["--out", "file", "--backend", "numpy"], "policy_gradient: "),
])
def test_wrong_options_are_refused_in_one_line(options, words, tmp_path):
    (tmp_path / "file").write_text("")
    done = run("policy_gradient.py", *options, folder=tmp_path)
    assert done.returncode != 0 and words in done.stderr and "Traceback" not in done.stderr


def without(package, name, tmp_path):
    code = (f"import runpy, sys; sys.modules[{package!r}] = None; sys.path.insert(0, {str(EXAMPLES)!r}); "
            f"sys.argv = [{name!r}, '--steps', '1', '--backend', 'numpy', '--out', {str(tmp_path)!r}]; "
            f"runpy.run_path({str(EXAMPLES / name)!r}, run_name='__main__')")
    return run(name, folder=tmp_path, code=code)


def test_without_matplotlib_there_are_no_pictures(tmp_path):
    done = without("matplotlib", "policy_gradient.py", tmp_path)
    assert done.returncode == 0 and "no curves.png: matplotlib is not installed" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]


def test_without_scikit_learn_it_is_named_with_the_cure(tmp_path):
    done = without("sklearn", "two_losses.py", tmp_path)
    assert done.returncode != 0 and "pip install 'netgrad[demo]'" in done.stderr and "Traceback" not in done.stderr
