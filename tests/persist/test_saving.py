"""Save, Load, Checkpoint, CreateDB, DBExists, TensorProtosDBInput: what Caffe2's do, and one clear error otherwise."""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from caffe2.python import core, workspace
from netgrad.persist.databases import Mode, create_db
from netgrad.persist.errors import StorageError
from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import BlobError, NetError
from netgrad.runtime.tensors import tensor_of

KINDS = ["minidb", "lmdb", "protodb"]
every_kind = pytest.mark.parametrize("kind", KINDS)


def run(type, inputs, outputs, **arguments):
    if "db" in arguments or "dbs" in arguments:
        own = {} if type == "CreateDB" else {"absolute_path": 1}
        arguments = {"db_type": "minidb", **own, **arguments}
    return workspace.RunOperatorOnce(core.CreateOperator(type, inputs, outputs, **arguments))


def keys(path):
    with create_db("minidb", str(path)) as database:
        cursor = database.new_cursor()
        while cursor.valid():
            yield cursor.key().decode()
            cursor.next()


@pytest.fixture
def saved(ws, tmp_path):
    """A database of x = [0, 1, 2], y = [3, 4] and the string s, and nothing in the workspace."""
    workspace.FeedBlob("x", np.arange(3, dtype=np.float32))
    workspace.FeedBlob("y", np.array([3, 4], np.int64))
    workspace.FeedBlob("s", "text")
    run("Save", ["x", "y", "s"], [], db=str(tmp_path / "db"))
    workspace.ResetWorkspace()
    return str(tmp_path / "db")


@every_kind
def test_what_is_saved_is_loaded(ws, tmp_path, kind):
    workspace.FeedBlob("a/x", np.arange(6, dtype=np.float32).reshape(2, 3))
    workspace.FeedBlob("y", np.array([b"one", b""], dtype=object))
    run("Save", ["a/x", "y"], [], db=str(tmp_path / "db"), db_type=kind)
    workspace.ResetWorkspace()
    run("Load", [], ["y", "a/x"], db=str(tmp_path / "db"), db_type=kind)
    assert workspace.FetchBlob("a/x").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert workspace.FetchBlob("y").tolist() == [b"one", b""]
    run("Load", [], [], db=str(tmp_path / "db"), db_type=kind, load_all=1, strip_prefix="a/", add_prefix="b/")
    assert workspace.Blobs() == ["a/x", "b/x", "b/y", "y"]


def test_names_in_the_database(ws, tmp_path):
    for name in ("p/x", "q/p/y", "z"):
        workspace.FeedBlob(name, np.zeros(5, np.float32))
    run("Save", ["p/x", "q/p/y", "z"], [], db=str(tmp_path / "stripped"), strip_prefix="p/", chunk_size=2)
    assert list(keys(tmp_path / "stripped")) == [f"{name}#%{k}" for name in "xyz" for k in range(3)]
    run("Save", ["p/x", "z"], [], db=str(tmp_path / "named"), blob_name_overrides=["one", "two"])
    assert list(keys(tmp_path / "named")) == ["one#%0", "two#%0"]


def test_a_name_that_looks_like_a_piece_is_kept(ws, tmp_path):
    workspace.FeedBlob("odd#%name", np.zeros(5, np.float32))
    run("Save", ["odd#%name"], [], db=str(tmp_path / "db"), chunk_size=2)
    workspace.ResetWorkspace()
    run("Load", [], [], db=str(tmp_path / "db"), load_all=1)
    assert workspace.Blobs() == ["odd#%name"]


def test_paths_begin_at_the_workspaces_folder(ws, tmp_path):
    workspace.ResetWorkspace(str(tmp_path / "root"))
    workspace.FeedBlob("x", np.zeros(1, np.float32))
    run("Save", ["x"], [], db="db", absolute_path=0)
    assert os.path.exists(tmp_path / "root" / "db")
    run("DBExists", [], ["there"], db_name="db", db_type="minidb")
    run("DBExists", [], ["not there"], db_name="other", db_type="minidb")
    assert workspace.FetchBlob("there").item() is True and workspace.FetchBlob("not there").item() is False
    assert workspace.FetchBlob("there").shape == ()


def test_blobs_that_are_there_in_part(saved):
    workspace.FeedBlob("z", np.ones(1, np.float32))
    with pytest.raises(RuntimeError, match="of 2 blobs, 1 are there, and not 'z'"):
        run("Load", [], ["x", "z"], db=saved)
    assert not workspace.HasBlob("x")
    run("Load", [], ["x", "z"], db=saved, allow_incomplete=1)
    assert workspace.FetchBlob("x").tolist() == [0, 1, 2] and workspace.FetchBlob("z").tolist() == [1]
    run("Load", [], ["other"], db=saved, source_blob_names=["y"])
    assert workspace.FetchBlob("other").tolist() == [3, 4]
    with pytest.raises(RuntimeError, match="not 'z'"):
        run("Load", [], ["z"], db=saved, load_all=1)


def test_several_databases(saved, tmp_path):
    workspace.FeedBlob("w", np.zeros(1, np.float32))
    run("Save", ["w"], [], db=str(tmp_path / "more"))
    run("Load", [], ["w", "y"], dbs=[saved, str(tmp_path / "more")])
    assert workspace.FetchBlob("y").tolist() == [3, 4]
    with pytest.raises(RuntimeError, match="there twice"):
        run("Load", [], ["x"], dbs=[saved, saved])
    run("Save", ["y"], [], db=str(tmp_path / "again"))
    with pytest.raises(RuntimeError, match="another of the databases holds a blob 'y' too"):
        run("Load", [], [], dbs=[saved, str(tmp_path / "again")], load_all=1)


def test_readers_are_loaded_from_again_and_again(saved):
    workspace.RunOperatorOnce(core.CreateOperator("CreateDB", [], ["reader"], db=saved, db_type="minidb"))
    for _ in range(2):
        run("Load", ["reader"], ["y"])
        run("Load", ["reader"], ["s"])
        run("Load", ["reader"], ["x", "y"])
    run("Load", ["reader"], [], load_all=1)
    assert workspace.FetchBlob("x").tolist() == [0, 1, 2] and workspace.FetchBlob("s") == b"text"
    copy = workspace.SerializeBlob("reader")
    workspace.DeserializeBlob("copy", copy)
    run("Load", ["copy"], ["z"], source_blob_names=["x"])
    assert workspace.FetchBlob("z").tolist() == [0, 1, 2]


@pytest.mark.parametrize(("type", "inputs", "outputs", "arguments", "reason"), [
    ("Save", ["x"], [], {"db": ""}, "say where the database is"),
    ("Save", ["x"], [], {"db": "d", "db_type": ""}, "of which kind"),
    ("Save", ["x"], [], {"db": "d", "db_type": "bogus"}, "'bogus' cannot be opened here"),
    ("Save", ["x", "x"], [], {"db": "d"}, "inputs: 'x' is there twice"),
    ("Save", ["x", "y"], [], {"db": "d", "blob_name_overrides": ["a", "a"]}, "saved blobs: 'a' is there twice"),
    ("Save", ["x", "y"], [], {"db": "d", "blob_name_overrides": ["a"]}, "1 blob_name_overrides for 2 inputs"),
    ("Save", ["x"], [], {"db": "d", "blob_name_overrides": ["a"], "strip_prefix": "x"}, "not both"),
    ("Save", ["x"], [], {"db": "d", "chunk_size": -2}, "chunk_size is -2"),
    ("Save", ["gone"], [], {"db": "d"}, "no blob 'gone'"),
    ("Save", ["unfilled"], [], {"db": "d"}, "'unfilled' was never filled"),
    ("Save", ["queue"], [], {"db": "d"}, "cannot be saved"),
    ("Save", ["x"], [], {"db": "no/d"}, "No such file or directory"),
    ("Save", ["counter"], [], {"db": "d", "db_type": "protodb"}, "holds tensors alone"),
    ("Load", [], ["x"], {"db": "no"}, "No such file or directory"),
    ("Load", [], ["x"], {"db": ""}, "say where the database is"),
    ("Load", [], ["x", "x"], {"db": "d"}, "outputs: 'x' is there twice"),
    ("Load", [], ["x", "y"], {"db": "d", "source_blob_names": ["a", "a"]}, "'a' is there twice"),
    ("Load", [], ["x"], {"db": "d", "source_blob_names": ["a", "b"]}, "2 source_blob_names for 1 outputs"),
    ("Load", ["x"], ["y"], {}, "'x' is no reader"),
    ("Load", ["gone"], ["y"], {}, "'gone' is no reader"),
    ("CreateDB", [], ["r"], {"db": "no"}, "No such file or directory"),
    ("TensorProtosDBInput", ["x"], ["y"], {}, "'x' is no reader"),
    ("Checkpoint", ["x"], [], {"db": "d"}, "an int64 is expected"),
    ("Checkpoint", ["gone"], [], {"db": "d"}, "no blob 'gone'"),
    ("Checkpoint", ["n"], [], {"db": "d", "every": 0}, "every is 0"),
    ("Checkpoint", ["n"], [], {"db": "d%s"}, "may have one %d"),
    ("Checkpoint", ["n"], [], {"db": "d%d%d"}, "may have one %d"),
])
def test_what_makes_no_sense_is_refused_and_leaves_no_file(ws, tmp_path, monkeypatch, type, inputs, outputs, arguments,
                                                           reason):
    monkeypatch.chdir(tmp_path)
    for name in "xy":
        workspace.FeedBlob(name, np.zeros(1, np.float32))
    workspace.FeedBlob("n", np.zeros(1, np.int64))
    workspace.CreateBlob("unfilled")
    run("CreateBlobsQueue", [], ["queue"])
    run("CreateCounter", [], ["counter"])
    with pytest.raises(NetError, match=reason):
        run(type, inputs, outputs, **arguments)
    assert os.listdir(tmp_path) == []


def test_opaque_blobs_cannot_be_serialized(ws):
    workspace.CreateBlob("unfilled")
    with pytest.raises(BlobError, match="never filled"):
        workspace.SerializeBlob("unfilled")
    with pytest.raises(StorageError, match="serialized blob 'x': it is no blob"):
        workspace.DeserializeBlob("x", b"")


@pytest.mark.parametrize("type", ["Checkpoint", "Snapshot"])
def test_checkpoints_are_made_every_so_often(ws, tmp_path, type):
    net = core.Net("train")
    net.Iter([], "iteration")
    net.ConstantFill([], "value", shape=[2], value=3.0)
    getattr(net, type)(["iteration", "value"], [], db=str(tmp_path / "at_%05d%%"), db_type="minidb", every=10,
                       absolute_path=True)
    workspace.CreateNet(net)
    for _ in range(25):
        workspace.RunNet(net)
    assert sorted(os.listdir(tmp_path)) == ["at_00000%", "at_00010%", "at_00020%"] or \
        sorted(os.listdir(tmp_path)) == ["at_00010%", "at_00020%"]
    workspace.ResetWorkspace()
    run("Load", [], ["iteration"], db=str(tmp_path / "at_00020%"))
    assert workspace.FetchBlob("iteration").tolist() == [20]


def records(path, rows):
    with create_db("minidb", str(path), Mode.new) as database:
        for k, row in enumerate(rows):
            database.put(f"{k:04}", caffe2_pb2.TensorProtos(protos=map(tensor_of, row)).SerializeToString())


@pytest.mark.parametrize("no_prefetch", [0, 1])
def test_batches_follow_one_another(ws, tmp_path, no_prefetch):
    records(tmp_path / "db", [(np.full(2, k, np.float32), np.array([b"%d" % k], object)) for k in range(5)])
    run("CreateDB", [], ["reader"], db=str(tmp_path / "db"))
    net = core.Net("input")
    net.TensorProtosDBInput("reader", ["x", "name"], batch_size=2, no_prefetch=no_prefetch)
    workspace.CreateNet(net)
    for expected in ([0, 1], [2, 3], [4, 0], [1, 2]):
        workspace.RunNet(net)
        assert workspace.FetchBlob("x").tolist() == [[k, k] for k in expected]
        assert workspace.FetchBlob("name").tolist() == [[b"%d" % k] for k in expected]


def test_single_records_have_no_batch_dimension(ws, tmp_path):
    records(tmp_path / "db", [(np.array(7, np.int32),), (np.zeros((2, 3), np.float32),)])
    run("CreateDB", [], ["reader"], db=str(tmp_path / "db"))
    for shape in ((), (2, 3)):
        run("TensorProtosDBInput", ["reader"], ["x"])
        assert workspace.FetchBlob("x").shape == shape
    with pytest.raises(RuntimeError, match="makes no batch"):
        run("TensorProtosDBInput", ["reader"], ["x"], batch_size=2)
    with pytest.raises(RuntimeError, match="it has 1 tensors, and the operator 2 outputs"):
        run("TensorProtosDBInput", ["reader"], ["x", "y"])


@every_kind
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_are_loaded_whole_or_refused(ws, tmp_path, kind, data):
    """Bits that flip within a tensor's values cannot be told; everything else is an error, and binds nothing."""
    path = tmp_path / f"db{len(os.listdir(tmp_path))}"
    workspace.ResetWorkspace()
    for name in "xyz":
        workspace.FeedBlob(name, np.arange(300, dtype=np.int32))
    run("Save", ["x", "y", "z"], [], db=str(path), db_type=kind, chunk_size=100)
    file = path / "data.mdb" if kind == "lmdb" else path
    content = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[place:]
    for _ in range(data.draw(st.integers(0, 3)) if content else 0):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    file.write_bytes(content)
    workspace.ResetWorkspace()
    try:
        run("Load", [], ["x", "y", "z"], db=str(path), db_type=kind)
    except NetError as error:
        assert "Load" in str(error) and workspace.Blobs() == []
    else:
        assert all(workspace.FetchBlob(name).size == 300 for name in "xyz")


@every_kind
def test_a_full_disk_leaves_what_was_there(ws, tmp_path, kind):
    resource = pytest.importorskip("resource")
    path = str(tmp_path / "db")
    workspace.FeedBlob("x", np.arange(10, dtype=np.int32))
    run("Save", ["x"], [], db=path, db_type=kind)
    workspace.FeedBlob("x", np.zeros(1 << 21, np.float64))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))  # as full as makes no difference
    try:
        with pytest.raises(NetError, match="db"):
            run("Save", ["x"], [], db=path, db_type=kind)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path) == ["db"]
    run("Load", [], ["x"], db=path, db_type=kind)
    assert workspace.FetchBlob("x").tolist() == list(range(10))


def test_tensors_of_a_gpu_are_loaded_where_there_is_none(ws, tmp_path):
    tensor = tensor_of(np.arange(3, dtype=np.float32), "x")
    tensor.device_detail.device_type = caffe2_pb2.CUDA
    record = caffe2_pb2.BlobProto(name="x", type="Tensor", tensor=tensor).SerializeToString()
    with create_db("minidb", str(tmp_path / "db"), Mode.new) as database:
        database.put("x#%0", record)
    for keep_device in (0, 1):
        run("Load", [], ["x"], db=str(tmp_path / "db"), keep_device=keep_device)
        assert workspace.FetchBlob("x").tolist() == [0, 1, 2]
    workspace.DeserializeBlob("y", record)
    assert workspace.FetchBlob("y").tolist() == [0, 1, 2]
