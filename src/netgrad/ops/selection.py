"""Choosing entries and rows: the greatest k, by mask, by removal."""

from __future__ import annotations

import math
from typing import Any

from netgrad.graph.arguments import Int
from netgrad.graph.declaration import In, Operator, Out, between, multiple_of
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import Rule, emits, forbidden, no_gradient
from netgrad.graph.shapes import TensorType, same_as
from netgrad.ops._arrays import one_number, require_shape
from netgrad.ops._rows import arange_like, as_index, check_indices, rows_like, rows_of, spread


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"axis must be within -{rank}..{rank - 1} for {rank} dimensions, found {axis}")
    return axis % rank


class TopK(Operator):
    """The k greatest entries along an axis, in falling order; equal ones in their order.

    Where the axis is shorter than k, values are 0 and indices -1 for what is missing.
    """

    inputs = [In("X", "any shape, float"), In("k", "one int64, instead of the argument", optional=True)]
    outputs = [
        Out("Values", "like X, with k entries along the axis"),
        Out("Indices", "the same shape, int64: places along the axis", differentiable=False),
        Out("Flattened_indices", "one-dimensional, int64: places in X flattened", optional=True, differentiable=False),
    ]
    arguments = [Int("k", -1, "how many", as_="k_argument"), Int("axis", -1)]
    gradient = emits("TopKGradient", "GO0 O1 I0", "GI0")
    example = Example(
        {"X": [[3.0, 1.0, 2.0]]},
        {"Values": [[3.0, 2.0]], "Indices": Tensor([[0, 2]], "int64")},
        {"k": 2})

    def shape(X: TensorType, *given: TensorType, k_argument: int, axis: int) -> tuple[TensorType, ...]:
        if X.dims is None:
            return X, TensorType("int64"), TensorType("int64", (None,))
        dims = list(X.dims)
        dims[_axis(axis, len(dims))] = None if given else k_argument
        known = [d for d in dims if d is not None]
        return (X.with_dims(dims), TensorType("int64", tuple(dims)),
                TensorType("int64", (math.prod(known) if len(known) == len(dims) else None,)))

    def kernel(xp: Any, X: Any, k: Any, *, k_argument: int, axis: int, op: Any) -> Any:
        wanted = k_argument if k is None else int(one_number(xp, "k", k))
        if wanted < 1:
            raise ValueError(f"k must be at least 1, found {wanted}; give it as argument or second input")
        axis = _axis(axis, X.ndim)
        rows = xp.moveaxis(X, axis, -1)
        size = rows.shape[-1]
        found = min(wanted, size)
        order = as_index(xp, xp.argsort(rows, axis=-1, descending=True, stable=True)[..., :found])
        values = xp.take_along_axis(rows, order, axis=-1)
        missing = (*order.shape[:-1], wanted - found)
        none = xp.full(missing, -1, dtype=xp.int64, device=X.device)

        def filled(chosen: Any, filler: Any) -> Any:
            return xp.moveaxis(chosen if found == wanted else xp.concat([chosen, filler], axis=-1), -1, axis)

        results = (filled(values, xp.zeros(missing, dtype=X.dtype, device=X.device)), filled(order, none))
        if not op.wants(2):
            return results
        places = xp.moveaxis(xp.reshape(arange_like(xp, math.prod(X.shape), X), X.shape), axis, -1)
        return *results, xp.reshape(filled(xp.take_along_axis(places, order, axis=-1), none), (-1,))


class TopKGradient(Operator):
    """Derivative of TopK by X: the gradients at the places chosen, 0 elsewhere."""

    inputs = [In("dValues"), In("Indices", "int64, -1: none", differentiable=False), In("X", shape_only=True)]
    outputs = [Out("dX", "like X")]
    arguments = [Int("axis", -1)]
    shape = same_as(2)
    internal = True
    example = Example(
        {"dValues": [[1.0, 0.5]], "Indices": Tensor([[0, 2]], "int64"), "X": [[3.0, 1.0, 2.0]]},
        {"dX": [[1.0, 0.0, 0.5]]},
        {"k": 2})

    def kernel(xp: Any, dValues: Any, Indices: Any, X: Any, *, axis: int) -> Any:
        require_shape("Indices", Indices, dValues.shape, ", dValues'")
        axis = _axis(axis, X.ndim)
        kept = Indices.shape[axis] if Indices.ndim == X.ndim else 0
        require_shape("Indices", Indices, (*X.shape[:axis], kept, *X.shape[axis + 1:]), ", X's but for the axis")
        values, order = xp.moveaxis(dValues, axis, -1), as_index(xp, xp.moveaxis(Indices, axis, -1))
        moved = [d for k, d in enumerate(X.shape) if k != axis] + [X.shape[axis]]
        row = xp.reshape(arange_like(xp, math.prod(moved[:-1]), X), (*moved[:-1], 1))
        there = order >= 0
        flat = xp.scatter_add(xp.zeros((math.prod(moved),), dtype=dValues.dtype, device=dValues.device),
                              (row * moved[-1] + order)[there], values[there])
        return xp.moveaxis(xp.reshape(flat, tuple(moved)), -1, axis)


class FlexibleTopK(Operator):
    """TopK along the last axis, with a k of its own for each row; results one after another."""

    inputs = [In("X", "(..., n), float"), In("K", "(rows,) int, each within 1..n", differentiable=False)]
    outputs = [Out("Flatten values", "(sum of K,)"),
               Out("Flatten indices", "(sum of K,) int64: places in the row", differentiable=False)]
    gradient = emits("FlexibleTopKGradient", "I0 I1 GO0 O1", "GI0")
    example = Example(
        {"X": [[3.0, 1.0, 2.0]], "K": Tensor([2], "int64")},
        {"Flatten_values": [3.0, 2.0], "Flatten_indices": Tensor([0, 2], "int64")})

    def shape(X: TensorType, K: TensorType) -> tuple[TensorType, ...]:
        return TensorType(X.dtype, (None,)), TensorType("int64", (None,))

    def kernel(xp: Any, X: Any, K: Any) -> Any:
        rows = xp.reshape(X, (-1, X.shape[-1])) if math.prod(X.shape) else xp.reshape(X, (0, X.shape[-1]))
        if K.ndim != 1 or K.shape[0] != rows.shape[0]:
            raise ValueError(f"K must have one entry per row, {rows.shape[0]}; found shape {tuple(K.shape)}")
        check_indices(xp, K - 1, X.shape[-1], "K - 1")
        order = as_index(xp, xp.argsort(rows, axis=1, descending=True, stable=True))
        there = arange_like(xp, X.shape[-1], X)[None, :] < K[:, None]
        return xp.take_along_axis(rows, order, axis=1)[there], order[there]


class FlexibleTopKGradient(Operator):
    """Derivative of FlexibleTopK by X."""

    inputs = [In("X", shape_only=True), In("K", "(rows,) int64", differentiable=False), In("dvalues", "(sum of K,)"),
              In("indices", "(sum of K,) int64", differentiable=False)]
    outputs = [Out("dX", "like X")]
    shape = same_as(0)
    internal = True
    example = Example(
        {"X": [[3.0, 1.0, 2.0]], "K": Tensor([2], "int64"), "dvalues": [1.0, 0.5], "indices": Tensor([0, 2], "int64")},
        {"dX": [[1.0, 0.0, 0.5]]})

    def kernel(xp: Any, X: Any, K: Any, dvalues: Any, indices: Any) -> Any:
        at = spread(xp, K, indices.shape[0], "K") * X.shape[-1] + as_index(xp, indices)
        flat = xp.zeros((math.prod(X.shape),), dtype=dvalues.dtype, device=dvalues.device)
        return xp.reshape(xp.scatter_add(flat, at, dvalues), X.shape)


class BooleanMask(Operator):
    """The rows whose mask is true, and optionally their numbers."""

    inputs = [In("data", "(N, ...)"), In("mask", "(N,) bool", differentiable=False)]
    outputs = [Out("masked_data", "(rows that are left, ...)"),
               Out("masked_indices", "int64", optional=True, differentiable=False)]
    gradient = emits("BooleanMaskGradient", "I1 GO0", "GI0")
    strings = True
    example = Example({"data": [1.0, 2.0, 3.0], "mask": [True, False, True]}, {"masked_data": [1.0, 3.0]})

    def shape(data: TensorType, mask: TensorType) -> tuple[TensorType, ...]:
        return rows_like(None, data), TensorType("int64", (None,))

    def kernel(xp: Any, data: Any, mask: Any) -> Any:
        if mask.ndim != 1 or mask.shape[0] != data.shape[0]:
            raise ValueError(f"mask must have one entry per row, {data.shape[0]}; found shape {tuple(mask.shape)}")
        rows = as_index(xp, xp.nonzero(mask)[0])
        return xp.take(data, rows, axis=0), rows


class BooleanMaskGradient(Operator):
    """Derivative of BooleanMask by data: the gradients where the mask is true, 0 elsewhere."""

    inputs = [In("mask", "(N,) bool", differentiable=False), In("dmasked_data", "(rows that are left, ...)")]
    outputs = [Out("ddata", "(N, ...)")]
    internal = True
    example = Example({"mask": [True, False, True], "dmasked_data": [1.0, 0.5]}, {"ddata": [1.0, 0.0, 0.5]})

    def shape(mask: TensorType, dmasked_data: TensorType) -> TensorType:
        return rows_like(rows_of(mask), dmasked_data)

    def kernel(xp: Any, mask: Any, dmasked_data: Any) -> Any:
        zeros = xp.zeros((mask.shape[0], *dmasked_data.shape[1:]), dtype=dmasked_data.dtype,
                         device=dmasked_data.device)
        return xp.scatter_add(zeros, as_index(xp, xp.nonzero(mask)[0]), dmasked_data)


class BooleanUnmask(Operator):
    """Puts masked vectors back together: each entry comes from the first vector whose mask is true there."""

    inputs = [In("mask", "(N,) bool", variadic=True, differentiable=False),
              In("data", "the entries where its mask is true", variadic=True)]
    outputs = [Out("unmasked_data", "(N,)")]
    num_inputs = multiple_of(2, least=2)
    gradient = no_gradient
    example = Example(
        {"mask0": [True, False], "data0": [1.0], "mask1": [False, True], "data1": [2.0]},
        {"unmasked_data": [1.0, 2.0]})

    def shape(mask: TensorType, data: TensorType, *others: TensorType) -> TensorType:
        return TensorType(data.dtype, (rows_of(mask),))

    def kernel(xp: Any, *pairs: Any) -> Any:
        out = xp.zeros(pairs[0].shape, dtype=pairs[1].dtype, device=pairs[1].device)
        open_places = xp.ones_like(pairs[0])
        for mask, data in zip(pairs[::2], pairs[1::2], strict=True):
            require_shape("a mask", mask, pairs[0].shape, ", the first mask's")
            mine = xp.nonzero(mask & open_places)[0]
            if mine.shape[0] != data.shape[0]:
                raise ValueError(f"data must have an entry for each place that its mask is the first to name, "
                                 f"{mine.shape[0]}; found {data.shape[0]}")
            out = xp.index_put(out, mine, data)
            open_places = open_places & ~mask
        if bool(xp.any(open_places)):
            raise ValueError(f"no mask is true at place {int(xp.nonzero(open_places)[0][0])}; one must be")
        return out


class RemoveDataBlocks(Operator):
    """The rows that are not named; a row may be named twice."""

    inputs = [In("data", "(N, ...)"), In("indices", "int: rows to leave out", differentiable=False)]
    outputs = [Out("shrunk data", "(rows that are left, ...)")]
    gradient = forbidden("it has none in Caffe2; gather the rows to keep (Gather) where a gradient is needed")
    strings = True
    example = Example({"data": [1.0, 2.0, 3.0], "indices": [1]}, {"shrunk_data": [1.0, 3.0]})

    def shape(data: TensorType, indices: TensorType) -> TensorType:
        return rows_like(None, data)

    def kernel(xp: Any, data: Any, indices: Any) -> Any:
        gone = check_indices(xp, indices, data.shape[0], "indices")
        keep = xp.index_put(xp.ones((data.shape[0],), dtype=xp.bool, device=data.device), gone,
                            xp.zeros(gone.shape, dtype=xp.bool, device=data.device))
        return xp.take(data, as_index(xp, xp.nonzero(keep)[0]), axis=0)


class CopyRowsToTensor(Operator):
    """Writes one row over several rows of a tensor, in place.

    The gradient passes through as if nothing had been overwritten, which is Caffe2's rule: it is right where the rows
    that were overwritten do not matter, and ``row`` has none.
    """

    inputs = [In("input_tensor", "(N, M)"), In("indices", "(K,) int64: rows to overwrite", differentiable=False),
              In("row", "(M,)")]
    outputs = [Out("output_tensor", "the tensor, with its rows replaced")]
    inplace_required = {(0, 0)}
    shape = same_as(0)
    example = Example(
        {"input_tensor": [[1.0], [2.0]], "indices": Tensor([1], "int64"), "row": [9.0]},
        {"input_tensor": [[1.0], [9.0]]},
        wrt=())

    def gradient(op: Rule) -> None:
        if op.is_sparse_GO(0):
            for part, gradient in zip(op.GO_slice(0), (op.GI_indices(0), op.GI_values(0)), strict=True):
                op.emit("CopyRowsToTensorGradient", [part], [gradient])
            op.set_GI_slice(0, op.GI_indices(0), op.GI_values(0))
        else:
            op.emit("CopyRowsToTensorGradient", [op.GO(0)], [op.GI(0)])

    def kernel(xp: Any, input_tensor: Any, indices: Any, row: Any) -> Any:
        if tuple(row.shape) != tuple(input_tensor.shape[1:]):
            raise ValueError("width of input tensor should match lengths of row: the tensor has rows of shape "
                             f"{tuple(input_tensor.shape[1:])}, row has shape {tuple(row.shape)}")
        at = check_indices(xp, indices, input_tensor.shape[0], "indices")
        return xp.index_put(input_tensor, at, xp.broadcast_to(row, (at.shape[0], *row.shape)))


class CopyRowsToTensorGradient(Operator):
    """The gradient of CopyRowsToTensor's tensor: that of its output."""

    inputs = [In("doutput_tensor")]
    outputs = [Out("dinput_tensor", "like doutput_tensor")]
    inplace = {(0, 0)}
    shares = {(0, 0)}
    shape = same_as(0)
    internal = True
    example = Example({"doutput_tensor": [[1.0], [0.5]]}, {"dinput_tensor": [[1.0], [0.5]]})

    def kernel(xp: Any, doutput_tensor: Any) -> Any:
        return doutput_tensor


def _full_window(buffer: TensorType, cursor: TensorType, DATA: TensorType, *more: TensorType, num_to_collect: int,
                 **_: Any) -> tuple[TensorType, ...]:
    window = DATA.with_dims(None if DATA.dims is None else (num_to_collect, *DATA.dims[1:]))
    return window, TensorType("int32", ()), TensorType("int64", ())


class LastNWindowCollector(Operator):
    """Keeps the last num_to_collect rows that were fed, in a ring buffer with a cursor.

    As long as the buffer is not full it grows; then the oldest row is overwritten.
    More rows at once than it holds start it anew.
    """

    inputs = [
        In("last-N buffer", "(up to num_to_collect, ...)"), In("next cursor", "one int32: where the next row goes"),
        In("DATA", "(N, ...)"), In("MUTEX", "opaque; runs are ordered here anyway", optional=True),
        In("NUM_VISITED", "one int64: rows seen so far", optional=True),
    ]
    outputs = [Out("last-N buffer"), Out("next cursor", differentiable=False),
               Out("NUM_VISITED", optional=True, differentiable=False)]
    num_inputs = between(3, 5)
    largest_shape = _full_window
    arguments = [Int("num_to_collect", -1)]
    inplace_required = {(0, 0), (1, 1), (4, 2)}
    inplace_keeps_shape = False
    effects = {"state"}
    host = True
    gradient = forbidden("it collects data for inspection")
    example = Example(
        {"buffer": [[1.0]], "next": 0, "DATA": [[2.0], [3.0]]},
        {"buffer": [[2.0], [3.0]], "next": 2},
        {"num_to_collect": 3})

    def kernel(xp: Any, buffer: Any, cursor: Any, DATA: Any, MUTEX: Any, visited: Any, *, num_to_collect: int) -> Any:
        if num_to_collect < 1:
            raise ValueError(f"num_to_collect must be at least 1, found {num_to_collect}")
        at = int(one_number(xp, "the cursor", cursor))
        if buffer.ndim == 0 or buffer.shape[0] == 0:
            buffer, at = DATA[:0], 0
        if not 0 <= at <= buffer.shape[0] <= num_to_collect or buffer.shape[1:] != DATA.shape[1:]:
            raise ValueError(f"the buffer has shape {buffer.shape} and its cursor is {at}: that does not fit rows of "
                             f"shape {DATA.shape[1:]} and a window of {num_to_collect}; begin with an empty buffer")
        count = DATA.shape[0]
        recent = DATA[max(0, count - num_to_collect):]
        at = 0 if count > num_to_collect else at % num_to_collect
        size = min(num_to_collect, max(buffer.shape[0], at + recent.shape[0]))
        grown = xp.concat([buffer, xp.zeros((size - buffer.shape[0], *DATA.shape[1:]), dtype=DATA.dtype)])
        places = (at + xp.arange(recent.shape[0])) % num_to_collect
        results = (xp.index_put(grown, places, recent),
                   xp.full(cursor.shape, (at + recent.shape[0]) % num_to_collect, dtype=cursor.dtype))
        return results if visited is None else (*results, visited + xp.asarray(count, dtype=visited.dtype))
