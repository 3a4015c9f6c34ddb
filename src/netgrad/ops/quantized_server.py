"""Operators of Caffe2's quantized engines for servers (DNNLOWP) and of FBGEMM.

They compute with real values and round once. Without a scale in the arguments the result's is chosen by its values.
Those whose schema Caffe2 lacks take any number of inputs and outputs there.
"""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Float, Int, Str
from netgrad.graph.declaration import In, Operator, Out, counts
from netgrad.graph.example import Example, Quantized, Step, Tensor
from netgrad.graph.shapes import same_as
from netgrad.ops import _int8
from netgrad.ops._arrays import channels_first, require_shape
from netgrad.ops.affine import ElementwiseLinear
from netgrad.ops.convolution import Conv
from netgrad.ops.indexing import Gather
from netgrad.ops.matrix import FC, BatchMatMul
from netgrad.ops.normalization import GroupNorm
from netgrad.ops.quantized_int8 import SCALE, WINDOW, Int8Dequantize

Y = Out("Y", differentiable=False)
ANY_INPUTS = In("inputs", variadic=True, optional=True)
ANY_OUTPUTS = Out("outputs", variadic=True, optional=True, differentiable=False)


class Unspecified(Operator, abstract=True):
    """Base of operators without a schema."""

    inputs = [ANY_INPUTS]
    outputs = [ANY_OUTPUTS]
    arguments = SCALE
    host = True


class ConvRelu(Operator):
    """Convolution and Relu in one."""

    inputs = [In("X", "NCHW or NHWC, float"), In("filter"), In("bias", optional=True)]
    outputs = [Out("Y", "float", differentiable=False)]
    arguments = WINDOW
    example = Example(
        {"X": [[[[1.0, 2.0], [3.0, 4.0]]]], "filter": [[[[1.0, 0.0], [0.0, -1.0]]]], "bias": [5.0]},
        {"Y": [[[[2.0]]]]},
        {"kernel": 2})

    def kernel(xp: Any, X: Any, filter: Any, bias: Any, *, order: str, group: int, op: Any) -> Any:
        order = op.argument("order", "NCHW")
        Y = Conv.kernel(xp, X, filter, bias, order=order, group=group, op=op)
        return xp.maximum(Y, xp.zeros_like(Y))


class SumRelu(Operator):
    """The sum of all inputs, negative results set to 0."""

    inputs = [In("data", "numbers of one shape", variadic=True)]
    outputs = [Out("sum", "like data", differentiable=False)]
    inplace = {(0, 0)}
    shape = same_as(0)
    example = Example({"data0": [1.0, -5.0], "data1": [3.0, 2.0]}, {"sum": [4.0, 0.0]})

    def kernel(xp: Any, *data: Any) -> Any:
        total = data[0]
        for other in data[1:]:
            if other.shape != total.shape:
                raise ValueError(f"all inputs must have one shape, found {tuple(total.shape)} and {tuple(other.shape)}")
            total = total + other
        return xp.where(total > 0, total, xp.zeros_like(total))


class PackedWeights:
    """The weights of a layer as FbGemmPack and its kin make them: (N, K) and perhaps a bias; an opaque blob."""

    def __init__(self, matrix: Any, bias: Any = None) -> None:
        self.matrix = matrix
        self.bias = bias


def _unpacked(W: Any, made_by: str) -> Any:
    if not isinstance(W, PackedWeights):
        raise ValueError(f"the weights are not packed; make them with {made_by}")
    return W.matrix


class FbFCPacked(Operator):
    """X W^T + b in half precision, W packed by FbGemmPack."""

    inputs = [In("X", "(M, K) float"), In("W", "packed, opaque"), In("b", "(N,) float")]
    outputs = [Out("Y", "(M, N) float", differentiable=False)]
    arguments = [Int("axis", 1), Int("axis_w", 1)]
    host = True
    example = Example(
        {"X": [[1.0, 2.0]], "weights": [[3.0, 4.0]], "b": [0.5]}, {"Y": [[11.5]]},
        before=(Step("FbGemmPack", ("weights",), ("W",)),), inputs=("X", "W", "b"))

    def kernel(xp: Any, X: Any, W: Any, b: Any, *, axis: int, axis_w: int) -> Any:
        return FC.kernel(xp, X, _unpacked(W, "FbGemmPack"), b, axis=axis, axis_w=axis_w)


class FbGemmPack(Operator):
    """Packs the weights of a fully connected layer."""

    inputs = [In("X", "(N, K) float")]
    outputs = [Out("Y", "packed, opaque", differentiable=False)]
    inplace = {(0, 0)}
    host = True
    example = Example({"X": [[3.0, 4.0]]}, {"Y": None})

    def kernel(xp: Any, X: Any) -> Any:
        _int8.require_rank(X, 2)
        return PackedWeights(xp.astype(xp.astype(X, xp.float16), xp.float32))


class FbGemmPackTranspose(Operator):
    """Packs the transposed weights of a fully connected layer."""

    inputs = [In("X", "(K, N) float")]
    outputs = [Out("Y", "packed, opaque", differentiable=False)]
    inplace = {(0, 0)}
    host = True
    example = Example({"X": [[3.0], [4.0]]}, {"Y": None})

    def kernel(xp: Any, X: Any) -> Any:
        _int8.require_rank(X, 2)
        return PackedWeights(xp.astype(xp.astype(xp.permute_dims(X, (1, 0)), xp.float16), xp.float32))


class Int8FCPackWeight(Operator):
    """Quantizes and packs the weights of a fully connected layer, and its bias."""

    inputs = [In("W", "(N, K) float or 8-bit"), In("b", "(N,) float", optional=True)]
    outputs = [Out("W_q", "packed, opaque", differentiable=False),
               Out("B_q", "32-bit tensor", optional=True, differentiable=False)]
    arguments = [Int("axis_w", 1), Int("quantize_channelwise", 0), Int("save_unpacked_weights", 0),
                 Float("in_scale", None)]
    host = True
    example = Example(
        {"W": [[1.0, -1.0]], "b": [0.5]}, {"W_q": None, "B_q": Quantized([638], 0.000784314, 0, "int32")},
        {"in_scale": 0.1})

    def kernel(xp: Any, W: Any, b: Any, *, in_scale: float | None) -> Any:
        packed = _packed(xp, W, b)
        if b is None:
            return packed
        if _int8.is_int8(b):
            return packed, b
        if not in_scale:
            raise ValueError("the argument in_scale is missing: the bias is quantized by it and the weights' scale")
        scale = in_scale * packed.matrix.scale
        return packed, _int8.int8_tensor(xp.astype(xp.round(b / scale), xp.int32), scale, 0)


def _packed(xp: Any, W: Any, b: Any) -> PackedWeights:
    return PackedWeights(W if _int8.is_int8(W) else _int8.quantized(xp, W, *_int8.chosen(xp, W)), b)


def _real_weights(xp: Any, W: Any) -> Any:
    return _int8.real(xp, W.matrix if isinstance(W, PackedWeights) else W)


class Int8ConvPackWeight(Operator):
    """Quantizes and packs the weights of a convolution."""

    inputs = [In("W", "float or 8-bit filter"), In("b", "float", optional=True)]
    outputs = [Out("W_q", "packed, opaque", differentiable=False)]
    arguments = [Int("quantize_groupwise", 0), Int("save_unpacked_weights", 0), Float("in_scale", None)]
    host = True
    example = Example({"W": [[[[1.0]]]]}, {"W_q": None})

    def kernel(xp: Any, W: Any, b: Any) -> Any:
        return _packed(xp, W, b)


class Quantize(Operator):
    """Floats to 8 (or 16) bits, as Int8Quantize."""

    inputs = [In("X", "float"), In("Qparam", "opaque", optional=True)]
    outputs = [Y]
    arguments = SCALE
    host = True
    example = Example(
        {"X": [-1.0, 0.0, 2.0]},
        {"Y": Quantized([118, 128, 148], 0.1, 128)},
        {"Y_scale": 0.1, "Y_zero_point": 128})

    def kernel(xp: Any, X: Any, Qparam: Any, *, op: Any) -> Any:
        if Qparam is not None:
            return _int8.quantized(xp, X, *_int8.require_parameters("Qparam", Qparam))
        return _int8.given_or_chosen(xp, X, op)


class Dequantize(Operator):
    """8 (or 16) bits to floats."""

    inputs = [In("X", "8-bit tensor")]
    outputs = [Y]
    host = True
    kernel = Int8Dequantize.kernel
    example = Example({"X": Quantized([118, 128, 148], 0.1, 128)}, {"Y": [-1.0, 0.0, 2.0]})


class Int8FCRelu(Operator):
    """A fully connected layer and Relu."""

    inputs = [In("X", "8-bit tensor"), In("W", "8-bit tensor or packed"), In("b", "32-bit tensor"),
              In("Qparam", "opaque", optional=True)]
    outputs = [Y]
    arguments = [*SCALE, Int("axis", 1), Int("axis_w", 1)]
    host = True
    example = Example(
        {"X": Quantized([[138, 118]], 0.1, 128), "W": Quantized([[148, 128]], 0.1, 128),
         "b": Quantized([50], 0.01, 0, "int32")},
        {"Y": Quantized([[112]], 0.2, 100)},
        {"Y_scale": 0.2, "Y_zero_point": 100})

    def kernel(xp: Any, X: Any, W: Any, b: Any, Qparam: Any, *, axis: int, axis_w: int, op: Any) -> Any:
        Y = FC.kernel(xp, _int8.real(xp, X), _real_weights(xp, W), _int8.real(xp, b), axis=axis, axis_w=axis_w)
        Y = xp.maximum(Y, xp.zeros_like(Y))
        if Qparam is not None:
            return _int8.quantized(xp, Y, *_int8.require_parameters("Qparam", Qparam))
        return _int8.given_or_chosen(xp, Y, op)


class Int8GroupNorm(Operator):
    """GroupNorm on 8 bits."""

    inputs = [In("X", "8-bit tensor"), In("gamma"), In("beta")]
    outputs = [Y, Out("mean", optional=True, differentiable=False), Out("inv_std", optional=True, differentiable=False)]
    num_outputs = counts(1, 3)
    arguments = [*SCALE, Int("group", 32), Float("epsilon", 1e-5), Str("order", "NHWC")]
    host = True
    example = Example(
        {"X": Quantized([[[[138, 118]]]], 0.1, 128), "gamma": [1.0, 1.0], "beta": [0.0, 1.0]},
        {"Y": Quantized([[[[105, 100]]]], 0.2, 100)},
        {"Y_scale": 0.2, "Y_zero_point": 100, "group": 1})

    def kernel(xp: Any, X: Any, gamma: Any, beta: Any, *, group: int, epsilon: float, order: str, op: Any) -> Any:
        Y, *others = GroupNorm.kernel(xp, *(_int8.real(xp, x) for x in (X, gamma, beta)), group=group, num_groups=None,
                                      epsilon=epsilon, order=order)
        return (_int8.given_or_chosen(xp, Y, op), *others)


class Int8SpatialBN(Operator):
    """SpatialBN in test mode on 8 bits."""

    inputs = [In("X", "8-bit tensor"), In("scale"), In("bias"), In("mean"), In("var")]
    outputs = [Y]
    arguments = [*SCALE, Float("epsilon", 1e-5), Str("order", "NHWC")]
    host = True
    example = Example(
        {"X": Quantized([[[[138, 118]]]], 0.1, 128), "scale": [1.0, 2.0], "bias": [0.0, 1.0], "mean": [0.0, 0.0],
         "var": [1.0, 1.0]},
        {"Y": Quantized([[[[105, 95]]]], 0.2, 100)},
        {"Y_scale": 0.2, "Y_zero_point": 100})

    def kernel(xp: Any, X: Any, scale: Any, bias: Any, mean: Any, var: Any, *, epsilon: float, order: str,
               op: Any) -> Any:
        return _int8.given_or_chosen(xp, _normalized(xp, X, scale, bias, mean, var, epsilon, order), op)


def _normalized(xp: Any, X: Any, scale: Any, bias: Any, mean: Any, var: Any, epsilon: float, order: str) -> Any:
    x = _int8.real(xp, X)
    for name, vector in (("scale", scale), ("bias", bias), ("mean", mean), ("var", var)):
        require_shape(name, vector, (channels_first(xp, x, order).shape[1],), ", one number per channel")
    shape = (-1, *[1] * (x.ndim - 2)) if order == "NCHW" else (-1,)
    factor = scale / xp.sqrt(var + epsilon)
    return x * xp.reshape(factor, shape) + xp.reshape(bias - mean * factor, shape)


class Int8SpatialBNRelu(Operator):
    """SpatialBN in test mode and Relu on 8 bits."""

    inputs = [In("X", "8-bit tensor"), In("scale"), In("bias"), In("mean"), In("var")]
    outputs = [Y]
    arguments = [*SCALE, Float("epsilon", 1e-5), Str("order", "NHWC")]
    host = True
    example = Example(
        {"X": Quantized([[[[138, 118]]]], 0.1, 128), "scale": [1.0, 2.0], "bias": [0.0, 1.0], "mean": [0.0, 0.0],
         "var": [1.0, 1.0]},
        {"Y": Quantized([[[[105, 100]]]], 0.2, 100)},
        {"Y_scale": 0.2, "Y_zero_point": 100})

    def kernel(xp: Any, X: Any, scale: Any, bias: Any, mean: Any, var: Any, *, epsilon: float, order: str,
               op: Any) -> Any:
        Y = _normalized(xp, X, scale, bias, mean, var, epsilon, order)
        return _int8.given_or_chosen(xp, xp.maximum(Y, xp.zeros_like(Y)), op)


def _of(count: int, compute: Any) -> Any:
    """The kernel of an operator of ``count`` inputs: compute(xp, *real inputs, op), quantized."""
    def kernel(xp: Any, *inputs: Any, op: Any) -> Any:
        if len(inputs) != count:
            raise ValueError(f"there are {len(inputs)} inputs, expected {count}")
        return _int8.given_or_chosen(xp, compute(xp, *(_int8.real(xp, x) for x in inputs), op=op), op)

    return kernel


class Int8BatchMatMul(Unspecified):
    """BatchMatMul on 8 bits."""

    kernel = _of(2, lambda xp, A, B, op: BatchMatMul.kernel(
        xp, A, B, **{name: bool(op.argument(name, 0)) for name in ("trans_a", "trans_b", "broadcast")}))
    example = Example(
        {"A": Quantized([[138, 118]], 0.1, 128), "B": Quantized([[148], [128]], 0.1, 128)},
        {"Y": Quantized([[110]], 0.2, 100)},
        {"Y_scale": 0.2, "Y_zero_point": 100})


class Int8DequantizeRowWise(Unspecified):
    """Int8Dequantize with a scale and zero point for each row."""

    example = Example(
        {"X": Tensor([[0, 255], [10, 20]], "uint8"), "scales": [[0.5, 0.0], [1.0, 10.0]]},
        {"Y": [[0.0, 127.5], [0.0, 10.0]]})

    def kernel(xp: Any, X: Any, *more: Any) -> Any:
        if len(more) != 1 or more[0].ndim != 2:
            raise ValueError("there must be two inputs: bytes and, for each row, its scale and zero point, (N, 2)")
        require_shape("scales and zero points", more[0], (X.shape[0], 2), ", a pair for each row")
        shape = (-1, *[1] * (X.ndim - 1))
        scale, zero_point = (xp.reshape(more[0][:, k], shape) for k in range(2))
        return (xp.astype(X, xp.float32) - zero_point) * scale


class Int8ElementwiseLinear(Unspecified):
    """ElementwiseLinear on 8 bits."""

    kernel = _of(3, lambda xp, X, w, b, op: ElementwiseLinear.kernel(xp, X, w, b, axis=op.argument("axis", 1)))
    example = Example(
        {"X": Quantized([[138, 118]], 0.1, 128), "w": [1.0, 2.0], "b": [0.0, 1.0]},
        {"Y": Quantized([[105, 95]], 0.2, 100)},
        {"Y_scale": 0.2, "Y_zero_point": 100})


class Int8Gather(Unspecified):
    """Gather on 8 bits."""

    example = Example(
        {"DATA": Quantized([[1], [2]], 0.1, 128), "INDICES": [1, 0]},
        {"Y": Quantized([[2], [1]], 0.1, 128)})

    def kernel(xp: Any, *inputs: Any) -> Any:
        if len(inputs) != 2:
            raise ValueError(f"there are {len(inputs)} inputs, expected DATA and INDICES")
        DATA, INDICES = _int8.require_int8("DATA", inputs[0]), inputs[1]
        found = Gather.kernel(xp, DATA.data, INDICES, axis=0, match_outer=False, wrap_indices=False)
        return _int8.int8_tensor(found, DATA.scale, DATA.zero_point)


class Int8LSTMUnit(Unspecified):
    """LSTMUnit on 8 bits."""

    example = Example(
        {"hidden_prev": Quantized([[[128]]], 0.1, 128), "cell_prev": Quantized([[[138]]], 0.1, 128),
         "gates": Quantized([[[128, 138, 118, 148]]], 0.1, 128), "seq_lengths": [1], "timestep": [0]},
        {"hidden": Quantized([[[157]]], 0.0078125, 128), "cell": Quantized([[[255]]], 0.0078125, 128)},
        {"Y_scale": 0.0078125, "Y_zero_point": 128})

    def kernel(xp: Any, *inputs: Any, op: Any) -> Any:
        from netgrad.ops.recurrent import LSTMUnit

        states = LSTMUnit.kernel(xp, *(_int8.real(xp, x) for x in inputs), forget_bias=op.argument("forget_bias", 0.0),
                                 drop_states=bool(op.argument("drop_states", 0)),
                                 sequence_lengths=bool(op.argument("sequence_lengths", 1)))
        return tuple(_int8.given_or_chosen(xp, state, op) for state in states)


class Int8Mul(Unspecified):
    """Mul on 8 bits."""

    kernel = _of(2, lambda xp, A, B, op: A * B)
    example = Example(
        {"A": Quantized([138, 118], 0.1, 128), "B": Quantized([148, 138], 0.1, 128)},
        {"Y": Quantized([110, 95], 0.2, 100)},
        {"Y_scale": 0.2, "Y_zero_point": 100})


class Int8Tanh(Unspecified):
    """Tanh on 8 bits."""

    kernel = _of(1, lambda xp, X, op: xp.tanh(X))
    example = Example(
        {"X": Quantized([118, 138], 0.1, 128)},
        {"Y": Quantized([31, 225], 0.0078125, 128)},
        {"Y_scale": 0.0078125, "Y_zero_point": 128})
