"""The nets that are measured: ours and the rivals' are the same, and a run of all prints a table."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import process, reporting, rivals  # noqa: E402
from benchmarks.catalogue import NETS  # noqa: E402
from benchmarks.measuring import Measured, agree, ratio  # noqa: E402

SMALL = [name for name in NETS if name != "resnet50"]


def losses(step):
    return [step() for _ in range(process.COMPARED)]


@pytest.mark.parametrize("name", SMALL)
def test_pytorch_trains_the_same_net(name, tmp_path):
    pytest.importorskip("torch")
    net = NETS[name]
    process.write_beginning(net, net.sized(True), tmp_path / "beginning.npz")
    ours = losses(process.prepare("netgrad", net, True, tmp_path / "beginning.npz")[0])
    theirs = losses(process.prepare("torch", net, True, tmp_path / "beginning.npz")[0])
    assert agree(ours, theirs, rivals.CONTENDERS["torch"].tolerance), (ours, theirs)
    assert name == "tiny" or len(set(ours)) == process.COMPARED  # it learns


def test_a_model_of_other_parameters_is_refused(tmp_path):
    pytest.importorskip("torch")
    from benchmarks import rivals_torch

    net = NETS["mlp"]
    process.write_beginning(net, net.sized(True), tmp_path / "beginning.npz")
    feeds, parameters = process.read_beginning(tmp_path / "beginning.npz")
    with pytest.raises(ValueError, match="shape"):
        rivals_torch.prepare("mlp", net.sized(True) | {"kinds": 11}, feeds, list(parameters.values()))


def test_losses_that_differ_do_not_agree():
    assert agree([1.0, 0.9], [1.0005, 0.895], (1e-3, 1e-2))
    assert not agree([1.0, 0.9], [1.002, 0.9], (1e-3, 1e-2))
    assert not agree([1.0, 0.9], [1.0, 0.92], (1e-3, 1e-2))
    assert not agree([1.0, 0.9], [1.0, np.nan], (1e-3, 1e-2))


def test_ratios_are_of_rounds_that_followed_one_another():
    drifting, rival = Measured(ms=[1.0, 10.0, 100.0]), Measured(ms=[2.0, 20.0, 200.0])
    assert ratio(drifting, rival) == 0.5
    assert ratio(drifting, Measured(why="failed")) is None


def test_a_table_takes_the_place_of_the_last_one(tmp_path):
    results = {"mlp": {"netgrad": Measured(ms=[1.0], peak_mb=100.0, planning_ms=2.0, operators=4),
                       "torch": Measured(ms=[2.0], peak_mb=200.0), "caffe2": Measured(why="it fell")},
               "tiny": {"netgrad": Measured(why="so it is")}}
    path = tmp_path / "README.md"
    path.write_text(f"before\n{reporting.BEGIN}\nold\n{reporting.END}\nafter\n")
    reporting.write_table(reporting.table(results), path)
    text = path.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "| mlp | 1 | 0.50 |  | 0.50 | 100 | 0.50 | 2 | 500 |" in text
    assert reporting.left_out(results) == ["mlp: caffe2 was not timed: it fell",
                                           "tiny: netgrad was not timed: so it is"]


def test_a_run_writes_a_table_and_a_plot(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "mlp", "--quick", "--threads", "1", "--repeat", "2", "--rivals",
               "torch", "--table", str(tmp_path / "table.md"), "--plot", str(tmp_path / "plot.svg")]
    pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    head, _, row = (tmp_path / "table.md").read_text().splitlines()
    cells = dict(zip(head.split(" | "), row.split(" | ")))
    assert float(cells["x PyTorch"]) > 0
    assert "<svg" in (tmp_path / "plot.svg").read_text()


@pytest.mark.parametrize("words, message", [
    (["nothing"], "there is no net 'nothing'; there are mlp"),
    (["--rivals", "pytorch"], "there is no contender 'pytorch'; there are netgrad"),
    (["--threads", "0"], "whole numbers from 1")])
def test_what_cannot_be_is_said(words, message, capsys):
    from benchmarks.__main__ import main

    with pytest.raises(SystemExit):
        main(words)
    assert message in capsys.readouterr().err


def test_a_process_says_lines_of_json(tmp_path):
    net = NETS["tiny"]
    beginning = tmp_path / "beginning.npz"
    process.write_beginning(net, net.sized(True), beginning)
    done = subprocess.run([sys.executable, "-m", "benchmarks.process", "netgrad", "tiny", str(beginning), "--quick"],
                          cwd=ROOT, input="round\nend\n", capture_output=True, text=True, check=True, timeout=120)
    ready, timed, last = (json.loads(line) for line in done.stdout.splitlines())
    assert len(ready["losses"]) == process.COMPARED and ready["operators"] == 20
    assert timed["ms"] > 0 and last["peak_mb"] > 1
