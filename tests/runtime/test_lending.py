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


VIEWS = {"numpy": lambda t: t.numpy(), "dlpack": torch.from_dlpack, "view": lambda t: t[:], "numpy of dlpack":
         lambda t: np.from_dlpack(t)}


@pytest.mark.parametrize("view", VIEWS)
def test_views_of_the_tensor_follow_operators_in_place(ws, view):
    for feed in (lambda: torch.ones(1000), lambda: np.ones(1000, np.float32)):
        ws.feed_blob("x", feed())
        tensor = ws.blobs["x"].to_torch()
        seen = VIEWS[view](tensor)
        for _ in range(3):
            ws.run(op("TAffine", "x", "x", scale=2.0))
            other = [np.full(1000, 5, np.float32) for _ in range(4)]
        del other
        assert np.asarray(seen).tolist() == tensor.tolist() == ws.fetch_blob("x").tolist() == [8.0] * 1000


@pytest.mark.parametrize("view", ["numpy", "dlpack", "numpy of dlpack"])
def test_memory_that_a_user_sees_is_not_freed_when_the_blob_gets_another_shape(ws, view):
    ws.feed_blob("x", torch.ones(1000))
    tensor = ws.blobs["x"].to_torch()
    seen = VIEWS[view](tensor)
    ws.feed_blob("more", np.zeros(1000, np.float32))
    for _ in range(2):
        ws.run(op("Append", "x more", "x"))
        other = [np.full(1000, 5, np.float32) for _ in range(4)]
    del other
    assert tensor.shape == (3000,) and np.asarray(seen).tolist() == [1.0] * 1000


def test_results_go_into_tensors_of_every_layout(ws):
    rows = torch.arange(6.0).reshape(2, 3)
    for given in (rows.t(), rows[:, 1], rows[:, :1].expand(2, 3), torch.zeros(0)):
        before = given.tolist()
        ws.feed_blob("x", given)
        ws.run(op("TAffine", "x", "x", scale=2.0))
        expected = (2 * np.array(before, np.float32)).tolist()
        assert ws.fetch_blob("x").tolist() == given.tolist() == expected
    with torch.inference_mode():
        given = torch.ones(2)
    ws.feed_blob("x", given)
    ws.run(op("TAffine", "x", "x", scale=2.0))
    assert given.tolist() == [2, 2]


def test_what_keeps_values_keeps_them_as_they_were(ws):
    given = torch.ones(2)
    ws.feed_blob("x", given)
    for each in (op("CreateBlobsQueue", "", "queue", capacity=2, num_blobs=1), op("EnqueueBlobs", "queue x", "x")):
        ws.run(each)
    given.fill_(9)
    ws.run(op("DequeueBlobs", "queue", "y"))
    assert ws.fetch_blob("y").tolist() == [1, 1]


def test_another_librarys_array_is_seen_and_never_written(ws):
    theirs = np.ones(4, np.float32)

    class Foreign:
        def __dlpack__(self, **options):
            return theirs.__dlpack__(**options)

        def __dlpack_device__(self):
            return theirs.__dlpack_device__()

    ws.feed_blob("x", Foreign())
    ws.run(net("n", op("TAffine", "x", "y", scale=1.0), op("TAffine", "x", "x", scale=2.0)))
    assert theirs.tolist() == [1] * 4 and ws.fetch_blob("x").tolist() == [2] * 4
