"""Taking and putting rows by index."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Bool, Float, Int, Ints
from netgrad.graph.declaration import Arity, In, Operator, Out
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import Rule, emits, forbidden, no_gradient
from netgrad.graph.shapes import TensorType, data_dependent, same_as
from netgrad.ops._arrays import array, canonical_axis, product, zeros
from netgrad.ops._axes import check_indices, count, int_list, number


def _flat_positions(xp: Any, data: Any, indices: Any, axis: int, match_outer: bool, wrap_indices: bool) -> Any:
    """For each row asked for, its place when the axes of data up to ``axis`` are made one; shape (outer, N)."""
    size, outer = data.shape[axis], count(data.shape[:axis])
    check_indices(xp, indices, size, -size if wrap_indices else 0)
    if wrap_indices:
        indices = xp.where(indices < 0, indices + size, indices)
    indices = xp.astype(indices, xp.int64)
    if match_outer:
        if axis < 1 or tuple(indices.shape[:axis]) != tuple(data.shape[:axis]):
            raise ValueError(f"with match_outer, indices of shape {tuple(indices.shape)} must begin like data, with "
                             f"the dimensions {tuple(data.shape[:axis])} before axis {axis}; there must be one")
        indices = xp.reshape(indices, (outer, count(indices.shape[axis:])))
    else:
        indices = xp.reshape(indices, (1, count(indices.shape)))
    starts = array(xp, list(range(0, outer * size, size or 1))[:outer], indices)
    return indices + xp.reshape(starts, (outer, 1))


def _gathered_dims(data: Any, indices: Any, axis: int, match_outer: bool) -> tuple[Any, ...]:
    own = tuple(indices)[axis if match_outer else 0:]
    return (*data[:axis], *own, *data[axis + 1:])


def _gather(xp: Any, data: Any, indices: Any, axis: int, match_outer: bool, wrap_indices: bool) -> Any:
    if data.ndim == 0:
        raise ValueError("data is a scalar, expected at least one dimension")
    axis = canonical_axis(axis, data.ndim)
    if data.shape[axis] == 0:  # an empty batch passes whatever the indices are, as in Caffe2
        return data
    dims = _gathered_dims(data.shape, indices.shape, axis, match_outer)
    if not count(dims):
        return xp.reshape(data[:0], dims)
    places = xp.reshape(_flat_positions(xp, data, indices, axis, match_outer, wrap_indices), (-1,))
    table = xp.reshape(data, (count(data.shape[:axis + 1]), count(data.shape[axis + 1:])))
    return xp.reshape(xp.take(table, places, axis=0), dims)


class Gather(Operator):
    """Rows of DATA, picked by index along an axis.

    The gradient is a slice (indices, rows) on axis 0, dense with dense_gradient or on another axis.
    """

    inputs = [In("DATA", "at least 1-D"), In("INDICES", "any shape, int32 or int64", differentiable=False)]
    outputs = [Out("OUTPUT", "dimensions of DATA before the axis, those of INDICES, those of DATA behind it")]
    arguments = [
        Int("axis", 0), Bool("match_outer", False, "INDICES begin with the dimensions of DATA before the axis"),
        Bool("wrap_indices", None, "negative indices count from the end; unless given, they do so on axis 0 only"),
        Bool("dense_gradient", False, "the gradient of DATA is a tensor of its shape, not a slice"),
    ]
    strings = True
    shares = {(0, 0)}
    example = Example({"DATA": [[1.0], [2.0], [3.0]], "INDICES": [2, 0]}, {"OUTPUT": [[3.0], [1.0]]})

    def shape(DATA: TensorType, INDICES: TensorType, *, axis: int, match_outer: bool, **_: Any) -> TensorType:
        if DATA.dims is None or INDICES.dims is None:
            return TensorType(DATA.dtype)
        axis = canonical_axis(axis, len(DATA.dims))
        if DATA.dims[axis] == 0:
            return DATA
        if DATA.dims[axis] is None:  # zero rows leave DATA as it is, so that even the rank is open
            return TensorType(DATA.dtype)
        return DATA.with_dims(_gathered_dims(DATA.dims, INDICES.dims, axis, match_outer))

    def kernel(xp: Any, DATA: Any, INDICES: Any, *, axis: int, match_outer: bool, wrap_indices: bool | None) -> Any:
        wraps = axis == 0 if wrap_indices is None else wrap_indices
        return _gather(xp, DATA, INDICES, axis, match_outer, wraps)

    def gradient(op: Rule) -> None:
        axis = op.arg("axis", 0)
        if axis:
            op.emit("BatchGatherGradient", [op.I(0), op.I(1), op.GO(0)], [op.GI(0)], axis=axis)
        elif op.arg("dense_gradient", 0):
            op.emit("SparseToDense", [op.I(1), op.GO(0), op.I(0)], [op.GI(0)])
        else:
            op.set_GI_slice(0, op.I(1), op.GO(0))


class BatchGather(Operator):
    """Gather along axis 1: the same columns of every row."""

    inputs = [In("DATA", "at least 2-D"), In("INDICES", "any shape, int32 or int64", differentiable=False)]
    outputs = [Out("OUTPUT", "(DATA's first dimension, those of INDICES, DATA's from the third on)")]
    arguments = [Bool("match_outer", False, "INDICES begin with the first dimension of DATA")]
    strings = True
    shares = {(0, 0)}
    gradient = emits("BatchGatherGradient", "I0 I1 GO0", "GI0")
    example = Example(
        {"DATA": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "INDICES": [2, 0]},
        {"OUTPUT": [[3.0, 1.0], [6.0, 4.0]]})

    def shape(DATA: TensorType, INDICES: TensorType, *, match_outer: bool) -> TensorType:
        return Gather.shape(DATA, INDICES, axis=1, match_outer=match_outer)

    def kernel(xp: Any, DATA: Any, INDICES: Any, *, match_outer: bool) -> Any:
        return _gather(xp, DATA, INDICES, 1, match_outer, False)


class BatchGatherGradient(Operator):
    """Adds each row of dY to the row of the result that it was picked from."""

    inputs = [In("DATA", "only its shape matters", shape_only=True), In("INDICES", differentiable=False), In("dY")]
    outputs = [Out("dDATA", "shape of DATA, dtype of dY")]
    arguments = [Int("axis", 1), Bool("match_outer", False), Bool("wrap_indices", False)]
    internal = True
    example = Example(
        {"DATA": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "INDICES": [2, 0], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dDATA": [[0.5, 0.0, 1.0], [-1.0, 0.0, 2.0]]})

    def shape(DATA: TensorType, INDICES: TensorType, dY: TensorType, **_: Any) -> TensorType:
        return dY.with_dims(DATA.dims)

    def kernel(xp: Any, DATA: Any, INDICES: Any, dY: Any, *, axis: int, match_outer: bool, wrap_indices: bool) -> Any:
        axis = canonical_axis(axis, DATA.ndim)
        if not count(DATA.shape):
            return zeros(xp, DATA.shape, dY)
        if tuple(dY.shape) != _gathered_dims(DATA.shape, INDICES.shape, axis, match_outer):
            raise ValueError(f"dY has shape {tuple(dY.shape)}, which is not what indices of shape "
                             f"{tuple(INDICES.shape)} pick from shape {tuple(DATA.shape)} along axis {axis}")
        places = xp.reshape(_flat_positions(xp, DATA, INDICES, axis, match_outer, wrap_indices), (-1,))
        inner = product(DATA.shape[axis + 1:])
        table = zeros(xp, (product(DATA.shape[:axis + 1]), inner), dY)
        return xp.reshape(xp.scatter_add(table, places, xp.reshape(dY, (places.shape[0], inner))), DATA.shape)


def _range_bounds(xp: Any, ranges: Any, rows: int) -> list[tuple[int, int]]:
    """(start, length) of every range, checked against the number of rows."""
    if ranges.ndim != 3 or ranges.shape[2] != 2 or ranges.shape[1] == 0:
        raise ValueError(f"RANGES has shape {tuple(ranges.shape)}, expected (batch, ranges, 2)")
    flat = int_list(xp, ranges)
    bounds = list(zip(flat[::2], flat[1::2], strict=True))
    for start, length in bounds:
        if length and (start < 0 or length < 0 or start + length > rows):
            raise ValueError(f"the range from {start} of length {length} lies outside of the {rows} rows of DATA")
    return bounds


class GatherRanges(Operator):
    """Pieces of DATA given as (start, length), one behind the other, and the total length per example."""

    inputs = [In("DATA", "1-D"), In("RANGES", "(batch, ranges, 2), int32 or int64")]
    outputs = [Out("OUTPUT", "1-D"), Out("LENGTHS", "(batch,), int32", differentiable=False)]

    strings = True
    example = Example(
        {"DATA": [1.0, 2.0, 3.0], "RANGES": [[[0, 1], [1, 2]]]},
        {"OUTPUT": [1.0, 2.0, 3.0], "LENGTHS": [3]})
    def shape(DATA: TensorType, RANGES: TensorType) -> tuple[TensorType, TensorType]:
        return DATA.with_dims((None,)), TensorType("int32", None if RANGES.dims is None else RANGES.dims[:1])

    def kernel(xp: Any, DATA: Any, RANGES: Any) -> Any:
        if DATA.ndim != 1:
            raise ValueError(f"DATA has shape {tuple(DATA.shape)}, expected one dimension")
        bounds = _range_bounds(xp, RANGES, DATA.shape[0])
        places = [k for start, length in bounds for k in range(start, start + length)]
        each = RANGES.shape[1]
        totals = [sum(length for _, length in bounds[k:k + each]) for k in range(0, len(bounds), each)]
        return (xp.take(DATA, array(xp, places, RANGES, xp.int64), axis=0), array(xp, totals, RANGES, xp.int32))


class GatherRangesToDense(Operator):
    """One output per range: its piece of DATA, or zeros where a range is empty or of another length than expected.

    With KEY, the elements of a piece are put in the order of their keys. Too many ranges of unexpected length raise.
    """

    inputs = [
        In("DATA", "1-D"), In("RANGES", "(batch, outputs, 2): start and length"),
        In("KEY", "1-D int64, one per element of DATA", optional=True),
    ]
    outputs = [Out("OUTPUT", "(batch, length of this output)", variadic=True)]
    arguments = [
        Ints("lengths", (), "of each output"), Int("min_observation", 10000, "examples before the ratios are judged"),
        Float("max_mismatched_ratio", 0.01), Float("max_empty_ratio", 1.0),
    ]
    effects = {"state"}
    gradient = no_gradient
    example = Example(
        {"DATA": [1.0, 2.0, 3.0], "RANGES": [[[0, 1], [1, 2]]]},
        {"OUTPUT0": [[1.0]], "OUTPUT1": [[2.0, 3.0]]},
        {"lengths": [1, 2]})

    def kernel(xp: Any, DATA: Any, RANGES: Any, KEY: Any = None, *, lengths: Any, min_observation: int,
               max_mismatched_ratio: float, max_empty_ratio: float, op: Any) -> Any:
        if DATA.ndim != 1 or not lengths or min(lengths) <= 0:
            raise ValueError(f"DATA has shape {tuple(DATA.shape)} and lengths are {list(lengths)}: "
                             "expected one dimension and a positive length for every output")
        bounds = _range_bounds(xp, RANGES, DATA.shape[0])
        each = RANGES.shape[1]
        if not each == len(lengths) == op.num_outputs:
            raise ValueError(f"there are {each} ranges per example, {len(lengths)} lengths, {op.num_outputs} outputs")
        keys = None if KEY is None else int_list(xp, KEY)
        blank = DATA.shape[0]
        padded = xp.concat([DATA, zeros(xp, (1,), DATA)])
        seen = op.state.setdefault("seen", {"examples": 0, "mismatched": [0] * each, "empty": [0] * each})
        seen["examples"] += RANGES.shape[0]
        outputs = []
        for j, length in enumerate(lengths):
            places: list[int] = []
            for start, found in bounds[j::each]:
                seen["empty"][j] += found == 0
                seen["mismatched"][j] += found not in (0, length)
                piece = list(range(start, start + length)) if found == length else [blank] * length
                places += sorted(piece, key=keys.__getitem__) if keys is not None and found == length else piece
            taken = xp.take(padded, array(xp, places, RANGES, xp.int64), axis=0)
            outputs.append(xp.reshape(taken, (RANGES.shape[0], length)))
        observed = max(seen["examples"], min_observation)
        for what, limit in (("mismatched", max_mismatched_ratio), ("empty", max_empty_ratio)):
            for j, bad in enumerate(seen[what]):
                if limit < 1.0 and bad > observed * limit:
                    raise ValueError(f"{bad} of {seen['examples']} ranges of output {j} are {what}: "
                                     f"more than max_{what}_ratio {limit} allows")
        return tuple(outputs)


def _rows(xp: Any, data: Any, indices: Any) -> tuple[Any, Any]:
    """Data as a matrix and the indices as a checked vector."""
    if data.ndim == 0:
        raise ValueError("the data to update is a scalar, expected rows")
    check_indices(xp, indices, data.shape[0])
    return (xp.reshape(data, (data.shape[0], count(data.shape[1:]))),
            xp.astype(xp.reshape(indices, (-1,)), xp.int64))


def _check_rows(what: str, values: Any, rows: int, width: int) -> None:
    if count(values.shape) != rows * width:
        raise ValueError(f"{what} has shape {tuple(values.shape)}, expected {rows} rows of {width} elements")


class Scatter(Operator):
    """DATA with elements replaced: the index of each update says where along the axis it goes."""

    inputs = [In("DATA"), In("INDICES", "like UPDATES, int32 or int64", differentiable=False),
              In("UPDATES", "dtype of DATA")]
    outputs = [Out("OUTPUT", "like DATA")]
    arguments = [Int("axis", 1)]
    strings = True
    inplace = {(0, 0)}
    shape = same_as(0)
    gradient = forbidden()
    example = Example(
        {"DATA": [[1.0], [2.0]], "INDICES": Tensor([[1]], "int64"), "UPDATES": [[9.0]]},
        {"OUTPUT": [[1.0], [9.0]]},
        {"axis": 0})

    def kernel(xp: Any, DATA: Any, INDICES: Any, UPDATES: Any, *, axis: int) -> Any:
        axis = canonical_axis(axis, DATA.ndim)
        if not count(DATA.shape):
            return DATA
        if tuple(INDICES.shape) != tuple(UPDATES.shape) or INDICES.ndim != DATA.ndim or any(
                a > b for k, (a, b) in enumerate(zip(INDICES.shape, DATA.shape, strict=True)) if k != axis):
            raise ValueError(f"INDICES {tuple(INDICES.shape)} and UPDATES {tuple(UPDATES.shape)} must have one shape "
                             f"that fits into DATA {tuple(DATA.shape)} but for axis {axis}")
        check_indices(xp, INDICES, DATA.shape[axis])
        places = zeros(xp, (1,) * DATA.ndim, INDICES, xp.int64)
        for k in range(DATA.ndim):  # the place of each update when DATA is laid out as a vector
            own = xp.astype(INDICES, xp.int64) if k == axis else xp.reshape(
                array(xp, list(range(INDICES.shape[k])), INDICES, xp.int64),
                tuple(-1 if j == k else 1 for j in range(DATA.ndim)))
            places = places + own * count(DATA.shape[k + 1:])
        vector = xp.index_put(xp.reshape(DATA, (-1,)), xp.reshape(places, (-1,)), xp.reshape(UPDATES, (-1,)))
        return xp.reshape(vector, DATA.shape)

    shares = {(0, 0)}


class ScatterAssign(Operator):
    """Replaces rows of DATA by index; of updates to one row the last stays."""

    inputs = [
        In("DATA", "at least 1-D"), In("INDICES", "int32 or int64", differentiable=False),
        In("SLICES", "a row per index, dtype of DATA"),
    ]
    outputs = [Out("DATA")]
    inplace_required = {(0, 0)}
    shape = same_as(0)
    gradient = forbidden()
    example = Example({"DATA": [[1.0], [2.0]], "INDICES": [1], "SLICES": [[9.0]]}, {"DATA": [[1.0], [9.0]]})

    def kernel(xp: Any, DATA: Any, INDICES: Any, SLICES: Any) -> Any:
        if DATA.dtype != SLICES.dtype:
            raise ValueError(f"SLICES are {xp.dtype_name(SLICES)}, but DATA is {xp.dtype_name(DATA)}")
        table, places = _rows(xp, DATA, INDICES)
        _check_rows("SLICES", SLICES, places.shape[0], table.shape[1])
        rows = xp.reshape(SLICES, (places.shape[0], table.shape[1]))
        return xp.reshape(xp.index_put(table, places, rows), DATA.shape)


class ScatterWeightedSum(Operator):
    """Rows of X_0 become w_0 X_0 + w_1 X_1 + ...; each time an index occurs counts."""

    inputs = [
        In("X_0", "at least 1-D, not empty"), In("Weight_0", "one element"),
        In("INDICES", "int32 or int64", differentiable=False),
        In("X", "a row per index", variadic=True), In("Weight", "one element", variadic=True),
    ]
    outputs = [Out("X_0")]
    num_inputs = Arity(5, None, lambda count: count % 2 == 1, "an odd number from 5 on")
    inplace_required = {(0, 0)}
    shape = same_as(0)
    gradient = forbidden()
    example = Example(
        {"X_0": [[1.0], [2.0]], "Weight_0": [1.0], "INDICES": [1], "X_1": [[9.0]], "Weight_1": [0.5]},
        {"X_0": [[1.0], [6.5]]})

    def kernel(xp: Any, X_0: Any, Weight_0: Any, INDICES: Any, *pairs: Any) -> Any:
        if not count(X_0.shape):
            raise ValueError("X_0 is empty")
        table, places = _rows(xp, X_0, INDICES)
        number(xp, Weight_0, "Weight_0")
        times = xp.scatter_add(zeros(xp, (table.shape[0], 1), table), places,
                               zeros(xp, (places.shape[0], 1), table) + 1)
        table = xp.where(times > 0, table * xp.pow(xp.reshape(Weight_0, (1, 1)), times), table)
        for X, weight in zip(pairs[::2], pairs[1::2], strict=True):
            _check_rows("X", X, places.shape[0], table.shape[1])
            number(xp, weight, "Weight")
            rows = xp.reshape(X, (places.shape[0], table.shape[1]))
            table = xp.scatter_add(table, places, rows * xp.reshape(weight, ()))
        return xp.reshape(table, X_0.shape)


class Unique(Operator):
    """The distinct elements, in order, and for each element where it went."""

    inputs = [In("indices", "int32 or int64, any shape", differentiable=False)]
    outputs = [Out("unique_indices", "1-D, sorted"), Out("remapping", "like indices, int32", optional=True)]
    gradient = forbidden()
    example = Example({"indices": [5, 3, 5]}, {"unique_indices": [3, 5]})

    def shape(indices: TensorType) -> tuple[TensorType, TensorType]:
        return indices.with_dims((None,)), indices.with_dtype("int32")

    def kernel(xp: Any, indices: Any) -> Any:
        if xp.dtype_name(indices) not in ("int32", "int64"):
            raise ValueError(f"indices are {xp.dtype_name(indices)}, expected int32 or int64")
        values, inverse = xp.unique_inverse(xp.reshape(indices, (-1,)))
        return values, xp.astype(xp.reshape(inverse, indices.shape), xp.int32)


class FindDuplicateElements(Operator):
    """Places of the elements that occurred before."""

    inputs = [In("data", "1-D: numbers or strings")]
    outputs = [Out("indices", "1-D int64", differentiable=False)]
    shape = data_dependent(("int64", 1))
    host = True
    gradient = forbidden()
    example = Example({"data": Tensor([1, 2, 1], "int64")}, {"indices": Tensor([2], "int64")})

    def kernel(xp: Any, data: Any) -> Any:
        if data.ndim != 1:
            raise ValueError(f"data has shape {tuple(data.shape)}, expected one dimension")
        seen: set[Any] = set()
        repeated = []
        for k, element in enumerate(data.tolist()):
            if element in seen:
                repeated.append(k)
            seen.add(element)
        return xp.asarray(repeated, dtype=xp.int64)


class Find(Operator):
    """For each query, the last place where it stands in the index."""

    inputs = [In("index", "int32 or int64"), In("query", "like index in dtype")]
    outputs = [Out("query_indices", "like query", differentiable=False)]
    arguments = [Int("missing_value", -1, "for queries that are not there")]
    shape = same_as(1)
    example = Example({"index": [5, 6, 7], "query": [7, 5]}, {"query_indices": [2, 0]})

    def kernel(xp: Any, index: Any, query: Any, *, missing_value: int) -> Any:
        places = {value: k for k, value in enumerate(int_list(xp, index))}
        found = [places.get(value, missing_value) for value in int_list(xp, query)]
        return xp.reshape(array(xp, found, query), query.shape)


class BatchPermutation(Operator):
    """Y[k] = X[indices[k]] for a permutation of the batch."""

    inputs = [In("X", "(N, ...), float"), In("indices", "(N,), int32: a permutation", differentiable=False)]
    outputs = [Out("Y", "like X")]
    shape = same_as(0)
    gradient = emits("BatchPermutationGradient", "I1 GO0", "GI0")
    example = Example({"X": [[1.0], [2.0]], "indices": [1, 0]}, {"Y": [[2.0], [1.0]]})

    def kernel(xp: Any, X: Any, indices: Any) -> Any:
        _check_permutation(xp, X, indices)
        return xp.take(X, indices, axis=0)


def _check_permutation(xp: Any, X: Any, indices: Any) -> None:
    if indices.ndim != 1 or sorted(int_list(xp, indices)) != list(range(X.shape[0])):
        raise ValueError(f"indices of shape {tuple(indices.shape)} are no permutation of the {X.shape[0]} rows")


class BatchPermutationGradient(Operator):
    """dX[indices[k]] = dY[k]."""

    inputs = [In("indices", differentiable=False), In("dY")]
    outputs = [Out("dX", "like dY")]
    shape = same_as(1)
    internal = True
    example = Example({"indices": [1, 0], "dY": [[1.0], [0.5]]}, {"dX": [[0.5], [1.0]]})

    def kernel(xp: Any, indices: Any, dY: Any) -> Any:
        _check_permutation(xp, dY, indices)
        return xp.take(dY, xp.argsort(indices), axis=0)
