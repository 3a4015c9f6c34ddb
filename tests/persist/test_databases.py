"""Databases: records come back in order, writing is all or nothing, damage gives one clear error."""

import gc
import os
import secrets
import struct

import lmdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from caffe2.python import workspace
from netgrad.persist.databases import Mode, create_db, db_exists, registered_dbs
from netgrad.persist.errors import StorageError
from netgrad.persist.readers import DBReader
from netgrad.persist.tensors import encode

KINDS = ["minidb", "protodb", "lmdb"]
every_kind = pytest.mark.parametrize("kind", KINDS)


def value(kind, key, number):
    return encode(np.array([number], np.int64), key, device=None) if kind == "protodb" else str(number).encode()


def write(kind, path, numbers, mode=Mode.new):
    with create_db(kind, str(path), mode) as database:
        for number in numbers:
            database.put(f"key{number}", value(kind, f"key{number}", number))


def read(kind, path):
    with create_db(kind, str(path)) as database:
        cursor = database.new_cursor()
        found = []
        while cursor.valid():
            found.append((cursor.key(), cursor.value()))
            cursor.next()
        cursor.next()
        with pytest.raises(StorageError, match="no more records"):
            cursor.key()
        return found


def expected(kind, numbers):
    return [(f"key{n}".encode(), value(kind, f"key{n}", n)) for n in numbers]


@every_kind
def test_records_come_back(kind, tmp_path):
    write(kind, tmp_path / "db", range(5))
    assert read(kind, tmp_path / "db") == expected(kind, range(5))


@every_kind
def test_records_are_added_and_a_new_database_replaces_an_old_one(kind, tmp_path):
    write(kind, tmp_path / "db", range(3), Mode.write)
    write(kind, tmp_path / "db", [5, 6], Mode.write)
    assert read(kind, tmp_path / "db") == expected(kind, [0, 1, 2, 5, 6])
    write(kind, tmp_path / "db", [7])
    assert read(kind, tmp_path / "db") == expected(kind, [7])


@every_kind
def test_until_it_is_closed_and_after_an_error_what_was_there_stays(kind, tmp_path):
    write(kind, tmp_path / "db", range(3))
    for mode in (Mode.new, Mode.write):
        with pytest.raises(KeyboardInterrupt), create_db(kind, str(tmp_path / "db"), mode) as database:
            database.put("key8", value(kind, "key8", 8))
            if kind != "lmdb":  # one process may open an lmdb once
                assert read(kind, tmp_path / "db") == expected(kind, range(3))
            raise KeyboardInterrupt
        assert read(kind, tmp_path / "db") == expected(kind, range(3))
    assert os.listdir(tmp_path) == ["db"]


@every_kind
def test_a_database_that_is_not_finished_is_not_there(kind, tmp_path):
    database = create_db(kind, str(tmp_path / "db"), Mode.new)
    database.put("key8", value(kind, "key8", 8))
    assert not db_exists(kind, str(tmp_path / "db"))
    database.abandon()
    assert os.listdir(tmp_path) == []


@every_kind
def test_transactions_end_with_the_objects_as_in_caffe2s_tests(kind, tmp_path):
    database = workspace.C.create_db(kind, str(tmp_path / "db"), workspace.C.Mode.write)
    transaction = database.new_transaction()
    transaction.put(b"key3", value(kind, "key3", 3))
    del transaction
    del database
    gc.collect()
    assert read(kind, tmp_path / "db") == expected(kind, [3])


@every_kind
def test_modes_are_kept(kind, tmp_path):
    with create_db(kind, str(tmp_path / "db"), Mode.new) as database:
        with pytest.raises(StorageError, match="opened with mode new, where read is needed"):
            database.new_cursor()
        database.put("key1", value(kind, "key1", 1))
    with create_db(kind, str(tmp_path / "db")) as database, pytest.raises(StorageError, match="mode read"):
        database.new_transaction()
    with pytest.raises(StorageError):
        database.new_cursor().value()


@every_kind
def test_what_is_not_there_is_said(kind, tmp_path):
    with pytest.raises(StorageError, match="none"):
        create_db(kind, str(tmp_path / "none"))
    with pytest.raises(StorageError, match="gone"):
        create_db(kind, str(tmp_path / "gone" / "db"), Mode.new)
    assert not db_exists(kind, str(tmp_path / "none"))
    with pytest.raises(StorageError, match="needs a key"), create_db(kind, str(tmp_path / "db"), Mode.new) as database:
        database.put("", b"x")


def test_kinds_that_there_are_not():
    assert {"minidb", "MiniDB", "protodb", "lmdb"} <= set(registered_dbs())
    with pytest.raises(StorageError, match="'leveldb' cannot be opened here: no package"):
        create_db("leveldb", "x")
    with pytest.raises(StorageError, match="'bogus' cannot be opened here; there are"):
        db_exists("bogus", "x")
    with pytest.raises(StorageError, match="no path"):
        create_db("minidb", "")


@pytest.mark.parametrize(("data", "reason"), [
    (b"\1\0\0", "ends within the lengths"),
    (struct.pack("<ii", 0, 1) + b"x", "key of 0 bytes"),
    (struct.pack("<ii", -1, 1) + b"x", "key of -1 bytes"),
    (struct.pack("<ii", 1, -1) + b"x", "value of -1"),
    (struct.pack("<ii", 1, 2 ** 31 - 1) + b"x", "cut off: the record at byte 0 has 2147483648 bytes, of which 1 are"),
    (struct.pack("<ii", 2 ** 31 - 1, 2 ** 31 - 1) + b"x", "cut off"),
    (b"PK\3\4 something else altogether", "cut off"),
])
def test_what_is_no_minidb_is_refused(tmp_path, data, reason):
    (tmp_path / "db").write_bytes(data)
    with pytest.raises(StorageError, match=reason):
        read("minidb", tmp_path / "db")


def test_a_folder_is_no_minidb(tmp_path):
    for mode in Mode:
        with pytest.raises(StorageError, match="folder"):
            create_db("minidb", str(tmp_path), mode)


@every_kind
def test_pipes_and_devices_are_no_databases(kind, tmp_path):
    """A file may name another, as readers do: that must not take for ever, nor all memory."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / "data.mdb")
    for path in (tmp_path / "pipe", tmp_path / "folder", "/dev/zero"):
        with pytest.raises(StorageError, match=r"expected|there is no lmdb"):
            create_db(kind, str(path))


def test_protodbs_hold_tensors_by_their_names(tmp_path):
    with create_db("protodb", str(tmp_path / "db"), Mode.new) as database:
        with pytest.raises(StorageError, match="is called b'b'"):
            database.put("a", encode(np.zeros(1), "b"))
        with pytest.raises(StorageError):
            database.put("a", b"\xff")
    (tmp_path / "text").write_text('protos { dims: 1 data_type: INT64 name: "key4" int64_data: 4 }')
    assert [key for key, _ in read("protodb", tmp_path / "text")] == [b"key4"]


def test_an_lmdb_of_the_library_is_read_and_searched(tmp_path):
    environment = lmdb.open(str(tmp_path / "db"), map_size=1 << 26)
    with environment.begin(write=True) as transaction:
        for k in range(3000):
            transaction.put(b"%05d" % k, b"v" * (k % 5000))
    environment.close()
    assert read("lmdb", tmp_path / "db") == [(b"%05d" % k, b"v" * (k % 5000)) for k in range(3000)]
    cursor = create_db("lmdb", str(tmp_path / "db")).new_cursor()
    cursor.seek(b"00017x")
    assert cursor.supports_seek() and cursor.key() == b"00018"
    cursor.seek(b"9")
    assert not cursor.valid()


@every_kind
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_give_storage_errors_only(kind, tmp_path, data):
    path = tmp_path / secrets.token_hex(4)
    write(kind, path, range(40))
    file = path / "data.mdb" if kind == "lmdb" else path
    content = bytearray(file.read_bytes())
    whole = read(kind, path)
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[place:]
    else:
        content[place] ^= 1 << data.draw(st.integers(0, 7))
    file.write_bytes(content)
    try:
        found = read(kind, path)
    except StorageError as error:
        assert str(path) in str(error)
    else:
        assert len(found) <= len(whole)


def test_readers_share_a_database_in_turn(tmp_path):
    write("minidb", tmp_path / "db", range(5))

    def turns(count, **shards):
        reader = DBReader("minidb", str(tmp_path / "db"), **shards)
        return [int(reader.read()[1]) for _ in range(count)]

    assert turns(7) == [0, 1, 2, 3, 4, 0, 1]
    assert turns(4, num_shards=2, shard_id=0) == [0, 2, 4, 0]
    assert turns(4, num_shards=2, shard_id=1) == [1, 3, 1, 3]
    with pytest.raises(StorageError, match="it has 5 records; shard 6 of 7 begins after them"):
        turns(1, num_shards=7, shard_id=6)
    with pytest.raises(ValueError, match="expected 0 <= shard_id < num_shards"):
        turns(1, num_shards=2, shard_id=2)
    write("minidb", tmp_path / "db", [])
    with pytest.raises(StorageError, match="no records"):
        turns(1)
