"""Adagrad of embedding tables, fused with the gradient of the bag that read them.

The table's gradient is never made: the update of row indices[k] uses the gradient of the bag that k lies in, divided by
the bag's size (Mean) or times the row's weight (WeightedSum). The variants whose names end in Approx differ in Caffe2
by how they round and reuse rows; here both are computed exactly, one row after another.
"""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Float, Int
from netgrad.graph.declaration import In
from netgrad.graph.example import Example, Tensor
from netgrad.graph.shapes import same_as
from netgrad.ops._arrays import require_rank, require_shape
from netgrad.ops._rows import check_indices, spread
from netgrad.ops.optimizers import (
    ALL_IN_PLACE,
    INDICES,
    LR,
    SPARSE_ADAGRAD,
    SPARSE_MOMENT,
    SPARSE_PARAM,
    WEIGHT_DECAY,
    Update,
    out,
    rowwise_sparse_adagrad,
    sparse_adagrad,
)
from netgrad.ops.segments import from_lengths, weight_gradient, weighted

BAG_GRAD = In("grad", "(S, ...): the gradient of each bag")
LENGTHS = In("lengths", "(S,) int: the number of indices of each bag")
ROW_MOMENT = In("moment", "(N,)")
ROUND = Int("round_option", 0, "how half-precision tables round: to nearest here")


class FusedAdagrad(Update, abstract=True):
    """Base of the updates fused with the gradient of a sum or mean."""

    inputs = [SPARSE_PARAM, SPARSE_MOMENT, INDICES, BAG_GRAD, LR, LENGTHS]
    outputs = [out("output_param"), out("output_moment")]
    arguments = [*SPARSE_ADAGRAD, ROUND]
    inplace_required = ALL_IN_PLACE
    shape = same_as(0, 1)
    gradient = None


def _update(mean: bool) -> Any:
    spread_gradient = from_lengths(mean)

    def kernel(xp: Any, param: Any, moment: Any, indices: Any, grad: Any, lr: Any, lengths: Any, *, epsilon: float,
               decay: float, weight_decay: float) -> Any:
        rows = spread_gradient(xp, grad, lengths, indices)
        return tuple(sparse_adagrad(xp, param, moment, indices, rows, lr, epsilon, decay, weight_decay))

    return kernel


def _rowwise_update(mean: bool) -> Any:
    spread_gradient = from_lengths(mean)

    def kernel(xp: Any, param: Any, moment: Any, indices: Any, grad: Any, lr: Any, lengths: Any, *, epsilon: float,
               weight_decay: float) -> Any:
        rows = spread_gradient(xp, grad, lengths, indices)
        return tuple(rowwise_sparse_adagrad(xp, param, moment, indices, rows, lr, epsilon, weight_decay))

    return kernel


class SparseAdagradFusedWithSparseLengthsSumGradient(FusedAdagrad):
    """SparseAdagrad with the gradient of SparseLengthsSum."""

    kernel = _update(mean=False)
    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "moment": [[0.1, 0.1], [0.2, 0.2]], "indices": Tensor([1], "int64"),
         "grad": [[0.5, -0.5]], "lr": [-0.1], "lengths": [1]},
        {"param": [[1.0, 2.0], [2.92547, 4.07453]], "moment": [[0.1, 0.1], [0.45, 0.45]]})


class SparseAdagradFusedWithSparseLengthsSumGradientApprox(FusedAdagrad):
    """SparseAdagrad with the gradient of SparseLengthsSum."""

    kernel = _update(mean=False)
    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "moment": [[0.1, 0.1], [0.2, 0.2]], "indices": Tensor([1], "int64"),
         "grad": [[0.5, -0.5]], "lr": [-0.1], "lengths": [1]},
        {"param": [[1.0, 2.0], [2.92547, 4.07453]], "moment": [[0.1, 0.1], [0.45, 0.45]]})


class SparseAdagradFusedWithSparseLengthsMeanGradient(FusedAdagrad):
    """SparseAdagrad with the gradient of SparseLengthsMean."""

    kernel = _update(mean=True)
    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "moment": [[0.1, 0.1], [0.2, 0.2]], "indices": Tensor([1], "int64"),
         "grad": [[0.5, -0.5]], "lr": [-0.1], "lengths": [1]},
        {"param": [[1.0, 2.0], [2.92547, 4.07453]], "moment": [[0.1, 0.1], [0.45, 0.45]]})


class SparseAdagradFusedWithSparseLengthsMeanGradientApprox(FusedAdagrad):
    """SparseAdagrad with the gradient of SparseLengthsMean."""

    kernel = _update(mean=True)
    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "moment": [[0.1, 0.1], [0.2, 0.2]], "indices": Tensor([1], "int64"),
         "grad": [[0.5, -0.5]], "lr": [-0.1], "lengths": [1]},
        {"param": [[1.0, 2.0], [2.92547, 4.07453]], "moment": [[0.1, 0.1], [0.45, 0.45]]})


class RowWiseFusedAdagrad(FusedAdagrad, abstract=True):
    inputs = [SPARSE_PARAM, ROW_MOMENT, INDICES, BAG_GRAD, LR, LENGTHS]


class RowWiseSparseAdagradFusedWithSparseLengthsSumGradient(RowWiseFusedAdagrad):
    """RowWiseSparseAdagrad with the gradient of SparseLengthsSum."""

    kernel = _rowwise_update(mean=False)
    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "moment": [0.1, 0.2], "indices": Tensor([1], "int64"),
         "grad": [[0.5, -0.5]], "lr": [-0.1], "lengths": [1]},
        {"param": [[1.0, 2.0], [2.92547, 4.07453]], "moment": [0.1, 0.45]})


class RowWiseSparseAdagradFusedWithSparseLengthsSumGradientApprox(RowWiseFusedAdagrad):
    """RowWiseSparseAdagrad with the gradient of SparseLengthsSum."""

    kernel = _rowwise_update(mean=False)
    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "moment": [0.1, 0.2], "indices": Tensor([1], "int64"),
         "grad": [[0.5, -0.5]], "lr": [-0.1], "lengths": [1]},
        {"param": [[1.0, 2.0], [2.92547, 4.07453]], "moment": [0.1, 0.45]})


class RowWiseSparseAdagradFusedWithSparseLengthsMeanGradient(RowWiseFusedAdagrad):
    """RowWiseSparseAdagrad with the gradient of SparseLengthsMean."""

    kernel = _rowwise_update(mean=True)
    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "moment": [0.1, 0.2], "indices": Tensor([1], "int64"),
         "grad": [[0.5, -0.5]], "lr": [-0.1], "lengths": [1]},
        {"param": [[1.0, 2.0], [2.92547, 4.07453]], "moment": [0.1, 0.45]})


class RowWiseSparseAdagradFusedWithSparseLengthsMeanGradientApprox(RowWiseFusedAdagrad):
    """RowWiseSparseAdagrad with the gradient of SparseLengthsMean."""

    kernel = _rowwise_update(mean=True)
    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "moment": [0.1, 0.2], "indices": Tensor([1], "int64"),
         "grad": [[0.5, -0.5]], "lr": [-0.1], "lengths": [1]},
        {"param": [[1.0, 2.0], [2.92547, 4.07453]], "moment": [0.1, 0.45]})


def _weighted_rows(xp: Any, param: Any, aux_param: Any, indices: Any, grad: Any, lengths: Any) -> tuple[Any, Any]:
    """The rows' gradients, and the gradient of the weights at the parameter as it was."""
    require_rank("indices", indices, 1)
    require_shape("grad", grad, (lengths.shape[0] if lengths.ndim else 1, *param.shape[1:]), ", a row for each bag")
    rows = xp.take(grad, spread(xp, lengths, indices.shape[0]), axis=0)
    used = xp.take(param, check_indices(xp, indices, param.shape[0]), axis=0)
    return weighted(xp, rows, aux_param), weight_gradient(xp, used, rows)


class WeightedFusedAdagrad(Update, abstract=True):
    """Base of the updates fused with the gradient of a weighted sum, which also give the gradient of the weights."""

    inputs = [SPARSE_PARAM, SPARSE_MOMENT, In("aux_param", "(K,): the weights"), INDICES, BAG_GRAD, LR, LENGTHS]
    outputs = [out("output_param"), out("output_moment"), out("aux_grad")]
    arguments = [Float("epsilon", 1e-5), Float("decay", 1.0, "must be 1"), WEIGHT_DECAY]
    inplace_required = {(0, 0), (1, 1)}
    shape = same_as(0, 1, 2)
    gradient = None

    def kernel(xp: Any, param: Any, moment: Any, aux_param: Any, indices: Any, grad: Any, lr: Any, lengths: Any, *,
               epsilon: float, decay: float, weight_decay: float) -> Any:
        rows, aux_grad = _weighted_rows(xp, param, aux_param, indices, grad, lengths)
        return *sparse_adagrad(xp, param, moment, indices, rows, lr, epsilon, decay, weight_decay), aux_grad


class SparseAdagradFusedWithSparseLengthsWeightedSumGradient(WeightedFusedAdagrad):
    """SparseAdagrad with the gradient of SparseLengthsWeightedSum, and the gradient of its weights."""

    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "moment": [[0.1, 0.1], [0.2, 0.2]], "aux_param": [2.0],
         "indices": Tensor([1], "int64"), "grad": [[0.5, -0.5]], "lr": [-0.1], "lengths": [1]},
        {"param": [[1.0, 2.0], [2.90871, 4.09129]], "moment": [[0.1, 0.1], [1.2, 1.2]], "aux_grad": [-0.5]})


class SparseAdagradFusedWithSparseLengthsWeightedSumGradientApprox(WeightedFusedAdagrad):
    """SparseAdagrad with the gradient of SparseLengthsWeightedSum, and the gradient of its weights."""

    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "moment": [[0.1, 0.1], [0.2, 0.2]], "aux_param": [2.0],
         "indices": Tensor([1], "int64"), "grad": [[0.5, -0.5]], "lr": [-0.1], "lengths": [1]},
        {"param": [[1.0, 2.0], [2.90871, 4.09129]], "moment": [[0.1, 0.1], [1.2, 1.2]], "aux_grad": [-0.5]})


class RowWiseWeightedFusedAdagrad(WeightedFusedAdagrad, abstract=True):
    inputs = [SPARSE_PARAM, ROW_MOMENT, In("aux_param", "(K,): the weights"), INDICES, BAG_GRAD, LR, LENGTHS]

    def kernel(xp: Any, param: Any, moment: Any, aux_param: Any, indices: Any, grad: Any, lr: Any, lengths: Any, *,
               epsilon: float, weight_decay: float) -> Any:
        rows, aux_grad = _weighted_rows(xp, param, aux_param, indices, grad, lengths)
        return *rowwise_sparse_adagrad(xp, param, moment, indices, rows, lr, epsilon, weight_decay), aux_grad


class RowWiseSparseAdagradFusedWithSparseLengthsWeightedSumGradient(RowWiseWeightedFusedAdagrad):
    """RowWiseSparseAdagrad with the gradient of SparseLengthsWeightedSum, and the gradient of its weights."""

    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "moment": [0.1, 0.2], "aux_param": [2.0],
         "indices": Tensor([1], "int64"), "grad": [[0.5, -0.5]], "lr": [-0.1], "lengths": [1]},
        {"param": [[1.0, 2.0], [2.90871, 4.09129]], "moment": [0.1, 1.2], "aux_grad": [-0.5]})


class RowWiseSparseAdagradFusedWithSparseLengthsWeightedSumGradientApprox(RowWiseWeightedFusedAdagrad):
    """RowWiseSparseAdagrad with the gradient of SparseLengthsWeightedSum, and the gradient of its weights."""

    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "moment": [0.1, 0.2], "aux_param": [2.0],
         "indices": Tensor([1], "int64"), "grad": [[0.5, -0.5]], "lr": [-0.1], "lengths": [1]},
        {"param": [[1.0, 2.0], [2.90871, 4.09129]], "moment": [0.1, 1.2], "aux_grad": [-0.5]})
