"""Embedding bags over quantized tables, and lookups in pruned ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.graph.declaration import Arity, In, Operator, Out, between
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import Rule, no_gradient
from netgrad.graph.shapes import ShapeFunction, TensorType, same_as
from netgrad.ops._arrays import require_rank
from netgrad.ops._quantized_rows import dequantize
from netgrad.ops._rows import as_index, check_indices, rows_of, segment_mean, segment_sum, spread
from netgrad.ops.segments import weighted

FUSED_TABLE = In("DATA", "(D, bytes) uint8: fused rows")
WEIGHTS = In("WEIGHTS", "(N,): the weight of each looked-up row")
INDICES = In("INDICES", "(N,) int: rows of the table")
LENGTHS = In("LENGTHS", "(S,) int: the number of indices of each bag")
SCALE_BIAS = In("scale_bias", "(D, 2) float32: each row's scale and bias")
MAPPING = In("COMPRESSED_INDICES_MAPPING", "(rows before pruning,) int: the row in DATA, -1 where it was pruned")

Kernel = Callable[..., Any]


def bag(xp: Any, rows: Any, weights: Any, LENGTHS: Any, mean: bool) -> Any:
    segments = spread(xp, LENGTHS, rows.shape[0])
    if weights is not None:
        rows = weighted(xp, rows, weights)
    return (segment_mean if mean else segment_sum)(xp, rows, segments, LENGTHS.shape[0])


def fused_bag(bits: int, mean: bool = False) -> Kernel:
    def kernel(xp: Any, DATA: Any, INDICES: Any, LENGTHS: Any) -> Any:
        return bag(xp, _fused_rows(xp, DATA, INDICES, bits), None, LENGTHS, mean)

    return kernel


def weighted_fused_bag(bits: int) -> Kernel:
    def kernel(xp: Any, DATA: Any, WEIGHTS: Any, INDICES: Any, LENGTHS: Any) -> Any:
        return bag(xp, _fused_rows(xp, DATA, INDICES, bits), WEIGHTS, LENGTHS, mean=False)

    return kernel


def _fused_rows(xp: Any, table: Any, indices: Any, bits: int) -> Any:
    rows = xp.take(table, check_indices(xp, indices, table.shape[0]), axis=0)
    return dequantize(xp, rows, bits, xp.float32 if bits == 8 else xp.float16)


def _rows_beside(xp: Any, table: Any, indices: Any, scale_bias: Any) -> Any:
    if tuple(scale_bias.shape) != (table.shape[0], 2):
        raise ValueError(f"scale_bias must have shape ({table.shape[0]}, 2), found {tuple(scale_bias.shape)}")
    require_rank("INDICES", indices, 1)
    indices = check_indices(xp, indices, table.shape[0])
    rows, beside = xp.take(table, indices, axis=0), xp.take(xp.astype(scale_bias, xp.float32), indices, axis=0)
    ones = (1,) * (rows.ndim - 1)
    return xp.astype(rows, xp.float32) * beside[:, 0].reshape(-1, *ones) + beside[:, 1].reshape(-1, *ones)


def bag_beside(mean: bool) -> Kernel:
    def kernel(xp: Any, DATA: Any, INDICES: Any, LENGTHS: Any, scale_bias: Any) -> Any:
        return bag(xp, _rows_beside(xp, DATA, INDICES, scale_bias), None, LENGTHS, mean)

    return kernel


def weighted_bag_beside(mean: bool) -> Kernel:
    def kernel(xp: Any, DATA: Any, SCALARS: Any, INDICES: Any, LENGTHS: Any, scale_bias: Any) -> Any:
        return bag(xp, _rows_beside(xp, DATA, INDICES, scale_bias), SCALARS, LENGTHS, mean)

    return kernel


def _mapped(xp: Any, indices: Any, mapping: Any) -> Any:
    """Rows of a pruned table, -1 for those that are gone."""
    return as_index(xp, xp.take(mapping, check_indices(xp, indices, mapping.shape[0]), axis=0))


def _pruned_rows(xp: Any, table: Any, indices: Any, mapping: Any, bits: int) -> Any:
    """Dequantized rows, zeros for pruned ones. A mapping of a single 0 says that nothing was pruned."""
    if mapping.ndim != 1:
        raise ValueError(f"COMPRESSED_INDICES_MAPPING has shape {tuple(mapping.shape)}, expected one dimension")
    if mapping.shape[0] == 1 and int(mapping[0]) == 0:
        return _fused_rows(xp, table, indices, bits)
    rows = _mapped(xp, indices, mapping)
    there = rows >= 0
    found = _fused_rows(xp, table, rows[there], bits)
    out = xp.zeros((rows.shape[0], found.shape[1]), dtype=xp.float32)
    return xp.index_put(out, xp.nonzero(there)[0], found)


def pruned_bag(bits: int, mean: bool = False) -> Kernel:
    def kernel(xp: Any, DATA: Any, INDICES: Any, LENGTHS: Any, COMPRESSED_INDICES_MAPPING: Any) -> Any:
        rows = _pruned_rows(xp, DATA, INDICES, COMPRESSED_INDICES_MAPPING, bits)
        return bag(xp, rows, None, LENGTHS, mean)

    return kernel


def weighted_pruned_bag(bits: int) -> Kernel:
    def kernel(xp: Any, DATA: Any, WEIGHTS: Any, INDICES: Any, LENGTHS: Any, COMPRESSED_INDICES_MAPPING: Any) -> Any:
        rows = _pruned_rows(xp, DATA, INDICES, COMPRESSED_INDICES_MAPPING, bits)
        return bag(xp, rows, WEIGHTS, LENGTHS, mean=False)

    return kernel


def bags(lengths: int) -> ShapeFunction:
    """(S, D) float32, where S is the size of that input; D is left open, since it depends on the rows' format."""
    def shape(*types: TensorType, **_: Any) -> TensorType:
        return TensorType("float32", (rows_of(types[lengths]), *(None,) * max(1, (types[0].rank or 2) - 1)))

    return shape


class QuantizedBag(Operator, abstract=True):
    """Base of the bags: (S, D) float32 whatever the table's format."""

    inputs = [FUSED_TABLE, INDICES, LENGTHS]
    outputs = [Out("output", "(S, D) float32", differentiable=False)]
    shape = bags(lengths=2)
    gradient = no_gradient
    host = True


class WeightedQuantizedBag(QuantizedBag, abstract=True):
    inputs = [FUSED_TABLE, WEIGHTS, INDICES, LENGTHS]
    shape = bags(lengths=3)


class PrunedBag(QuantizedBag, abstract=True):
    inputs = [FUSED_TABLE, INDICES, LENGTHS, MAPPING]


class WeightedPrunedBag(QuantizedBag, abstract=True):
    inputs = [FUSED_TABLE, WEIGHTS, INDICES, LENGTHS, MAPPING]
    shape = bags(lengths=3)


# ---- fused rows of 8 bits


class SparseLengthsSumFused8BitRowwise(QuantizedBag):
    """SparseLengthsSum over fused rows of 8 bits."""

    kernel = fused_bag(8)
    example = Example(
        {"DATA": Tensor([[0, 85, 170, 255, 0, 0, 128, 60, 0, 0, 0, 0]], "uint8"),
         "INDICES": Tensor([0, 0], "int64"), "LENGTHS": [2]},
        {"output": [[0.0, 2.65625, 5.3125, 7.96875]]})


class SparseLengthsMeanFused8BitRowwise(QuantizedBag):
    """SparseLengthsMean over fused rows of 8 bits."""

    kernel = fused_bag(8, mean=True)
    example = Example(
        {"DATA": Tensor([[0, 85, 170, 255, 0, 0, 128, 60, 0, 0, 0, 0]], "uint8"),
         "INDICES": Tensor([0, 0], "int64"), "LENGTHS": [2]},
        {"output": [[0.0, 1.32812, 2.65625, 3.98438]]})


class SparseLengthsWeightedSumFused8BitRowwise(WeightedQuantizedBag):
    """SparseLengthsWeightedSum over fused rows of 8 bits."""

    kernel = weighted_fused_bag(8)
    example = Example(
        {"DATA": Tensor([[0, 85, 170, 255, 0, 0, 128, 60, 0, 0, 0, 0]], "uint8"), "WEIGHTS": [0.5, 1.0],
         "INDICES": Tensor([0, 0], "int64"), "LENGTHS": [2]},
        {"output": [[0.0, 1.99219, 3.98438, 5.97656]]},
        wrt=())


class SparseLengthsSum8BitRowwiseSparse(PrunedBag):
    """SparseLengthsSum over fused rows of 8 bits of a pruned table; pruned rows add nothing."""

    kernel = pruned_bag(8)
    example = Example(
        {"DATA": Tensor([[0, 85, 170, 255, 0, 0, 128, 60, 0, 0, 0, 0]], "uint8"),
         "INDICES": Tensor([0, 0], "int64"), "LENGTHS": [2], "COMPRESSED_INDICES_MAPPING": [0]},
        {"output": [[0.0, 2.65625, 5.3125, 7.96875]]})


class SparseLengthsMean8BitRowwiseSparse(PrunedBag):
    """SparseLengthsMean over fused rows of 8 bits of a pruned table; pruned rows add nothing."""

    kernel = pruned_bag(8, mean=True)
    example = Example(
        {"DATA": Tensor([[0, 85, 170, 255, 0, 0, 128, 60, 0, 0, 0, 0]], "uint8"),
         "INDICES": Tensor([0, 0], "int64"), "LENGTHS": [2], "COMPRESSED_INDICES_MAPPING": [0]},
        {"output": [[0.0, 1.32812, 2.65625, 3.98438]]})


class SparseLengthsWeightedSum8BitRowwiseSparse(WeightedPrunedBag):
    """SparseLengthsWeightedSum over fused rows of 8 bits of a pruned table; pruned rows add nothing."""

    kernel = weighted_pruned_bag(8)
    example = Example(
        {"DATA": Tensor([[0, 85, 170, 255, 0, 0, 128, 60, 0, 0, 0, 0]], "uint8"), "WEIGHTS": [0.5, 1.0],
         "INDICES": Tensor([0, 0], "int64"), "LENGTHS": [2], "COMPRESSED_INDICES_MAPPING": [0]},
        {"output": [[0.0, 1.99219, 3.98438, 5.97656]]},
        wrt=())


# ---- fused rows of 4 bits


class SparseLengthsSumFused4BitRowwise(QuantizedBag):
    """SparseLengthsSum over fused rows of 4 bits."""

    kernel = fused_bag(4)
    example = Example(
        {"DATA": Tensor([[80, 250, 0, 52, 0, 56]], "uint8"), "INDICES": Tensor([0, 0], "int64"), "LENGTHS": [2]},
        {"output": [[1.0, 3.5, 6.0, 8.5]]})


class SparseLengthsMeanFused4BitRowwise(QuantizedBag):
    """SparseLengthsMean over fused rows of 4 bits."""

    kernel = fused_bag(4, mean=True)
    example = Example(
        {"DATA": Tensor([[80, 250, 0, 52, 0, 56]], "uint8"), "INDICES": Tensor([0, 0], "int64"), "LENGTHS": [2]},
        {"output": [[0.5, 1.75, 3.0, 4.25]]})


class SparseLengthsWeightedSumFused4BitRowwise(WeightedQuantizedBag):
    """SparseLengthsWeightedSum over fused rows of 4 bits."""

    kernel = weighted_fused_bag(4)
    example = Example(
        {"DATA": Tensor([[80, 250, 0, 52, 0, 56]], "uint8"), "WEIGHTS": [0.5, 1.0],
         "INDICES": Tensor([0, 0], "int64"), "LENGTHS": [2]},
        {"output": [[0.75, 2.625, 4.5, 6.375]]},
        wrt=())


class SparseLengthsSum4BitRowwiseSparse(PrunedBag):
    """SparseLengthsSum over fused rows of 4 bits of a pruned table; pruned rows add nothing."""

    kernel = pruned_bag(4)
    example = Example(
        {"DATA": Tensor([[80, 250, 0, 52, 0, 56]], "uint8"), "INDICES": Tensor([0, 0], "int64"), "LENGTHS": [2],
         "COMPRESSED_INDICES_MAPPING": [0]},
        {"output": [[1.0, 3.5, 6.0, 8.5]]})


class SparseLengthsMean4BitRowwiseSparse(PrunedBag):
    """SparseLengthsMean over fused rows of 4 bits of a pruned table; pruned rows add nothing."""

    kernel = pruned_bag(4, mean=True)
    example = Example(
        {"DATA": Tensor([[80, 250, 0, 52, 0, 56]], "uint8"), "INDICES": Tensor([0, 0], "int64"), "LENGTHS": [2],
         "COMPRESSED_INDICES_MAPPING": [0]},
        {"output": [[0.5, 1.75, 3.0, 4.25]]})


class SparseLengthsWeightedSum4BitRowwiseSparse(WeightedPrunedBag):
    """SparseLengthsWeightedSum over fused rows of 4 bits of a pruned table; pruned rows add nothing."""

    kernel = weighted_pruned_bag(4)
    example = Example(
        {"DATA": Tensor([[80, 250, 0, 52, 0, 56]], "uint8"), "WEIGHTS": [0.5, 1.0],
         "INDICES": Tensor([0, 0], "int64"), "LENGTHS": [2], "COMPRESSED_INDICES_MAPPING": [0]},
        {"output": [[0.75, 2.625, 4.5, 6.375]]},
        wrt=())


# ---- fused rows of 2 bits


class SparseLengthsSumFused2BitRowwise(QuantizedBag):
    """SparseLengthsSum over fused rows of 2 bits."""

    kernel = fused_bag(2)
    example = Example(
        {"DATA": Tensor([[228, 0, 52, 0, 56]], "uint8"), "INDICES": Tensor([0, 0], "int64"), "LENGTHS": [2]},
        {"output": [[1.0, 1.5, 2.0, 2.5]]})


class SparseLengthsMeanFused2BitRowwise(QuantizedBag):
    """SparseLengthsMean over fused rows of 2 bits."""

    kernel = fused_bag(2, mean=True)
    example = Example(
        {"DATA": Tensor([[228, 0, 52, 0, 56]], "uint8"), "INDICES": Tensor([0, 0], "int64"), "LENGTHS": [2]},
        {"output": [[0.5, 0.75, 1.0, 1.25]]})


class SparseLengthsWeightedSumFused2BitRowwise(WeightedQuantizedBag):
    """SparseLengthsWeightedSum over fused rows of 2 bits."""

    kernel = weighted_fused_bag(2)
    example = Example(
        {"DATA": Tensor([[228, 0, 52, 0, 56]], "uint8"), "WEIGHTS": [0.5, 1.0], "INDICES": Tensor([0, 0], "int64"),
         "LENGTHS": [2]},
        {"output": [[0.75, 1.125, 1.5, 1.875]]},
        wrt=())


class SparseLengthsSum2BitRowwiseSparse(PrunedBag):
    """SparseLengthsSum over fused rows of 2 bits of a pruned table; pruned rows add nothing."""

    kernel = pruned_bag(2)
    example = Example(
        {"DATA": Tensor([[228, 0, 52, 0, 56]], "uint8"), "INDICES": Tensor([0, 0], "int64"), "LENGTHS": [2],
         "COMPRESSED_INDICES_MAPPING": [0]},
        {"output": [[1.0, 1.5, 2.0, 2.5]]})


class SparseLengthsMean2BitRowwiseSparse(PrunedBag):
    """SparseLengthsMean over fused rows of 2 bits of a pruned table; pruned rows add nothing."""

    kernel = pruned_bag(2, mean=True)
    example = Example(
        {"DATA": Tensor([[228, 0, 52, 0, 56]], "uint8"), "INDICES": Tensor([0, 0], "int64"), "LENGTHS": [2],
         "COMPRESSED_INDICES_MAPPING": [0]},
        {"output": [[0.5, 0.75, 1.0, 1.25]]})


class SparseLengthsWeightedSum2BitRowwiseSparse(WeightedPrunedBag):
    """SparseLengthsWeightedSum over fused rows of 2 bits of a pruned table; pruned rows add nothing."""

    kernel = weighted_pruned_bag(2)
    example = Example(
        {"DATA": Tensor([[228, 0, 52, 0, 56]], "uint8"), "WEIGHTS": [0.5, 1.0], "INDICES": Tensor([0, 0], "int64"),
         "LENGTHS": [2], "COMPRESSED_INDICES_MAPPING": [0]},
        {"output": [[0.75, 1.125, 1.5, 1.875]]},
        wrt=())


# ---- rows of 8 bits with scale and bias beside them


class SparseLengthsSum8BitsRowwise(QuantizedBag):
    """SparseLengthsSum over rows of 8 bits."""

    inputs = [In("DATA", "(D, ...) uint8"), INDICES, LENGTHS, SCALE_BIAS]
    kernel = bag_beside(mean=False)
    example = Example(
        {"DATA": Tensor([[0, 255]], "uint8"), "INDICES": Tensor([0, 0], "int64"), "LENGTHS": [2],
         "scale_bias": [[0.5, 1.0]]},
        {"output": [[2.0, 257.0]]})


class SparseLengthsMean8BitsRowwise(QuantizedBag):
    """SparseLengthsMean over rows of 8 bits."""

    inputs = [In("DATA", "(D, ...) uint8"), INDICES, LENGTHS, SCALE_BIAS]
    kernel = bag_beside(mean=True)
    example = Example(
        {"DATA": Tensor([[0, 255]], "uint8"), "INDICES": Tensor([0, 0], "int64"), "LENGTHS": [2],
         "scale_bias": [[0.5, 1.0]]},
        {"output": [[1.0, 128.5]]})


class SparseLengthsWeightedSum8BitsRowwise(QuantizedBag):
    """The sum of each bag's weighted rows of 8 bits."""

    inputs = [In("DATA", "(D, ...) uint8"), In("SCALARS", "(N,)"), INDICES, LENGTHS, SCALE_BIAS]
    shape = bags(lengths=3)
    kernel = weighted_bag_beside(mean=False)
    example = Example(
        {"DATA": Tensor([[0, 255]], "uint8"), "SCALARS": [0.5, 1.0], "INDICES": Tensor([0, 0], "int64"),
         "LENGTHS": [2], "scale_bias": [[0.5, 1.0]]},
        {"output": [[1.5, 192.75]]})


class SparseLengthsWeightedMean8BitsRowwise(QuantizedBag):
    """The mean of each bag's weighted rows of 8 bits."""

    inputs = [In("DATA", "(D, ...) uint8"), In("SCALARS", "(N,)"), INDICES, LENGTHS, SCALE_BIAS]
    shape = bags(lengths=3)
    kernel = weighted_bag_beside(mean=True)
    example = Example(
        {"DATA": Tensor([[0, 255]], "uint8"), "SCALARS": [0.5, 1.0], "INDICES": Tensor([0, 0], "int64"),
         "LENGTHS": [2], "scale_bias": [[0.5, 1.0]]},
        {"output": [[0.75, 96.375]]})


# ---- lookups


class GatherFused8BitRowwise(Operator):
    """Rows of a table of fused rows of 8 bits, as floats."""

    inputs = [FUSED_TABLE, In("INDICES", "int, any shape")]
    outputs = [Out("OUTPUT", "(number of indices, D) float32", differentiable=False)]
    host = True
    example = Example(
        {"DATA": Tensor([[0, 85, 170, 255, 0, 0, 128, 60, 0, 0, 0, 0]], "uint8"), "INDICES": [0]},
        {"OUTPUT": [[0.0, 1.32812, 2.65625, 3.98438]]})

    def shape(DATA: TensorType, INDICES: TensorType) -> TensorType:
        width = None if not DATA.dims or DATA.dims[-1] is None else DATA.dims[-1] - 8
        return TensorType("float32", (rows_of(INDICES), width))

    def kernel(xp: Any, DATA: Any, INDICES: Any) -> Any:
        return _fused_rows(xp, DATA, INDICES.reshape(-1), 8)


class SparseLengthsSumSparseLookup(Operator):
    """Indices of a table before pruning to those after it; pruned ones are left out of the bags."""

    inputs = [INDICES, LENGTHS, MAPPING, In("WEIGHTS", "(N,)", optional=True)]
    outputs = [
        Out("output_indices", "(rows that are left,), like INDICES", differentiable=False),
        Out("output_lengths", "(S,) int32", differentiable=False),
        Out("output_weights", "(rows that are left,)", optional=True, differentiable=False),
    ]
    gradient = no_gradient
    host = True
    example = Example(
        {"INDICES": Tensor([0, 1], "int64"), "LENGTHS": [2], "COMPRESSED_INDICES_MAPPING": [1, -1]},
        {"output_indices": Tensor([1], "int64"), "output_lengths": [1]})

    def shape(INDICES: TensorType, LENGTHS: TensorType, *others: TensorType) -> tuple[TensorType, ...]:
        return INDICES.with_dims((None,)), LENGTHS, TensorType("float32", (None,))

    def kernel(xp: Any, INDICES: Any, LENGTHS: Any, COMPRESSED_INDICES_MAPPING: Any, WEIGHTS: Any) -> Any:
        segments = spread(xp, LENGTHS, INDICES.shape[0])
        rows = _mapped(xp, INDICES, COMPRESSED_INDICES_MAPPING)
        there = rows >= 0
        sizes = xp.scatter_add(xp.zeros_like(LENGTHS), segments[there], xp.ones_like(segments[there]))
        results = (xp.astype(rows[there], INDICES.dtype), sizes)
        return results if WEIGHTS is None else (*results, WEIGHTS[there])


# ---- codebooks


class QuantDecode(Operator):
    """Codes to the entries of a codebook, for any number of tensors of codes."""

    inputs = [In("codebook", "(K,) float"), In("codes", "int, any shape", variadic=True, differentiable=False)]
    outputs = [Out("decoded", "like codes, float", variadic=True)]
    num_inputs = between(0, None)
    num_outputs = between(0, None)
    example = Example({"codebook": [0.5, 1.5, 2.5], "codes": Tensor([0, 2], "uint8")}, {"decoded0": [0.5, 2.5]})

    def num_inputs_outputs(inputs: int, outputs: int) -> bool:
        return inputs > 1 and inputs == outputs + 1

    def shape(codebook: TensorType, *codes: TensorType) -> tuple[TensorType, ...]:
        return tuple(c.with_dtype(codebook.dtype) for c in codes)

    def kernel(xp: Any, codebook: Any, *codes: Any) -> Any:
        flat = [xp.reshape(check_indices(xp, c, codebook.shape[0], "codes"), (-1,)) for c in codes]
        return tuple(xp.reshape(xp.take(codebook, f, axis=0), c.shape) for f, c in zip(flat, codes, strict=True))

    def gradient(op: Rule) -> None:
        op.emit("QuantDecodeGradient",
                [*map(op.I, range(op.num_inputs)), *map(op.GO, range(op.num_outputs))], [op.GI(0)])


def _the_gradients(count: int) -> range:
    return range((count + 1) // 2, count)


class QuantDecodeGradient(Operator):
    """Derivative of QuantDecode by the codebook."""

    inputs = [In("codebook", shape_only=True),
              In("codes and gradients", "all codes, then all gradients", variadic=True)]
    outputs = [Out("dcodebook", "(K,)")]
    shape = same_as(0)
    num_inputs = Arity(3, None, lambda count: count % 2 == 1, "one and then pairs")
    internal = True
    differentiable_inputs = _the_gradients
    example = Example(
        {"codebook": [0.5, 1.5, 2.5], "codes_and_gradients0": Tensor([0, 2], "uint8"),
         "codes_and_gradients1": [1.0, 0.5]},
        {"dcodebook": [1.0, 0.0, 0.5]})

    def kernel(xp: Any, codebook: Any, *others: Any) -> Any:
        half = len(others) // 2
        total = xp.zeros_like(codebook)
        for codes, gradient in zip(others[:half], others[half:], strict=True):
            flat = xp.reshape(check_indices(xp, codes, codebook.shape[0], "codes"), (-1,))
            total = xp.scatter_add(total, flat, xp.reshape(gradient, (-1,)))
        return total
