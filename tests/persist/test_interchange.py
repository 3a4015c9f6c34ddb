"""Files that Caffe2 itself wrote are read, and what is written here is theirs to the byte (see interchange.py)."""

from pathlib import Path

import interchange
import pytest

import netgrad
from netgrad.persist.databases import create_db

DATA = Path(__file__).parent / "data"


def records(path):
    with create_db("minidb", str(path)) as database:
        cursor = database.new_cursor()
        while cursor.valid():
            yield cursor.key(), cursor.value()
            cursor.next()


@pytest.mark.parametrize("name", interchange.FILES)
def test_what_caffe2_wrote_is_read(ws, name):
    interchange.FILES[name][1](str(DATA / name))


@pytest.mark.parametrize("name", interchange.FILES)
def test_what_is_written_is_what_caffe2_wrote(ws, name, tmp_path):
    write, read = interchange.FILES[name]
    write(str(tmp_path / name))
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == sorted(path.name for path in DATA.glob(f"{name}*"))
    for path in tmp_path.iterdir():
        if name == "pieces.minidb":  # Caffe2 makes pieces in several threads, whose order varies
            assert sorted(records(path)) == sorted(records(DATA / path.name))
        elif path.suffix != ".pbtxt":  # numbers look different with other versions of protobuf
            assert path.read_bytes() == (DATA / path.name).read_bytes(), path.name
    ws.reset()
    read(str(tmp_path / name))


def test_nets_in_text_are_loaded():
    net = netgrad.load(DATA / "mobile.predict.pbtxt")
    assert [op.type for op in net.Proto().op] == ["FC", "Relu", "FC"]
