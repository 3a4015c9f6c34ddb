"""Matrix products and fully connected layers, and their derivatives."""

from __future__ import annotations

import math
from typing import Any

from netgrad.graph.arguments import Bool, Int, Ints
from netgrad.graph.declaration import In, Operator, Out, between
from netgrad.graph.example import Example
from netgrad.graph.rules import Rule, emits, not_implemented
from netgrad.graph.shapes import UNKNOWN, ShapeError, TensorType, broadcast_dims
from netgrad.ops._arrays import canonical_axis, require_one_dtype, require_rank, require_shape, require_size, rows
from netgrad.ops._rows import check_indices
from netgrad.ops._second import of_affine


def _transposed(xp: Any, X: Any, transpose: bool) -> Any:
    return xp.matrix_transpose(X) if transpose else X


class MatMul(Operator):
    """Y = A B, after each was made a matrix at its axis and transposed if asked.

    A third input gives the shape that the product is to have. Gradient rules use it, and know no ranks: there a factor
    whose matrix does not fit is split at the axis where it does, whatever axis_a or axis_b says.
    """

    inputs = [In("A", "(M, K) as a matrix, or (K, M) with trans_a; float"), In("B", "(K, N), or (N, K) with trans_b"),
              In("like", "of M N elements: Y gets its shape", optional=True, shape_only=True)]
    outputs = [Out("Y", "(M, N), or the shape of the third input")]
    arguments = [
        Int("axis_a", 1, "the axis of A where the columns begin"), Int("axis_b", 1, "the same for B"),
        Bool("trans_a", False, "transpose A"), Bool("trans_b", False, "transpose B"),
    ]
    example = Example({"A": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "B": [[1.0], [0.0], [2.0]]}, {"Y": [[7.0], [16.0]]})

    def shape(A: TensorType, B: TensorType, like: TensorType | None = None, *,
              axis_a: int, axis_b: int, trans_a: bool, trans_b: bool) -> TensorType:
        if like is not None:
            return A.with_dims(like.dims)
        if A.dims is None or B.dims is None:
            return A.with_dims((None, None))
        return A.with_dims((_matrix_size(A.dims, axis_a, trans_a), _matrix_size(B.dims, axis_b, not trans_b)))

    def kernel(xp: Any, A: Any, B: Any, like: Any = None, *,
               axis_a: int, axis_b: int, trans_a: bool, trans_b: bool) -> Any:
        require_one_dtype(A=A, B=B)
        left = rows(xp, A, canonical_axis(axis_a, len(A.shape)))
        right = rows(xp, B, canonical_axis(axis_b, len(B.shape)))
        if like is not None and left.shape[not trans_a] != right.shape[trans_b]:
            if len(A.shape) > 2:
                left = _split(xp, A, int(not trans_a), right.shape[trans_b])
            else:
                right = _split(xp, B, int(trans_b), left.shape[not trans_a])
        left, right = _transposed(xp, left, trans_a), _transposed(xp, right, trans_b)
        if left.shape[1] != right.shape[0]:
            raise ShapeError(f"A of shape {tuple(A.shape)} has {left.shape[1]} columns and B of shape {tuple(B.shape)} "
                             f"{right.shape[0]} rows as matrices (axis_a={axis_a}, axis_b={axis_b}, "
                             f"trans_a={int(trans_a)}, trans_b={int(trans_b)}), expected as many")
        product = xp.matmul(left, right)
        if like is None:
            return product
        require_size("the third input", like, math.prod(product.shape), f", as the product {tuple(product.shape)}")
        return xp.reshape(product, like.shape)

    def gradient(op: Rule) -> None:
        op.copy_arguments = False
        A, B, dY = op.I(0), op.I(1), op.GO(0)
        trans_a, trans_b = bool(op.arg("trans_a", 0)), bool(op.arg("trans_b", 0))
        if trans_a:
            op.emit("MatMul", [B, dY, A], [op.GI(0)], **_on(trans_a=trans_b, trans_b=True), axis_a=1)
        else:
            op.emit("MatMul", [dY, B, A], [op.GI(0)], **_on(trans_b=not trans_b), axis_b=1)
        if trans_b:
            op.emit("MatMul", [dY, A, B], [op.GI(1)], **_on(trans_a=True, trans_b=trans_a), axis_b=1)
        else:
            op.emit("MatMul", [A, dY, B], [op.GI(1)], **_on(trans_a=not trans_a), axis_a=1)


def _split(xp: Any, X: Any, side: int, size: int) -> Any:
    """X as the matrix that has ``size`` rows (side 0) or columns (side 1); at axis 1 where there is none."""
    for axis in range(len(X.shape) + 1):
        if math.prod(X.shape[axis:] if side else X.shape[:axis]) == size:
            return rows(xp, X, axis)
    return rows(xp, X, 1)


def _on(**flags: bool) -> dict[str, int]:
    """Those flags that are set, as arguments."""
    return {name: 1 for name, on in flags.items() if on}


def _matrix_size(dims: tuple[int | None, ...], axis: int, columns: bool) -> int | None:
    """The rows or columns of a tensor as a matrix."""
    axis = canonical_axis(axis, len(dims))
    part = dims[axis:] if columns else dims[:axis]
    return None if None in part else math.prod(d for d in part if d is not None)


class BatchMatMul(Operator):
    """Y = A B for each matrix of a batch; with broadcast, as NumPy's matmul on any ranks."""

    inputs = [In("A", "(..., M, K), or (..., K, M) with trans_a; float"),
              In("B", "(..., K, N), or (..., N, K) with trans_b")]
    outputs = [Out("Y", "(..., M, N)")]
    arguments = [
        Bool("trans_a", False, "transpose each matrix of A"), Bool("trans_b", False, "transpose each matrix of B"),
        Bool("broadcast", False, "let the batches differ as NumPy's matmul does"),
        Bool("use_scratch", False, "of no effect here"),
    ]
    example = Example(
        {"A": [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]], "B": [[[1.0], [0.0], [2.0]]]},
        {"Y": [[[7.0], [16.0]]]})

    def shape(A: TensorType, B: TensorType, *, trans_a: bool, trans_b: bool, broadcast: bool, **_: Any) -> TensorType:
        if A.dims is None or B.dims is None or len(A.dims) < 2 or len(B.dims) < 2:
            return A.with_dims(None)
        batch = broadcast_dims(A.dims[:-2], B.dims[:-2])
        return A.with_dims((*(batch or ()), A.dims[-1 if trans_a else -2], B.dims[-2 if trans_b else -1]))

    def kernel(xp: Any, A: Any, B: Any, *, trans_a: bool, trans_b: bool, broadcast: bool) -> Any:
        if not broadcast and tuple(A.shape[:-2]) != tuple(B.shape[:-2]):
            raise ShapeError(f"A of shape {tuple(A.shape)} and B of shape {tuple(B.shape)} are batches of different "
                             "shapes, expected one (or broadcast=1, for NumPy's rule)")
        left = _transposed(xp, A, trans_a) if len(A.shape) > 1 else A
        right = _transposed(xp, B, trans_b) if len(B.shape) > 1 else B
        if left.shape[-1] != right.shape[0 if len(right.shape) == 1 else -2]:
            raise ShapeError(f"A of shape {tuple(A.shape)} and B of shape {tuple(B.shape)} do not fit with "
                             f"trans_a={int(trans_a)}, trans_b={int(trans_b)}: expected as many columns as rows")
        product = xp.matmul(left, right)
        return xp.reshape(product, (1,)) if len(product.shape) == 0 else product

    def gradient(op: Rule) -> None:
        op.copy_arguments = False
        if op.arg("broadcast", 0):
            raise op.fail("with broadcast=1 it has no gradient: make the batches alike (Tile, ExpandDims) beforehand")
        A, B, dY = op.I(0), op.I(1), op.GO(0)
        trans_a, trans_b = bool(op.arg("trans_a", 0)), bool(op.arg("trans_b", 0))
        if trans_a:
            op.emit("BatchMatMul", [B, dY], [op.GI(0)], **_on(trans_a=trans_b, trans_b=True))
        else:
            op.emit("BatchMatMul", [dY, B], [op.GI(0)], **_on(trans_b=not trans_b))
        if trans_b:
            op.emit("BatchMatMul", [dY, A], [op.GI(1)], **_on(trans_a=True, trans_b=trans_a))
        else:
            op.emit("BatchMatMul", [A, dY], [op.GI(1)], **_on(trans_a=not trans_a))


class ConcatBatchMatMulBatchGatherOp(Operator):
    """Y[b] = chosen inner products among the b-th rows of the inputs: their Gram matrix, flat, at ``indices``."""

    inputs = [In("indices", "(P,) int, into the N N products, row by row"), In("X", "(B, D), float", variadic=True)]
    outputs = [Out("Y", "(B, P)")]
    num_inputs = between(1, None)
    example = Example({"indices": [1], "X0": [[1.0, 2.0]], "X1": [[3.0, 4.0]]}, {"Y": [[11.0]]})

    def shape(indices: TensorType, *X: TensorType) -> TensorType:
        first = X[0] if X else UNKNOWN
        return first.with_dims(((first.dims or (None,))[0], (indices.dims or (None,))[0]))

    def kernel(xp: Any, indices: Any, *X: Any) -> Any:
        if not X:
            raise ValueError("expected tensors after the indices, found none")
        for k, x in enumerate(X[1:], 1):
            require_shape(f"X_{k}", x, X[0].shape, ", the shape of X_0")
        require_rank("indices", indices, 1)
        joined = xp.stack(X, axis=1)
        products = xp.matmul(joined, xp.matrix_transpose(joined))
        flat = xp.reshape(products, (joined.shape[0], len(X) ** 2))
        return xp.take(flat, check_indices(xp, indices, len(X) ** 2, "indices"), axis=1)


_FC = (Int("axis", 1, "the axis of X where the columns begin"), Int("axis_w", 1, "the same for W"),
       Bool("float16_compute", False, "of no effect here"))


class FullyConnected(Operator, abstract=True):
    """Y = X W^T + b or X W + b, with X and W as matrices."""

    outputs = [Out("Y", "the axes of X before axis, then (N,)")]
    arguments = _FC


class FC(FullyConnected):
    """Y = X W^T + b, with X and W made matrices at their axes."""

    inputs = [In("X", "(M, K) as a matrix, float"), In("W", "(N, K) as a matrix"), In("b", "(N,)")]
    gradient = emits("FCGradient", "I0 I1 GO0", "GI1 GI2 GI0")
    example = Example(
        {"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "W": [[1.0, 0.0, 2.0]], "b": [0.5]},
        {"Y": [[7.5], [16.5]]})

    def shape(X: TensorType, W: TensorType, b: TensorType, *, axis: int, axis_w: int, **_: Any) -> TensorType:
        return _fc_shape(X, W, axis, axis_w, False)

    def kernel(xp: Any, X: Any, W: Any, b: Any, *, axis: int, axis_w: int) -> Any:
        return fully_connected(xp, X, W, b, axis, axis_w, False)


class FCTransposed(FullyConnected):
    """Y = X W + b, with X and W made matrices at their axes."""

    inputs = [In("X", "(M, K) as a matrix, float"), In("W", "(K, N) as a matrix"), In("b", "(N,)")]
    gradient = emits("FCTransposedGradient", "I0 I1 GO0", "GI1 GI2 GI0")
    example = Example(
        {"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "W": [[1.0], [0.0], [2.0]], "b": [0.5]},
        {"Y": [[7.5], [16.5]]})

    def shape(X: TensorType, W: TensorType, b: TensorType, *, axis: int, axis_w: int, **_: Any) -> TensorType:
        return _fc_shape(X, W, axis, axis_w, True)

    def kernel(xp: Any, X: Any, W: Any, b: Any, *, axis: int, axis_w: int) -> Any:
        return fully_connected(xp, X, W, b, axis, axis_w, True)


class FullyConnectedGradient(Operator, abstract=True):
    """dW, db and, where it is asked for, dX."""

    inputs = [In("X"), In("W"), In("dY", "shape of Y, float")]
    outputs = [Out("dW", "like W"), Out("db", "(N,)"), Out("dX", "like X", optional=True)]
    arguments = _FC
    internal = True


class FCGradient(FullyConnectedGradient):
    """dW = dY^T X, db = the sum of dY over the rows, dX = dY W."""

    gradient = of_affine("FC")
    example = Example(
        {"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "W": [[1.0, 0.0, 2.0]], "dY": [[1.0], [0.5]]},
        {"dW": [[3.0, 4.5, 6.0]], "db": [1.5], "dX": [[1.0, 0.0, 2.0], [0.5, 0.0, 1.0]]})

    def shape(X: TensorType, W: TensorType, dY: TensorType, *, axis_w: int, **_: Any) -> Any:
        return _fc_gradient_shape(X, W, axis_w, False)

    def kernel(xp: Any, X: Any, W: Any, dY: Any, *, axis: int, axis_w: int, op: Any) -> Any:
        return _fc_gradient(xp, X, W, dY, axis, axis_w, False, op.num_outputs == 3)


class FCTransposedGradient(FullyConnectedGradient):
    """dW = X^T dY, db = the sum of dY over the rows, dX = dY W^T."""

    gradient = of_affine("FCTransposed")
    example = Example(
        {"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "W": [[1.0], [0.0], [2.0]], "dY": [[1.0], [0.5]]},
        {"dW": [[3.0], [4.5], [6.0]], "db": [1.5], "dX": [[1.0, 0.0, 2.0], [0.5, 0.0, 1.0]]})

    def shape(X: TensorType, W: TensorType, dY: TensorType, *, axis_w: int, **_: Any) -> Any:
        return _fc_gradient_shape(X, W, axis_w, True)

    def kernel(xp: Any, X: Any, W: Any, dY: Any, *, axis: int, axis_w: int, op: Any) -> Any:
        return _fc_gradient(xp, X, W, dY, axis, axis_w, True, op.num_outputs == 3)


def _fc_shape(X: TensorType, W: TensorType, axis: int, axis_w: int, transposed: bool) -> TensorType:
    if X.dims is None:
        return X
    columns = None if W.dims is None else _matrix_size(W.dims, axis_w, transposed)
    return X.with_dims((*X.dims[:canonical_axis(axis, len(X.dims))], columns))


def _fc_gradient_shape(X: TensorType, W: TensorType, axis_w: int, transposed: bool) -> Any:
    columns = None if W.dims is None else _matrix_size(W.dims, axis_w, transposed)
    return W, W.with_dims((columns,)), X


def _fc_matrices(xp: Any, X: Any, W: Any, axis: int, axis_w: int, transposed: bool) -> tuple[Any, Any]:
    """X as (M, K) and W as (N, K), or as (K, N)."""
    flat = rows(xp, X, canonical_axis(axis, len(X.shape)))
    weights = rows(xp, W, canonical_axis(axis_w, len(W.shape)))
    if flat.shape[1] != weights.shape[0 if transposed else 1]:
        raise ShapeError(f"X of shape {tuple(X.shape)} has {flat.shape[1]} columns from axis {axis} on, but W of shape "
                         f"{tuple(W.shape)} is for {weights.shape[0 if transposed else 1]}")
    return flat, weights


def fully_connected(xp: Any, X: Any, W: Any, b: Any, axis: int, axis_w: int, transposed: bool) -> Any:
    require_one_dtype(X=X, W=W, b=b)
    flat, weights = _fc_matrices(xp, X, W, axis, axis_w, transposed)
    columns = weights.shape[1 if transposed else 0]
    require_shape("b", b, (columns,), f", as W of shape {tuple(W.shape)} makes {columns} columns")
    product = xp.matmul(flat, weights if transposed else xp.matrix_transpose(weights)) + b
    return xp.reshape(product, (*X.shape[:canonical_axis(axis, len(X.shape))], columns))


def _fc_gradient(xp: Any, X: Any, W: Any, dY: Any, axis: int, axis_w: int, transposed: bool, want_dX: bool) -> Any:
    flat, weights = _fc_matrices(xp, X, W, axis, axis_w, transposed)
    columns = weights.shape[1 if transposed else 0]
    require_shape("dY", dY, (*X.shape[:canonical_axis(axis, len(X.shape))], columns), ", the shape of Y")
    gradients = xp.reshape(dY, (flat.shape[0], columns))
    factors = (flat, gradients) if transposed else (gradients, flat)
    dW = xp.reshape(xp.matmul(xp.matrix_transpose(factors[0]), factors[1]), W.shape)
    db = xp.sum(gradients, axis=0)
    if not want_dX:
        return dW, db
    return dW, db, xp.reshape(xp.matmul(gradients, xp.matrix_transpose(weights) if transposed else weights), X.shape)


class TT(Operator):
    """A fully connected layer whose weight is a tensor train. Novikov et al. 2015, https://arxiv.org/abs/1509.06569."""

    inputs = [In("X", "(batch, the product of inp_sizes), float"), In("b", "(the product of out_sizes,)"),
              In("cores", "all cores of the train, flat and one after another")]
    outputs = [Out("Y", "(batch, the product of out_sizes)")]
    arguments = [Ints("inp_sizes", (), "input size of each core"), Ints("out_sizes", (), "output size of each core"),
                 Ints("tt_ranks", (), "ranks between the cores, one at either end")]
    gradient = not_implemented("Caffe2 has no rule for it: use FC where its weights are to be learnt")
    example = Example(
        {"X": [[1.0, 2.0]], "b": [0.0, 0.0], "cores": [1.0, 2.0, 3.0, 4.0]},
        {"Y": [[11.0, 22.0]]},
        {"inp_sizes": [2, 1], "out_sizes": [1, 2], "tt_ranks": [1, 1, 1]})

    def shape(X: TensorType, b: TensorType, cores: TensorType, *, out_sizes: Any, **_: Any) -> TensorType:
        return X.with_dims((None if X.dims is None else X.dims[0], math.prod(out_sizes)))

    def kernel(xp: Any, X: Any, b: Any, cores: Any, *, inp_sizes: Any, out_sizes: Any, tt_ranks: Any) -> Any:
        count = len(inp_sizes)
        if count == 0 or len(out_sizes) != count or len(tt_ranks) != count + 1:
            raise ValueError(f"inp_sizes, out_sizes and tt_ranks have {count}, {len(out_sizes)} and {len(tt_ranks)} "
                             "entries, expected as many of the first two and one more of the third")
        batch = X.shape[0]
        require_shape("X", X, (batch, math.prod(inp_sizes)), ", the product of inp_sizes")
        require_shape("b", b, (math.prod(out_sizes),), ", the product of out_sizes")
        sizes = [i * o * r * s for i, o, r, s in zip(inp_sizes, out_sizes, tt_ranks[:-1], tt_ranks[1:], strict=True)]
        require_size("cores", cores, sum(sizes), ", as the sizes and ranks say")
        # stored from the last core to the first, each as (input, rank behind it, rank before it, output)
        flat, place, state = xp.reshape(cores, (-1,)), 0, X
        for k in reversed(range(count)):
            core = xp.reshape(flat[place:place + sizes[k]], (inp_sizes[k], tt_ranks[k + 1], tt_ranks[k], out_sizes[k]))
            place += sizes[k]
            waiting = (batch, math.prod(inp_sizes[:k]), inp_sizes[k], tt_ranks[k + 1], math.prod(out_sizes[k + 1:]))
            state = xp.einsum("zairo,irsp->zaspo", xp.reshape(state, waiting), core)
        return xp.reshape(state, (batch, math.prod(out_sizes))) + b


class TTLinearGradient(Operator):
    """Declared by Caffe2 and never written there: it cannot run."""

    inputs = [In("X", optional=True, variadic=True)]
    outputs = [Out("dX", optional=True, variadic=True)]
    internal = True
