"""Between lists of (index, value) and dense tensors; updates of single rows of a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.graph.arguments import Bool, Float, Int, Ints
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import Rule, forbidden, no_gradient
from netgrad.graph.shapes import TensorType, same_as
from netgrad.ops._arrays import array, full, zeros
from netgrad.ops._axes import check_indices, count, int_list, side_by_side


class SparseToDense(Operator):
    """Row ``indices[k]`` of the output is the sum of the values' rows k with that index; zero without any.

    The number of rows comes from the argument, the third input or the largest index.
    """

    inputs = [
        In("indices", "int32 or int64", differentiable=False),
        In("values", "a row per index: shape of indices, then that of a row"),
        In("data_to_infer_dim", "has as many rows as the output", optional=True, shape_only=True),
    ]
    outputs = [Out("output", "(rows, ...)")]
    arguments = [Int("output_first_dim", 0, "the number of rows; 0: from the inputs")]
    example = Example(
        {"indices": [1, 0, 1], "values": [1.0, 2.0, 3.0], "data_to_infer_dim": [[0.0], [0.0], [0.0]]},
        {"output": [2.0, 4.0, 0.0]},
        wrt=("values",))

    def shape(indices: TensorType, values: TensorType, rows_of: TensorType | None = None, *,
              output_first_dim: int) -> TensorType:
        if values.dims is None or indices.dims is None:
            return TensorType(values.dtype)
        rows = output_first_dim or (rows_of.dims[0] if rows_of and rows_of.dims else None)
        return values.with_dims((rows, *values.dims[len(indices.dims):]))

    def kernel(xp: Any, indices: Any, values: Any, data_to_infer_dim: Any = None, *, output_first_dim: int) -> Any:
        if indices.ndim == 0 or tuple(values.shape[:indices.ndim]) != tuple(indices.shape):
            raise ValueError(f"indices have shape {tuple(indices.shape)} and values {tuple(values.shape)}: "
                             "expected a row for each index")
        row = tuple(values.shape[indices.ndim:])
        values = xp.reshape(values, (count(indices.shape), *row))
        indices = xp.reshape(indices, (-1,)) if count(indices.shape) else xp.reshape(indices, (0,))
        if output_first_dim > 0:
            if data_to_infer_dim is not None:
                raise ValueError("the number of rows is given twice: by output_first_dim and by the third input")
            rows = output_first_dim
        elif data_to_infer_dim is not None:
            rows = data_to_infer_dim.shape[0]
        else:
            rows = max(int_list(xp, indices), default=-1) + 1
        check_indices(xp, indices, rows)
        return xp.scatter_add(zeros(xp, (rows, *row), values), xp.astype(indices, xp.int64), values)

    def gradient(op: Rule) -> None:
        op.emit("Gather", [op.GO(0), op.I(0)], [op.GI(1)])


class EnsureDense(Operator):
    """The input; on the way back a sparse gradient becomes a dense one here."""

    inputs = [In("input")]
    outputs = [Out("output", "the input")]
    inplace = {(0, 0)}
    strings = True
    shape = same_as(0)
    shares = {(0, 0)}
    example = Example({"input": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"output": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]})

    def kernel(xp: Any, input: Any) -> Any:
        return input

    def gradient(op: Rule) -> None:
        if op.is_sparse_GO(0):
            op.emit("SparseToDense", [*op.GO_slice(0), op.I(0)], [op.GI(0)])
        else:
            op.set_GI(0, op.GO(0))


def _mask_places(mask: Sequence[int]) -> dict[int, int]:
    places = {feature: k for k, feature in enumerate(mask)}
    if not mask or min(mask) < 0 or len(places) != len(mask):
        raise ValueError(f"mask is {list(mask)}: expected distinct ids, none of them negative, at least one")
    return places


def _mask_rows(xp: Any, indices: Any, lengths: Any) -> list[int]:
    """The row that each index belongs to."""
    if indices.ndim != 1:
        raise ValueError(f"indices have shape {tuple(indices.shape)}, expected one dimension")
    sizes = [indices.shape[0]] if lengths is None else int_list(xp, lengths)
    if sum(sizes) != indices.shape[0] or min(sizes, default=0) < 0:
        raise ValueError(f"lengths add up to {sum(sizes)}, but there are {indices.shape[0]} indices")
    return [row for row, size in enumerate(sizes) for _ in range(size)]


class SparseToDenseMask(Operator):
    """For each row, the values of the ids in ``mask``, in its order; the default where a row has no such id.

    Ids that the mask lacks are left out; of one id twice in a row the last stays. Negative ids are skipped, and too
    many rows with such raise.
    """

    inputs = [
        In("indices", "1-D int32 or int64: ids", differentiable=False), In("values", "a row per id"),
        In("default_value", "one such row"),
        In("lengths", "1-D int32: ids per row; all in one without", optional=True, differentiable=False),
    ]
    outputs = [
        Out("output", "(rows, size of mask, ...), without the first dimension if there are no lengths"),
        Out("presence_mask", "bool: was the id there?", optional=True, differentiable=False),
    ]
    arguments = [
        Ints("mask", (), "distinct ids"),
        Bool("return_presence_mask", False, "of no effect: the mask is made where it is asked for"),
        Int("max_skipped_indices", 50, "rows with negative ids, in the operator's life"),
    ]
    effects = {"state"}
    strings = True
    example = Example(
        {"indices": Tensor([2, 1], "int64"), "values": [1.0, 2.0], "default_value": 0.0, "lengths": [1, 1]},
        {"output": [[0.0, 1.0], [2.0, 0.0]]},
        {"mask": [1, 2]},
        wrt=("values",))

    def shape(indices: TensorType, values: TensorType, default_value: TensorType, lengths: TensorType | None = None, *,
              mask: Any, **_: Any) -> tuple[TensorType, TensorType]:
        rows: tuple[Any, ...] = () if lengths is None else (None,) if lengths.dims is None else lengths.dims
        dims = (*rows, len(mask))
        output = None if default_value.dims is None else (*dims, *default_value.dims)
        return values.with_dims(output), TensorType("bool", dims)

    def kernel(xp: Any, indices: Any, values: Any, default_value: Any, lengths: Any = None, *, mask: Any,
               max_skipped_indices: int, op: Any) -> Any:
        if tuple(values.shape) != (indices.shape[0], *default_value.shape) or values.dtype != default_value.dtype:
            raise ValueError(f"values have shape {tuple(values.shape)} for {indices.shape[0]} indices and a default of "
                             f"shape {tuple(default_value.shape)}: expected one dtype and a row per index")
        columns = _mask_places(mask)
        owners = _mask_rows(xp, indices, lengths)
        ids = int_list(xp, indices)
        skipped = {row for row, i in zip(owners, ids, strict=True) if i < 0}
        op.state["skipped"] = op.state.get("skipped", 0) + len(skipped)
        if op.state["skipped"] >= max_skipped_indices:
            raise ValueError(f"{op.state['skipped']} rows hold negative indices, as many as max_skipped_indices")
        source = {row * len(mask) + columns[i]: k
                  for k, (row, i) in enumerate(zip(owners, ids, strict=True)) if i in columns}
        rows = 1 if lengths is None else lengths.shape[0]
        blank = indices.shape[0]
        table = xp.concat([values, xp.reshape(default_value, (1, *default_value.shape))], axis=0)
        places = [source.get(k, blank) for k in range(rows * len(mask))]
        dims = (len(mask),) if lengths is None else (rows, len(mask))
        output = xp.reshape(xp.take(table, array(xp, places, indices, xp.int64), axis=0), (*dims, *default_value.shape))
        if not op.wants(1):
            return output
        return output, xp.reshape(array(xp, [p != blank for p in places], indices, xp.bool), dims)

    def gradient(op: Rule) -> None:
        lengths = [op.I(3)] if op.num_inputs > 3 else []
        op.emit("SparseToDenseMaskGradient", [op.I(0), op.GO(0), *lengths], [op.GI(1)])


class SparseToDenseMaskGradient(Operator):
    """Each value takes the gradient from the place it was put to; zero if it was left out."""

    inputs = [In("indices", differentiable=False), In("dY"), In("lengths", optional=True, differentiable=False)]
    outputs = [Out("dvalues", "a row per index")]
    arguments = SparseToDenseMask.arguments
    internal = True
    example = Example(
        {"indices": Tensor([2, 1], "int64"), "dY": [[1.0, 0.5], [2.0, -1.0]], "lengths": [1, 1]},
        {"dvalues": [0.5, 2.0]},
        {"mask": [1, 2]})

    def kernel(xp: Any, indices: Any, dY: Any, lengths: Any = None, *, mask: Any) -> Any:
        columns = _mask_places(mask)
        owners = _mask_rows(xp, indices, lengths)
        rows = 1 if lengths is None else lengths.shape[0]
        lead = 1 if lengths is None else 2
        if tuple(dY.shape[:lead]) != ((len(mask),) if lengths is None else (rows, len(mask))):
            raise ValueError(f"dY has shape {tuple(dY.shape)}, expected {len(mask)} columns for each of {rows} rows")
        blank = rows * len(mask)
        table = xp.reshape(dY, (blank, *dY.shape[lead:]))
        table = xp.concat([table, zeros(xp, (1, *dY.shape[lead:]), dY)], axis=0)
        places = [row * len(mask) + columns[i] if i in columns else blank
                  for row, i in zip(owners, int_list(xp, indices), strict=True)]
        last = {place: k for k, place in enumerate(places)}
        places = [place if last[place] == k else blank for k, place in enumerate(places)]
        return xp.take(table, array(xp, places, indices, xp.int64), axis=0)


def _batch_places(xp: Any, lengths: Any, indices: Any, rows: int, width: int) -> Any:
    """Places of (row, index) in a matrix laid out as a vector."""
    sizes = int_list(xp, lengths)
    if indices.ndim != 1 or lengths.ndim != 1 or len(sizes) != rows or sum(sizes) != indices.shape[0]:
        raise ValueError(f"lengths are {sizes} for {rows} rows and indices of shape {tuple(indices.shape)}: "
                         "expected a length per row and as many indices as they add up to")
    check_indices(xp, indices, width)
    owners = [row for row, size in enumerate(sizes) for _ in range(size)]
    return array(xp, owners, indices, xp.int64) * width + xp.astype(indices, xp.int64)


class BatchDenseToSparse(Operator):
    """The elements of each row that its indices name, one behind the other.

    As the gradient of `BatchSparseToDense` it gives zero to values that were overwritten by a later one.
    """

    inputs = [In("lengths", "1-D: indices per row", differentiable=False),
              In("indices", "1-D: columns", differentiable=False), In("dense", "2-D")]
    outputs = [Out("values", "like indices, dtype of dense")]
    example = Example(
        {"lengths": Tensor([1, 2], "int64"), "indices": Tensor([0, 0, 1], "int64"), "dense": [[1.0, 0.0], [2.0, 3.0]]},
        {"values": [1.0, 2.0, 3.0]})

    def shape(lengths: TensorType, indices: TensorType, dense: TensorType) -> TensorType:
        return dense.with_dims(indices.dims)

    def kernel(xp: Any, lengths: Any, indices: Any, dense: Any, *, op: Any) -> Any:
        if dense.ndim != 2:
            raise ValueError(f"dense has shape {tuple(dense.shape)}, expected two dimensions")
        places = _batch_places(xp, lengths, indices, *dense.shape)
        values = xp.take(xp.reshape(dense, (-1,)), places, axis=0)
        if not op.definition.is_gradient_op:
            return values
        last = {place: k for k, place in enumerate(int_list(xp, places))}
        stayed = [last[place] == k for k, place in enumerate(int_list(xp, places))]
        return values * array(xp, stayed, values)

    def gradient(op: Rule) -> None:
        op.emit("BatchSparseToDense", [op.I(0), op.I(1), op.GO(0), op.I(2)], [op.GI(2)])


class BatchSparseToDense(Operator):
    """A matrix that holds each value at its row and column, the last if there are several, and the default elsewhere.

    As the gradient of `BatchDenseToSparse` it adds them up.
    """

    inputs = [
        In("lengths", "1-D: values per row", differentiable=False),
        In("indices", "1-D: columns", differentiable=False), In("values", "1-D"),
        In("output_shape_inference", "2-D, has as many columns as the output", optional=True, shape_only=True),
    ]
    outputs = [Out("dense", "(rows, columns)")]
    arguments = [Int("dense_last_dim", -1, "the number of columns"), Float("default_value", 0.0)]
    example = Example(
        {"lengths": Tensor([1, 2], "int64"), "indices": Tensor([0, 0, 1], "int64"), "values": [1.0, 2.0, 3.0]},
        {"dense": [[1.0, 0.0], [2.0, 3.0]]},
        {"dense_last_dim": 2})

    def shape(lengths: TensorType, indices: TensorType, values: TensorType, like: TensorType | None = None, *,
              dense_last_dim: int, **_: Any) -> TensorType:
        width = dense_last_dim if dense_last_dim > 0 else like.dims[1] if like and like.dims else None
        return values.with_dims((lengths.dims[0] if lengths.dims else None, width))

    def kernel(xp: Any, lengths: Any, indices: Any, values: Any, output_shape_inference: Any = None, *,
               dense_last_dim: int, default_value: float, op: Any) -> Any:
        width = dense_last_dim
        if output_shape_inference is not None:
            if output_shape_inference.ndim != 2 or width not in (-1, output_shape_inference.shape[1]):
                raise ValueError(f"dense_last_dim is {dense_last_dim}, but the fourth input has shape "
                                 f"{tuple(output_shape_inference.shape)}: expected (rows, dense_last_dim)")
            width = output_shape_inference.shape[1]
        if width < 1:
            raise ValueError("the number of columns is missing: give dense_last_dim or the fourth input")
        rows = lengths.shape[0]
        places = _batch_places(xp, lengths, indices, rows, width)
        put = xp.scatter_add if op.definition.is_gradient_op else xp.index_put
        return xp.reshape(put(full(xp, (rows * width,), default_value, values), places, values), (rows, width))

    def gradient(op: Rule) -> None:
        op.emit("BatchDenseToSparse", [op.I(0), op.I(1), op.GO(0)], [op.GI(2)])


def _updated(xp: Any, param: Any, indices: Any, change: Any) -> Any:
    """Param with its rows at the indices replaced: change(rows, how often each index occurs) -> rows."""
    check_indices(xp, indices, param.shape[0])
    width = count(param.shape[1:])
    places, times = xp.unique_counts(xp.astype(xp.reshape(indices, (-1,)), xp.int64))
    table = xp.reshape(param, (param.shape[0], width))
    rows = change(xp.take(table, places, axis=0), xp.astype(xp.reshape(times, (-1, 1)), param.dtype))
    return xp.reshape(xp.index_put(table, places, rows), param.shape)


_ROW_INPUTS = [
    In("param", "(N, ...)"), In("indices", "rows to change, int32 or int64", differentiable=False),
    In("grad", "not read", optional=True),
]


def _normalized(xp: Any, param: Any, indices: Any, norm: float, use_max_norm: bool) -> Any:
    if norm < 0:
        raise ValueError(f"norm is {norm}, expected a length")

    def change(rows: Any, times: Any) -> Any:
        exact = xp.astype(rows, xp.float32) if xp.dtype_name(rows) == "float16" else rows
        length = xp.sqrt(xp.sum(exact * exact, axis=1, keepdims=True))
        scaled = exact * (norm / (length + 1e-12))
        return xp.astype(xp.where(length <= norm, exact, scaled) if use_max_norm else scaled, rows.dtype)

    return _updated(xp, param, indices, change)


class SparseNormalize(Operator):
    """Scales the rows that are named to a Euclidean norm; with use_max_norm only those that are longer."""

    inputs = _ROW_INPUTS
    outputs = [Out("output_param", "param")]
    arguments = [Bool("use_max_norm", True), Float("norm", 1.0)]
    inplace_required = side_by_side()
    shape = same_as(0)
    gradient = forbidden()
    example = Example({"param": [[3.0, 4.0], [1.0, 0.0]], "indices": [0]}, {"param": [[0.6, 0.8], [1.0, 0.0]]})

    def kernel(xp: Any, param: Any, indices: Any, grad: Any = None, *, norm: float, use_max_norm: bool) -> Any:
        return _normalized(xp, param, indices, norm, use_max_norm)


class Float16SparseNormalize(Operator):
    """SparseNormalize for float16 rows; norms are computed in float32."""

    inputs = _ROW_INPUTS
    outputs = [Out("output_param", "param")]
    arguments = [Bool("use_max_norm", True), Float("norm", 1.0)]
    inplace_required = side_by_side()
    shape = same_as(0)
    gradient = forbidden()
    example = Example(
        {"param": Tensor([[3.0, 4.0], [1.0, 0.0]], "float16"), "indices": [0]},
        {"param": Tensor([[0.600098, 0.799805], [1.0, 0.0]], "float16")})

    def kernel(xp: Any, param: Any, indices: Any, grad: Any = None, *, norm: float, use_max_norm: bool) -> Any:
        return _normalized(xp, param, indices, norm, use_max_norm)


class SparseLpRegularizer(Operator):
    """Shrinks the rows that are named: by the factor 1 - lambda for p = 2, towards zero by lambda for p = 1.

    An index that occurs twice shrinks its row twice.
    """

    inputs = _ROW_INPUTS
    outputs = [Out("output_param", "param")]
    arguments = [Float("p", 2.0, "1 or 2"), Float("reg_lambda", 1e-5, "between 0 and 1")]
    inplace_required = side_by_side()
    shape = same_as(0)
    example = Example(
        {"param": [[1.0, -2.0], [3.0, 4.0]], "indices": [0]},
        {"param": [[0.9, -1.8], [3.0, 4.0]]},
        {"p": 2.0, "reg_lambda": 0.1})

    def kernel(xp: Any, param: Any, indices: Any, grad: Any = None, *, p: float, reg_lambda: float) -> Any:
        if p not in (1.0, 2.0) or not 0 < reg_lambda < 1:
            raise ValueError(f"p is {p} and reg_lambda {reg_lambda}: expected 1 or 2, and a number between 0 and 1")

        def change(rows: Any, times: Any) -> Any:
            if p == 2.0:
                return rows * (1 - reg_lambda) ** times
            shrunk = xp.abs(rows) - reg_lambda * times
            return xp.where(shrunk > 0, xp.sign(rows) * shrunk, rows * 0)

        return _updated(xp, param, indices, change)


class EnsureClipped(Operator):
    """Clips a parameter; with indices only the rows that are named."""

    inputs = [
        In("param", "float"), In("indices", "rows to clip, int32 or int64", optional=True, differentiable=False),
        In("grad", "not read", optional=True),
    ]
    outputs = [Out("output_param", "like param")]
    arguments = [Float("min", None, as_="low"), Float("max", None, as_="high")]
    inplace = {(0, 0)}
    shape = same_as(0)
    shares = {(0, 0)}
    gradient = forbidden()
    example = Example({"param": [1.0, -3.0]}, {"output_param": [1.0, -2.0]}, {"min": -2.0, "max": 2.0})

    def kernel(xp: Any, param: Any, indices: Any = None, grad: Any = None, *, low: float | None,
               high: float | None) -> Any:
        def change(rows: Any, times: Any = None) -> Any:
            if low is not None:
                rows = xp.where(rows < low, full(xp, (), low, rows), rows)
            return rows if high is None else xp.where(rows > high, full(xp, (), high, rows), rows)

        return change(param) if indices is None else _updated(xp, param, indices, change)


class SparseDropoutWithReplacement(Operator):
    """With the probability ``ratio``, an example's ids are dropped and one replacement stands for them."""

    inputs = [In("X", "1-D int64: ids"), In("Lengths", "1-D int32: ids per example")]
    outputs = [Out("Y", "1-D int64"), Out("OutputLengths", "like Lengths", differentiable=False)]
    arguments = [Float("ratio", 0.0), Int("replacement_value", 0)]
    effects = {"random"}
    def shape(X: TensorType, Lengths: TensorType, **_: Any) -> tuple[TensorType, TensorType]:
        return X.with_dims((None,)), Lengths

    gradient = no_gradient
    example = Example(
        {"X": Tensor([1, 2, 3], "int64"), "Lengths": [3]},
        {"Y": Tensor([1, 2, 3], "int64"), "OutputLengths": [3]},
        {"ratio": 0.0, "replacement_value": 0})

    def kernel(xp: Any, X: Any, Lengths: Any, *, ratio: float, replacement_value: int, op: Any) -> Any:
        if not 0 <= ratio <= 1:
            raise ValueError(f"ratio is {ratio}, expected a probability")
        ids, sizes = int_list(xp, X), int_list(xp, Lengths)
        if sum(sizes) != len(ids):
            raise ValueError(f"Lengths add up to {sum(sizes)}, but there are {len(ids)} ids")
        drawn = op.rng.uniform((len(sizes),))
        kept: list[int] = []
        lengths, start = [], 0
        for size, u in zip(sizes, drawn, strict=True):
            own = [replacement_value] if u < ratio else ids[start:start + size]
            start += size
            kept += own
            lengths.append(len(own))
        return array(xp, kept, X), array(xp, lengths, Lengths)


class IndexHash(Operator):
    """Hashes ids into [0, modulo), byte by byte, from a seed."""

    inputs = [In("Indices", "int32 or int64")]
    outputs = [Out("HashedIndices", "like Indices", differentiable=False)]
    arguments = [Int("seed", 0), Int("modulo", 0, "must be positive")]
    inplace = {(0, 0)}
    shape = same_as(0)
    gradient = forbidden()
    example = Example(
        {"Indices": Tensor([1, 2], "int64")},
        {"HashedIndices": Tensor([30, 59], "int64")},
        {"modulo": 100, "seed": 7})

    def kernel(xp: Any, Indices: Any, *, seed: int, modulo: int) -> Any:
        if modulo <= 0:
            raise ValueError(f"modulo is {modulo}, expected a positive number")
        bits = {"int32": 32, "int64": 64}.get(xp.dtype_name(Indices), 0)
        if modulo >= 1 << max(bits - 1, 0):
            raise ValueError(f"modulo {modulo} does not fit into the dtype of the indices, {xp.dtype_name(Indices)}")

        def wrapped(number: int) -> int:
            return ((number + (1 << bits - 1)) & ((1 << bits) - 1)) - (1 << bits - 1)

        hashed = []
        for number in int_list(xp, Indices):
            value = wrapped(seed * 0xDEADBEEF)
            for byte in number.to_bytes(bits // 8, "little", signed=True):
                value = wrapped(value * 65537 + (byte - 256 if byte > 127 else byte))
            hashed.append(value % modulo)
        return xp.reshape(array(xp, hashed, Indices), Indices.shape)
