"""Readers of databases: one record after the other, round and round, shared by threads. An opaque blob."""

from __future__ import annotations

import threading

from netgrad.persist.databases import Mode, create_db
from netgrad.persist.errors import StorageError


class DBReader:
    """Reads the records of a database in turn, and begins again at its end.

    Args:
        db_type: the kind of database.
        source: its path.
        num_shards, shard_id: of every ``num_shards`` records, the one that this reader is given.

    Raises:
        StorageError: there is no such database, it is damaged, or has fewer records than ``shard_id`` asks for.
    """

    def __init__(self, db_type: str, source: str, num_shards: int = 1, shard_id: int = 0) -> None:
        if not 0 <= shard_id < num_shards:
            raise ValueError(f"shard_id is {shard_id} and num_shards {num_shards}; expected 0 <= shard_id < num_shards")
        self.db_type, self.source = db_type, source
        self.num_shards, self.shard_id = num_shards, shard_id
        self.database = create_db(db_type, source, Mode.read)
        #: where it stands; those who use it themselves hold the lock
        self.cursor = self.database.new_cursor()
        self.lock = threading.RLock()
        self._begin()

    def _begin(self) -> None:
        self.cursor.seek_to_first()
        for passed in range(self.shard_id):
            self.cursor.next()
            if not self.cursor.valid():
                raise StorageError(f"{self.source}: it has {passed + 1} records; shard {self.shard_id} of "
                                   f"{self.num_shards} begins after them")

    def read(self) -> tuple[bytes, bytes]:
        """The next record: key and value.

        Raises:
            StorageError: the database is empty, or damaged.
        """
        with self.lock:
            if not self.cursor.valid():
                self._begin()
            if not self.cursor.valid():
                raise StorageError(f"{self.source}: it holds no records")
            found = self.cursor.key(), self.cursor.value()
            for _ in range(self.num_shards):
                self.cursor.next()
                if not self.cursor.valid():
                    self._begin()
                    break
            return found
