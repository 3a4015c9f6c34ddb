"""Operators on 8-bit tensors with a scale and zero point (``Int8...``): x = scale (q - zero_point).

Such a tensor is a blob of its own kind. Results are computed from the real values and rounded once. There are no
gradients, in Caffe2 neither.
"""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Arg, Float, Int, Ints, Str
from netgrad.graph.declaration import In, Operator, Out, between
from netgrad.graph.example import Example, Quantized, Tensor
from netgrad.graph.shapes import same_as
from netgrad.ops import _int8
from netgrad.ops._arrays import product
from netgrad.ops._int8 import of_bytes, of_reals, require_parameters
from netgrad.ops.activations import LeakyRelu, Sigmoid, Softmax
from netgrad.ops.convolution import Conv, ConvTranspose
from netgrad.ops.images import ResizeNearest
from netgrad.ops.joining import Concat, Slice
from netgrad.ops.layout import ChannelShuffle, Reshape, Transpose
from netgrad.ops.matrix import FC
from netgrad.ops.pooling import AveragePool, MaxPool
from netgrad.ops.region_pooling import RoIAlign

#: scale and zero point of the result
SCALE: list[Arg] = [
    Float("Y_scale", 1.0, "the result's scale"), Int("Y_zero_point", 0, "the result's zero point"),
]
WINDOW: list[Arg] = [
    Ints("kernels", ()), Int("kernel", 0), Int("kernel_h", 0), Int("kernel_w", 0), Ints("strides", ()),
    Int("stride", 1), Int("stride_h", 1), Int("stride_w", 1), Ints("pads", ()), Int("pad", 0), Int("pad_t", 0),
    Int("pad_l", 0), Int("pad_b", 0), Int("pad_r", 0), Ints("dilations", ()), Int("dilation", 1), Int("group", 1),
    Int("global_pooling", 0), Str("order", "NHWC"),
]
X = In("X", "8-bit tensor")
Y = Out("Y", "8-bit tensor", differentiable=False)


class Int8(Operator, abstract=True):
    """Base: one 8-bit tensor to another."""

    inputs = [X]
    outputs = [Y]
    arguments = SCALE
    host = True


# ---- between floats and 8 bits


class Int8Quantize(Int8):
    """Floats to 8 bits, by the scale and zero point of the arguments or of a second input."""

    inputs = [In("X", "float"), In("Qparam", "scale and zero point, from Int8GenQuantParams", optional=True)]
    example = Example(
        {"X": [-1.0, 0.0, 2.0]},
        {"Y": Quantized([118, 128, 148], 0.1, 128)},
        {"Y_scale": 0.1, "Y_zero_point": 128})

    def kernel(xp: Any, X: Any, Qparam: Any, *, Y_scale: float, Y_zero_point: int) -> Any:
        if Qparam is not None:
            Y_scale, Y_zero_point = require_parameters("Qparam", Qparam)
        return _int8.quantized(xp, X, Y_scale, Y_zero_point)


class Int8Dequantize(Int8):
    """8 bits to floats."""

    inputs = [In("qX", "8-bit tensor")]
    outputs = [Out("Y", "float", differentiable=False)]
    arguments = ()
    example = Example({"qX": Quantized([118, 128, 148], 0.1, 128)}, {"Y": [-1.0, 0.0, 2.0]})

    def kernel(xp: Any, qX: Any) -> Any:
        return _int8.real(xp, _int8.require_int8("qX", qX))


class Int8GivenTensorFill(Int8):
    """An 8-bit tensor of given bytes."""

    inputs = ()
    outputs = [Out("Tensor", "8-bit tensor", differentiable=False)]
    arguments = [Str("values", "", "the bytes"), Ints("shape", (), as_="shape_argument"), *SCALE]
    example = Example(
        {},
        {"Tensor": Quantized([97, 122], 0.1, 128)},
        {"Y_scale": 0.1, "Y_zero_point": 128, "shape": [2], "values": "az"})

    def kernel(xp: Any, *, shape_argument: Any, Y_scale: float, Y_zero_point: int, op: Any) -> Any:
        values = next((argument.s for argument in op.definition.arg if argument.name == "values"), b"")
        return _int8.int8_tensor(_filled(xp, list(values), shape_argument, xp.uint8), Y_scale, Y_zero_point)


def _filled(xp: Any, values: Any, shape: Any, dtype: Any) -> Any:
    if len(values) != product(shape):
        raise ValueError(f"there are {len(values)} values for the shape {tuple(shape)}, expected {product(shape)}")
    return xp.reshape(xp.asarray(values, dtype=dtype), tuple(shape))


class Int8GivenIntTensorFill(Int8):
    """A 32-bit integer tensor with scale and zero point (a bias), of given numbers."""

    inputs = ()
    outputs = [Out("Tensor", "32-bit tensor with scale", differentiable=False)]
    arguments = [Ints("values", ()), Ints("shape", (), as_="shape_argument"), *SCALE]
    example = Example(
        {},
        {"Tensor": Quantized([30, -40], 0.01, 0, "int32")},
        {"Y_scale": 0.01, "Y_zero_point": 0, "shape": [2], "values": [30, -40]})

    def kernel(xp: Any, *, values: Any, shape_argument: Any, Y_scale: float, Y_zero_point: int) -> Any:
        return _int8.int8_tensor(_filled(xp, list(values), shape_argument, xp.int32), Y_scale, Y_zero_point)


# ---- element by element


def _sum(xp: Any, *tensors: Any, op: Any) -> Any:
    if len({x.shape for x in tensors}) > 1:
        raise ValueError(f"the inputs have shapes {', '.join(str(tuple(x.shape)) for x in tensors)}: expected one")
    total = tensors[0]
    for other in tensors[1:]:
        total = total + other
    return total


class Int8Binary(Int8, abstract=True):
    inputs = [In("A", "8-bit tensor"), In("B", "8-bit tensor of the same shape")]
    outputs = [Out("C", "8-bit tensor", differentiable=False)]
    inplace = {(0, 0), (1, 0)}
    shape = same_as(0)


class Int8Add(Int8Binary):
    """A + B, requantized."""

    kernel = of_reals(_sum)
    example = Example(
        {"A": Quantized([118, 148], 0.1, 128), "B": Quantized([138, 118], 0.1, 128)},
        {"C": Quantized([100, 105], 0.2, 100)},
        {"Y_scale": 0.2, "Y_zero_point": 100})


class Int8AddRelu(Int8Binary):
    """max(A + B, 0), requantized."""

    kernel = of_reals(_sum, relu=True)
    example = Example(
        {"A": Quantized([118, 148], 0.1, 128), "B": Quantized([138, 118], 0.1, 128)},
        {"C": Quantized([100, 105], 0.2, 100)},
        {"Y_scale": 0.2, "Y_zero_point": 100})


class Int8Sum(Int8):
    """The sum of all inputs, requantized."""

    inputs = [In("X", "8-bit tensors of one shape", variadic=True)]
    inplace = {(0, 0), (1, 0)}
    shape = same_as(0)
    kernel = of_reals(_sum)
    example = Example(
        {"X0": Quantized([118, 148], 0.1, 128), "X1": Quantized([138, 118], 0.1, 128),
         "X2": Quantized([108, 118], 0.1, 128)},
        {"Y": Quantized([90, 100], 0.2, 100)},
        {"Y_scale": 0.2, "Y_zero_point": 100})


class Int8SumRelu(Int8):
    """The sum of all inputs, negative results set to 0, requantized."""

    inputs = [In("X", "8-bit tensors of one shape", variadic=True)]
    inplace = {(0, 0), (1, 0)}
    shape = same_as(0)
    kernel = of_reals(_sum, relu=True)
    example = Example(
        {"X0": Quantized([118, 148], 0.1, 128), "X1": Quantized([138, 118], 0.1, 128),
         "X2": Quantized([108, 118], 0.1, 128)},
        {"Y": Quantized([100, 100], 0.2, 100)},
        {"Y_scale": 0.2, "Y_zero_point": 100})


class Int8Relu(Int8):
    """max(X, 0)."""

    inplace = {(0, 0)}
    shape = same_as(0)
    example = Example(
        {"X": Quantized([118, 148], 0.1, 128)},
        {"Y": Quantized([128, 148], 0.1, 128)},
        {"Y_scale": 0.1, "Y_zero_point": 128})

    def kernel(xp: Any, X: Any) -> Any:
        _int8.require_int8("X", X)
        least = xp.asarray(X.zero_point, dtype=X.data.dtype)
        return _int8.int8_tensor(xp.maximum(X.data, least), X.scale, X.zero_point)


class Int8LeakyRelu(Int8):
    """X where it is positive, alpha X elsewhere."""

    arguments = [Float("alpha", 0.01), *SCALE]
    inplace = {(0, 0)}
    shape = same_as(0)
    kernel = of_reals(lambda xp, X, op: LeakyRelu.kernel(xp, X, alpha=op.argument("alpha", 0.01)))
    example = Example(
        {"X": Quantized([108, 148], 0.1, 128)},
        {"Y": Quantized([118, 148], 0.1, 128)},
        {"Y_scale": 0.1, "Y_zero_point": 128, "alpha": 0.5})


class Int8Sigmoid(Int8):
    """1 / (1 + exp(-X))."""

    inputs = [In("input", "8-bit tensor")]
    outputs = [Out("output", "8-bit tensor", differentiable=False)]
    shape = same_as(0)
    kernel = of_reals(lambda xp, X, op: Sigmoid.kernel(xp, X))
    example = Example(
        {"input": Quantized([118, 128, 148], 0.1, 128)},
        {"output": Quantized([69, 128, 225], 0.00390625, 0)},
        {"Y_scale": 0.00390625, "Y_zero_point": 0})


class Int8Softmax(Int8):
    """Softmax over the axes from ``axis`` on."""

    inputs = [In("input", "8-bit tensor")]
    outputs = [Out("output", "8-bit tensor", differentiable=False)]
    arguments = [Int("axis", 1), *SCALE]
    shape = same_as(0)
    kernel = of_reals(lambda xp, X, op: Softmax.kernel(xp, X, axis=op.argument("axis", 1)))
    example = Example(
        {"input": Quantized([[118, 128, 138]], 0.1, 128)},
        {"output": Quantized([[23, 63, 170]], 0.00390625, 0)},
        {"Y_scale": 0.00390625, "Y_zero_point": 0})


# ---- layers


def _convolution(xp: Any, X: Any, filter: Any, bias: Any = None, *, op: Any) -> Any:
    return Conv.kernel(xp, X, filter, bias, order=op.argument("order", "NHWC"), group=op.argument("group", 1), op=op)


def _transposed_convolution(xp: Any, X: Any, filter: Any, bias: Any = None, *, op: Any) -> Any:
    order, group = op.argument("order", "NHWC"), op.argument("group", 1)
    return ConvTranspose.kernel(xp, X, filter, bias, order=order, group=group, op=op)


def _average_pool(xp: Any, X: Any, *, op: Any) -> Any:
    return AveragePool.kernel(xp, X, order=op.argument("order", "NHWC"), count_include_pad=False, op=op)


def _max_pool(xp: Any, X: Any, *, op: Any) -> Any:
    largest = MaxPool.kernel(xp, xp.astype(X, xp.float32), order=op.argument("order", "NHWC"), op=op)
    return xp.astype(xp.maximum(largest, xp.zeros_like(largest)), X.dtype)


class Int8Conv(Int8):
    """Convolution, NHWC."""

    inputs = [X, In("filter", "8-bit tensor"), In("bias", "32-bit tensor", optional=True)]
    arguments = [*SCALE, *WINDOW]
    kernel = of_reals(_convolution)
    example = Example(
        {"X": Quantized([[[[138], [118]], [[148], [108]]]], 0.1, 128),
         "filter": Quantized([[[[138], [128]], [[128], [118]]]], 0.1, 128),
         "bias": Quantized([50], 0.01, 0, "int32")},
        {"Y": Quantized([[[[117]]]], 0.2, 100)},
        {"Y_scale": 0.2, "Y_zero_point": 100, "kernel": 2, "order": "NHWC"})


class Int8ConvRelu(Int8):
    """Convolution, NHWC, and Relu."""

    inputs = [X, In("filter", "8-bit tensor"), In("bias", "32-bit tensor", optional=True)]
    arguments = [*SCALE, *WINDOW]
    kernel = of_reals(_convolution, relu=True)
    example = Example(
        {"X": Quantized([[[[138], [118]], [[148], [108]]]], 0.1, 128),
         "filter": Quantized([[[[138], [128]], [[128], [118]]]], 0.1, 128),
         "bias": Quantized([50], 0.01, 0, "int32")},
        {"Y": Quantized([[[[117]]]], 0.2, 100)},
        {"Y_scale": 0.2, "Y_zero_point": 100, "kernel": 2, "order": "NHWC"})


class Int8ConvTranspose(Int8):
    """Transposed convolution, NHWC."""

    inputs = [X, In("filter", "8-bit tensor"), In("bias", "32-bit tensor", optional=True)]
    arguments = [*SCALE, *WINDOW, Int("adj", 0), Int("adj_h", 0), Int("adj_w", 0)]
    kernel = of_reals(_transposed_convolution)
    example = Example(
        {"X": Quantized([[[[138], [118]]]], 0.1, 128),
         "filter": Quantized([[[[138], [128]], [[128], [118]]]], 0.1, 128),
         "bias": Quantized([50], 0.01, 0, "int32")},
        {"Y": Quantized([[[[107], [98], [102]], [[102], [98], [107]]]], 0.2, 100)},
        {"Y_scale": 0.2, "Y_zero_point": 100, "kernel": 2, "order": "NHWC"})


class Int8FC(Int8):
    """X W^T + b."""

    inputs = [X, In("W", "8-bit tensor, or packed by Int8FCPackWeight"), In("b", "32-bit tensor"),
              In("Qparam", "scale and zero point, from Int8GenQuantParams", optional=True)]
    num_outputs = between(1, 4)
    arguments = [*SCALE, Int("axis", 1), Int("axis_w", 1)]
    example = Example(
        {"X": Quantized([[138, 118]], 0.1, 128), "W": Quantized([[148, 128]], 0.1, 128),
         "b": Quantized([50], 0.01, 0, "int32")},
        {"Y": Quantized([[112]], 0.2, 100)},
        {"Y_scale": 0.2, "Y_zero_point": 100})

    def kernel(xp: Any, X: Any, W: Any, b: Any, Qparam: Any, *, Y_scale: float, Y_zero_point: int, axis: int,
               axis_w: int) -> Any:
        if Qparam is not None:
            Y_scale, Y_zero_point = require_parameters("Qparam", Qparam)
        Y = FC.kernel(xp, *(_int8.real(xp, x) for x in (X, W, b)), axis=axis, axis_w=axis_w)
        return _int8.quantized(xp, Y, Y_scale, Y_zero_point)


class Int8AveragePool(Int8):
    """The mean of each window, NHWC."""

    arguments = [*SCALE, *WINDOW]
    kernel = of_reals(_average_pool)
    example = Example(
        {"X": Quantized([[[[138], [118]], [[148], [108]]]], 0.1, 128)},
        {"Y": Quantized([[[[128]]]], 0.1, 128)},
        {"Y_scale": 0.1, "Y_zero_point": 128, "kernel": 2, "order": "NHWC"})


class Int8AveragePoolRelu(Int8):
    """The mean of each window, NHWC, and Relu."""

    arguments = [*SCALE, *WINDOW]
    kernel = of_reals(_average_pool, relu=True)
    example = Example(
        {"X": Quantized([[[[138], [118]], [[148], [108]]]], 0.1, 128)},
        {"Y": Quantized([[[[128]]]], 0.1, 128)},
        {"Y_scale": 0.1, "Y_zero_point": 128, "kernel": 2, "order": "NHWC"})


class Int8MaxPool(Int8):
    """The maximum of each window, NHWC."""

    arguments = [*SCALE, *WINDOW]
    kernel = of_bytes(_max_pool)
    example = Example(
        {"X": Quantized([[[[138], [118]], [[148], [108]]]], 0.1, 128)},
        {"Y": Quantized([[[[148]]]], 0.1, 128)},
        {"Y_scale": 0.1, "Y_zero_point": 128, "kernel": 2, "order": "NHWC"})


class Int8MaxPoolRelu(Int8):
    """The maximum of each window, NHWC, and Relu."""

    arguments = [*SCALE, *WINDOW]
    example = Example(
        {"X": Quantized([[[[138], [118]], [[148], [108]]]], 0.1, 128)},
        {"Y": Quantized([[[[148]]]], 0.1, 128)},
        {"Y_scale": 0.1, "Y_zero_point": 128, "kernel": 2, "order": "NHWC"})

    def kernel(xp: Any, X: Any, *, op: Any) -> Any:
        pooled = Int8MaxPool.kernel(xp, X, op=op)
        return Int8Relu.kernel(xp, pooled)


class Int8RoIAlign(Int8):
    """Pools regions of interest by bilinear sampling, NHWC."""

    inputs = [X, In("RoIs", "(R, 4 or 5) float: batch, corners")]
    arguments = [*SCALE, Float("spatial_scale", 1.0), Int("pooled_h", 1), Int("pooled_w", 1), Int("sampling_ratio", -1)]
    example = Example(
        {"X": Quantized([[[[138], [118]], [[148], [108]]]], 0.1, 128), "RoIs": [[0.0, 0.0, 0.0, 1.0, 1.0]]},
        {"Y": Quantized([[[[128]]]], 0.1, 128)},
        {"Y_scale": 0.1, "Y_zero_point": 128, "pooled_h": 1, "pooled_w": 1, "sampling_ratio": 1})

    def kernel(xp: Any, X: Any, RoIs: Any, *, Y_scale: float, Y_zero_point: int, **how: Any) -> Any:
        Y = RoIAlign.kernel(xp, _int8.real(xp, _int8.require_int8("X", X)), RoIs, order="NHWC", aligned=False, **how)
        return _int8.quantized(xp, Y, Y_scale, Y_zero_point)


# ---- layout


class Int8ChannelShuffle(Int8):
    """Interleaves groups of channels, NHWC."""

    arguments = [*SCALE, Int("group", 1), Str("order", "NHWC")]
    shape = same_as(0)
    kernel = of_bytes(lambda xp, X, op: ChannelShuffle.kernel(xp, X, group=op.argument("group", 1), order="NHWC"))
    example = Example(
        {"X": Quantized([[[[1, 2, 3, 4]]]], 0.1, 128)},
        {"Y": Quantized([[[[1, 3, 2, 4]]]], 0.1, 128)},
        {"Y_scale": 0.1, "Y_zero_point": 128, "group": 2, "order": "NHWC"})


class Int8Concat(Int8):
    """Joins tensors along an axis."""

    inputs = [In("X", "8-bit tensors", variadic=True)]
    outputs = [Out("concat_result", "8-bit tensor", differentiable=False),
               Out("split_info", "int32: sizes along the axis", optional=True, differentiable=False)]
    arguments = [*SCALE, Int("axis", None), Int("add_axis", 0)]
    example = Example(
        {"X0": Quantized([[138]], 0.1, 128), "X1": Quantized([[118]], 0.1, 128)},
        {"concat_result": Quantized([[138, 118]], 0.1, 128), "split_info": [1, 1]},
        {"Y_scale": 0.1, "Y_zero_point": 128, "axis": 1})

    def kernel(xp: Any, *X: Any, Y_scale: float, Y_zero_point: int, axis: int | None, add_axis: int, op: Any) -> Any:
        for k, x in enumerate(X):
            _int8.require_int8(f"input {k}", x)
        reals = [_int8.real(xp, x) for x in X]
        joined, sizes = Concat.kernel(xp, *reals, axis=axis, add_axis=bool(add_axis), order="NHWC")
        return _int8.quantized(xp, joined, Y_scale, Y_zero_point), sizes


class Int8Flatten(Int8):
    """A matrix: the axes before ``axis`` together, and those from it on."""

    inputs = [In("input", "8-bit tensor")]
    outputs = [Out("output", "8-bit tensor", differentiable=False)]
    arguments = [*SCALE, Int("axis", 1)]
    example = Example(
        {"input": Quantized([[[[138, 118], [148, 108]]]], 0.1, 128)},
        {"output": Quantized([[138, 118, 148, 108]], 0.1, 128)},
        {"Y_scale": 0.1, "Y_zero_point": 128})

    def kernel(xp: Any, input: Any, *, axis: int) -> Any:
        _int8.require_int8("the input", input)
        if not 0 <= axis <= input.data.ndim:
            raise ValueError(f"axis {axis} does not exist in an input of {input.data.ndim} dimensions")
        sizes = (product(input.data.shape[:axis]), product(input.data.shape[axis:]))
        return _int8.int8_tensor(xp.reshape(input.data, sizes) + xp.uint8(0), input.scale, input.zero_point)


class Int8Reshape(Int8):
    """Another shape for the same entries."""

    inputs = [In("data", "8-bit tensor"), In("new_shape", "1-D int64, instead of the argument", optional=True)]
    outputs = [Out("reshaped", "8-bit tensor", differentiable=False),
               Out("old_shape", "1-D int64", differentiable=False)]
    arguments = [Ints("shape", (), as_="shape_argument"), *SCALE]
    inplace = {(0, 0)}
    example = Example(
        {"data": Quantized([1, 2, 3, 4], 0.1, 128)},
        {"reshaped": Quantized([[1, 2], [3, 4]], 0.1, 128), "old_shape": Tensor([4], "int64")},
        {"Y_scale": 0.1, "Y_zero_point": 128, "shape": [2, 2]})

    def kernel(xp: Any, data: Any, new_shape: Any, *, shape_argument: Any) -> Any:
        _int8.require_int8("data", data)
        wanted = None if new_shape is not None else list(shape_argument)
        found, old_shape = Reshape.kernel(xp, data.data, new_shape, wanted=wanted)
        return _int8.int8_tensor(found + xp.uint8(0), data.scale, data.zero_point), old_shape


class Int8ResizeNearest(Int8):
    """Resizes images by nearest neighbours, NHWC."""

    arguments = [*SCALE, Float("width_scale", 1.0), Float("height_scale", 1.0), Ints("output_size", ())]
    example = Example(
        {"X": Quantized([[[[1], [2]]]], 0.1, 128)},
        {"Y": Quantized([[[[1], [1], [2], [2]]]], 0.1, 128)},
        {"Y_scale": 0.1, "Y_zero_point": 128, "width_scale": 2.0, "height_scale": 1.0})

    def kernel(xp: Any, X: Any, *, width_scale: float, height_scale: float, output_size: Any) -> Any:
        _int8.require_int8("X", X)
        _int8.require_rank(X.data, 4)
        if output_size:
            height_scale, width_scale = (n / size for n, size in zip(output_size, X.data.shape[1:3], strict=True))
        found = ResizeNearest.kernel(xp, X.data, None, height_scale=height_scale, width_scale=width_scale, order="NHWC")
        return _int8.int8_tensor(found, X.scale, X.zero_point)


class Int8Slice(Int8):
    """A part of a tensor, as Slice."""

    inputs = [In("data", "8-bit tensor"), In("starts", "1-D int", optional=True), In("ends", "1-D int", optional=True)]
    outputs = [Out("output", "8-bit tensor", differentiable=False)]
    num_inputs = between(1, 3)
    arguments = [*SCALE, Ints("starts", (), as_="starts_argument"), Ints("ends", (), as_="ends_argument"),
                 Int("dim", None), Int("start_idx", None), Int("end_idx", None)]
    example = Example(
        {"data": Quantized([1, 2, 3], 0.1, 128)},
        {"output": Quantized([2, 3], 0.1, 128)},
        {"Y_scale": 0.1, "Y_zero_point": 128, "starts": [1], "ends": [3]})

    def kernel(xp: Any, data: Any, starts: Any, ends: Any, *, starts_argument: Any, ends_argument: Any, dim: int | None,
               start_idx: int | None, end_idx: int | None) -> Any:
        _int8.require_int8("data", data)
        if dim is not None:
            starts_argument, ends_argument = [0] * data.data.ndim, [-1] * data.data.ndim
            starts_argument[dim], ends_argument[dim] = start_idx or 0, -1 if end_idx is None else end_idx
        part = Slice.kernel(xp, data.data, starts, ends, starts_argument=starts_argument, ends_argument=ends_argument)
        return _int8.int8_tensor(part + xp.uint8(0), data.scale, data.zero_point)


class Int8Transpose(Int8):
    """Permutes axes."""

    arguments = [Ints("axes", ()), *SCALE]
    kernel = of_bytes(lambda xp, X, op: Transpose.kernel(xp, X, axes=op.argument("axes", ())))
    example = Example(
        {"X": Quantized([[1, 2], [3, 4]], 0.1, 128)},
        {"Y": Quantized([[1, 3], [2, 4]], 0.1, 128)},
        {"Y_scale": 0.1, "Y_zero_point": 128, "axes": [1, 0]})
