"""Named arrays in files of every format: they come back, damage gives one error, and nothing that is loaded runs."""

import io
import json
import pickle
import zipfile

import numpy as np
import pytest
import safetensors.numpy
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import netgrad
from caffe2.python import core, workspace
from netgrad.cli.commands import netgrad as command
from netgrad.persist.errors import StorageError
from netgrad.runtime.errors import BlobNotFound, NetError

SUFFIXES = [".safetensors", ".npz", ".minidb", ".lmdb", ".protodb"]
every_suffix = pytest.mark.parametrize("suffix", SUFFIXES)
ARRAYS = {
    "scope/w": np.arange(6, dtype=np.float32).reshape(2, 3), "half": np.array([0.5, -1], np.float16),
    "file": np.array([1.5], np.float64), "counts": np.array([2 ** 40, -1], np.int64), "flag": np.array([True, False]),
    "bytes": np.array([[255]], np.uint8), "scalar": np.array(3, np.int32), "empty": np.zeros((0, 4), np.float32),
}


def equal(found, expected):
    assert sorted(found) == sorted(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()
        found[name][...] = 0  # theirs to write into


@every_suffix
def test_parameters_come_back(tmp_path, suffix):
    netgrad.save_parameters(ARRAYS, tmp_path / f"p{suffix}")
    equal(netgrad.load_parameters(tmp_path / f"p{suffix}"), ARRAYS)


@every_suffix
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_parameters_of_workspaces(tmp_path, suffix, backend):
    ws = netgrad.Workspace(backend=backend)
    ws.feed(ARRAYS)
    ws.feed(text="no tensor")
    ws.create_blob("unfilled")
    netgrad.save_parameters(ws, tmp_path / f"all{suffix}")
    equal(netgrad.load_parameters(tmp_path / f"all{suffix}"), ARRAYS)
    netgrad.save_parameters(ws, tmp_path / f"two{suffix}", ["half", "flag"])
    other = netgrad.Workspace(backend=backend)
    other.feed(netgrad.load_parameters(tmp_path / f"two{suffix}"))
    assert other.names() == ["flag", "half"] and other["half"].tolist() == [0.5, -1]
    with pytest.raises(BlobNotFound, match="gone"):
        netgrad.save_parameters(ws, tmp_path / f"no{suffix}", ["gone"])
    assert not (tmp_path / f"no{suffix}").exists()


def test_files_are_those_of_the_libraries(tmp_path):
    netgrad.save_parameters(ARRAYS, tmp_path / "p.npz")
    with np.load(tmp_path / "p.npz", allow_pickle=False) as found:
        equal(dict(found), ARRAYS)
    np.savez_compressed(tmp_path / "q.npz", w=np.asfortranarray(ARRAYS["scope/w"]))
    equal(netgrad.load_parameters(tmp_path / "q.npz"), {"w": ARRAYS["scope/w"]})
    netgrad.save_parameters(ARRAYS, tmp_path / "p.safetensors")
    equal(safetensors.numpy.load_file(tmp_path / "p.safetensors"), ARRAYS)


def test_bfloat16_becomes_float32(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(3), "w": torch.tensor([[1.5, -2.0]], dtype=torch.bfloat16)}, tmp_path / "p.safetensors")
    assert netgrad.load_parameters(tmp_path / "p.safetensors")["w"].tolist() == [[1.5, -2.0]]


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_strings_are_for_databases(tmp_path, suffix):
    strings = {"s": np.array([b"one", b"two"], dtype=object)}
    with pytest.raises(StorageError, match="'s' is no tensor of numbers"):
        netgrad.save_parameters(strings, tmp_path / f"p{suffix}")
    netgrad.save_parameters(strings, tmp_path / "p.minidb")
    assert netgrad.load_parameters(tmp_path / "p.minidb")["s"].tolist() == [b"one", b"two"]
    for name in ("p.pkl", "p", "p.pt"):
        with pytest.raises(StorageError, match="the name must end in"):
            netgrad.save_parameters(ARRAYS, tmp_path / name)


class Bomb:
    went_off = False

    def __reduce__(self):
        return setattr, (Bomb, "went_off", True)


def test_nothing_that_is_loaded_runs(tmp_path):
    path = tmp_path / "p.npz"
    np.savez(path, x=np.array([Bomb()], dtype=object), allow_pickle=True)
    with pytest.raises(StorageError, match="Python objects"):
        netgrad.load_parameters(path)
    for suffix in SUFFIXES:
        if suffix != ".lmdb":
            (tmp_path / f"b{suffix}").write_bytes(pickle.dumps(Bomb()))
            with pytest.raises(StorageError):
                netgrad.load_parameters(tmp_path / f"b{suffix}")
    assert not Bomb.went_off


def npz(header, data=b"", magic=b"\x93NUMPY\x01\x00"):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("x.npy", magic + len(header).to_bytes(2, "little") + header + data)
    return made.getvalue()


@pytest.mark.parametrize("content", [
    npz(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 4096)}\n", b"1234"),
    npz(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}\n", b"12345"),
    npz(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}\n", b""),
    npz(b"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1099511627776, 1099511627776)}\n", b""),
    npz(b"__import__('os').system('true')\n"), npz(b"", magic=b"\x93NUMPY\x09\x00"), npz(b"", magic=b"nothing"), b"",
])
def test_archives_that_lie_are_refused(tmp_path, content):
    (tmp_path / "p.npz").write_bytes(content)
    with pytest.raises(StorageError):
        netgrad.load_parameters(tmp_path / "p.npz")


@pytest.mark.parametrize("header", [
    {"x": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}},
    {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
    {"x": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}},
])
def test_safetensors_that_lie_are_refused(tmp_path, header):
    text = json.dumps(header).encode()
    (tmp_path / "p.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"1234")
    with pytest.raises(StorageError):
        netgrad.load_parameters(tmp_path / "p.safetensors")


@every_suffix
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_give_storage_errors_only(tmp_path, suffix, data):
    path = tmp_path / f"p{len(list(tmp_path.iterdir()))}{suffix}"
    netgrad.save_parameters(ARRAYS, path)
    file = path / "data.mdb" if suffix == ".lmdb" else path
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)):]
    file.write_bytes(content)
    try:
        netgrad.load_parameters(path)
    except StorageError as error:
        assert str(path) in str(error)


def test_the_command_shows_what_is_in_files(tmp_path):
    def shown(path, status=0):
        done = CliRunner().invoke(command, ["show", str(path)])
        assert done.exit_code == status, done.output
        return done.output

    for suffix in (".npz", ".safetensors", ".minidb", ".lmdb"):
        netgrad.save_parameters({"w": ARRAYS["scope/w"], "b": ARRAYS["half"]}, tmp_path / f"p{suffix}")
        assert shown(tmp_path / f"p{suffix}") == f"{suffix[1:]}: 2 blobs\n  b: float16 (2,)\n  w: float32 (2, 3)\n"
    (tmp_path / "p.minidb").rename(tmp_path / "checkpoint")
    assert shown(tmp_path / "checkpoint").startswith("minidb: 2 blobs")


def test_the_command_shows_the_model_of_a_predictor():
    from pathlib import Path

    done = CliRunner().invoke(command, ["show", str(Path(__file__).parent / "data" / "predictor.minidb")])
    assert done.exit_code == 0
    for line in ("minidb: 5 blobs", "  hidden_w: float32 (3, 4)", "  !!META_NET_DEF: std::string", "model: 3 nets",
                 "  INPUTS_BLOB_TYPE: data"):
        assert line in done.output.splitlines()
    assert "FC" in done.output


def test_hostile_lengths_take_no_memory(tmp_path):
    """A record that says it has 2 ** 40 values is refused without room for them."""
    import tracemalloc

    from netgrad.persist import wire
    from netgrad.persist.databases import Mode, create_db
    from netgrad.proto import caffe2_pb2

    tensor = caffe2_pb2.TensorProto(dims=[1 << 40], data_type=1, float_data=[1.0], name="x",
                                    segment=caffe2_pb2.TensorProto.Segment(begin=0, end=1))
    record = caffe2_pb2.BlobProto(name="x", type="Tensor", tensor=tensor).SerializeToString()
    with create_db("minidb", str(tmp_path / "db"), Mode.new) as database:
        database.put("x#%0", record)
        database.put("y#%0", record[:-9] + wire.varint(1 << 60))
    for name in "xy":
        workspace.ResetWorkspace()
        tracemalloc.start()
        with pytest.raises(NetError, match=f"record|blob {name!r}"):
            workspace.RunOperatorOnce(core.CreateOperator("Load", [], [name], db=str(tmp_path / "db"),
                                                          db_type="minidb", absolute_path=1))
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
        tracemalloc.stop()


def test_the_module_of_a_caffe2_script_stands_for_its_current_workspace(tmp_path):
    workspace.ResetWorkspace()
    workspace.FeedBlob("w", ARRAYS["scope/w"])
    netgrad.save_parameters(workspace, tmp_path / "a.npz")
    equal(netgrad.load_parameters(tmp_path / "a.npz"), {"w": ARRAYS["scope/w"]})


@pytest.mark.parametrize("source", [None, 3, "w", [("w", 1.0)], np, np.ones(2)])
def test_what_is_no_workspace_and_no_mapping_is_refused(tmp_path, source):
    with pytest.raises(TypeError, match="expected a workspace or a mapping from name to array, found"):
        netgrad.save_parameters(source, tmp_path / "a.npz")
    assert list(tmp_path.iterdir()) == []
