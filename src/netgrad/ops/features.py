"""Merging features of many inputs into one set of tensors: per example the ids of its features, then their values.

Inputs come in groups, one group per feature (or per set of features); a group says by presence flags or by lengths
which examples have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from netgrad.graph.arguments import Ints
from netgrad.graph.declaration import Arity, In, Operator, Out, multiple_of
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import Rule, RuleFunction
from netgrad.ops._arrays import require_shape
from netgrad.ops._axes import int_list
from netgrad.ops._strings import string_array


def _the_last(count: int) -> tuple[int]:
    """Merged gradients come after all groups."""
    return (count - 1,)


_FEATURE_IDS = [Ints("feature_ids", (), "the id of each feature")]
_LENGTHS = Out("out_lengths", "(examples,), int32: features per example", differentiable=False)
_KEYS = Out("out_keys", "1-D int64: ids of the features", differentiable=False)


def _groups(inputs: Any, size: int) -> list[Any]:
    return [inputs[k:k + size] for k in range(0, len(inputs), size)]


def _concat(xp: Any, pieces: list[Any], like: Any) -> Any:
    return xp.concat(pieces) if pieces else like[:0]


def _ints(xp: Any, values: list[int], dtype: str) -> Any:
    return xp.asarray(values, dtype=xp.dtype_of(dtype))


def _feature_ids(feature_ids: Any, features: int) -> Any:
    if len(feature_ids) < features:
        raise ValueError(f"there are {len(feature_ids)} feature_ids for {features} features")
    return feature_ids


def _gradient_of(size: int, read: tuple[int, ...], values: int, output: int) -> RuleFunction:
    """The rule: of every group of ``size`` inputs it reads those at ``read``; the one at ``values`` has a gradient."""
    def rule(op: Rule) -> None:
        groups = range(0, op.num_inputs, size)
        op.emit(f"{op.type}Gradient", [*(op.I(g + r) for g in groups for r in read), op.GO(output)],
                [op.GI(g + values) for g in groups])
    return rule


class MergeDenseFeatureTensors(Operator):
    """The features that are present, of a matrix with one column per feature."""

    inputs = [In("in1", "(examples, features)"), In("in1_presence", "the same shape, bool")]
    outputs = [_LENGTHS, _KEYS, Out("out_values", "1-D")]
    arguments = _FEATURE_IDS
    host = True
    example = Example(
        {"in1": [[1.0, 2.0]], "in1_presence": [[True, False]]},
        {"out_lengths": [1], "out_keys": Tensor([11], "int64"), "out_values": [1.0]},
        {"feature_ids": [11, 12]})

    def kernel(xp: Any, in1: Any, in1_presence: Any, *, feature_ids: Any) -> Any:
        if in1.ndim != 2 or in1.shape != in1_presence.shape:
            raise ValueError(f"in1 has shape {in1.shape} and its presence {in1_presence.shape}: expected one 2-D shape")
        ids = _feature_ids(feature_ids, in1.shape[1])
        keys = [ids[j] for row in in1_presence for j in row.nonzero()[0]]
        return _ints(xp, [int(row.sum()) for row in in1_presence], "int32"), _ints(xp, keys, "int64"), in1[in1_presence]


class MergeSingleScalarFeatureTensors(Operator):
    """Features of one value each."""

    inputs = [In("in1", "(examples,)", variadic=True), In("in1_presence", "(examples,), bool", variadic=True)]
    outputs = [_LENGTHS, _KEYS, Out("out_values", "1-D")]
    num_inputs = multiple_of(2, 2)
    arguments = _FEATURE_IDS
    host = True
    gradient = _gradient_of(2, (1,), 0, 2)
    example = Example(
        {"in1": [1.0], "in1_presence": [True], "in2": [2.0], "in2_presence": [True]},
        {"out_lengths": [2], "out_keys": Tensor([11, 12], "int64"), "out_values": [1.0, 2.0]},
        {"feature_ids": [11, 12]})

    def kernel(xp: Any, *inputs: Any, feature_ids: Any) -> Any:
        groups = _groups(inputs, 2)
        for values, there in groups:
            require_shape("values", values, groups[0][0].shape[:1], ", one for each example")
            require_shape("presence", there, groups[0][0].shape[:1], ", one for each example")
        ids = _feature_ids(feature_ids, len(groups))
        examples = range(groups[0][0].shape[0])
        present = [[k for k, (_, there) in enumerate(groups) if there[e]] for e in examples]
        keys = [ids[k] for own in present for k in own]
        values = [groups[k][0][e:e + 1] for e, own in enumerate(present) for k in own]
        return (_ints(xp, [len(own) for own in present], "int32"), _ints(xp, keys, "int64"),
                _concat(xp, values, groups[0][0]))


class MergeSingleScalarFeatureTensorsGradient(Operator):
    """Hands the merged gradient back to the features that were present; zero to the others."""

    inputs = [In("in1_presence", variadic=True), In(".values_grad")]
    outputs = [Out("in1_grad", variadic=True)]
    num_inputs = Arity(2, None)
    arguments = _FEATURE_IDS
    host = True
    internal = True
    differentiable_inputs = _the_last
    example = Example(
        {"in1_presence": [True], "in2_presence": [True], "out_values_grad": [1.0, 0.5]},
        {"in1_grad0": [1.0], "in1_grad1": [0.5]},
        {"feature_ids": [11, 12]})

    def kernel(xp: Any, *inputs: Any) -> Any:
        *presences, dY = inputs
        for there in presences:
            require_shape("presence", there, presences[0].shape[:1], ", one for each example")
        count = int(sum(there.sum() for there in presences))
        require_shape("the values' gradient", dY, (count,), ", one for each value")
        blank = string_array([b""] * presences[0].size, presences[0].shape) if dY.dtype == object else \
            xp.zeros(presences[0].shape, dtype=dY.dtype)
        gradients = [blank.copy() for _ in presences]
        place = 0
        for e in range(presences[0].shape[0]):
            for there, gradient in zip(presences, gradients, strict=True):
                if there[e]:
                    gradient[e] = dY[place]
                    place += 1
        return tuple(gradients)


def _pieces(xp: Any, lengths: list[Any], presences: list[Any] | None) -> Iterator[tuple[int, int, int, int]]:
    """(example, feature, start, length) of every list that is present, in the order of the merged tensors."""
    for name, vectors in (("lengths", lengths), ("presence", presences or [])):
        for x in vectors:
            require_shape(name, x, (lengths[0].shape[0] if lengths[0].ndim else 1,), ", one for each example")
    starts = [0] * len(lengths)
    for e in range(lengths[0].shape[0]):
        for k, own in enumerate(lengths):
            if presences is None or presences[k][e]:
                size = int(own[e])
                yield e, k, starts[k], size
                starts[k] += size


def _merged_lists(xp: Any, groups: list[Any], lists: tuple[int, ...], ids: Any) -> Any:
    """Lengths, keys, lengths of lists, and the lists, for groups that begin with lengths and end with presence."""
    pieces = list(_pieces(xp, [g[0] for g in groups], [g[-1] for g in groups]))
    per_example = [0] * groups[0][0].shape[0]
    for e, *_ in pieces:
        per_example[e] += 1
    return (_ints(xp, per_example, "int32"), _ints(xp, [ids[k] for _, k, _, _ in pieces], "int64"),
            _ints(xp, [size for *_, size in pieces], "int32"),
            *(_concat(xp, [groups[k][part][start:start + size] for _, k, start, size in pieces], groups[0][part])
              for part in lists))


class MergeSingleListFeatureTensors(Operator):
    """Features of a list of values each."""

    inputs = [In("in1_lengths", "(examples,), int32", variadic=True), In("in1_values", "1-D", variadic=True),
              In("in1_presence", "(examples,), bool", variadic=True)]
    outputs = [_LENGTHS, _KEYS, Out("out_values_lengths", "1-D int32", differentiable=False),
               Out("out_values_values", "1-D")]
    num_inputs = multiple_of(3, 3)
    arguments = _FEATURE_IDS
    host = True
    gradient = _gradient_of(3, (0, 2), 1, 3)
    example = Example(
        {"in1_lengths": [2], "in1_values": [1.0, 2.0], "in1_presence": [True]},
        {"out_lengths": [1], "out_keys": Tensor([11], "int64"), "out_values_lengths": [2],
         "out_values_values": [1.0, 2.0]},
        {"feature_ids": [11]})

    def kernel(xp: Any, *inputs: Any, feature_ids: Any) -> Any:
        groups = _groups(inputs, 3)
        return _merged_lists(xp, groups, (1,), _feature_ids(feature_ids, len(groups)))


class MergeSingleMapFeatureTensors(Operator):
    """Features of a map each: lists of keys and of values."""

    inputs = [In("in1_lengths", "(examples,), int32", variadic=True), In("in1_keys", "1-D", variadic=True),
              In("in1_values", "1-D", variadic=True), In("in1_presence", "(examples,), bool", variadic=True)]
    outputs = [_LENGTHS, _KEYS, Out("out_values_lengths", "1-D int32", differentiable=False),
               Out("out_values_keys", "1-D", differentiable=False), Out("out_values_values", "1-D")]
    num_inputs = multiple_of(4, 4)
    arguments = _FEATURE_IDS
    host = True
    gradient = _gradient_of(4, (0, 3), 2, 4)
    example = Example(
        {"in1_lengths": [1], "in1_keys": Tensor([5], "int64"), "in1_values": [1.0], "in1_presence": [True]},
        {"out_lengths": [1], "out_keys": Tensor([11], "int64"), "out_values_lengths": [1],
         "out_values_keys": Tensor([5], "int64"), "out_values_values": [1.0]},
        {"feature_ids": [11]})

    def kernel(xp: Any, *inputs: Any, feature_ids: Any) -> Any:
        groups = _groups(inputs, 4)
        return _merged_lists(xp, groups, (1, 2), _feature_ids(feature_ids, len(groups)))


def _single_list_gradients(xp: Any, *inputs: Any) -> Any:
    *pairs, dY = inputs
    groups = _groups(pairs, 2)
    parts: list[list[Any]] = [[] for _ in groups]
    place = 0
    for _, k, _, size in _pieces(xp, [g[0] for g in groups], [g[1] for g in groups]):
        parts[k].append(dY[place:place + size])
        place += size
    return tuple(_concat(xp, own, dY) for own in parts)


_ODD = Arity(3, None, lambda count: count % 2 == 1, "an odd number from 3 on")


class MergeSingleListFeatureTensorsGradient(Operator):
    """Hands the merged gradient back, list by list."""

    inputs = [In("in1_lengths", variadic=True), In("in1_presence", variadic=True), In("out_values_values")]
    outputs = [Out("out1_values", variadic=True)]
    num_inputs = _ODD
    arguments = _FEATURE_IDS
    host = True
    internal = True
    differentiable_inputs = _the_last
    kernel = _single_list_gradients
    example = Example(
        {"in1_lengths": [2], "in1_presence": [True], "out_values_values": [1.0, 0.5]},
        {"out1_values0": [1.0, 0.5]},
        {"feature_ids": [11]})


class MergeSingleMapFeatureTensorsGradient(Operator):
    """Hands the merged gradient of the maps' values back, map by map."""

    inputs = [In("in1_lengths", variadic=True), In("in1_presence", variadic=True), In("out_values_values_grad")]
    outputs = [Out("in1_values_grad", variadic=True)]
    num_inputs = _ODD
    arguments = _FEATURE_IDS
    host = True
    internal = True
    differentiable_inputs = _the_last
    kernel = _single_list_gradients
    example = Example(
        {"in1_lengths": [1], "in1_presence": [True], "out_values_values_grad": [1.0]},
        {"in1_values_grad0": [1.0]},
        {"feature_ids": [11]})


def _merge_multi(parts: int) -> Callable[..., Any]:
    """The kernel that merges groups (lengths, keys, lists...), in which every example has any number of features.

    With ``parts`` 0 each feature has one value; else the third of the group holds lengths of lists, of which there are
    ``parts`` behind it.
    """
    def kernel(xp: Any, *inputs: Any) -> Any:
        groups = _groups(inputs, 3 + parts)
        lengths = [int_list(xp, g[0]) for g in groups]
        if len({len(own) for own in lengths}) > 1:
            raise ValueError(f"lengths are for {', '.join(str(len(n)) for n in lengths)} examples: expected one number")
        outputs: list[list[Any]] = [[] for _ in range(2 + parts)]
        starts = [0] * len(groups)
        places = [0] * len(groups)
        for e in range(len(lengths[0])):
            for k, group in enumerate(groups):
                end = starts[k] + lengths[k][e]
                outputs[0].append(group[1][starts[k]:end])
                outputs[1].append(group[2][starts[k]:end])
                size = int(group[2][starts[k]:end].sum()) if parts else 0
                for part in range(parts):
                    outputs[2 + part].append(group[3 + part][places[k]:places[k] + size])
                starts[k], places[k] = end, places[k] + size
        totals = [sum(own) for own in zip(*lengths, strict=True)]
        return (_ints(xp, totals, "int32"),
                *(_concat(xp, pieces, groups[0][1 + j]) for j, pieces in enumerate(outputs)))
    return kernel


class MergeMultiScalarFeatureTensors(Operator):
    """Sets of features of one value each."""

    inputs = [In("in1_lengths", "(examples,), int32", variadic=True), In("in1_keys", "1-D int64", variadic=True),
              In("in1_values", "1-D", variadic=True)]
    outputs = [_LENGTHS, _KEYS, Out("out_values", "1-D")]
    num_inputs = multiple_of(3, 3)
    host = True
    gradient = _gradient_of(3, (0,), 2, 2)
    kernel = _merge_multi(0)
    example = Example(
        {"in1_lengths": [1], "in1_keys": Tensor([11], "int64"), "in1_values": [1.0], "in2_lengths": [1],
         "in2_keys": Tensor([12], "int64"), "in2_values": [2.0]},
        {"out_lengths": [2], "out_keys": Tensor([11, 12], "int64"), "out_values": [1.0, 2.0]})


class MergeMultiScalarFeatureTensorsGradient(Operator):
    """Hands the merged gradient back, set by set."""

    inputs = [In("in1_lengths", variadic=True), In("out_values_grad")]
    outputs = [Out("in1_values_grad", variadic=True)]
    num_inputs = Arity(2, None)
    host = True
    internal = True
    differentiable_inputs = _the_last
    example = Example(
        {"in1_lengths": [1], "in2_lengths": [1], "out_values_grad": [1.0, 0.5]},
        {"in1_values_grad0": [1.0], "in1_values_grad1": [0.5]})

    def kernel(xp: Any, *inputs: Any) -> Any:
        *lengths, dY = inputs
        parts: list[list[Any]] = [[] for _ in lengths]
        place = 0
        for _, k, _, size in _pieces(xp, lengths, None):
            parts[k].append(dY[place:place + size])
            place += size
        return tuple(_concat(xp, own, dY) for own in parts)


class MergeMultiListFeatureTensors(Operator):
    """Sets of features of a list of values each."""

    inputs = [In("in1_lengths", "(examples,), int32", variadic=True), In("in1_keys", "1-D int64", variadic=True),
              In("in1_values_lengths", "1-D int32", variadic=True), In("in1_values_values", "1-D", variadic=True)]
    outputs = [_LENGTHS, _KEYS, Out("out_values_lengths", "1-D int32", differentiable=False),
               Out("out_values_values", "1-D")]
    num_inputs = multiple_of(4, 4)
    host = True
    gradient = _gradient_of(4, (0, 2), 3, 3)
    kernel = _merge_multi(1)
    example = Example(
        {"in1_lengths": [1], "in1_keys": Tensor([11], "int64"), "in1_values_lengths": [2],
         "in1_values_values": [1.0, 2.0]},
        {"out_lengths": [1], "out_keys": Tensor([11], "int64"), "out_values_lengths": [2],
         "out_values_values": [1.0, 2.0]})


class MergeMultiMapFeatureTensors(Operator):
    """Sets of features of a map each."""

    inputs = [In("in1_lengths", "(examples,), int32", variadic=True), In("in1_keys", "1-D int64", variadic=True),
              In("in1_values_lengths", "1-D int32", variadic=True), In("in1_values_keys", "1-D", variadic=True),
              In("in1_values_values", "1-D", variadic=True)]
    outputs = [_LENGTHS, _KEYS, Out("out_values_lengths", "1-D int32", differentiable=False),
               Out("out_values_keys", "1-D", differentiable=False), Out("out_values_values", "1-D")]
    num_inputs = multiple_of(5, 5)
    host = True
    gradient = _gradient_of(5, (0, 2), 4, 4)
    kernel = _merge_multi(2)
    example = Example(
        {"in1_lengths": [1], "in1_keys": Tensor([11], "int64"), "in1_values_lengths": [1],
         "in1_values_keys": Tensor([5], "int64"), "in1_values_values": [1.0]},
        {"out_lengths": [1], "out_keys": Tensor([11], "int64"), "out_values_lengths": [1],
         "out_values_keys": Tensor([5], "int64"), "out_values_values": [1.0]})


def _multi_list_gradients(xp: Any, *inputs: Any) -> Any:
    *pairs, dY = inputs
    groups = _groups(pairs, 2)
    parts: list[list[Any]] = [[] for _ in groups]
    place = 0
    for _, k, start, features in _pieces(xp, [g[0] for g in groups], None):
        size = int(groups[k][1][start:start + features].sum())
        parts[k].append(dY[place:place + size])
        place += size
    return tuple(_concat(xp, own, dY) for own in parts)


class MergeMultiListFeatureTensorsGradient(Operator):
    """Hands the merged gradient back, set by set."""

    inputs = [In("in1_lengths", variadic=True), In("in1_values_lengths", variadic=True), In("out_values_values_grad")]
    outputs = [Out("in1_values_values_grad", variadic=True)]
    num_inputs = _ODD
    host = True
    internal = True
    differentiable_inputs = _the_last
    kernel = _multi_list_gradients
    example = Example(
        {"in1_lengths": [1], "in1_values_lengths": [2], "out_values_values_grad": [1.0, 0.5]},
        {"in1_values_values_grad0": [1.0, 0.5]})


class MergeMultiMapFeatureTensorsGradient(Operator):
    """Hands the merged gradient of the maps' values back, set by set."""

    inputs = [In("in1_lengths", variadic=True), In("in1_values_lengths", variadic=True), In("out_values_values_grad")]
    outputs = [Out("in1_values_values_grad", variadic=True)]
    num_inputs = _ODD
    host = True
    internal = True
    differentiable_inputs = _the_last
    kernel = _multi_list_gradients
    example = Example(
        {"in1_lengths": [1], "in1_values_lengths": [1], "out_values_values_grad": [1.0]},
        {"in1_values_values_grad0": [1.0]})
