"""Files: what is read, what is refused and in which words, and that a write is whole or nothing."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from netgrad.proto import (
    FormatError,
    caffe2_pb2,
    files,
    metanet_pb2,
    read_any,
    read_message,
    read_net,
    recognition,
    replace_file,
    wire,
    write_net,
)
from netgrad.proto.caffe2_pb2 import Argument, NetDef, OperatorDef, PlanDef
from netgrad.proto.metanet_pb2 import MetaNetDef

DATA = Path(__file__).parent / "data"
PROGRAMS = {"every_argument": NetDef, "backward": NetDef, "plan": PlanDef, "model": MetaNetDef}


@pytest.fixture
def net():
    return NetDef(name="net", op=[OperatorDef(type="Relu", input=["x"], output=["y"], arg=[Argument(name="a", f=0.1)])])


def refusal(function, *arguments, **options):
    """The message of the FormatError that a call raises: one line, as is."""
    with pytest.raises(FormatError) as caught:
        function(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("suffix", [".pb", ".pbtxt", ".PBTXT", ".prototxt", ".txt", "", ".model"])
def test_round_trip(net, tmp_path, suffix):
    path = tmp_path / f"net{suffix}"
    write_net(net, path)
    assert read_net(path) == net
    assert read_net(str(path)) == net
    assert (b"name: " in path.read_bytes()) == (suffix.lower() in {".pbtxt", ".prototxt", ".txt"})


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("suffix", [".pb", ".pbtxt", ".model"])
def test_text_overrules_the_suffix(net, tmp_path, suffix, text):
    path = tmp_path / f"net{suffix}"
    write_net(net, path, text=text)
    assert read_net(path, text=text) == net


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("suffix", [".pb", ".pbtxt"])
def test_files_of_caffe2(name, suffix, tmp_path):
    message = read_net(DATA / (name + suffix), PROGRAMS[name])
    assert read_any(DATA / (name + suffix)).SerializeToString() == message.SerializeToString()
    write_net(message, tmp_path / "copy.pb")
    assert (tmp_path / "copy.pb").read_bytes() == (DATA / f"{name}.pb").read_bytes()


@pytest.mark.parametrize("suffix", [".pb", ".pbtxt"])
@pytest.mark.parametrize("found", [*PROGRAMS, "tensors", "blob"])
@pytest.mark.parametrize("expected", [NetDef, PlanDef, MetaNetDef], ids=lambda cls: cls.DESCRIPTOR.name)
def test_another_type_is_named(expected, found, suffix):
    if PROGRAMS.get(found) is expected:
        return
    name = {"tensors": "TensorProtos", "blob": "BlobProto"}.get(found) or PROGRAMS[found].DESCRIPTOR.name
    message = refusal(read_net, DATA / (found + suffix), expected)
    assert f"{found}{suffix}: expected a {expected.DESCRIPTOR.name} in " in message
    assert f"found a {name}; read it as one (cls={name})" in message


def test_a_net_of_a_later_version_is_read(net, tmp_path):
    path = tmp_path / "later.pb"
    path.write_bytes(net.SerializeToString() + b"\xfa\x01\x03new")
    assert read_net(path).op == net.op
    assert read_any(path) == read_net(path)


def test_an_operator_without_a_type_is_read(tmp_path):
    write_net(NetDef(op=[OperatorDef(output=["y"])]), tmp_path / "net.pb")
    assert read_net(tmp_path / "net.pb").op[0].output == ["y"]


@pytest.mark.parametrize(
    "content, found",
    [
        (b"", "an empty file; write it again"),
        (b"PK\x03\x04rest", "a zip archive"),
        (b"\x80\x02}q\x00.", "a pickle"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        (b'name: "net"\n', "text; read it as text (text=True"),
        (b"\x00\x01\x02", "3 bytes that make none"),
        (b"\x0a\x02\xff\xfe\x12\x05\x22\x03Sum", "UTF-8"),
        (b"\x12\xff\xff\xff\xff\x0f", "6 bytes that make none"),
    ],
)
def test_what_is_not_a_net(tmp_path, content, found):
    path = tmp_path / "net.pb"
    path.write_bytes(content)
    for read in (read_net, read_any):
        message = refusal(read, path)
        assert message.startswith(f"{path}: expected a NetDef") and found.lower() in message.lower()


@pytest.mark.parametrize(
    "content, found",
    [
        (b"op { kind: 3 }", 'no field named "kind"'),
        (b'op { type: "Relu"', "make none"),
        (b"op { arg { n { " * 5000, "make none (maximum recursion depth"),
        (b'name: "\xff"', "can't decode byte 0xff"),
        (b"num_workers: " + b"9" * 10000, "make none"),
        (b"partition_info { }", "partition_info[0].name"),
        (NetDef(name="net", op=[OperatorDef(type="Relu")]).SerializeToString(), "binary data; read it as such"),
    ],
)
def test_what_is_not_text(tmp_path, content, found):
    path = tmp_path / "net.pbtxt"
    path.write_bytes(content)
    assert found in refusal(read_net, path)


def test_a_cut_is_noticed_unless_it_lies_between_two_fields(tmp_path):
    data = (DATA / "backward.pb").read_bytes()
    net = NetDef.FromString(data)
    fields = sum(len(value) if hasattr(value, "append") else 1 for _, value in net.ListFields())
    path = tmp_path / "cut.pb"
    unnoticed = 0
    for length in range(1, len(data)):
        path.write_bytes(data[:length])
        try:
            assert read_net(path).SerializeToString() == data[:length]
            unnoticed += 1
        except FormatError as error:
            assert f"{length} bytes that make none" in str(error)
    assert unnoticed == fields - 1


def test_missing_required_fields(tmp_path):
    model = MetaNetDef(nets=[metanet_pb2.NetsMap(key="k")])
    message = refusal(write_net, model, tmp_path / "m.pb")
    assert "expected a complete MetaNetDef, found one without required fields (nets[0].value); set them" in message
    assert not list(tmp_path.iterdir())
    lacking = MetaNetDef(blobs=[metanet_pb2.BlobsMap(value=["w"])]).SerializePartialToString()
    assert refusal(read_message, lacking, MetaNetDef, source="m") == (
        "m: expected a MetaNetDef in binary form, found 5 bytes that make none (as one they lack required fields "
        "(blobs[0].key)); get a whole and unchanged copy"
    )


def test_limit(net, tmp_path):
    path = tmp_path / "net.pb"
    write_net(net, path)
    size = path.stat().st_size
    assert read_net(path, limit=size) == net
    assert f"expected at most {size - 1} bytes, found {size} or more; pass a higher limit=" in refusal(
        read_net, path, limit=size - 1
    )


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs the peak of memory, as Linux tells it")
def test_a_file_beyond_the_limit_is_not_read(tmp_path):
    path = tmp_path / "sparse.pb"
    with open(path, "wb") as file:
        file.truncate(files.LIMIT + 1)
    program = f"import netgrad.proto as p\ntry: p.read_net({str(path)!r})\nexcept p.FormatError: pass\n"
    program += "print(open('/proc/self/status').read())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    # not getrusage's, which remembers the parent's
    peak = next(line for line in done.stdout.splitlines() if line.startswith("VmHWM"))
    assert int(peak.split()[1]) < 200 << 10


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs an endless file")
def test_an_endless_file_ends_at_the_limit():
    assert "expected at most 1000 bytes" in refusal(read_net, "/dev/zero", limit=1000)


def test_files_of_too_many_messages_are_refused_before_parsing(monkeypatch):
    monkeypatch.setattr(recognition, "MOST_MESSAGES", 100)
    most = NetDef(op=[OperatorDef(type="Relu")] * 100).SerializeToString()
    assert len(read_message(most, NetDef).op) == 100
    message = refusal(read_message, b"\x12\x00" * 101, NetDef)
    assert "found more than 100 operators, arguments and such, as no honest file has; do not use it" in message


@pytest.mark.parametrize("name", PROGRAMS)
def test_messages_are_counted_as_protobuf_would(name):
    data = (DATA / f"{name}.pb").read_bytes()

    def count(message):
        fields = [value for field, value in message.ListFields() if field.message_type]
        parts = [part for value in fields for part in (value if hasattr(value, "append") else [value])]
        return sum(1 + count(part) for part in parts)

    total = count(PROGRAMS[name].FromString(data))
    assert total >= 10
    assert not wire.holds_more_messages(data, PROGRAMS[name], total)
    assert wire.holds_more_messages(data, PROGRAMS[name], total - 1)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.binary(max_size=60), st.booleans(), st.sampled_from([NetDef, PlanDef, MetaNetDef, caffe2_pb2.TensorProto]))
@example(b"\x0b" * 50, False, NetDef)
@example(b"\x80", False, NetDef)
def test_any_bytes_give_a_message_or_a_format_error(data, text, cls):
    wire.holds_more_messages(data, cls, 3)
    try:
        assert isinstance(read_message(data, cls, text=text), cls)
    except FormatError as error:
        assert str(error).startswith("<bytes>: expected a ")


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_damaged_files_give_a_message_or_a_format_error(data):
    name = data.draw(st.sampled_from(sorted(PROGRAMS)))
    content = bytearray((DATA / f"{name}.pb").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        files._program(bytes(content), PROGRAMS[name], False, "damaged")
    except FormatError:
        pass


def test_errors_of_the_file_system_pass_through(net, tmp_path):
    with pytest.raises(FileNotFoundError):
        read_net(tmp_path / "none.pb")
    with pytest.raises(FileNotFoundError):
        write_net(net, tmp_path / "none" / "net.pb")
    with pytest.raises(IsADirectoryError):
        read_net(tmp_path)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="midway"), replace_file(path) as file:
        file.write(b"half")
        raise RuntimeError("midway")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_is_not_seen_before_it_is_whole(tmp_path):
    path = tmp_path / "file"
    with replace_file(path) as file:
        file.write(b"new")
        file.flush()
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions and links")
def test_permissions_and_links_are_kept(net, tmp_path):
    path, link = tmp_path / "net.pb", tmp_path / "link.pb"
    write_net(net, path)
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o600)
    link.symlink_to(path)
    write_net(NetDef(name="other", op=net.op), link)
    assert link.is_symlink() and read_net(path).name == "other"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
