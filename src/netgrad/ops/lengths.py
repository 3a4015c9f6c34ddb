"""Lists of lists, flattened: a vector of lengths and the rows one after another. Conversions and operations on them."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Bool, Float, Int, Ints
from netgrad.graph.declaration import In, Operator, Out, multiple_of
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import emits, forbidden, no_gradient, not_implemented
from netgrad.graph.shapes import Fixed, TensorType, data_dependent
from netgrad.ops._arrays import one_number, require_one_dtype, require_rank, require_shape
from netgrad.ops._rows import (
    arange_like,
    as_index,
    check_indices,
    check_lengths,
    padded,
    places,
    rows_like,
    rows_of,
    segment_sizes,
    spread,
    starts,
)

LENGTHS = In("lengths", "(S,) int: the number of rows of each list", differentiable=False)


class LengthsToRanges(Operator):
    """Lengths to pairs (offset, length)."""

    inputs = [LENGTHS]
    outputs = [Out("ranges", "(S, 2) int32", differentiable=False)]
    example = Example({"lengths": [1, 2]}, {"ranges": [[0, 1], [1, 2]]})

    def shape(lengths: TensorType) -> TensorType:
        return TensorType("int32", (rows_of(lengths), 2))

    def kernel(xp: Any, lengths: Any) -> Any:
        lengths = check_lengths(xp, lengths)
        return xp.astype(xp.stack([starts(xp, lengths), lengths], axis=1), xp.int32)


class LengthsToOffsets(Operator):
    """Lengths to offsets: the sum of the lengths before each; with include_last_offset also the sum of all."""

    inputs = [LENGTHS]
    outputs = [Out("offsets", "(S,) or (S + 1,) int32", differentiable=False)]
    arguments = [Bool("include_last_offset", False)]
    example = Example({"lengths": [1, 2]}, {"offsets": [0, 1]})

    def shape(lengths: TensorType, *, include_last_offset: bool) -> TensorType:
        count = rows_of(lengths)
        return TensorType("int32", (None if count is None else count + include_last_offset,))

    def kernel(xp: Any, lengths: Any, *, include_last_offset: bool) -> Any:
        lengths = check_lengths(xp, lengths)
        ends = xp.cumulative_sum(lengths, axis=0, dtype=lengths.dtype)
        offsets = xp.concat([xp.zeros_like(lengths[:1]), ends]) if lengths.shape[0] else xp.zeros(
            (1,), dtype=lengths.dtype, device=lengths.device)
        return xp.astype(offsets if include_last_offset else offsets[:lengths.shape[0]], xp.int32)


class LengthsToSegmentIds(Operator):
    """Lengths to the list that each row belongs to: (2, 0, 1) to (0, 0, 2)."""

    inputs = [LENGTHS]
    outputs = [Out("segment_ids", "(N,) int32", differentiable=False)]
    shape = data_dependent(("int32", 1))
    gradient = forbidden("lengths are whole numbers")
    example = Example({"lengths": [1, 2]}, {"segment_ids": [0, 1, 1]})

    def kernel(xp: Any, lengths: Any) -> Any:
        return xp.astype(spread(xp, lengths), xp.int32)


class LengthsToWeights(Operator):
    """For each row, the length of its list to the power of minus ``power``."""

    inputs = [LENGTHS]
    outputs = [Out("weights", "(N,) float32", differentiable=False)]
    arguments = [Float("power", 0.5)]
    shape = data_dependent(("float32", 1))
    example = Example({"lengths": [1, 4]}, {"weights": [1.0, 0.5, 0.5, 0.5, 0.5]}, {"power": 0.5})

    def kernel(xp: Any, lengths: Any, *, power: float) -> Any:
        sizes = xp.take(as_index(xp, lengths), spread(xp, lengths), axis=0)
        return xp.astype(xp.astype(sizes, xp.float64) ** -power, xp.float32)


class LengthsToShape(Operator):
    """Equal lengths to the shape (their number, the length); refused when they differ."""

    inputs = [In("X", "(S,) int32, all equal, at least one")]
    outputs = [Out("Y", "(2,) int32", differentiable=False)]
    shape = Fixed((TensorType("int32", (2,)),))
    gradient = forbidden("lengths are whole numbers")
    example = Example({"X": [2, 2]}, {"Y": [2, 2]})

    def kernel(xp: Any, X: Any) -> Any:
        if X.ndim != 1 or X.shape[0] == 0:
            raise ValueError(f"X must be a vector of at least one length, found shape {tuple(X.shape)}")
        first = X[:1]
        if bool(xp.any(X != first)):
            raise ValueError(f"all lengths must be equal, found {int(xp.min(X))} and {int(xp.max(X))}")
        return xp.astype(xp.concat([xp.full_like(first, X.shape[0]), first]), xp.int32)


class LengthsSplit(Operator):
    """Splits each length into n_split parts that differ by 1 at most, the greater ones first."""

    inputs = [LENGTHS, In("n_split", "one int32, instead of the argument", optional=True)]
    outputs = [Out("Y", "(S * n_split,) int32", differentiable=False)]
    arguments = [Int("n_split", 0, "the number of parts", as_="n_split_argument")]
    gradient = not_implemented("lengths are whole numbers")
    example = Example({"lengths": [5, 4]}, {"Y": [3, 2, 2, 2]}, {"n_split": 2})

    def shape(lengths: TensorType, *given: TensorType, n_split_argument: int) -> TensorType:
        count = rows_of(lengths)
        return TensorType("int32", (None if given or count is None else count * n_split_argument,))

    def kernel(xp: Any, lengths: Any, n_split: Any, *, n_split_argument: int) -> Any:
        parts = n_split_argument if n_split is None else int(one_number(xp, "n_split", n_split))
        if parts < 1:
            raise ValueError(f"n_split must be at least 1, found {parts}; give it as argument or second input")
        lengths = xp.astype(lengths, xp.int32)[:, None]
        order = xp.astype(arange_like(xp, parts, lengths), xp.int32)[None, :]
        return xp.reshape(lengths // parts + xp.astype(order < lengths % parts, xp.int32), (-1,))


class LengthsTile(Operator):
    """Repeats each row as often as its length says."""

    inputs = [In("DATA", "(S, ...)"), LENGTHS]
    outputs = [Out("OUTPUT", "(sum of lengths, ...)")]
    gradient = emits("LengthsSum", "GO0 I1", "GI0")
    strings = True
    example = Example({"DATA": [[1.0], [2.0]], "lengths": [1, 2]}, {"OUTPUT": [[1.0], [2.0], [2.0]]})

    def shape(DATA: TensorType, lengths: TensorType) -> TensorType:
        return rows_like(None, DATA)

    def kernel(xp: Any, DATA: Any, lengths: Any) -> Any:
        if DATA.shape[0] != lengths.shape[0]:
            raise ValueError(f"there must be one length per row, {DATA.shape[0]}; found {lengths.shape[0]}")
        return xp.take(DATA, spread(xp, lengths), axis=0)


class LengthsPad(Operator):
    """Pads each list to target_length with padding_value; longer lists are refused."""

    inputs = [In("DATA", "(N, ...)"), LENGTHS]
    outputs = [Out("OUTPUT", "(S * target_length, ...)")]
    arguments = [Float("padding_value", -1.0), Int("target_length", -1)]
    gradient = no_gradient
    example = Example(
        {"DATA": [[1.0], [2.0]], "lengths": [1, 1]},
        {"OUTPUT": [[1.0], [-1.0], [2.0], [-1.0]]},
        {"target_length": 2, "padding_value": -1.0})

    def shape(DATA: TensorType, lengths: TensorType, *, target_length: int, **arguments: Any) -> TensorType:
        count = rows_of(lengths)
        return rows_like(None if count is None else count * target_length, DATA)

    def kernel(xp: Any, DATA: Any, lengths: Any, *, padding_value: float, target_length: int) -> Any:
        lengths = check_lengths(xp, lengths)
        longest = int(xp.max(lengths)) if lengths.shape[0] else 0
        if target_length < max(longest, 1):
            raise ValueError(f"target_length must be at least the longest list, {longest}; found {target_length}")
        fill = padding_value if xp.isdtype(DATA.dtype, "real floating") else int(padding_value)
        if fill < 0 and xp.isdtype(DATA.dtype, "unsigned integer"):
            raise ValueError(f"padding_value is {fill}, which {xp.dtype_name(DATA)} does not hold; give another one")
        grid = padded(xp, DATA, lengths, target_length, fill)
        return xp.reshape(grid, (lengths.shape[0] * target_length, *DATA.shape[1:]))


class LengthsGather(Operator):
    """Gathers whole lists: those numbered ``INDICES``, one after another."""

    inputs = [In("ITEMS", "(N, ...)"), In("LENGTHS", "(S,) int", differentiable=False),
              In("INDICES", "(K,) int: lists")]
    outputs = [Out("OUTPUT", "the items of the chosen lists")]
    gradient = forbidden("it has none in Caffe2; gather rows (Gather) where a gradient is needed")
    strings = True
    example = Example({"ITEMS": [1.0, 2.0, 3.0], "LENGTHS": [1, 2], "INDICES": [1]}, {"OUTPUT": [2.0, 3.0]})

    def shape(ITEMS: TensorType, LENGTHS: TensorType, INDICES: TensorType) -> TensorType:
        return rows_like(None, ITEMS)

    def kernel(xp: Any, ITEMS: Any, LENGTHS: Any, INDICES: Any) -> Any:
        spread(xp, LENGTHS, ITEMS.shape[0])
        require_rank("INDICES", INDICES, 1)
        lengths = as_index(xp, LENGTHS)
        lists = check_indices(xp, INDICES, lengths.shape[0])
        chosen = xp.take(lengths, lists, axis=0)
        segments = spread(xp, chosen)
        first = xp.take(xp.take(starts(xp, lengths), lists, axis=0), segments, axis=0)
        return xp.take(ITEMS, first + places(xp, chosen, segments), axis=0)


class LengthsTopK(Operator):
    """The k greatest entries of each list, in falling order; equal ones in their order. Missing ones are 0 at -1."""

    inputs = [In("DATA", "(N,), float"), In("LENGTHS", "(S,) int", differentiable=False)]
    outputs = [Out("TopKValue", "(S, k)"), Out("TopKIndices", "(S, k) int32: places in the list", differentiable=False)]
    arguments = [Int("k", -1)]
    gradient = emits("LengthsTopKGradient", "I1 O1 GO0", "GI0")
    example = Example(
        {"DATA": [3.0, 1.0, 2.0], "LENGTHS": [3]},
        {"TopKValue": [[3.0, 2.0]], "TopKIndices": [[0, 2]]},
        {"k": 2})

    def shape(DATA: TensorType, LENGTHS: TensorType, *, k: int) -> tuple[TensorType, ...]:
        return TensorType(DATA.dtype, (rows_of(LENGTHS), k)), TensorType("int32", (rows_of(LENGTHS), k))

    def kernel(xp: Any, DATA: Any, LENGTHS: Any, *, k: int) -> Any:
        if k < 1:
            raise ValueError(f"k must be at least 1, found {k}")
        lengths = check_lengths(xp, LENGTHS)
        width = max(k, int(xp.max(lengths)) if lengths.shape[0] else 0)
        grid = padded(xp, DATA, lengths, width, -float("inf"))
        order = xp.argsort(grid, axis=1, descending=True, stable=True)[:, :k]
        there = arange_like(xp, k, DATA)[None, :] < lengths[:, None]
        values = xp.take_along_axis(grid, order, axis=1)
        return (xp.where(there, values, xp.zeros_like(values)),
                xp.astype(xp.where(there, order, xp.full_like(order, -1)), xp.int32))


class LengthsTopKGradient(Operator):
    """Derivative of LengthsTopK by DATA."""

    inputs = [In("LENGTHS", "(S,) int", differentiable=False),
              In("TopKIndices", "(S, k) int32", differentiable=False), In("dTopKValue", "(S, k)")]
    outputs = [Out("dDATA", "(N,)")]
    arguments = [Int("k", -1)]
    internal = True
    example = Example(
        {"LENGTHS": [3], "TopKIndices": [[0, 2]], "dTopKValue": [[1.0, 0.5]]},
        {"dDATA": [1.0, 0.0, 0.5]},
        {"k": 2})

    def shape(LENGTHS: TensorType, TopKIndices: TensorType, dTopKValue: TensorType, **arguments: Any) -> TensorType:
        return TensorType(dTopKValue.dtype, (None,))

    def kernel(xp: Any, LENGTHS: Any, TopKIndices: Any, dTopKValue: Any) -> Any:
        lengths = check_lengths(xp, LENGTHS)
        if TopKIndices.ndim != 2 or TopKIndices.shape[0] != lengths.shape[0]:
            raise ValueError(f"TopKIndices has shape {tuple(TopKIndices.shape)}, expected ({lengths.shape[0]}, k)")
        require_shape("the gradient", dTopKValue, TopKIndices.shape, ", that of TopKIndices")
        there = TopKIndices >= 0
        rows = (starts(xp, lengths)[:, None] + as_index(xp, TopKIndices))[there]
        zeros = xp.zeros((int(xp.sum(lengths)),), dtype=dTopKValue.dtype, device=dTopKValue.device)
        return xp.scatter_add(zeros, rows, dTopKValue[there])


class SegmentIds(Operator, abstract=True):
    """Base of the conversions from sorted segment ids."""

    inputs = [In("segment_ids", "(N,) int, sorted, none negative"),
              In("data", "its first axis is the number of segments; else that is one more than the last id",
                 optional=True, shape_only=True)]
    gradient = forbidden("segment ids are whole numbers")


def _sizes(xp: Any, segment_ids: Any, data: Any) -> Any:
    ids = as_index(xp, segment_ids)
    if ids.ndim != 1 or bool(xp.any(ids[1:] < ids[:-1])):
        raise ValueError("segment_ids must be a sorted vector; sort them first")
    count = int(ids[-1]) + 1 if ids.shape[0] else 0
    if data is not None:
        if count > data.shape[0]:
            raise ValueError(f"the data's first axis says {data.shape[0]} segments, the greatest id is {count - 1}")
        count = data.shape[0]
    return segment_sizes(xp, check_indices(xp, ids, count, "segment_ids"), count)


class SegmentIdsToLengths(SegmentIds):
    """Sorted segment ids to lengths: (0, 0, 2) to (2, 0, 1)."""

    outputs = [Out("lengths", "(S,) int32", differentiable=False)]
    shape = data_dependent(("int32", 1))
    example = Example({"segment_ids": [0, 0, 1]}, {"lengths": [2, 1]})

    def kernel(xp: Any, segment_ids: Any, data: Any) -> Any:
        return xp.astype(_sizes(xp, segment_ids, data), xp.int32)


class SegmentIdsToRanges(SegmentIds):
    """Sorted segment ids to pairs (offset, length); (0, 0) for segments after the last id."""

    outputs = [Out("ranges", "(S, 2) int32", differentiable=False)]
    shape = data_dependent(("int32", 2))
    example = Example({"segment_ids": [0, 0, 1]}, {"ranges": [[0, 2], [2, 1]]})

    def kernel(xp: Any, segment_ids: Any, data: Any) -> Any:
        sizes = _sizes(xp, segment_ids, data)
        offsets = starts(xp, sizes)
        offsets = xp.where(offsets < segment_ids.shape[0], offsets, xp.zeros_like(offsets))
        return xp.astype(xp.stack([offsets, sizes], axis=1), xp.int32)


class MergeIdLists(Operator):
    """Merges several lists of ids row by row: each result is sorted and without repetition."""

    inputs = [In("lengths", "(S,) int", variadic=True, differentiable=False),
              In("values", "the ids, int", variadic=True)]
    outputs = [Out("merged_lengths", "(S,) int32", differentiable=False),
               Out("merged_values", "like values", differentiable=False)]
    num_inputs = multiple_of(2, least=2)
    gradient = no_gradient
    example = Example(
        {"lengths0": [1], "values0": Tensor([1], "int64"), "lengths1": [2], "values1": Tensor([2, 1], "int64")},
        {"merged_lengths": [2], "merged_values": Tensor([1, 2], "int64")})

    def shape(lengths: TensorType, values: TensorType, *others: TensorType) -> tuple[TensorType, ...]:
        return lengths.with_dtype("int32"), values.with_dims((None,))

    def kernel(xp: Any, *pairs: Any) -> Any:
        for values in pairs[1::2]:
            require_rank("values", values, 1)
        require_one_dtype(**{f"values {k}": values for k, values in enumerate(pairs[1::2])})
        count = pairs[0].shape[0]
        if any(lengths.shape[0] != count for lengths in pairs[::2]):
            raise ValueError("all lists must have as many lengths as the first, "
                             f"{count}; found {[lengths.shape[0] for lengths in pairs[::2]]}")
        rows = xp.concat([spread(xp, lengths, values.shape[0])
                          for lengths, values in zip(pairs[::2], pairs[1::2], strict=True)])
        values = xp.concat(list(pairs[1::2]))
        order = xp.argsort(values, stable=True)
        order = xp.take(order, xp.argsort(xp.take(rows, order, axis=0), stable=True), axis=0)
        rows, values = xp.take(rows, order, axis=0), xp.take(values, order, axis=0)
        repeated = (rows[1:] == rows[:-1]) & (values[1:] == values[:-1])
        kept = xp.concat([xp.ones_like(rows[:1], dtype=xp.bool), ~repeated])
        return xp.astype(segment_sizes(xp, rows[kept], count), xp.int32), values[kept]


class DenseVectorToIdList(Operator):
    """Each row's columns that are at least 0.5 (a dense row of ones and zeros), as a list of ids."""

    inputs = [In("values", "(S, M), float")]
    outputs = [Out("out_lengths", "(S,) int32", differentiable=False),
               Out("out_values", "(N,) int32: columns", differentiable=False)]
    gradient = no_gradient
    example = Example({"values": [[1.0, 0.0], [0.0, 2.0]]}, {"out_lengths": [1, 1], "out_values": [0, 1]})

    def shape(values: TensorType) -> tuple[TensorType, ...]:
        return TensorType("int32", (rows_of(values),)), TensorType("int32", (None,))

    def kernel(xp: Any, values: Any) -> Any:
        if values.ndim != 2:
            raise ValueError(f"values must be a matrix, found shape {tuple(values.shape)}")
        there = values >= 0.5
        return xp.sum(xp.astype(there, xp.int32), axis=1, dtype=xp.int32), xp.astype(xp.nonzero(there)[1], xp.int32)


class NGramFromCategorical(Operator):
    """Numbers combinations of categories: column ``col_ids[k]`` is looked up among its ``categorical_limits[k]`` values
    (taken in order from ``vals``; unknown ones count as the first), and the places are digits, the first the lowest."""

    inputs = [In("floats", "(N, M), float")]
    outputs = [Out("ids", "(N,) int64", differentiable=False)]
    arguments = [Ints("col_ids", ()), Ints("categorical_limits", ()), Ints("vals", ())]
    gradient = no_gradient
    example = Example(
        {"floats": [[-1.01, -1.64, 605.0], [-1.23, -1.28, 298.0], [-1.69, -1.46, 605.0], [-1.99, -1.98, 605.0],
          [-1.49, -1.78, 605.0], [-1.94, -1.09, 894.0], [-1.1, -1.67, 298.0], [-1.57, -1.7, 894.0], [-1.58, -1.61,
          298.0], [-1.65, -1.9, 605.0]]},
        {"ids": Tensor([1, 2, 1, 1, 1, 0, 2, 0, 2, 1], "int64")},
        {"col_ids": [2], "categorical_limits": [3], "vals": [894, 605, 298]})

    def shape(floats: TensorType, **arguments: Any) -> TensorType:
        return TensorType("int64", (rows_of(floats),))

    def kernel(xp: Any, floats: Any, *, col_ids: Any, categorical_limits: Any, vals: Any) -> Any:
        if len(col_ids) != len(categorical_limits) or sum(categorical_limits) != len(vals):
            raise ValueError("categorical_limits must have one entry per column and add up to the number of vals, "
                             f"{len(vals)}; found {len(categorical_limits)} entries for {len(col_ids)} columns")
        require_rank("floats", floats, 2)
        if col_ids and not 0 <= min(col_ids) <= max(col_ids) < floats.shape[1]:
            raise ValueError(f"col_ids are {list(col_ids)}, of {floats.shape[1]} columns")
        total = xp.zeros((floats.shape[0],), dtype=xp.int64, device=floats.device)
        base, begin = 1, 0
        for column, limit in zip(col_ids, categorical_limits, strict=True):
            rounded = as_index(xp, xp.round(floats[:, column]))
            for digit, value in enumerate(vals[begin:begin + limit]):
                total = total + as_index(xp, rounded == value) * (digit * base)
            base, begin = base * limit, begin + limit
        return total


class PadEmptySamples(Operator):
    """Gives every empty list one row of zeros (empty strings)."""

    inputs = [LENGTHS, In("features", "(N, ...), any type", variadic=True, optional=True)]
    outputs = [Out("out_lengths", "(S,) int32, none 0", differentiable=False),
               Out("out_features", "padded", variadic=True, optional=True)]
    strings = True
    example = Example({"lengths": [1, 0]}, {"out_lengths": [1, 1]})

    def num_inputs_outputs(inputs: int, outputs: int) -> bool:
        return inputs == outputs

    def kernel(xp: Any, lengths: Any, *features: Any) -> Any:
        lengths = check_lengths(xp, lengths)
        longer = xp.where(lengths == 0, xp.ones_like(lengths), lengths)
        results = []
        for rows in features:
            segments = spread(xp, lengths, rows.shape[0])
            empty = b"" if xp.dtype_name(rows) == "string" else 0
            out = xp.full((int(xp.sum(longer)), *rows.shape[1:]), empty, dtype=rows.dtype, device=rows.device)
            at = xp.take(starts(xp, longer), segments, axis=0) + places(xp, lengths, segments)
            results.append(xp.index_put(out, at, rows))
        return xp.astype(longer, xp.int32), *results


class BooleanMaskLengths(Operator):
    """The lengths that are left when rows are masked: how many of each list's rows have a true mask."""

    inputs = [LENGTHS, In("mask", "(N,) bool")]
    outputs = [Out("masked_lengths", "(S,), like lengths", differentiable=False)]
    gradient = no_gradient
    example = Example({"lengths": [1, 2], "mask": [True, False, True]}, {"masked_lengths": [1, 1]})

    def shape(lengths: TensorType, mask: TensorType) -> TensorType:
        return lengths

    def kernel(xp: Any, lengths: Any, mask: Any) -> Any:
        segments = spread(xp, lengths, mask.shape[0], "lengths")
        return xp.astype(segment_sizes(xp, segments[mask], lengths.shape[0]), lengths.dtype)
