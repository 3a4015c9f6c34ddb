"""Sums over GPUs: every blob becomes the sum of all, whatever the order."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2.python import core, muji, workspace
from netgrad.parallel import allreduce


@pytest.mark.parametrize("sum_up, count", [
    (muji.Allreduce2, 2), (muji.Allreduce4, 4), (muji.Allreduce4Group2, 4), (muji.Allreduce8, 8),
    (muji.AllreduceFallback, 3), (muji.AllreduceFallback, 1), (muji.Allreduce, 5),
])
@pytest.mark.parametrize("affix", ["_reduced", ""])
def test_each_receives_the_sum(sum_up, count, affix):
    net = core.Net("sum")
    blobs = [net.ConstantFill([], f"b{k}", shape=[2, 3], value=float(k + 1)) for k in range(count)]
    found = sum_up(net, [str(blob) for blob in blobs], affix, list(range(count)))
    assert [str(blob) for blob in found] == [f"b{k}{affix}" for k in range(count)]
    workspace.RunNetOnce(net)
    for blob in found:
        np.testing.assert_array_equal(workspace.FetchBlob(blob), np.full((2, 3), count * (count + 1) / 2))
    last = {op.output[0]: op.device_option.device_id for op in net.Proto().op if op.type != "ConstantFill"}
    assert all(last.get(f"b{k}{affix}", k) == k for k in range(count))


@pytest.mark.parametrize("count, reach, expected", [
    (2, np.ones((2, 2), bool), ["Add", "Copy"]),
    (4, np.ones((4, 4), bool), ["Add", "Add", "Add", "Copy", "Copy", "Copy"]),
    (4, np.kron(np.eye(2), np.ones((2, 2))).astype(bool), ["Add", "Add", "Copy", "Add", "Copy", "Copy", "Copy"]),
    (2, np.array([]), ["Copy", "Copy", "Add", "Copy"]),
])
def test_the_order_follows_who_reaches_whom(monkeypatch, count, reach, expected):
    monkeypatch.setattr(allreduce, "GetGpuPeerAccessPattern", lambda: reach)
    net = core.Net("sum")
    muji.Allreduce(net, [f"b{k}" for k in range(count)])
    assert [op.type for op in net.Proto().op] == expected


def test_numbers_that_differ_are_refused():
    net = core.Net("sum")
    with pytest.raises(RuntimeError, match="2 blobs on 3 GPUs"):
        muji.Allreduce(net, ["a", "b"], gpu_indices=[0, 1, 2])
    with pytest.raises(RuntimeError, match="this order of sums is for 4"):
        muji.Allreduce4(net, ["a", "b"], "_r", [0, 1])
    assert not net.Proto().op
