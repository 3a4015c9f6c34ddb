"""Dealing rows out to partitions by key, and collecting them again."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Bool, Int
from netgrad.graph.declaration import In, Operator, Out, between
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import Rule, RuleFunction
from netgrad.graph.shapes import TensorType
from netgrad.ops._arrays import array, require_shape
from netgrad.ops._axes import check_indices, count, int_list


def _shards(xp: Any, keys: Any, partitions: int) -> Any:
    """The partition of each key, on the host: the key modulo their number."""
    if xp.dtype_name(keys) not in ("int32", "int64"):
        raise ValueError(f"keys are {xp.dtype_name(keys)}, expected int32 or int64")
    return xp.to_numpy(keys).reshape(-1) % partitions


class GatherByKey(Operator):
    """Undoes Partition: rows of the partitions in the order of the keys that they were partitioned by."""

    inputs = [In("keys", "1-D int32 or int64", differentiable=False),
              In("sharded_values", "rows of one partition", variadic=True)]
    outputs = [Out("values", "(number of keys, ...)")]

    strings = True
    example = Example({"keys": Tensor([2, 1], "int64"), "rows0": [[1.0]], "rows1": [[2.0]]}, {"values": [[1.0], [2.0]]})
    def shape(keys: TensorType, *values: TensorType) -> TensorType:
        if keys.dims is None or values[0].dims is None:
            return TensorType(values[0].dtype)
        return values[0].with_dims((keys.dims[0], *values[0].dims[1:]))

    def kernel(xp: Any, keys: Any, *values: Any) -> Any:
        if keys.ndim != 1:
            raise ValueError(f"keys have shape {tuple(keys.shape)}, expected one dimension")
        shards = _shards(xp, keys, len(values))
        for k, rows in enumerate(values):
            if rows.ndim == 0 or rows.shape[0] != (shards == k).sum():
                raise ValueError(f"partition {k} has shape {tuple(rows.shape)}, but has {(shards == k).sum()} keys")
        for k, rows in enumerate(values[1:], 1):
            require_shape(f"partition {k}", rows, (rows.shape[0], *values[0].shape[1:]), ", rows like the first's")
        order = shards.argsort(kind="stable").argsort()
        return xp.take(xp.concat(values, axis=0), xp.from_numpy(order, like=values[0]), axis=0)

    def gradient(op: Rule) -> None:
        gradients = []
        for k in range(1, op.num_inputs):
            gradients += [op.temp(f"_{op.input_name(k)}_grad_keys"), op.GI(k)]
        op.emit("Partition", [op.I(0), op.GO(0)], gradients, pack_first_input=0)


def _partitioned(xp: Any, inputs: Any, partitions: int, pack: bool) -> list[list[Any]]:
    """For each partition, its part of every input; the first of them holds the keys."""
    keys = inputs[0]
    shards = _shards(xp, keys, partitions)
    flat = [xp.reshape(keys, (-1,))]
    for X in inputs[1:]:
        if tuple(X.shape[:keys.ndim]) != tuple(keys.shape):
            raise ValueError(f"an input has shape {tuple(X.shape)}, but the keys have {tuple(keys.shape)}")
        flat.append(xp.reshape(X, (count(keys.shape), *X.shape[keys.ndim:])))
    parts = []
    for shard in range(partitions):
        places = xp.from_numpy((shards == shard).nonzero()[0], like=keys)
        part = [xp.take(X, places, axis=0) for X in flat]
        if pack:
            part[0] = xp.astype((part[0] - shard) // partitions, keys.dtype)
        parts.append(part)
    return parts


def _partition_counts(least: int) -> Any:
    return staticmethod(lambda inputs, outputs: inputs >= least and outputs > 0 and outputs % inputs == 0)


def _gathered(keys: int) -> RuleFunction:
    """The rule of an operator that deals rows out by input ``keys``: gradients of the parts, in their old order."""

    def gradient(op: Rule) -> None:
        count = op.num_inputs
        for k in range(keys + 1, count):
            parts = range(k, op.num_outputs, count)
            if op.wants(k) and any(op.has_GO(part) for part in parts):
                op.copy_arguments = False
                op.emit("GatherByKey", [op.I(keys), *map(op.GO_or_zeros, parts)], [op.GI(k)])

    return gradient


class Partition(Operator):
    """Deals rows out to partitions, by key modulo their number; outputs: all inputs' parts of the first, and so on."""

    inputs = [In("input", "the keys first, int32 or int64; the others begin with their dimensions", variadic=True)]
    outputs = [Out("partitions", "rows of one partition", variadic=True)]
    num_inputs_outputs = _partition_counts(1)
    arguments = [Bool("pack_first_input", False, "write keys divided by the number of partitions")]
    strings = True
    gradient = _gathered(keys=0)
    example = Example(
        {"keys": [1, 2, 3], "values": [[1.0], [2.0], [3.0]]},
        {"values0": [1, 2, 3], "values1": [[1.0], [2.0], [3.0]]},
        {"pack_first_input": 0})

    def kernel(xp: Any, *inputs: Any, pack_first_input: bool, op: Any) -> Any:
        parts = _partitioned(xp, inputs, op.num_outputs // len(inputs), pack_first_input)
        return tuple(X for part in parts for X in part)


class LengthsPartition(Operator):
    """Partition of segments: the first input holds lengths of segments of the keys, which are split as well."""

    inputs = [
        In("lengths", "1-D int32, of segments of the keys"),
        In("input", "the keys first, 1-D; the others begin with their dimension", variadic=True),
    ]
    outputs = [Out("partitions", "lengths and rows of one partition", variadic=True)]
    strings = True
    num_inputs = between(2, None)
    num_inputs_outputs = _partition_counts(2)
    arguments = [Bool("pack_first_input", False, "write keys divided by the number of partitions")]
    gradient = _gathered(keys=1)
    example = Example(
        {"lengths": [1, 2], "keys": Tensor([1, 2, 3], "int64")},
        {"lengths0": [0, 1], "keys0": Tensor([1], "int64"), "lengths1": [1, 1], "keys1": Tensor([0, 1], "int64")},
        {"pack_first_input": 1})

    def kernel(xp: Any, lengths: Any, *inputs: Any, pack_first_input: bool, op: Any) -> Any:
        partitions = op.num_outputs // (len(inputs) + 1)
        if inputs[0].ndim != 1:
            raise ValueError(f"the keys have shape {tuple(inputs[0].shape)}, expected one dimension")
        if partitions == 1:
            return (lengths, *inputs)
        sizes = int_list(xp, lengths)
        shards = _shards(xp, inputs[0], partitions)
        if sum(sizes) != shards.size:
            raise ValueError(f"lengths add up to {sum(sizes)}, but there are {shards.size} keys")
        parts = _partitioned(xp, inputs, partitions, pack_first_input)
        outputs: list[Any] = []
        for shard, part in enumerate(parts):
            own, start = [], 0
            for size in sizes:
                own.append(int((shards[start:start + size] == shard).sum()))
                start += size
            outputs += [array(xp, own, lengths), *part]
        return tuple(outputs)

    shares = frozenset((k, k) for k in range(32))


class KeySplit(Operator):
    """For each key below the limit, the places where it stands."""

    inputs = [In("keys", "int64, from 0 to categorical_limit - 1", differentiable=False)]
    outputs = [Out("places", "1-D int32, one output per key", variadic=True, differentiable=False)]
    arguments = [Int("categorical_limit", 0, "the number of keys")]
    example = Example(
        {"keys": Tensor([1, 0, 1], "int64")},
        {"places0": [1], "places1": [0, 2]},
        {"categorical_limit": 2})

    def kernel(xp: Any, keys: Any, *, categorical_limit: int, op: Any) -> Any:
        if categorical_limit <= 0 or op.num_outputs < categorical_limit:
            raise ValueError(f"categorical_limit is {categorical_limit}, but there are {op.num_outputs} outputs")
        check_indices(xp, keys, categorical_limit)
        found: list[list[int]] = [[] for _ in range(categorical_limit)]
        for place, key in enumerate(int_list(xp, keys)):
            found[key].append(place)
        return tuple(array(xp, places, keys, xp.int32) for places in found)
