"""Operators on 8-bit tensors with a scale and zero point (``Int8...``): x = scale (q - zero_point).

Such a tensor is a blob of its own kind. The operators are declared, so that nets which hold them can be read, checked
and drawn; they have no kernels yet, and no gradients in Caffe2 either.
"""

from __future__ import annotations

from netgrad.graph.arguments import Arg, Float, Int, Ints, Str
from netgrad.graph.declaration import In, Operator, Out, between
from netgrad.graph.shapes import same_as

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


class Int8Dequantize(Int8):
    """8 bits to floats."""

    inputs = [In("qX", "8-bit tensor")]
    outputs = [Out("Y", "float", differentiable=False)]
    arguments = ()


class Int8GivenTensorFill(Int8):
    """An 8-bit tensor of given bytes."""

    inputs = ()
    outputs = [Out("Tensor", "8-bit tensor", differentiable=False)]
    arguments = [Str("values", "", "the bytes"), Ints("shape", (), as_="shape_argument"), *SCALE]


class Int8GivenIntTensorFill(Int8):
    """A 32-bit integer tensor with scale and zero point (a bias), of given numbers."""

    inputs = ()
    outputs = [Out("Tensor", "32-bit tensor with scale", differentiable=False)]
    arguments = [Ints("values", ()), Ints("shape", (), as_="shape_argument"), *SCALE]


# ---- element by element


class Int8Binary(Int8, abstract=True):
    inputs = [In("A", "8-bit tensor"), In("B", "8-bit tensor of the same shape")]
    outputs = [Out("C", "8-bit tensor", differentiable=False)]
    inplace = {(0, 0), (1, 0)}
    shape = same_as(0)


class Int8Add(Int8Binary):
    """A + B, requantized."""


class Int8AddRelu(Int8Binary):
    """max(A + B, 0), requantized."""


class Int8Sum(Int8):
    """The sum of all inputs, requantized."""

    inputs = [In("X", "8-bit tensors of one shape", variadic=True)]
    inplace = {(0, 0), (1, 0)}
    shape = same_as(0)


class Int8SumRelu(Int8):
    """The sum of all inputs, negative results set to 0, requantized."""

    inputs = [In("X", "8-bit tensors of one shape", variadic=True)]
    inplace = {(0, 0), (1, 0)}
    shape = same_as(0)


class Int8Relu(Int8):
    """max(X, 0)."""

    inplace = {(0, 0)}
    shape = same_as(0)


class Int8LeakyRelu(Int8):
    """X where it is positive, alpha X elsewhere."""

    arguments = [Float("alpha", 0.01), *SCALE]
    inplace = {(0, 0)}
    shape = same_as(0)


class Int8Sigmoid(Int8):
    """1 / (1 + exp(-X))."""

    inputs = [In("input", "8-bit tensor")]
    outputs = [Out("output", "8-bit tensor", differentiable=False)]
    shape = same_as(0)


class Int8Softmax(Int8):
    """Softmax over the axes from ``axis`` on."""

    inputs = [In("input", "8-bit tensor")]
    outputs = [Out("output", "8-bit tensor", differentiable=False)]
    arguments = [Int("axis", 1), *SCALE]
    shape = same_as(0)


# ---- layers


class Int8Conv(Int8):
    """Convolution, NHWC."""

    inputs = [X, In("filter", "8-bit tensor"), In("bias", "32-bit tensor", optional=True)]
    arguments = [*SCALE, *WINDOW]


class Int8ConvRelu(Int8):
    """Convolution, NHWC, and Relu."""

    inputs = [X, In("filter", "8-bit tensor"), In("bias", "32-bit tensor", optional=True)]
    arguments = [*SCALE, *WINDOW]


class Int8ConvTranspose(Int8):
    """Transposed convolution, NHWC."""

    inputs = [X, In("filter", "8-bit tensor"), In("bias", "32-bit tensor", optional=True)]
    arguments = [*SCALE, *WINDOW, Int("adj", 0), Int("adj_h", 0), Int("adj_w", 0)]


class Int8FC(Int8):
    """X W^T + b."""

    inputs = [X, In("W", "8-bit tensor, or packed by Int8FCPackWeight"), In("b", "32-bit tensor"),
              In("Qparam", "scale and zero point, from Int8GenQuantParams", optional=True)]
    num_outputs = between(1, 4)
    arguments = [*SCALE, Int("axis", 1), Int("axis_w", 1)]


class Int8AveragePool(Int8):
    """The mean of each window, NHWC."""

    arguments = [*SCALE, *WINDOW]


class Int8AveragePoolRelu(Int8):
    """The mean of each window, NHWC, and Relu."""

    arguments = [*SCALE, *WINDOW]


class Int8MaxPool(Int8):
    """The maximum of each window, NHWC."""

    arguments = [*SCALE, *WINDOW]


class Int8MaxPoolRelu(Int8):
    """The maximum of each window, NHWC, and Relu."""

    arguments = [*SCALE, *WINDOW]


class Int8RoIAlign(Int8):
    """Pools regions of interest by bilinear sampling, NHWC."""

    inputs = [X, In("RoIs", "(R, 4 or 5) float: batch, corners")]
    arguments = [*SCALE, Float("spatial_scale", 1.0), Int("pooled_h", 1), Int("pooled_w", 1), Int("sampling_ratio", -1)]


# ---- layout


class Int8ChannelShuffle(Int8):
    """Interleaves groups of channels, NHWC."""

    arguments = [*SCALE, Int("group", 1), Str("order", "NHWC")]
    shape = same_as(0)


class Int8Concat(Int8):
    """Joins tensors along an axis."""

    inputs = [In("X", "8-bit tensors", variadic=True)]
    outputs = [Out("concat_result", "8-bit tensor", differentiable=False),
               Out("split_info", "int32: sizes along the axis", optional=True, differentiable=False)]
    arguments = [*SCALE, Int("axis", None), Int("add_axis", 0)]


class Int8Flatten(Int8):
    """A matrix: the axes before ``axis`` together, and those from it on."""

    inputs = [In("input", "8-bit tensor")]
    outputs = [Out("output", "8-bit tensor", differentiable=False)]
    arguments = [*SCALE, Int("axis", 1)]


class Int8Reshape(Int8):
    """Another shape for the same entries."""

    inputs = [In("data", "8-bit tensor"), In("new_shape", "1-D int64, instead of the argument", optional=True)]
    outputs = [Out("reshaped", "8-bit tensor", differentiable=False),
               Out("old_shape", "1-D int64", differentiable=False)]
    arguments = [Ints("shape", (), as_="shape_argument"), *SCALE]
    inplace = {(0, 0)}


class Int8ResizeNearest(Int8):
    """Resizes images by nearest neighbours, NHWC."""

    arguments = [*SCALE, Float("width_scale", 1.0), Float("height_scale", 1.0), Ints("output_size", ())]


class Int8Slice(Int8):
    """A part of a tensor, as Slice."""

    inputs = [In("data", "8-bit tensor"), In("starts", "1-D int", optional=True), In("ends", "1-D int", optional=True)]
    outputs = [Out("output", "8-bit tensor", differentiable=False)]
    num_inputs = between(1, 3)
    arguments = [*SCALE, Ints("starts", (), as_="starts_argument"), Ints("ends", (), as_="ends_argument"),
                 Int("dim", None), Int("start_idx", None), Int("end_idx", None)]


class Int8Transpose(Int8):
    """Permutes axes."""

    arguments = [Ints("axes", ()), *SCALE]
