"""Named arrays in one file: safetensors, NumPy's npz, or a database that Caffe2 reads, as the name's suffix says."""

from __future__ import annotations

import math
import os
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from netgrad.persist import saving
from netgrad.persist.databases import Mode, create_db
from netgrad.persist.errors import StorageError, told_of
from netgrad.proto import FormatError, replace_file
from netgrad.runtime.workspace import Workspace

#: suffix -> kind of database
_DATABASES = {".minidb": "minidb", ".lmdb": "lmdb", ".protodb": "protodb"}

FilePath = str | os.PathLike[str]


def save_parameters(
    source: Workspace | ModuleType | Mapping[Any, Any], path: FilePath, names: Iterable[Any] | None = None,
) -> None:
    """Writes named tensors to a file, which is there whole or not at all.

    Args:
        source: a workspace (also Caffe2's module ``workspace``: the current one), or a mapping from name to array.
        path: ends in `.safetensors`, `.npz`, `.minidb`, `.lmdb` or `.protodb`; the last three are Caffe2's, and hold
            strings too.
        names: which of them; all unless given (of a workspace: all that hold tensors).

    Raises:
        BlobNotFound: there is no blob of a name.
        BlobError: one holds what such a file cannot.
        StorageError: the suffix is another, or the file cannot be written.
        TypeError: ``source`` is something else.
    """
    path = os.fspath(path)
    suffix = _suffix(path)
    if isinstance(source, ModuleType) and hasattr(source, "FetchBlob"):  # caffe2.python.workspace
        source = Workspace.current
    elif not isinstance(source, (Workspace, Mapping)):
        raise TypeError(f"expected a workspace or a mapping from name to array, found {type(source).__name__}")
    workspace = source if isinstance(source, Workspace) else Workspace(backend="numpy")
    if not isinstance(source, Workspace):
        for name, value in source.items():
            workspace.feed_blob(name, value)
    chosen = [name for name, blob in workspace.blobs.items() if blob.is_tensor()] if names is None else \
        list(dict.fromkeys(map(str, names)))
    arrays = {name: workspace.fetch_blob(name) for name in chosen}  # says which are not there
    if suffix in _DATABASES:
        saving.save(workspace, {name: name for name in chosen}, _DATABASES[suffix], path)
        return
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.dtype == object:
            raise StorageError(f"{path}: blob {name!r} is no tensor of numbers; leave it out, or save to a .minidb")
    with told_of(path), replace_file(path) as file:
        if suffix == ".npz":
            _write_npz(file, arrays)
        else:
            _need_safetensors(path)
            from safetensors.numpy import save

            file.write(save({name: np.ascontiguousarray(array).reshape(array.shape)
                             for name, array in arrays.items()}))


def load_parameters(path: FilePath) -> dict[str, np.ndarray]:
    """The named tensors in a file; ``workspace.feed(load_parameters(path))`` makes blobs of them.

    Loading runs nothing: a file whose arrays are Python objects is refused. bfloat16 becomes float32.

    Args:
        path: see `save_parameters`.

    Raises:
        StorageError: the suffix is another, the file is not there, or it is damaged.
    """
    path = os.fspath(path)
    suffix = _suffix(path)
    if suffix in _DATABASES:
        loading = saving.Loading()
        with create_db(_DATABASES[suffix], path, Mode.read) as database:
            loading.read(database, 0)
        with told_of(path):
            return {name: loading.tensors.pop(name).array().copy() for name in list(loading.tensors)}
    with told_of(path):
        return _read_npz(path) if suffix == ".npz" else _read_safetensors(path)


def _suffix(path: str) -> str:
    suffix = os.path.splitext(path)[1].lower()
    known = [".safetensors", ".npz", *_DATABASES]
    if suffix not in known:
        raise StorageError(f"{path}: the name must end in {', '.join(known[:-1])} or {known[-1]}")
    return suffix


def _write_npz(file: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Like `numpy.savez`, for any names (which takes those of its own parameters for such)."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _read_npz(path: str) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(path) as archive:
            return {info.filename.removesuffix(".npy"): _member(archive, info) for info in archive.infolist()}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OverflowError,
            MemoryError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"this is no npz archive, or a damaged one ({error}); get a whole and unchanged "
                          "copy") from None


_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """An array of an npz archive. Nothing is allocated for values that are not there."""
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            raise FormatError(f"array {info.filename!r} is of version {version} of NumPy's format; save it anew")
        shape, fortran, dtype = _HEADERS[version](file)
        if dtype.hasobject:
            raise FormatError(f"array {info.filename!r} holds Python objects, whose loading could run anything; save "
                              "numbers")
        size = math.prod(shape) * dtype.itemsize
        data = file.read(size + 1)
        if len(data) != size:
            raise FormatError(f"array {info.filename!r} is {dtype} {shape}, {size} bytes, and has "
                              f"{'more' if len(data) > size else len(data)}")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C").copy()


def _need_safetensors(path: str) -> None:
    import importlib.util

    if importlib.util.find_spec("safetensors") is None:
        raise StorageError(f"{path}: safetensors files need the package safetensors; `pip install netgrad[data]`")


def _read_safetensors(path: str) -> dict[str, np.ndarray]:
    _need_safetensors(path)
    from safetensors import SafetensorError, safe_open

    if not os.path.isfile(path):
        raise FileNotFoundError(2, "No such file or directory", path)
    try:
        with safe_open(path, framework="numpy") as archive:
            return {name: _safe_tensor(archive, name, path) for name in archive.keys()}  # noqa: SIM118 (no mapping)
    except SafetensorError as error:
        raise FormatError(f"this is no safetensors file, or a damaged one ({error}); get a whole and unchanged "
                          "copy") from None


def _safe_tensor(archive: Any, name: str, path: str) -> np.ndarray:
    kind = archive.get_slice(name).get_dtype()
    if kind == "BF16":
        return _bfloat16s(path, name)
    if kind not in ("F64", "F32", "F16", "I64", "I32", "I16", "I8", "U16", "U8", "BOOL"):
        raise FormatError(f"tensor {name!r} is {kind}, which blobs cannot be")
    array: np.ndarray = archive.get_tensor(name)
    return array


def _bfloat16s(path: str, name: str) -> np.ndarray:
    """A tensor of bfloat16, which NumPy lacks, as float32. The library has checked the file's header."""
    import json

    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(length))[name]
        begin, end = entry["data_offsets"]
        file.seek(8 + length + begin)
        halves = np.frombuffer(file.read(end - begin), "<u2")
    return (halves.astype(np.uint32) << np.uint32(16)).view(np.float32).reshape(entry["shape"])
