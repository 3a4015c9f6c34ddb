"""Blobs go in and come out unchanged, shared with nobody; nets are created, run, replaced."""

from __future__ import annotations

import logging
import threading

import numpy as np
import pytest
from runtime_nets import net, op

from netgrad.proto import caffe2_pb2
from netgrad.runtime import backends, current
from netgrad.runtime.errors import BlobError, BlobNotFound, NetError, NetExists, NetNotFound
from netgrad.runtime.tensors import array_of, tensor_of
from netgrad.runtime.workspace import Workspace

DTYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (3, 2)])
def test_every_dtype_and_shape_comes_out_as_it_went_in(ws, dtype, shape):
    value = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    ws.feed_blob("x", value)
    fetched = ws.fetch_blob("x")
    assert type(fetched) is np.ndarray and fetched.dtype == value.dtype and fetched.shape == shape
    np.testing.assert_array_equal(fetched, value)


@pytest.mark.parametrize("layout", [lambda a: a.T, lambda a: a[::-1], lambda a: a[:, ::2], lambda a: a.astype(">f4")])
def test_arrays_of_any_memory_layout_can_be_fed(ws, layout):
    value = layout(np.arange(12, dtype=np.float32).reshape(3, 4))
    ws.feed_blob("x", value)
    np.testing.assert_array_equal(ws.fetch_blob("x"), value)


def test_a_blob_shares_memory_neither_with_what_was_fed_nor_with_what_was_fetched(ws):
    fed = np.zeros(3, np.float32)
    ws.feed_blob("x", fed)
    fed[:] = 1
    fetched = ws.fetch_blob("x")
    fetched[:] = 2
    np.testing.assert_array_equal(ws.fetch_blob("x"), np.zeros(3))


def test_strings_become_arrays_of_bytes_objects(ws):
    for value in (["a", "né"], np.array(["a", "né"]), np.array([b"a", "né".encode()], dtype=object)):
        ws.feed_blob("s", value)
        fetched = ws.fetch_blob("s")
        assert type(fetched) is np.ndarray and fetched.dtype == object
        assert fetched.tolist() == [b"a", "né".encode()]
    ws.feed_blob("one", "abc")
    assert ws.fetch_blob("one") == b"abc"


def test_python_numbers_and_lists_are_float32_and_int64(ws):
    for value, dtype in ((1.5, np.float32), (3, np.int64), (True, np.bool_), ([1.0, 2.0], np.float32),
                         (np.float64(2), np.float64)):
        ws.feed_blob("x", value)
        assert ws.fetch_blob("x").dtype == dtype
        np.testing.assert_array_equal(ws.fetch_blob("x"), value)


@pytest.mark.parametrize("value", [np.array([1j]), np.array([object()]), np.array(["2020"], "M8[Y]"), {}, None,
                                   [[1], [1, 2]], np.zeros(2, np.longdouble)])
def test_what_no_tensor_can_hold_is_refused_and_the_old_value_stays(ws, value):
    ws.feed_blob("x", np.ones(2))
    with pytest.raises(BlobError):
        ws.feed_blob("x", value)
    np.testing.assert_array_equal(ws.fetch_blob("x"), [1, 1])


def test_torch_tensors_can_be_fed_on_every_backend(ws):
    torch = pytest.importorskip("torch")
    tensor = torch.ones(2, 2, requires_grad=True)
    ws.feed_blob("x", tensor)
    np.testing.assert_array_equal(ws.fetch_blob("x"), np.ones((2, 2), np.float32))
    ws.feed_blob("b", torch.tensor([1.5], dtype=torch.bfloat16))
    assert ws.fetch_blob("b").tolist() == [1.5]


def test_tensor_protos_can_be_fed_and_survive_the_round_trip(ws):
    for value in [np.arange(3, dtype=d) for d in DTYPES if d not in ("uint32", "uint64", "bool")] + \
            [np.array([True, False]), np.array([b"\xff", b""], dtype=object), np.array(2.5, np.float32)]:
        ws.feed_blob("x", tensor_of(value))
        np.testing.assert_array_equal(ws.fetch_blob("x"), value)
        again = Workspace(backend=ws.backend.name)
        again.deserialize_blob("y", ws.serialize_blob("x"))
        assert again.fetch_blob("y").dtype == value.dtype
        np.testing.assert_array_equal(again.fetch_blob("y"), value)


def test_a_tensor_proto_with_too_few_values_is_refused():
    with pytest.raises(BlobError, match=r"shape \(3,\), but holds 2 values"):
        array_of(caffe2_pb2.TensorProto(dims=[3], data_type=caffe2_pb2.TensorProto.FLOAT, float_data=[1, 2]))


def test_a_missing_blob_is_named_with_those_that_are_close(ws):
    ws.feed_blob("hidden_1", np.zeros(1))
    with pytest.raises(BlobNotFound, match=r"no blob 'hiden_1'.*'hidden_1'"):
        ws.fetch_blob("hiden_1")
    assert issubclass(BlobNotFound, RuntimeError) and issubclass(BlobNotFound, KeyError)


def test_a_created_blob_has_a_name_and_no_value(ws):
    ws.create_blob("x")
    assert ws.has_blob("x") and ws.names() == ["x"]
    assert b"uninitialized" in ws.fetch_blob("x")
    assert ws.remove_blob("x") and not ws.has_blob("x") and not ws.remove_blob("x")


def test_a_net_of_the_same_name_is_replaced_only_when_asked(ws):
    ws.feed_blob("x", np.ones(2))
    ws.create_net(net("n", op("TAffine", "x", "y")))
    with pytest.raises(NetExists, match=r"'n'.*overwrite=True"):
        ws.create_net(net("n", op("TAffine", "x", "y", scale=2.0)))
    ws.create_net(net("n", op("TAffine", "x", "y", scale=2.0)), overwrite=True)
    ws.run_net("n")
    np.testing.assert_array_equal(ws.fetch_blob("y"), [2, 2])


def test_an_unknown_net_is_an_error_that_lists_those_there_are(ws):
    ws.create_net(net("train"))
    with pytest.raises(NetNotFound, match=r"'trian'.*'train'"):
        ws.run_net("trian")


def test_a_net_edited_after_create_net_is_noticed_and_the_new_one_runs(ws, caplog):
    ws.feed_blob("x", np.ones(2))
    definition = net("n", op("TAffine", "x", "y"))
    ws.create_net(definition)
    definition.op.add().CopyFrom(op("TAffine", "y", "z", scale=3.0))
    with caplog.at_level(logging.WARNING, "netgrad"):
        ws.run_net(definition)
        ws.run_net(definition)
    assert [r.message for r in caplog.records] == ["net 'n' was changed after CreateNet; the new one runs"]
    np.testing.assert_array_equal(ws.fetch_blob("z"), [3, 3])


def test_a_created_net_does_not_change_with_the_message_it_came_from(ws):
    ws.feed_blob("x", np.ones(2))
    definition = net("n", op("TAffine", "x", "y"))
    ws.create_net(definition)
    definition.op[0].output[0] = "elsewhere"
    ws.run_net("n")
    assert ws.has_blob("y") and not ws.has_blob("elsewhere")


def test_a_child_workspace_sees_and_writes_its_parents_blobs_and_keeps_its_own(ws):
    ws.feed_blob("x", np.ones(2))
    child = Workspace(ws)
    child.run(op("TAffine", "x", "y", scale=4.0))
    child.run(op("TAffine", "x", "x", scale=5.0))
    np.testing.assert_array_equal(child.fetch_blob("y"), [4, 4])
    np.testing.assert_array_equal(ws.fetch_blob("x"), [5, 5])
    assert not ws.has_blob("y") and child.names() == ["x", "y"] and child.local_names() == ["y"]


def test_workspaces_are_switched_by_name_and_reset_alone():
    before = current.CurrentWorkspace()
    try:
        with pytest.raises(NetError, match=r"no workspace 'other'"):
            current.SwitchWorkspace("other")
        current.SwitchWorkspace("other", True)
        current.FeedBlob("x", np.ones(1))
        assert current.Blobs() == ["x"] and Workspace.current is Workspace.by_name["other"]
        current.SwitchWorkspace(before)
        assert "other" in current.Workspaces() and not current.HasBlob("x")
        current.SwitchWorkspace("other")
        current.ResetWorkspace()
        assert current.Blobs() == []
    finally:
        current.SwitchWorkspace(before)
        Workspace.by_name.pop("other", None)


def test_the_blobs_mapping_feeds_fetches_and_tells_what_is_there():
    current.ResetWorkspace()
    current.blobs["x"] = np.ones(2)
    assert "x" in current.blobs and list(current.blobs) == ["x"] and len(current.blobs) == 1
    np.testing.assert_array_equal(current.blobs["x"], [1, 1])
    del current.blobs["x"]
    with pytest.raises(KeyError):
        current.blobs["x"]


def test_blob_names_may_be_references():
    from netgrad.graph.blob import BlobReference

    current.ResetWorkspace()
    current.FeedBlob(BlobReference("x"), np.ones(1))
    assert current.HasBlob(BlobReference("x")) and current.FetchBlobs([BlobReference("x")])[0] == 1


def test_the_current_workspace_is_the_same_in_all_threads():
    found = []
    thread = threading.Thread(target=lambda: found.append(Workspace.current))
    thread.start()
    thread.join()
    assert found == [Workspace.current]


def test_values_are_arrays_of_the_workspaces_backend(ws):
    ws.feed_blob("x", np.ones(2))
    ws.run(op("TAffine", "x", "y"))
    assert {type(ws.values[n]) for n in "xy"} == {backends.get(ws.backend.name).array_type}


def test_a_workspace_inside_removes_its_own_blobs_and_not_its_parents(ws):
    ws.feed_blob("x", [1.0])
    inside = Workspace(ws)
    inside.values.bind_here("y", ws.values["x"])
    assert inside.remove_blob("y") and not inside.remove_blob("y") and not inside.remove_blob("x")
    assert ws.has_blob("x") and inside.has_blob("x") and not inside.has_blob("y")
