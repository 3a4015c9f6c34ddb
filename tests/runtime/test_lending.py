"""Torch tensors that a user and a workspace hold in common, on every backend."""

from __future__ import annotations

import numpy as np
import pytest
from runtime_nets import net, op

from netgrad.runtime.errors import BlobError

torch = pytest.importorskip("torch")


def test_what_is_written_into_a_fed_tensor_is_the_blobs(ws):
    fed = torch.zeros(3)
    ws.feed_blob("x", fed)
    fed[1] = 5
    assert ws.fetch_blob("x").tolist() == [0, 5, 0]
    ws.run(op("TAffine", "x", "y", scale=2.0))
    assert ws.fetch_blob("y").tolist() == [0, 10, 0]


def test_the_tensor_follows_operators_that_run_in_place(ws):
    fed = torch.ones(4, dtype=torch.int64)
    ws.feed_blob("x", fed)
    reshape = op("Reshape", "x", "x shape")
    reshape.arg.add(name="shape", ints=[2, 2])
    ws.run(reshape)
    fed[0, 1] = 123
    assert ws.fetch_blob("x").tolist() == [[1, 123], [1, 1]]
    value = torch.ones(2)
    ws.feed_blob("v", value)
    ws.create_net(net("n", op("TAffine", "v", "v", scale=3.0)))
    ws.run_net("n", 2)
    assert value.tolist() == [9, 9] and ws.fetch_blob("v").tolist() == [9, 9]


def test_no_other_blob_shares_with_it(ws):
    fed = torch.arange(4.0)
    ws.feed_blob("x", fed)
    reshape = op("Reshape", "x", "y shape")
    reshape.arg.add(name="shape", ints=[2, 2])
    ws.run(net("n", reshape, op("Copy", "x", "z")))
    fed[:] = 7
    assert ws.fetch_blob("y").tolist() == [[0, 1], [2, 3]] and ws.fetch_blob("z").tolist() == [0, 1, 2, 3]


def test_a_fetched_tensor_is_the_blob_and_no_other(ws):
    ws.feed_blob("x", np.arange(3, dtype=np.float32))
    ws.values["alias"] = ws.values["x"]
    fetched = ws.blobs["x"].to_torch()
    fetched[0] = 9
    assert ws.fetch_blob("x").tolist() == [9, 1, 2] and ws.fetch_blob("alias").tolist() == [0, 1, 2]
    assert ws.blobs["x"].to_torch() is fetched
    if ws.backend.name == "torch":
        fetched.resize_(4)[3] = 1
        assert ws.fetch_blob("x").tolist() == [9, 1, 2, 1]
    ws.blobs["x"].tensor().data[1] = 4
    assert fetched[1] == 4


def test_nothing_is_copied_where_the_backend_is_torch(ws):
    if ws.backend.name != "torch":
        pytest.skip("NumPy arrays cannot be given to torch so that it can resize them")
    ws.feed_blob("x", np.arange(3, dtype=np.float32))
    before = ws.values["x"].data_ptr()
    assert ws.blobs["x"].to_torch().data_ptr() == before
    assert torch.utils.dlpack.from_dlpack(ws.blobs["x"]).data_ptr() == before


def test_dlpack_goes_in(ws):
    class Foreign:
        def __init__(self, tensor):
            self.__dlpack__, self.__dlpack_device__ = tensor.__dlpack__, tensor.__dlpack_device__

    ws.feed_blob("x", Foreign(torch.arange(3)))
    assert ws.fetch_blob("x").tolist() == [0, 1, 2]


def test_tensors_that_want_a_gradient_and_odd_dtypes(ws):
    ws.feed_blob("x", torch.ones(2, requires_grad=True))
    ws.feed_blob("b", torch.ones(2, dtype=torch.bfloat16))
    assert ws.fetch_blob("x").tolist() == [1, 1] and ws.fetch_blob("b").tolist() == [1, 1]
    ws.feed_blob("s", "text")
    with pytest.raises(BlobError, match=r"'s' holds no tensor of numbers"):
        ws.blobs["s"].to_torch()
