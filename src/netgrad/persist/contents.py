"""What a file of saved blobs holds, without loading the values into a workspace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from netgrad.persist import blobs, opaque, saving
from netgrad.persist.databases import create_db
from netgrad.persist.errors import StorageError, told_of
from netgrad.proto import FormatError, metanet_pb2, read_message
from netgrad.proto.constants import predictor_constants

_ARCHIVES = (".npz", ".safetensors")


@dataclass(frozen=True)
class Saved:
    """One blob of a file.

    Attributes:
        kind: a dtype, "string", or Caffe2's name of what it is.
        shape: a tensor's; else None.
    """

    name: str
    kind: str
    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.kind}{'' if self.shape is None else f' {self.shape}'}"


@dataclass(frozen=True)
class Contents:
    """What a file holds.

    Attributes:
        kind: of file: "minidb", "lmdb", "npz" or "safetensors".
        model: the nets of a predictor, where it is one.
        records: how many of a database's are no blobs, but other data.
    """

    kind: str
    saved: list[Saved]
    model: Any = None
    records: int = 0


def kind_of(path: str) -> str | None:
    """The kind of a file of blobs; None where it is none (it may be a net)."""
    suffix = os.path.splitext(path)[1].lower()
    if os.path.isdir(path):
        return "lmdb" if os.path.exists(os.path.join(path, "data.mdb")) else None
    if suffix in _ARCHIVES:
        return suffix[1:]
    if suffix == ".minidb":
        return "minidb"
    try:
        with create_db("minidb", path) as database:
            return "minidb" if database.new_cursor().valid() else None
    except StorageError:
        return None


def contents(path: str, kind: str) -> Contents:
    """What a file holds; raises `StorageError` where it is damaged."""
    if kind in ("npz", "safetensors"):
        from netgrad.persist.archives import load_parameters

        return Contents(kind, [Saved(name, array.dtype.name, array.shape)
                               for name, array in load_parameters(path).items()])
    found: dict[str, Saved] = {}
    model, others = None, 0
    for key, value in _records(kind, path):
        name = saving.Loading().name_of(key)
        try:
            record = blobs.parse(value)
        except FormatError:
            others += 1
            continue
        with told_of(f"{path}: record {key!r}"):
            if record.is_tensor:
                segment = blobs.segment_of(record)
                found[name] = Saved(name, segment.dtype, segment.shape)
                continue
            found[name] = Saved(name, record.type)
            if name == predictor_constants.META_NET_DEF:
                model = read_message(opaque.decode(record.type, record.parts), metanet_pb2.MetaNetDef, source=path)
    return Contents(kind, list(found.values()), model, others)


def _records(kind: str, path: str) -> Iterator[tuple[bytes, bytes]]:
    with create_db(kind, path) as database:
        cursor = database.new_cursor()
        while cursor.valid():
            yield cursor.key(), cursor.value()
            cursor.next()
