"""Operators of Caffe2's quantized engines for servers (DNNLOWP) and of FBGEMM.

Declared so that nets which hold them can be read, checked and drawn. Those whose schema Caffe2 lacks take any number of
inputs and outputs. Of all of them only ``SumRelu`` runs.
"""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Float, Int, Str
from netgrad.graph.declaration import In, Operator, Out, counts
from netgrad.graph.example import Example
from netgrad.graph.shapes import same_as
from netgrad.ops.quantized_int8 import SCALE, WINDOW

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


class SumRelu(Operator):
    """The sum of all inputs, negative results set to 0."""

    inputs = [In("data", "floats of one shape", variadic=True)]
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


class FbFCPacked(Operator):
    """X W^T + b in half precision, W packed by FbGemmPack."""

    inputs = [In("X", "(M, K) float"), In("W", "packed, opaque"), In("b", "(N,) float")]
    outputs = [Out("Y", "(M, N) float", differentiable=False)]
    arguments = [Int("axis", 1), Int("axis_w", 1)]


class FbGemmPack(Operator):
    """Packs the weights of a fully connected layer."""

    inputs = [In("X", "(N, K) float")]
    outputs = [Out("Y", "packed, opaque", differentiable=False)]
    inplace = {(0, 0)}


class FbGemmPackTranspose(Operator):
    """Packs the transposed weights of a fully connected layer."""

    inputs = [In("X", "(K, N) float")]
    outputs = [Out("Y", "packed, opaque", differentiable=False)]
    inplace = {(0, 0)}


class Int8FCPackWeight(Operator):
    """Quantizes and packs the weights of a fully connected layer, and its bias."""

    inputs = [In("W", "(N, K) float or 8-bit"), In("b", "(N,) float", optional=True)]
    outputs = [Out("W_q", "packed, opaque", differentiable=False),
               Out("B_q", "32-bit tensor", optional=True, differentiable=False)]
    arguments = [Int("axis_w", 1), Int("quantize_channelwise", 0), Int("save_unpacked_weights", 0),
                 Float("in_scale", None)]


class Int8ConvPackWeight(Operator):
    """Quantizes and packs the weights of a convolution."""

    inputs = [In("W", "float or 8-bit filter"), In("b", "float", optional=True)]
    outputs = [Out("W_q", "packed, opaque", differentiable=False)]
    arguments = [Int("quantize_groupwise", 0), Int("save_unpacked_weights", 0), Float("in_scale", None)]


class Int8GenQuantParams(Operator):
    """Chooses scale and zero point for a tensor."""

    inputs = [In("X", "float"), In("quant_scheme", "opaque")]
    outputs = [Out("quant_param", "opaque", differentiable=False)]


class Quantize(Operator):
    """Floats to 8 (or 16) bits, as Int8Quantize."""

    inputs = [In("X", "float"), In("Qparam", "opaque", optional=True)]
    outputs = [Y]
    arguments = SCALE


class Dequantize(Operator):
    """8 (or 16) bits to floats."""

    inputs = [In("X", "8-bit tensor")]
    outputs = [Y]


class Int8FCRelu(Operator):
    """A fully connected layer and Relu."""

    inputs = [In("X", "8-bit tensor"), In("W", "8-bit tensor or packed"), In("b", "32-bit tensor"),
              In("Qparam", "opaque", optional=True)]
    outputs = [Y]
    arguments = [*SCALE, Int("axis", 1), Int("axis_w", 1)]


class Int8GroupNorm(Operator):
    """GroupNorm on 8 bits."""

    inputs = [In("X", "8-bit tensor"), In("gamma"), In("beta")]
    outputs = [Y, Out("mean", optional=True, differentiable=False), Out("inv_std", optional=True, differentiable=False)]
    num_outputs = counts(1, 3)
    arguments = [*SCALE, Int("group", 32), Float("epsilon", 1e-5), Str("order", "NHWC")]


class Int8SpatialBN(Operator):
    """SpatialBN in test mode on 8 bits."""

    inputs = [In("X", "8-bit tensor"), In("scale"), In("bias"), In("mean"), In("var")]
    outputs = [Y]
    arguments = [*SCALE, Float("epsilon", 1e-5), Str("order", "NHWC")]


class Int8SpatialBNRelu(Operator):
    """SpatialBN in test mode and Relu on 8 bits."""

    inputs = [In("X", "8-bit tensor"), In("scale"), In("bias"), In("mean"), In("var")]
    outputs = [Y]
    arguments = [*SCALE, Float("epsilon", 1e-5), Str("order", "NHWC")]


class Int8BatchMatMul(Unspecified):
    """BatchMatMul on 8 bits."""


class Int8DequantizeRowWise(Unspecified):
    """Int8Dequantize with a scale and zero point for each row."""


class Int8ElementwiseLinear(Unspecified):
    """ElementwiseLinear on 8 bits."""


class Int8Gather(Unspecified):
    """Gather on 8 bits."""


class Int8LSTMUnit(Unspecified):
    """LSTMUnit on 8 bits."""


class Int8Mul(Unspecified):
    """Mul on 8 bits."""


class Int8Tanh(Unspecified):
    """Tanh on 8 bits."""
