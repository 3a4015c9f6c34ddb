"""Maps, and indexes that number ids as they come. The blobs are opaque."""

from __future__ import annotations

import threading
from typing import Any

from netgrad.graph.arguments import DType, Int
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Step, Tensor
from netgrad.graph.rules import forbidden, no_gradient
from netgrad.graph.shapes import TensorType
from netgrad.ops._strings import string_array
from netgrad.proto import caffe2_pb2

_INT32 = caffe2_pb2.TensorProto.INT32
_MAP_TYPES: dict[int, str] = {_INT32: "int32", caffe2_pb2.TensorProto.INT64: "int64"}


class Map(dict[int, int]):
    """A map of integers; ``key_dtype`` and ``value_dtype`` are what its tensors have."""

    def __init__(self, items: Any = (), key_dtype: str = "int32", value_dtype: str = "int32") -> None:
        super().__init__(items)
        self.key_dtype, self.value_dtype = key_dtype, value_dtype


class Index:
    """Numbers the distinct keys that it is asked for, from 1 on; once frozen, unknown keys are 0.

    ``most`` is the number of keys that it holds, the unknown one included.
    """

    def __init__(self, dtype: str, most: int) -> None:
        self.dtype = dtype
        self.most = most
        self.frozen = False
        self._lock = threading.Lock()
        self._numbers: dict[Any, int] = {}

    def __len__(self) -> int:
        return len(self._numbers) + 1

    def get(self, keys: list[Any]) -> list[int]:
        with self._lock:
            return [self._number(key) for key in keys]

    def _number(self, key: Any) -> int:
        number = self._numbers.get(key)
        if number is None:
            if self.frozen:
                return 0
            number = len(self)
            if number >= self.most:
                raise ValueError(f"the index is full: it holds max_elements, {self.most}")
            self._numbers[key] = number
        return number

    def load(self, keys: list[Any]) -> None:
        """Takes keys in their order, into an index that is empty."""
        with self._lock:
            if self._numbers:
                raise ValueError(f"the index holds {len(self._numbers)} keys already; load into an empty one")
            if len(keys) >= self.most or len(set(keys)) != len(keys):
                raise ValueError(f"{len(keys)} keys cannot be loaded: expected distinct ones, fewer than {self.most}")
            self._numbers = {key: k for k, key in enumerate(keys, 1)}

    def keys(self) -> list[Any]:
        return list(self._numbers)


def _kind(dtype: int, what: str) -> str:
    if dtype not in _MAP_TYPES:
        raise ValueError(f"{what} is {dtype}, expected INT32 or INT64")
    return _MAP_TYPES[dtype]


class CreateMap(Operator):
    """An empty map."""

    outputs = [Out("map blob", "opaque")]
    arguments = [DType("key_dtype", _INT32, "INT32 or INT64"), DType("value_dtype", _INT32, "INT32 or INT64")]
    host = True
    example = Example({}, {"map": None})

    def kernel(xp: Any, *, key_dtype: int, value_dtype: int) -> Any:
        return Map((), _kind(key_dtype, "key_dtype"), _kind(value_dtype, "value_dtype"))


class KeyValueToMap(Operator):
    """The map of each key to the value at its place."""

    inputs = [In("key blob", "int32 or int64"), In("value blob", "int32 or int64, as many")]
    outputs = [Out("map blob", "opaque")]
    host = True
    example = Example({"keys": Tensor([1, 2], "int64"), "values": Tensor([3, 4], "int64")}, {"map": None})

    def kernel(xp: Any, keys: Any, values: Any) -> Any:
        kinds = (str(keys.dtype), str(values.dtype))
        if keys.size != values.size or not set(kinds) <= {"int32", "int64"}:
            raise ValueError(f"keys are {kinds[0]} {keys.shape} and values {kinds[1]} {values.shape}: "
                             "expected int32 or int64, as many of both")
        return Map(zip(keys.reshape(-1).tolist(), values.reshape(-1).tolist(), strict=True), *kinds)


class MapToKeyValue(Operator):
    """Keys and values of a map."""

    inputs = [In("map blob")]
    outputs = [Out("key blob", "1-D"), Out("value blob", "1-D")]
    host = True
    example = Example(
        {},
        {"keys": Tensor([1], "int64"), "values": Tensor([1], "int64")},
        before=(Step("GivenTensorInt64Fill", outputs=("k",), arguments={"shape": [1], "values": [1]}),
         Step("KeyValueToMap", ("k", "k"), ("map",))),
        inputs=("map",))

    def kernel(xp: Any, map: Map) -> Any:
        return (xp.asarray(list(map), dtype=xp.dtype_of(map.key_dtype)),
                xp.asarray(list(map.values()), dtype=xp.dtype_of(map.value_dtype)))


class _IndexCreate(Operator, abstract=True):
    """What makes an index."""

    outputs = [Out("handle", "opaque")]
    arguments = [Int("max_elements", 2 ** 31 - 1, "most keys, the unknown one included")]
    host = True
    gradient = no_gradient


class IntIndexCreate(_IndexCreate):
    """An index of int32 keys."""

    example = Example({}, {"handle": None})

    def kernel(xp: Any, *, max_elements: int) -> Any:
        return Index("int32", max_elements)


class LongIndexCreate(_IndexCreate):
    """An index of int64 keys."""

    example = Example({}, {"handle": None})

    def kernel(xp: Any, *, max_elements: int) -> Any:
        return Index("int64", max_elements)


class StringIndexCreate(_IndexCreate):
    """An index of strings."""

    example = Example({}, {"handle": None})

    def kernel(xp: Any, *, max_elements: int) -> Any:
        return Index("object", max_elements)


def _keys(index: Index, keys: Any) -> list[Any]:
    if str(keys.dtype) != index.dtype:
        raise ValueError(f"keys are {keys.dtype}, but the index holds {index.dtype}")
    return list(keys.reshape(-1).tolist())


class IndexGet(Operator):
    """The number of each key; new keys get new numbers unless the index is frozen."""

    inputs = [In("handle"), In("keys", "of the dtype of the index")]
    outputs = [Out("indices", "like keys, int64")]
    effects = {"state"}
    host = True
    example = Example(
        {"keys": [5, 6, 5]},
        {"indices": Tensor([1, 2, 1], "int64")},
        before=(Step("IntIndexCreate", outputs=("handle",)),),
        inputs=("handle", "keys"))

    def shape(handle: TensorType, keys: TensorType) -> TensorType:
        return keys.with_dtype("int64")

    def kernel(xp: Any, index: Index, keys: Any) -> Any:
        return xp.reshape(xp.asarray(index.get(_keys(index, keys)), dtype=xp.int64), keys.shape)


class IndexLoad(Operator):
    """Fills an empty index with keys, in their order."""

    inputs = [In("handle"), In("items", "distinct keys")]
    outputs = [Out("handle")]
    arguments = [Int("skip_first_entry", 0, "the first one stands for the unknown key")]
    inplace_required = {(0, 0)}
    effects = {"state"}
    host = True
    gradient = forbidden()
    example = Example(
        {"items": [5, 6]},
        {"handle": None},
        before=(Step("IntIndexCreate", outputs=("handle",)),),
        inputs=("handle", "items"))

    def kernel(xp: Any, index: Index, items: Any, *, skip_first_entry: int) -> Any:
        index.load(_keys(index, items)[1 if skip_first_entry else 0:])
        return index


class IndexStore(Operator):
    """All keys of an index, in the order of their numbers."""

    inputs = [In("handle")]
    outputs = [Out("items", "1-D, of the dtype of the index")]
    host = True
    gradient = forbidden()
    example = Example(
        {},
        {"items": [5, 6]},
        before=(Step("IntIndexCreate", outputs=("handle",)),
         Step("GivenTensorIntFill", outputs=("items",), arguments={"shape": [2], "values": [5, 6]}),
         Step("IndexLoad", ("handle", "items"), ("handle",))),
        inputs=("handle",))

    def kernel(xp: Any, index: Index) -> Any:
        if index.dtype == "object":
            return string_array(index.keys(), (len(index) - 1,))
        return xp.asarray(index.keys(), dtype=xp.dtype_of(index.dtype))


class IndexFreeze(Operator):
    """From now on the index takes no new keys."""

    inputs = [In("handle")]
    outputs = [Out("handle")]
    inplace_required = {(0, 0)}
    effects = {"state"}
    host = True
    gradient = forbidden()
    example = Example({}, {"handle": None}, before=(Step("IntIndexCreate", outputs=("handle",)),), inputs=("handle",))

    def kernel(xp: Any, index: Index) -> Any:
        index.frozen = True
        return index


class IndexSize(Operator):
    """How many keys an index holds, the unknown one included."""

    inputs = [In("handle")]
    outputs = [Out("items", "a scalar int64")]
    host = True
    gradient = forbidden()
    example = Example(
        {},
        {"items": Tensor(3, "int64")},
        before=(Step("IntIndexCreate", outputs=("handle",)),
         Step("GivenTensorIntFill", outputs=("items",), arguments={"shape": [2], "values": [5, 6]}),
         Step("IndexLoad", ("handle", "items"), ("handle",))),
        inputs=("handle",))

    def kernel(xp: Any, index: Index) -> Any:
        return xp.asarray(len(index), dtype=xp.int64)
