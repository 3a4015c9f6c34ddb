"""Profiles: what is counted, how forward and backward are paired, and the forms in which it is written."""

from __future__ import annotations

import json
import time
from itertools import pairwise

import numpy as np
import pytest

import netgrad
from netgrad.cli import run as run_command
from netgrad.proto import write_net
from netgrad.tools.profile import profile


@pytest.fixture
def train():
    """y = Relu(w x + b), its mean squared distance to a target, the derivative, and a step."""
    net = netgrad.Net("train")
    y = net.Relu(net.FC(["x", "w", "b"], "h"), "y")
    loss = net.AveragedLoss(net.SquaredL2Distance([y, "target"], "distance"), "loss")
    gradients = netgrad.backward(net, loss)
    net.WeightedSum(["w", "one", gradients["w"], "rate"], "w")
    return net


@pytest.fixture
def feeds():
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in {
        "x": (8, 6), "w": (4, 6), "b": (4,), "target": (8, 4)}.items()} | {
        "one": np.ones(1, np.float32), "rate": np.full(1, -0.1, np.float32)}


@pytest.fixture(params=["numpy", "torch"])
def workspace(request, feeds):
    made = netgrad.Workspace(backend=request.param)
    made.feed(feeds)
    return made


def test_operations_and_bytes_are_counted(train, workspace):
    found = {operator.type: operator for operator in profile(train, workspace, runs=2).operators}
    assert found["FC"].flops == 8 * 4 * (2 * 6 + 1)
    assert (found["FC"].bytes_read, found["FC"].bytes_written) == (4 * (48 + 24 + 4), 4 * 32)
    assert found["FCGradient"].bytes_written == 4 * (24 + 4 + 48)
    assert found["Relu"].flops == 0
    assert all(operator.milliseconds >= operator.fastest > 0 for operator in found.values())


def test_gradients_stand_beside_what_they_are_the_derivative_of(train, workspace):
    found = profile(train, workspace, runs=2)
    phases = {operator.type: operator.phase for operator in found.operators}
    assert phases["FC"] == "forward" and phases["FCGradient"] == "backward" and phases["WeightedSum"] == "update"
    by_type = {row.label: row for row in found.rows()}
    assert "FCGradient" not in by_type and by_type["FC"].forward and by_type["FC"].backward
    assert by_type["WeightedSum"].update and not by_type["WeightedSum"].forward
    assert "0 FC h" in {row.label for row in found.rows("operator")}
    assert sum(row.milliseconds for row in found.rows()) == pytest.approx(found.total.milliseconds)
    assert found.total.count == sum(row.count for row in found.rows())


def test_the_net_runs_as_often_as_asked(workspace):
    net = netgrad.Net("counting")
    net.Iter("counter", "counter")
    workspace.feed(counter=np.zeros(1, np.int64))
    found = profile(net, workspace, runs=3, warmup=2)
    assert workspace.fetch("counter") == 5 and found.runs == 3
    with pytest.raises(ValueError, match="runs is 0"):
        profile(net, workspace, runs=0)


def test_the_slowest_comes_first_and_takes_the_time_that_it_takes(workspace):
    net = netgrad.Net("sleeping")
    net.Relu("x", "y")
    net.Python(lambda inputs, outputs: time.sleep(0.02))(["y"], [])
    found = profile(net, workspace, runs=2)
    assert found.rows()[0].label.startswith("Python") and 20 <= found.rows()[0].forward < 1000
    assert found.milliseconds >= 20


def test_table_trace_and_json(train, workspace, tmp_path):
    found = profile(train, workspace, runs=2)
    lines = str(found).splitlines()
    assert lines[0].startswith(f"net {train.Name()}: ") and "forward ms  backward ms  update ms" in lines[1]
    assert lines[-1].startswith("total") and len(found.text(rows=1).splitlines()) == 4
    found.save_trace(tmp_path / "trace.json")
    events = [e for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if e["ph"] == "X"]
    assert [e["name"] for e in events] == [op.type for op in train.Proto().op]
    assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-3 for a, b in pairwise(events))
    assert {e["cat"] for e in events} == {"forward", "backward", "update"}
    found.save(tmp_path / "profile.json")
    written = json.loads((tmp_path / "profile.json").read_text())
    assert written["operators"][0]["label"] == "h" and written["net"] == train.Name()


def test_the_command(train, feeds, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    write_net(train.Proto(), "train.pb")
    options = []
    for name, value in feeds.items():
        np.save(name, value)
        options += ["--feed", f"{name}={name}.npy"]
    assert run_command(["profile", "train.pb", *options, "--runs", "2", "--by", "operator", "--rows", "3",
                        "--trace", "trace.json", "--json", "all.json"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 6 and "mean of 2" in lines[0]
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert json.loads((tmp_path / "all.json").read_text())["runs"] == 2
    assert run_command(["profile", "train.pb"]) == 1
    assert "'x'" in capfd.readouterr().err
