"""Sequences of different lengths: padding, packing into one tensor, masking, reversing."""

from __future__ import annotations

import math
from typing import Any

from netgrad.graph.arguments import Bool, Float, Int, Str
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example
from netgrad.graph.rules import Rule, emits, through_kernel
from netgrad.graph.shapes import TensorType, same_as
from netgrad.ops._rows import (
    arange_like,
    as_index,
    check_indices,
    check_lengths,
    padded,
    places,
    rows_like,
    rows_of,
    spread,
    starts,
)

PADDING = [
    Int("padding_width", 1, "rows of padding before each sequence"),
    Int("end_padding_width", -1, "rows of padding after it; as many as before unless given"),
]
PADDED_LENGTHS = In("lengths", "(S,) int, padding included; one sequence unless given",
                    optional=True, differentiable=False)


def _widths(padding_width: int, end_padding_width: int) -> tuple[int, int]:
    if padding_width < 0 or end_padding_width < -1:
        raise ValueError(f"padding widths must not be negative, found {padding_width} and {end_padding_width}")
    return padding_width, padding_width if end_padding_width == -1 else end_padding_width


def _lengths(xp: Any, data: Any, lengths: Any) -> Any:
    if lengths is None:
        return xp.full((1,), data.shape[0], dtype=xp.int64, device=data.device)
    return check_lengths(xp, lengths, "lengths")


def _edges(xp: Any, lengths: Any, start: int, end: int) -> tuple[Any, Any]:
    """Row numbers of the first ``start`` and the last ``end`` rows of each sequence, flat."""
    if lengths.shape[0] and int(xp.min(lengths)) < start + end:
        raise ValueError(f"a padded sequence has at least {start + end} rows, found one of {int(xp.min(lengths))}")
    first = starts(xp, lengths)[:, None]
    return (xp.reshape(first + arange_like(xp, start, lengths)[None, :], (-1,)),
            xp.reshape(first + lengths[:, None] - end + arange_like(xp, end, lengths)[None, :], (-1,)))


class AddPadding(Operator):
    """Puts rows of padding before and after each sequence: zeros, or one row for the start and one for the end."""

    inputs = [
        In("data_in", "(N, ...)"),
        In("lengths", "(S,) int; one sequence unless given", optional=True, differentiable=False),
        In("start_padding", "a row, (...)", optional=True),
        In("end_padding", "a row, (...); the start's unless given", optional=True),
    ]
    outputs = [Out("data_out", "(N + S * both widths, ...)"),
               Out("lengths_out", "(S,) int32", optional=True, differentiable=False)]
    arguments = PADDING
    example = Example(
        {"data_in": [1.0, 2.0, 3.0], "lengths": [1, 2]},
        {"data_out": [0.0, 1.0, 0.0, 0.0, 2.0, 3.0, 0.0], "lengths_out": [3, 4]},
        {"padding_width": 1})

    def shape(data_in: TensorType, *others: TensorType, **widths: int) -> tuple[TensorType, ...]:
        sequences = rows_of(others[0]) if others else 1
        count = rows_of(data_in)
        total = None if count is None or sequences is None else count + sequences * sum(_widths(**widths))
        return rows_like(total, data_in), TensorType("int32", (sequences,))

    def kernel(xp: Any, data_in: Any, lengths: Any, start_padding: Any, end_padding: Any, *, padding_width: int,
               end_padding_width: int) -> Any:
        start, end = _widths(padding_width, end_padding_width)
        lengths = _lengths(xp, data_in, lengths)
        segments = spread(xp, lengths, data_in.shape[0], "lengths")
        longer = lengths + (start + end)
        row = tuple(data_in.shape[1:])
        out = xp.zeros((data_in.shape[0] + lengths.shape[0] * (start + end), *row), dtype=data_in.dtype,
                       device=data_in.device)
        at = xp.take(starts(xp, longer), segments, axis=0) + places(xp, lengths, segments) + start
        out = xp.index_put(out, at, data_in)
        if start_padding is not None:
            last = start_padding if end_padding is None else end_padding
            for rows, padding in zip(_edges(xp, longer, start, end), (start_padding, last), strict=True):
                if math.prod(padding.shape) != math.prod(row):
                    raise ValueError(f"padding must be a row of shape {row}, found shape {tuple(padding.shape)}")
                padding = xp.broadcast_to(xp.reshape(padding, row), (rows.shape[0], *row))
                out = xp.index_put(out, rows, padding)
        return out, xp.astype(longer, xp.int32)

    def gradient(op: Rule) -> None:
        if op.num_inputs == 1:
            op.emit("RemovePadding", [op.GO(0)], [op.GI(0)])
            return
        if op.num_outputs == 1:  # no new lengths, by which RemovePadding could tell the sequences apart
            op.through_kernel()
            return
        op.emit("RemovePadding", [op.GO(0), op.O(1)], [op.GI(0)])
        if op.num_inputs > 2:
            op.emit("GatherPadding", [op.GO(0), op.O(1)], [op.GI(k) for k in range(2, op.num_inputs)])


class RemovePadding(Operator):
    """Takes the padding off each sequence: the inverse of AddPadding."""

    inputs = [In("data_in", "(N, ...)"), PADDED_LENGTHS]
    outputs = [Out("data_out", "(N - S * both widths, ...)"),
               Out("lengths_out", "(S,) int32", optional=True, differentiable=False)]
    arguments = PADDING
    example = Example(
        {"data_in": [0.0, 1.0, 0.0, 0.0, 2.0, 3.0, 0.0], "lengths": [3, 4]},
        {"data_out": [1.0, 2.0, 3.0], "lengths_out": [1, 2]},
        {"padding_width": 1})

    def shape(data_in: TensorType, *others: TensorType, **widths: int) -> tuple[TensorType, ...]:
        sequences = rows_of(others[0]) if others else 1
        count = rows_of(data_in)
        total = None if count is None or sequences is None else count - sequences * sum(_widths(**widths))
        return rows_like(total, data_in), TensorType("int32", (sequences,))

    def kernel(xp: Any, data_in: Any, lengths: Any, *, padding_width: int, end_padding_width: int) -> Any:
        start, end = _widths(padding_width, end_padding_width)
        lengths = _lengths(xp, data_in, lengths)
        segments = spread(xp, lengths, data_in.shape[0], "lengths")
        _edges(xp, lengths, start, end)
        place = places(xp, lengths, segments)
        kept = (place >= start) & (place < xp.take(lengths, segments, axis=0) - end)
        return data_in[kept, ...], xp.astype(lengths - (start + end), xp.int32)

    def gradient(op: Rule) -> None:
        if op.num_inputs == 1:
            op.emit("AddPadding", [op.GO(0)], [op.GI(0)])
        elif op.num_outputs == 1:  # as in AddPadding
            op.through_kernel()
        else:
            op.emit("AddPadding", [op.GO(0), op.O(1)], [op.GI(0)])


class GatherPadding(Operator):
    """The sum of all rows of padding: of those before and those after the sequences, or of both where one output."""

    inputs = [In("data_in", "(N, ...)"), In("lengths", "(S,) int, padding included", differentiable=False)]
    outputs = [Out("padding_sum", "a row, (...)"), Out("end_padding_sum", "a row, (...)", optional=True)]
    arguments = PADDING
    gradient = through_kernel
    example = Example({"data_in": [[9.0], [1.0], [8.0]], "lengths": [3]}, {"padding_sum": [17.0]}, {"padding_width": 1})

    def shape(data_in: TensorType, *others: TensorType, **widths: int) -> tuple[TensorType, ...]:
        row = data_in.with_dims(None if data_in.dims is None else data_in.dims[1:])
        if not any(_widths(widths["padding_width"], widths["end_padding_width"])):
            row = TensorType("int64", ())
        return row, row

    def kernel(xp: Any, data_in: Any, lengths: Any, *, padding_width: int, end_padding_width: int, op: Any) -> Any:
        start, end = _widths(padding_width, end_padding_width)
        if start + end == 0:  # Caffe2 has looked at no data here, and answers with an integer zero
            nothing = xp.zeros((), dtype=xp.int64, device=data_in.device)
            return nothing, nothing
        lengths = _lengths(xp, data_in, lengths)
        spread(xp, lengths, data_in.shape[0], "lengths")
        first, last = (xp.sum(xp.take(data_in, rows, axis=0), axis=0, dtype=data_in.dtype)
                       for rows in _edges(xp, lengths, start, end))
        return (first, last) if op.wants(1) else first + last


class PackSegments(Operator):
    """Sequences one after another to one tensor, each padded with zeros (or minus infinity) to a common length."""

    inputs = [In("lengths", "(S,) int", differentiable=False), In("tensor", "(N, ...)")]
    outputs = [
        Out("packed_tensor", "(S, max_length, ...)"),
        Out("presence_mask", "(S, max_length) bool: true where a row is", optional=True, differentiable=False),
    ]
    arguments = [
        Int("max_length", -1, "longer sequences are cut; the longest one's length unless given"),
        Bool("pad_minf", False, "pad floats with minus infinity"),
        Bool("return_presence_mask", False, "of no effect: the mask is made where it is asked for"),
    ]
    gradient = emits("UnpackSegments", "I0 GO0", "GI1")
    strings = True
    example = Example(
        {"lengths": [1, 2], "tensor": [[1.0], [2.0], [3.0]]},
        {"packed_tensor": [[[1.0], [0.0]], [[2.0], [3.0]]]})

    def shape(lengths: TensorType, tensor: TensorType, *, max_length: int, **others: Any) -> tuple[TensorType, ...]:
        grid = (rows_of(lengths), None if max_length == -1 else max_length)
        return (tensor.with_dims(None if tensor.dims is None else (*grid, *tensor.dims[1:])), TensorType("bool", grid))

    def kernel(xp: Any, lengths: Any, tensor: Any, *, max_length: int, pad_minf: bool, op: Any) -> Any:
        lengths = check_lengths(xp, lengths, "lengths")
        width = max_length if max_length != -1 else int(xp.max(lengths)) if lengths.shape[0] else 0
        minus_infinity = pad_minf and xp.isdtype(tensor.dtype, "real floating")
        packed = padded(xp, tensor, lengths, width, -float("inf") if minus_infinity else 0)
        if not op.wants(1):
            return packed
        return packed, arange_like(xp, width, lengths)[None, :] < lengths[:, None]


class UnpackSegments(Operator):
    """The inverse of PackSegments: the rows that are no padding, one sequence after another.

    As the gradient of a PackSegments that cut sequences at max_length, it gives the rows that were cut off zeros.
    """

    inputs = [In("lengths", "(S,) int", differentiable=False), In("tensor", "(S, T, ...)")]
    outputs = [Out("packed_tensor", "(sum of lengths, ...)")]
    arguments = [Int("max_length", -1, "sequences are cut at this length")]
    gradient = emits("PackSegments", "I0 GO0", "GI1")
    strings = True
    example = Example(
        {"lengths": [1, 2], "tensor": [[[1.0], [0.0]], [[2.0], [3.0]]]},
        {"packed_tensor": [[1.0], [2.0], [3.0]]})

    def shape(lengths: TensorType, tensor: TensorType, **arguments: Any) -> TensorType:
        return tensor.with_dims(None if tensor.dims is None else (None, *tensor.dims[2:]))

    def kernel(xp: Any, lengths: Any, tensor: Any, *, max_length: int, op: Any) -> Any:
        lengths = check_lengths(xp, lengths, "lengths")
        if tensor.ndim < 2 or tensor.shape[0] != lengths.shape[0]:
            raise ValueError(f"tensor must have shape ({lengths.shape[0]}, T, ...), found {tuple(tensor.shape)}")
        width = tensor.shape[1]
        if max_length != -1 and max_length != width:
            raise ValueError(f"max_length is {max_length}, but the tensor's sequences have room for {width}")
        cut = xp.minimum(lengths, xp.full_like(lengths, width))
        if max_length == -1 and bool(xp.any(cut < lengths)):
            raise ValueError(f"a length is {int(xp.max(lengths))}, but the tensor's sequences have room for {width}")
        segments = spread(xp, cut)
        rows = xp.reshape(tensor, (-1 if math.prod(tensor.shape) else tensor.shape[0] * width, *tensor.shape[2:]))
        kept = xp.take(rows, segments * width + places(xp, cut, segments), axis=0)
        if not op.definition.is_gradient_op or cut.shape[0] == 0:
            return kept
        out = xp.zeros((int(xp.sum(lengths)), *tensor.shape[2:]), dtype=tensor.dtype, device=tensor.device)
        at = xp.take(starts(xp, lengths), segments, axis=0) + places(xp, cut, segments)
        return xp.index_put(out, at, kept)


class PackRNNSequence(Operator):
    """Sequences one after another to (time, sequence, ...), padded with zeros to the longest."""

    inputs = [In("values", "(N, D, ...)"), In("lengths", "(S,) int", differentiable=False)]
    outputs = [Out("output", "(T, S, D, ...)")]
    gradient = emits("UnpackRNNSequence", "GO0 I1", "GI0")
    example = Example(
        {"values": [[1.0], [2.0], [3.0]], "lengths": [1, 2]},
        {"output": [[[1.0], [2.0]], [[0.0], [3.0]]]})

    def shape(values: TensorType, lengths: TensorType) -> TensorType:
        return values.with_dims(None if values.dims is None else (None, rows_of(lengths), *values.dims[1:]))

    def kernel(xp: Any, values: Any, lengths: Any) -> Any:
        lengths = check_lengths(xp, lengths, "lengths")
        width = int(xp.max(lengths)) if lengths.shape[0] else 0
        return xp.moveaxis(padded(xp, values, lengths, width, 0), 1, 0)


class UnpackRNNSequence(Operator):
    """The inverse of PackRNNSequence."""

    inputs = [In("values", "(T, S, D, ...)"), In("lengths", "(S,) int", differentiable=False)]
    outputs = [Out("output", "(N, D, ...)")]
    gradient = emits("PackRNNSequence", "GO0 I1", "GI0")
    example = Example(
        {"values": [[[1.0], [2.0]], [[0.0], [3.0]]], "lengths": [1, 2]},
        {"output": [[1.0], [2.0], [3.0]]})

    def shape(values: TensorType, lengths: TensorType) -> TensorType:
        return values.with_dims(None if values.dims is None else (None, *values.dims[2:]))

    def kernel(xp: Any, values: Any, lengths: Any) -> Any:
        count = check_lengths(xp, lengths, "lengths").shape[0]
        if values.ndim < 2 or values.shape[1] != count:
            raise ValueError(f"values must have shape (T, {count}, ...), found {tuple(values.shape)}")
        segments = spread(xp, lengths)
        time = check_indices(xp, places(xp, as_index(xp, lengths), segments), values.shape[0], "lengths - 1")
        rows = xp.reshape(values, (values.shape[0] * count, *values.shape[2:]))
        return xp.take(rows, time * count + segments, axis=0)


def _time_mask(xp: Any, data: Any, lengths: Any) -> tuple[Any, Any]:
    """Times (T, 1) and lengths (1, S) of data (T, S, ...), checked."""
    lengths = check_lengths(xp, lengths, "lengths")
    if data.ndim < 2 or data.shape[1] != lengths.shape[0]:
        raise ValueError(f"data must have shape (T, {lengths.shape[0]}, ...), found {tuple(data.shape)}")
    if lengths.shape[0] and int(xp.max(lengths)) > data.shape[0]:
        raise ValueError(f"a length is {int(xp.max(lengths))}, but there are {data.shape[0]} time steps")
    return arange_like(xp, data.shape[0], lengths)[:, None], lengths[None, :]


class ReversePackedSegs(Operator):
    """Reverses each sequence of a tensor (time, sequence, ...) in time; padding stays where it is."""

    inputs = [In("data", "(T, S, ...)"), In("lengths", "(S,) int", differentiable=False)]
    outputs = [Out("reversed data", "like data")]
    shape = same_as(0)
    gradient = emits("ReversePackedSegs", "GO0 I1", "GI0")
    example = Example(
        {"data": [[[1.0], [2.0]], [[3.0], [4.0]]], "lengths": [1, 2]},
        {"reversed_data": [[[1.0], [4.0]], [[3.0], [2.0]]]})

    def kernel(xp: Any, data: Any, lengths: Any) -> Any:
        time, lengths = _time_mask(xp, data, lengths)
        source = xp.where(time < lengths, lengths - 1 - time, time)
        count = data.shape[1]
        rows = xp.reshape(source * count + arange_like(xp, count, lengths)[None, :], (-1,))
        flat = xp.reshape(data, (data.shape[0] * count, *data.shape[2:]))
        return xp.reshape(xp.take(flat, rows, axis=0), data.shape)


class VariableLengthSequencePadding(Operator):
    """Sets to zero what lies beyond each sequence's length in a tensor (time, sequence, ...)."""

    inputs = [In("X", "(T, S, ...)"), In("lengths", "(S,) int", differentiable=False)]
    outputs = [Out("Y", "like X")]
    inplace = {(0, 0)}
    shape = same_as(0)
    example = Example(
        {"X": [[[1.0], [2.0]], [[3.0], [4.0]]], "lengths": [1, 2]},
        {"Y": [[[1.0], [2.0]], [[0.0], [4.0]]]})

    def kernel(xp: Any, X: Any, lengths: Any) -> Any:
        time, lengths = _time_mask(xp, X, lengths)
        there = xp.reshape(time < lengths, (*X.shape[:2], *(1,) * (X.ndim - 2)))
        return xp.where(there, X, xp.zeros_like(X))


def _axis(axis: int, rank: int, name: str) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"{name} must be within -{rank}..{rank - 1} for {rank} dimensions, found {axis}")
    return axis % rank


class SequenceMask(Operator):
    """Fills part of each row with fill_val (with ``grad``: with 0, which is its derivative).

    The input is seen as a matrix: axes before ``axis`` are its rows, ``axis`` and later ones its columns. By ``mode``,
    an entry stays where its column is below the row's length ("sequence"), within ``radius`` of the row's center
    ("window"), not above the diagonal ("upper"), not below it ("lower"), below it ("upperdiag"), above ("lowerdiag").
    Axes up to ``batch`` are batches of such matrices; columns from ``repeat_from_axis`` on share one decision.
    """

    inputs = [In("input", "any shape, float"),
              In("sequence_lengths", "(rows,) int: lengths, or centers of windows",
                 optional=True, differentiable=False)]
    outputs = [Out("masked_tensor", "like input")]
    arguments = [
        Str("mode", ""), Int("axis", 1), Bool("grad", False), Int("radius", 10),
        Float("fill_val", -math.inf), Int("batch", None), Int("repeat_from_axis", None),
    ]
    shape = same_as(0)
    example = Example(
        {"input": [[1.0, 2.0], [3.0, 4.0]], "sequence_lengths": [1, 2]},
        {"masked_tensor": [[1.0, -1.0], [3.0, 4.0]]},
        {"mode": "sequence", "fill_val": -1.0})

    def kernel(xp: Any, input: Any, sequence_lengths: Any, *, mode: str, axis: int, grad: bool, radius: int,
               fill_val: float, batch: int | None, repeat_from_axis: int | None) -> Any:
        rank, dims = input.ndim, tuple(input.shape)
        axis = _axis(axis, rank, "axis")
        batches = 0 if batch is None else _axis(batch, rank, "batch") + 1
        if batches > axis:
            raise ValueError(f"batch must be before axis {axis}, found {batch}")
        row_dims, column_dims = dims[batches:axis], dims[axis:]
        if repeat_from_axis is not None and mode == "sequence":
            column_dims = dims[axis:_axis(repeat_from_axis, rank, "repeat_from_axis")]
        rows, columns = math.prod(row_dims), math.prod(column_dims)
        i, j = arange_like(xp, rows, input)[:, None], arange_like(xp, columns, input)[None, :]
        if mode in ("sequence", "window"):
            if sequence_lengths is None or sequence_lengths.shape[0] < rows:
                raise ValueError(f"mode {mode!r} needs a second input with an entry for each of {rows} rows, found "
                                 f"{'none' if sequence_lengths is None else sequence_lengths.shape[0]}")
            limit = as_index(xp, sequence_lengths)[:rows, None]
            stays = j < limit if mode == "sequence" else xp.abs(j - limit) <= radius
        elif mode in _TRIANGLES:
            stays = _TRIANGLES[mode](i, j)
        else:
            raise ValueError(f"mode must be sequence, window, {', '.join(_TRIANGLES)}; found {mode!r}")
        stays = xp.reshape(stays, (1,) * batches + row_dims + column_dims + (1,) * (rank - axis - len(column_dims)))
        return xp.where(stays, input, xp.full_like(input, 0.0 if grad else fill_val))

    def gradient(op: Rule) -> None:
        op.copy_arguments = False  # in Caffe2 they stand before `grad`
        forward = {name: op.arg(name) for name in op.argument_names() if name != "grad"}
        op.emit("SequenceMask", [op.GO(0), *(op.I(k) for k in range(1, op.num_inputs))], [op.GI(0)], **forward,
                grad=True)


_TRIANGLES: dict[str, Any] = {
    "upper": lambda i, j: j <= i, "lower": lambda i, j: j >= i,
    "upperdiag": lambda i, j: j < i, "lowerdiag": lambda i, j: j > i,
}
