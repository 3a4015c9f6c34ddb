"""One-hot codes of indices, values and buckets."""

from __future__ import annotations

from typing import Any

from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import no_gradient
from netgrad.graph.shapes import TensorType
from netgrad.ops._arrays import array, full, zeros
from netgrad.ops._axes import check_indices, count, int_list, number


class OneHot(Operator):
    """Row k is 1 in column indices[k] and 0 elsewhere."""

    inputs = [In("indices", "1-D int64"), In("index_size_tensor", "one int64: the number of columns")]
    outputs = [Out("one_hots", "(number of indices, columns), float32", differentiable=False)]
    gradient = no_gradient
    example = Example(
        {"indices": Tensor([1, 0], "int64"), "index_size_tensor": Tensor([3], "int64")},
        {"one_hots": [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]})

    def shape(indices: TensorType, index_size_tensor: TensorType) -> TensorType:
        return TensorType("float32", None if indices.dims is None else (indices.dims[0], None))

    def kernel(xp: Any, indices: Any, index_size_tensor: Any) -> Any:
        if indices.ndim != 1:
            raise ValueError(f"indices have shape {tuple(indices.shape)}, expected one dimension")
        columns = int(number(xp, index_size_tensor, "index_size_tensor"))
        check_indices(xp, indices, columns)
        places = array(xp, list(range(columns)), indices)
        return xp.astype(xp.reshape(indices, (-1, 1)) == xp.reshape(places, (1, -1)), xp.float32)


class SegmentOneHot(Operator):
    """Row k is 1 in all columns that segment k of the indices names."""

    inputs = [
        In("lengths", "1-D int32, of the segments"), In("indices", "1-D int64"), In("index_size_tensor", "one int64"),
    ]
    outputs = [Out("one_hots", "(number of segments, columns), float32", differentiable=False)]
    gradient = no_gradient
    example = Example(
        {"lengths": [1, 2], "indices": Tensor([0, 1, 2], "int64"), "index_size_tensor": Tensor([3], "int64")},
        {"one_hots": [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]})

    def shape(lengths: TensorType, *_: TensorType) -> TensorType:
        return TensorType("float32", None if lengths.dims is None else (lengths.dims[0], None))

    def kernel(xp: Any, lengths: Any, indices: Any, index_size_tensor: Any) -> Any:
        columns = int(number(xp, index_size_tensor, "index_size_tensor"))
        check_indices(xp, indices, columns)
        sizes = int_list(xp, lengths)
        if sum(sizes) != indices.shape[0]:
            raise ValueError(f"lengths add up to {sum(sizes)}, but there are {indices.shape[0]} indices")
        rows = [k for k, size in enumerate(sizes) for _ in range(size)]
        places = array(xp, rows, indices) * columns + indices
        flat = zeros(xp, (len(sizes) * columns,), indices, xp.float32)
        return xp.reshape(xp.index_put(flat, places, full(xp, (len(rows),), 1, flat)), (len(sizes), columns))


class BatchOneHot(Operator):
    """Compares each column of data with its own list of values: 1 where they are equal."""

    inputs = [
        In("data", "(N, D), int32 or int64"), In("lengths", "(D,), int32: how many values each column has"),
        In("values", "all values, column by column, dtype of data"),
    ]
    outputs = [Out("output", "(N, number of values), dtype of data", differentiable=False)]
    gradient = no_gradient
    example = Example({"data": [[1, 4]], "lengths": [2, 1], "values": [1, 2, 4]}, {"output": [[1, 0, 1]]})

    def shape(data: TensorType, lengths: TensorType, values: TensorType) -> TensorType:
        if data.dims is None or values.dims is None:
            return data.with_dims((None, None))
        return data.with_dims((data.dims[0], count(values.dims)))

    def kernel(xp: Any, data: Any, lengths: Any, values: Any) -> Any:
        sizes = int_list(xp, lengths)
        if data.ndim != 2 or data.shape[1] != len(sizes) or sum(sizes) != count(values.shape):
            raise ValueError(f"data has shape {tuple(data.shape)}, lengths are {sizes}, values have shape "
                             f"{tuple(values.shape)}: expected a length per column and as many values")
        columns = array(xp, [k for k, size in enumerate(sizes) for _ in range(size)], lengths, xp.int64)
        return xp.astype(xp.take(data, columns, axis=1) == xp.reshape(values, (1, -1)), data.dtype)


class BatchBucketOneHot(Operator):
    """Sorts each column of data into buckets between its own boundaries: 1 in the column of the bucket."""

    inputs = [
        In("data", "(N, D), float32"), In("lengths", "(D,), int32: how many boundaries each column has"),
        In("boundaries", "all boundaries, column by column, each list in order"),
    ]
    outputs = [Out("output", "(N, number of boundaries + D), float32", differentiable=False)]
    example = Example(
        {"data": [[1.5, 5.0]], "lengths": [1, 2], "boundaries": [1.0, 4.0, 6.0]},
        {"output": [[0.0, 1.0, 0.0, 1.0, 0.0]]})

    def shape(data: TensorType, lengths: TensorType, boundaries: TensorType) -> TensorType:
        if data.dims is None or boundaries.dims is None:
            return data.with_dims((None, None))
        more = (count(boundaries.dims), data.dims[1])
        return data.with_dims((data.dims[0], None if None in more else sum(d or 0 for d in more)))

    def kernel(xp: Any, data: Any, lengths: Any, boundaries: Any) -> Any:
        sizes = int_list(xp, lengths)
        if data.ndim != 2 or data.shape[1] != len(sizes) or sum(sizes) != count(boundaries.shape):
            raise ValueError(f"data has shape {tuple(data.shape)}, lengths are {sizes}, boundaries have shape "
                             f"{tuple(boundaries.shape)}: expected a length per column and as many boundaries")
        parts, start = [], 0
        for k, size in enumerate(sizes):
            own = xp.reshape(boundaries[start:start + size], (1, -1))
            if bool(xp.any(own[:, 1:] < own[:, :-1])):
                raise ValueError(f"the boundaries of column {k} decrease")
            start += size
            column = data[:, k:k + 1]
            below, not_above = (xp.sum(xp.astype(test, xp.int64), axis=1, keepdims=True)
                                for test in (column > own, column >= own))
            bucket = (below + not_above) // 2  # an element that equals several boundaries goes between them
            parts.append(bucket == array(xp, [list(range(size + 1))], bucket))
        return xp.astype(xp.concat(parts, axis=1), data.dtype)
