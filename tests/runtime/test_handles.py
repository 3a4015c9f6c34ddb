"""Handles of blobs and tensors, as scripts use them through ``workspace.C``."""

from __future__ import annotations

import time

import numpy as np
import pytest
from runtime_nets import net, op

from netgrad.proto import caffe2_pb2
from netgrad.runtime import current
from netgrad.runtime.errors import BlobError
from netgrad.runtime.python_ops import register_python_op


def test_what_is_written_into_a_tensors_data_is_the_blobs_value(ws):
    ws.create_blob("x").feed(np.array([1.0, 2.0]))
    tensor = ws.blobs["x"].tensor()
    tensor.data[0] = 7
    tensor.data[1] += 1
    np.testing.assert_array_equal(ws.fetch_blob("x"), [7, 3])


def test_writing_into_a_tensor_changes_no_blob_that_shared_its_buffer(ws):
    ws.feed_blob("x", np.array([1.0, 2.0]))
    ws.values["alias"] = ws.values["x"]
    ws.blobs["x"].tensor().data[:] = 0
    np.testing.assert_array_equal(ws.fetch_blob("alias"), [1, 2])


def test_a_tensor_follows_its_blob_when_the_name_is_bound_anew(ws):
    ws.feed_blob("x", np.array([1.0, 2.0]))
    tensor = ws.blobs["x"].tensor()
    tensor.data[0] = 5
    ws.run(op("TAffine", "x", "x", scale=2.0))
    assert tensor.data.tolist() == [10, 4]
    tensor.data[0] = 1
    assert ws.fetch_blob("x").tolist() == [1, 4]


def test_tensors_are_made_reshaped_fed_and_fetched(ws):
    tensor = ws.create_blob("x").as_tensor()
    assert tensor.shape == (0,)
    tensor.init([2, 3], caffe2_pb2.TensorProto.INT32)
    assert tensor.shape == (2, 3) and tensor._shape == [2, 3] and tensor.data.dtype == np.int32
    tensor.feed(np.arange(6))
    tensor.reshape((3, 2))
    assert tensor.fetch().tolist() == [[0, 1], [2, 3], [4, 5]]
    tensor.reshape((4,))
    assert tensor.fetch().tolist() == [0] * 4
    tensor.feed(np.array([b"a", b"b"], dtype=object))
    assert tensor.data[0] == b"a"


def test_what_is_no_tensor_is_refused(ws):
    ws.feed_blob("s", "text")
    with pytest.raises(BlobError, match=r"'s' holds no tensor"):
        ws.blobs["s"].tensor()
    with pytest.raises(BlobError, match=r"without strings"):
        ws.create_blob("x").as_tensor().init([2], caffe2_pb2.TensorProto.STRING)


def test_a_created_net_is_there_to_run(ws):
    ws.feed_blob("x", np.ones(1))
    assert ws.create_net(net("n", op("TAffine", "x", "x", scale=2.0))).run()
    assert ws.nets["n"].run() and ws.fetch_blob("x") == 4


def test_a_plan_in_the_background_ends_and_raises_what_it_raised():
    def f(inputs, outputs):
        raise KeyError("in the background")

    good = caffe2_pb2.PlanDef(network=[net("a", op("TCount", "", "n"))],
                              execution_step=[caffe2_pb2.ExecutionStep(network=["a"], num_iter=3)])
    current.ResetWorkspace()
    started = current.RunPlanInBackground(good)
    assert started.is_succeeded() and started.is_done() and current.FetchBlob("n") == 3
    bad = caffe2_pb2.PlanDef(network=[net("b", op("Python", "", "", token=register_python_op(f)))],
                             execution_step=[caffe2_pb2.ExecutionStep(network=["b"])])
    started = current.RunPlanInBackground(bad)
    for _ in range(1000):
        if started.is_done():
            break
        time.sleep(0.01)
    with pytest.raises(KeyError, match=r"in the background"):
        started.is_succeeded()


def test_a_benchmark_reports_the_net_and_each_operator():
    current.ResetWorkspace()
    current.CreateNet(net("n", op("TCount", "", "n"), op("TCount", "", "m")), overwrite=True)
    times = current.BenchmarkNet("n", 1, 3, True)
    assert len(times) == 3 and all(t > 0 for t in times) and current.FetchBlob("n") == 7
