"""Shapes and dtypes without running; immediate mode; devices that are not there."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from runtime_nets import net, op

from netgrad.graph.net import Net
from netgrad.graph.shapes import UNKNOWN, TensorType
from netgrad.proto import caffe2_pb2
from netgrad.runtime import current, immediate, inference
from netgrad.runtime.errors import BadArgument, BadShape


def test_types_flow_through_a_net_and_stop_at_what_is_unknown():
    types = inference.infer([op("TAffine", "x", "y"), op("TFirst", "y", "z"), op("TAffine", "z", "u")],
                            {"x": TensorType("float32", (2, 3))})
    assert types["y"] == TensorType("float32", (2, 3))
    assert types["z"] == types["u"] == UNKNOWN


def test_shapes_that_do_not_go_together_are_located():
    with pytest.raises(BadShape, match=r"operator 0 \(Add\) of net 'n'.*\n.*a: float32 \(2,\), b: float32 \(3,\)"):
        inference.infer([op("Add", "a b", "c")], {"a": TensorType("float32", (2,)), "b": TensorType("float32", (3,))},
                        "n")


def test_a_bad_argument_is_located():
    with pytest.raises(BadArgument, match=r"operator 0.*'scale' should be a number"):
        inference.infer([op("TAffine", "a", "c", scale="x")], {"a": TensorType("float32", (2,))}, "n")


def test_caffe2s_function_reads_the_workspace_or_the_map_it_is_given():
    current.ResetWorkspace()
    current.FeedBlob("x", np.zeros((2, 0), np.int32))
    whole = net("n", op("TAffine", "x", "y"))
    shapes, types = inference.InferShapesAndTypes([whole], nets_proto=True)
    assert shapes == {"x": [2, 0], "y": [2, 0]} and types["y"] == caffe2_pb2.TensorProto.INT32
    shapes, types = inference.InferShapesAndTypes([whole], {"x": [4]}, nets_proto=True)
    assert shapes == {"x": [4], "y": [4]} and types["y"] == caffe2_pb2.TensorProto.FLOAT


def test_immediate_mode_runs_operators_as_they_are_written_in_a_workspace_of_its_own():
    from caffe2.python import core

    current.ResetWorkspace()
    immediate.StartImmediate(i_know=True)
    try:
        immediate.FeedImmediate("x", np.array([-1.0, 2.0], np.float32))
        core.CreateOperator("Relu", ["x"], ["y"])
        assert immediate.FetchImmediate("y").tolist() == [0, 2]
        assert immediate.ImmediateBlobs() == ["x", "y"] and not current.HasBlob("y")
    finally:
        immediate.StopImmediate()
    core.CreateOperator("Relu", ["nothing"], ["y"])
    assert not immediate.IsImmediate()


def test_questions_about_gpus_have_answers_without_one():
    code = ("from caffe2.python import workspace as w; print(w.has_gpu_support, w.NumGpuDevices(), w.GetCUDAVersion(),"
            "w.GetDeviceProperties(0), w.GpuDeviceType)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "NETGRAD_BACKEND": "numpy"})
    assert done.stdout.split() == ["False", "0", "0", "None", "1"]


@pytest.mark.parametrize("shape", [(3, 2), (2, 3, 4, 5)])
def test_a_window_that_fills_has_its_largest_shape_even_before_it_has_any(shape):
    current.ResetWorkspace()
    current.CreateBlob("window")
    current.FeedBlob("next", np.array(0, np.int32))
    current.FeedBlob("rows", np.ones(shape, np.float32))
    window = net("window", op("LastNWindowCollector", "window next rows", "window next", num_to_collect=7))
    shapes, types = inference.InferShapesAndTypes([window], nets_proto=True)
    assert shapes["window"] == [7, *shape[1:]] and types["window"] == types["rows"]
    current.RunNetOnce(window)
    assert current.FetchBlob("window").shape == shape


def test_an_input_of_unknown_shape_hides_no_output_that_does_not_depend_on_it():
    update = Net("update")
    update.AtomicIter(["mutex", "iteration"], ["iteration"])
    update.LearningRate("iteration", "lr", base_lr=-0.1, policy="fixed")
    update.MomentumSGDUpdate(["g", "m", "lr", "w"], ["g", "m", "w"])
    shapes, _ = inference.InferShapesAndTypes([update], {"iteration": [1], "g": [2, 3], "m": [2, 3], "w": [2, 3]})
    assert shapes["iteration"] == [1] and shapes["lr"] == [] and shapes["w"] == shapes["m"] == [2, 3]
