"""Batches of tensors from databases whose records are TensorProtos, read ahead."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from netgrad.persist import tensors, wire
from netgrad.persist.errors import StorageError, told_of
from netgrad.persist.readers import RecordReader
from netgrad.persist.tensors import Assembly
from netgrad.proto import FormatError

_PROTOS = 1

Batch = tuple[np.ndarray, ...]


def read_batch(reader: RecordReader, size: int, count: int, cancelled: threading.Event | None = None) -> Batch:
    """The next records of a database.

    Args:
        size: how many; their tensors are stacked. 0: one, as it is.
        count: tensors in each record.
        cancelled: set when nobody waits for them any more.

    Raises:
        StorageError: a record is damaged, has another number of tensors, or tensors that do not stack.
    """
    rows = [_tensors(reader, count, cancelled) for _ in range(max(1, size))]
    if size == 0:
        return rows[0]
    for k, column in enumerate(zip(*rows)):
        kinds = {(array.dtype, array.shape) for array in column}
        if len(kinds) > 1:
            (a, b), (c, d) = sorted(kinds, key=str)[:2]
            raise StorageError(f"{reader.source}: tensor {k} of its records is {a} {b} here and {c} {d} there, which "
                               "makes no batch; use batch_size=0")
    return tuple(np.stack(column) for column in zip(*rows))


def _tensors(reader: RecordReader, count: int, cancelled: threading.Event | None) -> Batch:
    key, value = reader.read(cancelled)
    with told_of(f"{reader.source}: record {key[:200].decode('utf-8', 'replace')!r}"):
        found = []
        for field, kind, tensor in wire.fields(value):
            if (field, kind) != (_PROTOS, wire.BYTES):
                raise FormatError("it is no list of tensors (TensorProtos)")
            found.append(Assembly(tensors.decode(tensor)).array())
        if len(found) != count:
            raise FormatError(f"it has {len(found)} tensors, and the operator {count} outputs")
    return tuple(found)


def next_batch(state: dict[str, Any], read: Callable[[], Batch], ahead: bool) -> Batch:
    """The next batch; from an operator's second run on, that after it is read by a thread meanwhile.

    An operator that runs once so takes one batch from a reader that others may share.

    Args:
        state: the operator's.
        ahead: whether anything is read ahead.
    """
    waiting: Future[Batch] | None = state.pop("next", None)
    batch = read() if waiting is None else waiting.result()
    if ahead and state.setdefault("runs", 0):
        if "thread" not in state:
            state["thread"] = ThreadPoolExecutor(1, "netgrad-read-ahead")
        state["next"] = state["thread"].submit(read)
    state["runs"] = 1
    return batch
