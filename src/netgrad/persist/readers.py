"""Readers of records: of databases, round and round, and of queues. Threads may share them. Opaque blobs."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from netgrad.persist.databases import Mode, create_db
from netgrad.persist.errors import StorageError
from netgrad.runtime.blobs import describe

if TYPE_CHECKING:
    from netgrad.ops.queues import BlobsQueue


class RecordReader(ABC):
    """Gives one record after the other, to one thread each."""

    #: where the records come from, for messages
    source: str
    #: whether the next records may be read before they are asked for
    ahead = True

    @abstractmethod
    def read(self, cancelled: threading.Event | None = None) -> tuple[bytes, bytes]:
        """The next record: key and value. Whoever waits for one gives up when ``cancelled`` is set.

        Raises:
            StorageError: there is none, or it is damaged.
        """


class QueueRecords(RecordReader):
    """Reads records from a queue of blobs.

    Args:
        key_index, value_index: which blob of a record is the key, and which the value; no key if negative.
        seconds: how long to wait for a record; 0: for ever.
    """

    ahead = False  # who reads ahead would take what others wait for, and wait for ever at the end

    def __init__(self, queue: BlobsQueue, source: str, key_index: int, value_index: int, seconds: float) -> None:
        if not 0 <= value_index < queue.width or key_index >= queue.width:
            raise ValueError(f"key_blob_index is {key_index} and value_blob_index {value_index}; the queue's records "
                             f"have {queue.width} blobs")
        self.queue, self.source = queue, source
        self.key_index, self.value_index, self.seconds = key_index, value_index, seconds

    def read(self, cancelled: threading.Event | None = None) -> tuple[bytes, bytes]:
        found = self.queue.take(1, self.seconds or None, cancelled)
        if not found:
            raise StorageError(f"{self.source}: the queue is closed, and there are no more records" if self.queue.closed
                               else f"{self.source}: no record came in {self.seconds} s")
        key = self._string(found[0], self.key_index) if self.key_index >= 0 else b""
        return key, self._string(found[0], self.value_index)

    def _string(self, record: tuple[Any, ...], index: int) -> bytes:
        blob = record[index]
        if isinstance(blob, np.ndarray) and blob.dtype.hasobject and blob.size == 1:
            blob = blob.item()
        if not isinstance(blob, bytes):
            raise StorageError(f"{self.source}: {describe(f'blob {index} of a record', blob)}; expected one string")
        return blob


class DBReader(RecordReader):
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

    def read(self, cancelled: threading.Event | None = None) -> tuple[bytes, bytes]:
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
