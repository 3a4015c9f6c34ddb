"""The nets of the convolution benchmarks are Caffe2's, and the programs that time nets run."""

from __future__ import annotations

import importlib.util
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from caffe2.python import convnet_benchmarks, embedding_generation_benchmark, lstm_benchmark, workspace

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def convnets():
    sys.path.insert(0, str(HERE))
    try:
        spec = importlib.util.spec_from_file_location("convnets", HERE / "convnets.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(HERE))
    return module


@pytest.mark.parametrize("name", sorted(path.stem for path in (HERE / "convnet_nets").iterdir()))
def test_a_benchmark_net_is_that_of_caffe2(convnets, name):
    expected = (HERE / "convnet_nets" / f"{name}.txt").read_text().splitlines()
    assert convnets.build(convnet_benchmarks, name) == expected


def test_images_of_the_size_they_name_go_through(convnets):
    """Shapes fit from the images to the classes; nothing is computed."""
    for name in ("AlexNet", "OverFeat", "VGGA", "Inception"):
        model, size = getattr(convnet_benchmarks, name)("NCHW", None)
        shapes, _ = workspace.InferShapesAndTypes(
            [model.param_init_net, model.net], {"data": [2, 3, size, size], "label": [2]})
        assert shapes["pred"] == [2, 1000], name


@pytest.mark.parametrize("forward_only", [[], ["--forward_only"]])
def test_a_net_is_timed_and_written_down(tmp_path, monkeypatch, capsys, forward_only):
    monkeypatch.chdir(tmp_path)
    workspace.ResetWorkspace()
    args = convnet_benchmarks.GetArgumentParser().parse_args(
        ["--model", "MLP", "--cpu", "--batch_size", "2", "--iterations", "1", "--warmup_iterations", "1",
         "--dump_model", "--layer_wise_benchmark", *forward_only])
    times = convnet_benchmarks.Benchmark(convnet_benchmarks.MLP, args)
    assert len(times) > 60
    assert times[0] > 0
    assert "ms per run" in capsys.readouterr().out
    assert workspace.FetchBlob("loss").shape == ()  # its value may be anything: the scores are no probabilities
    assert workspace.HasBlob("fc_1_0_w_grad") == (not forward_only)
    assert 'type: "FC"' in (tmp_path / "MLP.pbtxt").read_text()


@pytest.mark.parametrize("options", [
    [], ["--num_layers", "2"], ["--forward_only"], ["--implementation", "static", "--fixed_shape"],
    ["--memory_optimization", "--rnn_executor", "--rnn_executor_num_threads", "2"],
])
def test_lstms_are_timed_and_hand_their_states_on(options, caplog):
    workspace.ResetWorkspace()
    args = lstm_benchmark.GetArgumentParser().parse_args(
        ["--hidden_dim", "4", "--input_dim", "3", "--batch_size", "2", "--seq_length", "5", "--data_size", "60",
         *options])
    with caplog.at_level(logging.INFO):
        assert lstm_benchmark.Benchmark(args) > 0
    assert "thousand entries per second" in caplog.text
    for k in range(args.num_layers):
        states = [workspace.FetchBlob(f"{kind}_init_{k}") for kind in ("hidden", "cell")]
        assert all(state.shape == (1, 2, 4) and state.any() for state in states)
        assert not np.array_equal(*states)


def test_an_unrolled_lstm_needs_one_length():
    args = lstm_benchmark.GetArgumentParser().parse_args(["--implementation", "static", "--data_size", "1"])
    with pytest.raises(AssertionError, match="fixed_shape"):
        lstm_benchmark.create_model(args, "q", "l", [20, 128, 40])
    args.implementation = "fast"
    with pytest.raises(AssertionError, match="'fast'"):
        lstm_benchmark.create_model(args, "q", "l", [20, 128, 40])


@pytest.mark.parametrize("implementation", ["sinusoid", "table"])
def test_embeddings_are_timed(implementation):
    workspace.ResetWorkspace()
    args = embedding_generation_benchmark.GetArgumentParser().parse_args(
        ["--embedding_size", "6", "--batch_size", "2", "--seq_length", "4", "--data_size", "8",
         "--implementation", implementation])
    assert embedding_generation_benchmark.Benchmark(args) > 0
    assert workspace.FetchBlob("output").shape == (4, 2, 6)


def test_the_programs_say_what_they_take():
    for module in ("convnet_benchmarks", "lstm_benchmark", "embedding_generation_benchmark"):
        done = subprocess.run([sys.executable, "-m", f"caffe2.python.{module}", "--help"], capture_output=True,
                              text=True, check=True)
        assert "--batch_size" in done.stdout
    wrong = subprocess.run([sys.executable, "-m", "caffe2.python.convnet_benchmarks", "--model", "LeNet"],
                           capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "AlexNet" in wrong.stderr
