"""Joining and taking apart: concatenation, splits, slices, repetition, broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.graph.arguments import Bool, Int, Ints, Str
from netgrad.graph.declaration import In, Operator, Out, between
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import Rule, emits
from netgrad.graph.shapes import Dim, ShapeError, TensorType
from netgrad.ops._arrays import canonical_axis, require_shape, zeros
from netgrad.ops._axes import count, int_list, number, views_of_first
from netgrad.ops._second import broadcast_back, linear

_JOIN_ARGUMENTS = [
    Int("axis", None, "where; that of the channels unless given"),
    Bool("add_axis", False, "along a new axis, `axis`, on which every part has size 1"),
    Str("order", "NCHW", "says which axis the channels have"),
]


def _channel_axis(axis: int | None, order: str) -> int:
    if axis is not None:
        return axis
    return 1 if order == "NCHW" else 3


def _split_concat(op: Rule) -> None:
    """The gradient of a concatenation: its gradient, split into the sizes that were noted."""
    if op.has_GO(0):
        op.emit("Split", [op.GO(0), op.O(1)], [op.GI(k) for k in range(op.num_inputs)])


def _concatenated(*X: TensorType, axis: int | None, add_axis: bool, order: str) -> tuple[TensorType, TensorType]:
    sizes = TensorType("int32", (len(X),))
    add_axis = add_axis and axis is not None
    dtype = "int64" if {x.dtype for x in X} == {"int32", "int64"} else X[0].dtype
    if any(x.dims is None for x in X):
        return TensorType(dtype), sizes
    parts: list[list[Dim]] = [list(x.dims or ()) for x in X]
    rank = len(parts[0]) + add_axis
    place = canonical_axis(_channel_axis(axis, order), rank)
    if add_axis:
        for part in parts:
            part.insert(place, 1)
    for part in parts:
        if len(part) != rank or any(k != place and a != b and None not in (a, b)
                                    for k, (a, b) in enumerate(zip(part, parts[0], strict=True))):
            shapes = ", ".join(str(x.dims) for x in X)
            raise ShapeError(f"shapes {shapes} cannot be joined: they may differ along axis {place} only")
    along = [part[place] for part in parts]
    result = parts[0]
    result[place] = None if None in along else sum(d for d in along if d is not None)
    return TensorType(dtype, tuple(result)), sizes


class Concat(Operator):
    """Joins tensors along an axis, old or new, and notes how much of it each of them takes.

    int32 and int64 give int64: the indices of two look-ups in one table need not agree.
    """

    inputs = [In("X", "all of one dtype, of one shape but for the axis", variadic=True)]
    outputs = [Out("concat_result"), Out("split_info", "1-D int32: sizes along the axis", differentiable=False)]
    arguments = _JOIN_ARGUMENTS
    strings = True
    shape = _concatenated
    gradient = _split_concat
    example = Example(
        {"X0": [[1.0], [2.0]], "X1": [[3.0], [4.0]]},
        {"concat_result": [[1.0, 3.0], [2.0, 4.0]], "split_info": [1, 1]},
        {"axis": 1})

    def kernel(xp: Any, *X: Any, axis: int | None, add_axis: bool, order: str) -> Any:
        if len({x.dtype for x in X}) > 1:
            if {xp.dtype_name(x) for x in X} != {"int32", "int64"}:
                raise ValueError(f"inputs have dtypes {', '.join(map(xp.dtype_name, X))}: expected one dtype")
            X = tuple(xp.astype(x, xp.int64) for x in X)
        add_axis = add_axis and axis is not None
        _concatenated(*(TensorType(None, tuple(x.shape)) for x in X), axis=axis, add_axis=add_axis, order=order)
        place = canonical_axis(_channel_axis(axis, order), X[0].ndim + add_axis)
        sizes = [1 if add_axis else x.shape[place] for x in X]
        joined = xp.stack(X, axis=place) if add_axis else xp.concat(X, axis=place)
        return joined, xp.asarray(sizes, dtype=xp.int32)


class DepthConcat(Operator):
    """Concat under an older name."""

    inputs = Concat.inputs
    outputs = Concat.outputs
    arguments = _JOIN_ARGUMENTS
    strings = True
    shape = _concatenated
    gradient = _split_concat
    kernel = Concat.kernel
    example = Example(
        {"X0": [[[[1.0]]]], "X1": [[[[2.0]]]]},
        {"concat_result": [[[[1.0]], [[2.0]]]], "split_info": [1, 1]})


def _concat_split(op: Rule) -> None:
    """The gradient of a split: the gradients of all parts, joined."""
    if any(map(op.has_GO, range(op.num_outputs))):
        op.emit("Concat", [op.GO_or_zeros(k) for k in range(op.num_outputs)],
                [op.GI(0), op.temp(f"_{op.input_name(0)}_grad_dims")])


def _parts(xp: Any, X: Any, axis: int, sizes: Sequence[int], drop_axis: bool = False) -> tuple[Any, ...]:
    if sum(sizes) != X.shape[axis] or min(sizes) < 0:
        raise ValueError(f"sizes {list(sizes)} do not add up to the {X.shape[axis]} there are along axis {axis}")
    if drop_axis and any(s != 1 for s in sizes):
        raise ValueError(f"with add_axis every part has size 1, found sizes {list(sizes)} along axis {axis}")
    parts, start = [], 0
    for size in sizes:
        part = X[(slice(None),) * axis + (slice(start, start + size),)]
        parts.append(xp.squeeze(part, axis=axis) if drop_axis else part)
        start += size
    return tuple(parts)


class Split(Operator):
    """Takes a tensor apart along an axis, in the given sizes or in equal parts.

    Where some parts have no gradient, the gradient of the input is zero there.
    """

    inputs = [In("input"), In("split", "1-D int32: sizes along the axis, instead of the argument", optional=True)]
    outputs = [Out("output", variadic=True)]
    arguments = [
        *_JOIN_ARGUMENTS, Ints("split", (), "sizes along the axis; equal parts unless given", as_="split_argument"),
    ]
    strings = True
    shares = views_of_first()
    gradient = _concat_split
    example = Example({"input": [1.0, 2.0, 3.0, 4.0]}, {"Y0": [1.0, 2.0], "Y1": [3.0, 4.0]}, {"axis": 0})

    def shape(input: TensorType, split: TensorType | None = None, *, axis: int | None, add_axis: bool, order: str,
              split_argument: Any, num_outputs: int = 0) -> tuple[TensorType, ...]:
        if input.dims is None:
            return (TensorType(input.dtype),) * num_outputs
        place = canonical_axis(_channel_axis(axis, order), len(input.dims))
        before, size, behind = input.dims[:place], input.dims[place], input.dims[place + 1:]
        if add_axis and axis is not None:
            return (input.with_dims((*before, *behind)),) * num_outputs
        sizes: list[Dim] = [None] * num_outputs
        if split_argument:
            sizes = list(split_argument)
        elif split is None and size is not None:
            sizes = [size // num_outputs] * num_outputs
        return tuple(input.with_dims((*before, part, *behind)) for part in sizes)

    def outputs_alike(arguments: Any, inputs: int) -> bool:
        return inputs == 1 and not arguments["split_argument"]

    def kernel(xp: Any, input: Any, split: Any = None, *, axis: int | None, add_axis: bool, order: str,
               split_argument: Any, op: Any) -> Any:
        place = canonical_axis(_channel_axis(axis, order), input.ndim)
        parts = op.num_outputs
        if split is not None:
            if split_argument:
                raise ValueError("the sizes are given twice: by the argument `split` and by the second input")
            sizes = int_list(xp, split)
        elif split_argument:
            sizes = list(split_argument)
        elif input.shape[place] % parts:
            raise ValueError(f"{input.shape[place]} along axis {place} do not make {parts} equal parts: give the sizes")
        else:
            sizes = [input.shape[place] // parts] * parts
        if len(sizes) != parts:
            raise ValueError(f"there are {len(sizes)} sizes for {parts} outputs")
        return _parts(xp, input, place, sizes, drop_axis=add_axis and axis is not None)


class DepthSplit(Operator):
    """Split under an older name."""

    inputs = Split.inputs
    outputs = Split.outputs
    arguments = Split.arguments
    strings = True
    shares = views_of_first()
    gradient = _concat_split
    shape = Split.shape
    outputs_alike = Split.outputs_alike
    kernel = Split.kernel
    example = Example({"input": [[[[1.0]], [[2.0]]]]}, {"Y0": [[[[1.0]]]], "Y1": [[[[2.0]]]]})


class SplitByLengths(Operator):
    """Takes a tensor apart along an axis; each part is as long as its share of the lengths adds up to."""

    inputs = [In("input"), In("legnths", "1-D int32, as many for each output", differentiable=False)]
    outputs = [Out("output", variadic=True)]
    arguments = [
        Int("axis", None, "where; that of the channels unless given"), Str("order", "NCHW"),
        Bool("use_scaling_lengths", False, "lengths are shares of the axis, to be scaled up to its size"),
    ]
    strings = True
    shares = views_of_first()
    gradient = _concat_split
    example = Example({"input": [1.0, 2.0, 3.0], "legnths": [1, 2]}, {"Y0": [1.0], "Y1": [2.0, 3.0]}, {"axis": 0})

    def kernel(xp: Any, input: Any, lengths: Any, *, axis: int | None, order: str, use_scaling_lengths: bool,
               op: Any) -> Any:
        place = canonical_axis(_channel_axis(axis, order), input.ndim)
        extent = input.shape[place]
        given = int_list(xp, lengths)
        if len(given) % op.num_outputs:
            raise ValueError(f"{len(given)} lengths cannot be shared among {op.num_outputs} outputs")
        each = len(given) // op.num_outputs
        sizes = [sum(given[k * each:(k + 1) * each]) for k in range(op.num_outputs)]
        total = sum(sizes)
        if use_scaling_lengths and total:
            if extent % total:
                raise ValueError(f"{extent} along axis {place} is no multiple of the lengths' sum {total}")
            sizes = [s * (extent // total) for s in sizes]
        return _parts(xp, input, place, sizes)


def slice_bounds(dims: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> tuple[slice, ...]:
    """The part that starts and ends stand for; negative ones count from one behind the last place."""
    if len(starts) != len(ends) or len(starts) > len(dims):
        raise ShapeError(f"{len(starts)} starts and {len(ends)} ends for shape {tuple(dims)}: "
                         "expected as many of both, at most one per dimension")
    part = []
    for size, start, end in zip(dims, starts, ends):
        low, high = (min(bound + size + 1 if bound < 0 else bound, size) for bound in (start, end))
        if size == 0:
            low = high = 0
        if not 0 <= low <= high:
            raise ShapeError(f"the bounds {start} and {end} leave nothing of a dimension of {size}")
        part.append(slice(low, high))
    return tuple(part)


def _given_bounds(xp: Any, blobs: Sequence[Any], starts: Any, ends: Any) -> tuple[Sequence[int], Sequence[int]]:
    if blobs:
        return int_list(xp, blobs[0]), int_list(xp, blobs[1])
    if starts is None or ends is None:
        raise ValueError("starts and ends are missing: give them as arguments or as inputs")
    return starts, ends


class Slice(Operator):
    """Y = X[starts[0]:ends[0], starts[1]:ends[1], ...]; -1 is one behind the last place, -2 the last place."""

    inputs = [In("X"), In("starts", "1-D int, instead of the argument", optional=True), In("ends", optional=True)]
    outputs = [Out("Y")]
    strings = True
    num_inputs = between(1, 3)
    arguments = [Ints("starts", None, as_="starts_argument"), Ints("ends", None, as_="ends_argument")]
    shares = {(0, 0)}
    example = Example(
        {"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]},
        {"Y": [[2.0, 3.0], [5.0, 6.0]]},
        {"starts": [0, 1], "ends": [-1, 3]})

    def shape(X: TensorType, *given: TensorType, starts_argument: Any, ends_argument: Any) -> TensorType:
        if given or X.dims is None or starts_argument is None or ends_argument is None:
            return X.with_dims(None if X.rank is None else (None,) * X.rank)
        known = [0 if d is None else d for d in X.dims]
        part = slice_bounds(known, starts_argument, ends_argument)
        return X.with_dims([None if d is None else p.stop - p.start
                            for d, p in zip(X.dims, part)] + list(X.dims[len(part):]))

    def kernel(xp: Any, X: Any, starts: Any = None, ends: Any = None, *, starts_argument: Any,
               ends_argument: Any) -> Any:
        blobs = [] if starts is None else [starts, ends]
        return X[slice_bounds(X.shape, *_given_bounds(xp, blobs, starts_argument, ends_argument))]

    def gradient(op: Rule) -> None:
        op.emit("SliceGradient", [*map(op.I, range(op.num_inputs)), op.GO(0)], [op.GI(0)])


class SliceGradient(Operator):
    """dX is dY at the place that was taken, zero elsewhere."""

    inputs = [
        In("X", "only its shape matters", shape_only=True),
        In("starts, ends, dY", "dY, with starts and ends before it if they were inputs", variadic=True),
    ]
    outputs = [Out("dX", "shape of X, dtype of dY")]
    num_inputs = num_outputs = between(0, None)
    arguments = Slice.arguments
    internal = True
    example = Example(
        {"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "dY": [[1.0, 0.5], [2.0, -1.0]]},
        {"dX": [[0.0, 1.0, 0.5], [0.0, 2.0, -1.0]]},
        {"starts": [0, 1], "ends": [-1, 3]})

    def gradient(op: Rule) -> None:
        last = op.num_inputs - 1
        op.emit("Slice", [op.GO(0), *map(op.I, range(1, last))], [op.GI(last)])

    def shape(X: TensorType, *rest: TensorType, **_: Any) -> TensorType:
        return rest[-1].with_dims(X.dims)

    def kernel(xp: Any, X: Any, *rest: Any, starts_argument: Any, ends_argument: Any) -> Any:
        if len(rest) not in (1, 3):
            raise ValueError(f"there are {len(rest) + 1} inputs, expected X, perhaps starts and ends, and dY")
        dY = rest[-1]
        if not count(X.shape):
            return zeros(xp, X.shape, dY)
        part = slice_bounds(X.shape, *_given_bounds(xp, rest[:-1], starts_argument, ends_argument))
        taken = (*(bounds.stop - bounds.start for bounds in part), *X.shape[len(part):])
        require_shape("dY", dY, taken, ", that of the part of X")
        for axis, bounds in enumerate(part):
            before = (*dY.shape[:axis], bounds.start, *dY.shape[axis + 1:])
            behind = (*dY.shape[:axis], X.shape[axis] - bounds.stop, *dY.shape[axis + 1:])
            if count(before) or count(behind):
                dY = xp.concat([zeros(xp, before, dY), dY, zeros(xp, behind, dY)], axis=axis)
        return xp.reshape(dY, X.shape) if dY is rest[-1] and count(X.shape) else dY

    shares = {(1, 0), (3, 0)}


def _tiling(xp: Any, given: Sequence[Any], tiles: int | None, axis: int | None) -> tuple[int, int]:
    """How often and where: inputs come before arguments."""
    if given:
        if len(given) == 1 and xp.dtype_name(given[0]) == "int64" and axis is not None:
            axis = 0  # Caffe2 takes it so, for the sake of models that count on it
        tiles = int(number(xp, given[0], "tiles"))
    if len(given) > 1:
        axis = int(number(xp, given[1], "axis"))
    if tiles is None or axis is None:
        raise ValueError(f"{'tiles' if tiles is None else 'axis'} is missing: give it as argument or as input")
    return tiles, axis


class Tile(Operator):
    """Repeats X along an axis."""

    inputs = [
        In("X"), In("tiles", "how often, one int, instead of the argument", optional=True),
        In("axis", "along which axis, one int, instead of the argument", optional=True),
    ]
    outputs = [Out("Y")]
    arguments = [Int("tiles", None, as_="tiles_argument"), Int("axis", None, as_="axis_argument")]
    example = Example({"X": [[1.0, 2.0]]}, {"Y": [[1.0, 2.0, 1.0, 2.0]]}, {"tiles": 2, "axis": 1})

    def shape(X: TensorType, *given: TensorType, tiles_argument: Any, axis_argument: Any) -> TensorType:
        if X.dims is None or given or tiles_argument is None or axis_argument is None:
            return X.with_dims(None if X.rank is None else (None,) * X.rank)
        dims = list(X.dims)
        place = canonical_axis(axis_argument, len(dims))
        size = dims[place]
        dims[place] = None if size is None else size * tiles_argument
        return X.with_dims(dims)

    def kernel(xp: Any, X: Any, tiles: Any = None, axis: Any = None, *, tiles_argument: Any, axis_argument: Any) -> Any:
        times, where = _tiling(xp, [g for g in (tiles, axis) if g is not None], tiles_argument, axis_argument)
        place = canonical_axis(where, X.ndim)
        if times < 0:
            raise ValueError(f"tiles is {times}, expected a count")
        return xp.concat([X] * times, axis=place) if times else X[(slice(None),) * place + (slice(0, 0),)]

    shares = {(0, 0)}

    def gradient(op: Rule) -> None:
        op.emit("TileGradient", [op.GO(0), *map(op.I, range(1, op.num_inputs))], [op.GI(0)])


class TileGradient(Operator):
    """dX is the sum over the repetitions in dY."""

    inputs = [In("dY"), In("tiles", optional=True), In("axis", optional=True)]
    outputs = [Out("dX")]
    arguments = Tile.arguments
    internal = True
    gradient = linear("Tile", "GO0", to=0)
    example = Example({"dY": [[1.0, 0.5, 2.0, -1.0]]}, {"dX": [[3.0, -0.5]]}, {"tiles": 2, "axis": 1})

    def kernel(xp: Any, dY: Any, tiles: Any = None, axis: Any = None, *, tiles_argument: Any,
               axis_argument: Any) -> Any:
        times, where = _tiling(xp, [g for g in (tiles, axis) if g is not None], tiles_argument, axis_argument)
        place = canonical_axis(where, dY.ndim)
        if times <= 0 or dY.shape[place] % times:
            raise ValueError(f"dY has {dY.shape[place]} along axis {place}, which are no {times} repetitions")
        split = xp.reshape(dY, (*dY.shape[:place], times, dY.shape[place] // times, *dY.shape[place + 1:]))
        return xp.sum(split, axis=place, dtype=dY.dtype)


class NumpyTile(Operator):
    """Repeats data along every axis, like NumPy's tile."""

    inputs = [In("data"), In("repeats", "1-D int64, one per axis")]
    outputs = [Out("tiled_data")]
    num_outputs = between(0, None)

    strings = True
    example = Example(
        {"data": [[1.0, 2.0]], "repeats": Tensor([2, 2], "int64")},
        {"tiled_data": [[1.0, 2.0, 1.0, 2.0], [1.0, 2.0, 1.0, 2.0]]})
    def shape(data: TensorType, repeats: TensorType) -> TensorType:
        return data.with_dims(None if data.rank is None else (None,) * data.rank)

    def kernel(xp: Any, data: Any, repeats: Any) -> Any:
        times = int_list(xp, repeats)
        if len(times) != data.ndim or min(times, default=0) < 0:
            raise ValueError(f"repeats are {times} for shape {tuple(data.shape)}: expected one count for every axis")
        return xp.tile(data, tuple(times))


class Expand(Operator):
    """Broadcasts X to a shape; where that has 0 or less, X's own dimension stays."""

    inputs = [In("X"), In("shape", "1-D int64", differentiable=False)]
    outputs = [Out("Y")]
    gradient = emits("ExpandGradient", "GO0 I0", "GI0")
    shares = {(0, 0)}
    example = Example(
        {"X": [[1.0], [2.0]], "shape": Tensor([2, 3], "int64")},
        {"Y": [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]})

    def shape(X: TensorType, shape: TensorType) -> TensorType:
        return TensorType(X.dtype)

    def kernel(xp: Any, X: Any, shape: Any) -> Any:
        wanted = [w if w > 0 else 1 for w in int_list(xp, shape)]
        rank = max(len(wanted), X.ndim)
        ours = (1,) * (rank - X.ndim) + tuple(X.shape)
        wanted = [1] * (rank - len(wanted)) + wanted
        if any(1 not in (a, b) and a != b for a, b in zip(ours, wanted, strict=True)):
            raise ValueError(f"shape {tuple(X.shape)} does not broadcast with {tuple(wanted)}")
        return xp.broadcast_to(X, tuple(b if a == 1 else a for a, b in zip(ours, wanted, strict=True)))


class ExpandGradient(Operator):
    """dX is the sum of dY over what was broadcast."""

    inputs = [In("dY"), In("X", "only its shape matters", shape_only=True)]
    outputs = [Out("dX", "shape of X, dtype of dY")]
    internal = True
    shares = {(0, 0)}
    gradient = broadcast_back
    example = Example({"dY": [[1.0, 0.5, 2.0], [-1.0, 0.25, 3.0]], "X": [[1.0], [2.0]]}, {"dX": [[3.5], [2.25]]})

    def shape(dY: TensorType, X: TensorType) -> TensorType:
        return dY.with_dims(X.dims)

    def kernel(xp: Any, dY: Any, X: Any) -> Any:
        new = dY.ndim - X.ndim
        if new < 0 or any(n not in (1, m) for n, m in zip(X.shape, dY.shape[new:], strict=True)):
            raise ValueError(f"dY has shape {tuple(dY.shape)}, which X of shape {tuple(X.shape)} was not broadcast to")
        axes = tuple(k for k in range(dY.ndim) if k < new or (X.shape[k - new] == 1 and dY.shape[k] != 1))
        return xp.reshape(xp.sum(dY, axis=axes, dtype=dY.dtype) if axes else dY, X.shape)
