"""Blobs that UnsafeCoalesce laid into one storage: what is written into one of them is seen in the others."""

from __future__ import annotations

import numpy as np
import pytest
from runtime_nets import net, op

A, B = np.arange(4, dtype=np.float32).reshape(2, 2), np.array([9.0], np.float32)


@pytest.fixture
def joined(ws):
    ws.feed_blob("a", A)
    ws.feed_blob("b", B)
    ws.run(op("UnsafeCoalesce", "a b", "a b all"))
    return ws


def values(ws, *names: str) -> list:
    return [ws.fetch_blob(name).tolist() for name in names]


def test_they_hold_what_they_held(joined):
    assert values(joined, "a", "b", "all") == [A.tolist(), [9], [0, 1, 2, 3, 9]]


def test_what_is_fed_to_the_whole_is_seen_in_the_parts_and_the_other_way_round(joined):
    joined.feed_blob("all", np.arange(5, 10, dtype=np.float32))
    assert values(joined, "a", "b") == [[[5, 6], [7, 8]], [9]]
    joined.feed_blob("b", np.array([-1], np.float32))
    assert values(joined, "all") == [[5, 6, 7, 8, -1]]


@pytest.mark.parametrize("created", [False, True])
def test_operators_in_place_on_the_whole_and_on_parts(joined, created):
    steps = net("n", op("TAffine", "all", "all", scale=2.0), op("TAffine", "a", "a", scale=10.0),
                op("Copy", "b", "c"), op("TAffine", "b", "b", scale=-1.0))
    if created:
        joined.create_net(steps)
        joined.run_net("n")
    else:
        joined.run(steps)
    assert values(joined, "a", "b", "all", "c") == [[[0, 20], [40, 60]], [-18], [0, 20, 40, 60, -18], [18]]


def test_all_in_one_net_run_twice(ws):
    """As a training loop does: gradients made anew, laid together, changed as one."""
    ws.feed_blob("x", A)
    ws.feed_blob("y", B)
    ws.create_net(net("n", op("TAffine", "x", "a", scale=1.0), op("TAffine", "y", "b", scale=1.0),
                      op("UnsafeCoalesce", "a b", "a b all"), op("TAffine", "all", "all", scale=3.0),
                      op("TAffine", "a", "z", scale=1.0)))
    for _ in range(2):
        ws.run_net("n")
        assert values(ws, "z", "b", "all", "x") == [[[0, 3], [6, 9]], [27], [0, 3, 6, 9, 27], A.tolist()]


def test_other_blobs_do_not_share_with_them(joined):
    reshape = op("Reshape", "all", "flat shape")
    reshape.arg.add(name="shape", ints=[5])
    joined.run(net("n", reshape, op("Copy", "a", "copy")))
    joined.feed_blob("all", np.zeros(5, np.float32))
    assert values(joined, "flat", "copy") == [[0, 1, 2, 3, 9], A.tolist()]


def test_a_value_of_another_shape_or_dtype_takes_the_blob_out(joined):
    joined.feed_blob("a", np.array([7], np.float32))
    joined.feed_blob("b", np.array([7.5]))
    assert values(joined, "a", "b", "all") == [[7], [7.5], [0, 1, 2, 3, 9]]


def test_fetched_arrays_are_copies_and_written_tensors_are_not(joined):
    joined.fetch_blob("all")[:] = 0
    assert values(joined, "a") == [A.tolist()]
    joined.blobs["all"].tensor().data[:] = 1
    assert values(joined, "a", "b") == [[[1, 1], [1, 1]], [1]]
