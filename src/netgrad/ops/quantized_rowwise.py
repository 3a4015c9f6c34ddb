"""Conversions between floats and rows quantized to 8, 4 or 2 bits, each row with a scale and bias of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.graph.arguments import Bool, Float, Int, Ints
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import no_gradient
from netgrad.graph.shapes import ShapeFunction, TensorType
from netgrad.ops._arrays import product, require_size
from netgrad.ops._quantized_rows import (
    as_matrix,
    dequantize,
    fused,
    pack,
    pack_random,
    quantize_8,
    quantize_half,
    unpack_random,
)
from netgrad.ops._rows import rows_of

FLOATS = In("input", "(..., D), float")
HALVES = In("input", "(..., D), half")
FUSED = In("scale_bias_quantized_input", "(N, bytes) uint8: numbers, scale, bias")
FLOAT_OUT = Out("float_output", "(N, D) float32", differentiable=False)
HALF_OUT = Out("float16_output", "(N, D) float16", differentiable=False)

Kernel = Callable[..., Any]


def last_axis(dtype: str, width: Callable[[int], int]) -> ShapeFunction:
    """The input's shape with another last axis."""
    def shape(X: TensorType, **_: Any) -> TensorType:
        if not X.dims:
            return TensorType(dtype)
        last = X.dims[-1]
        return TensorType(dtype, (*X.dims[:-1], None if last is None else width(last)))

    return shape


def to_8(half_scale: bool) -> Kernel:
    def kernel(xp: Any, input: Any) -> Any:
        X = as_matrix(input)
        quantized = quantize_half(xp, X, 8) if half_scale else quantize_8(xp, X)
        rows = fused(xp, *quantized, xp.float16 if half_scale else xp.float32)
        return rows.reshape(*input.shape[:-1], rows.shape[1])

    return kernel


def to_few(bits: int, fake: bool = False) -> Kernel:
    """Packed numbers with scale and bias in half precision; fake: a byte for each number, scale and bias in single."""
    def kernel(xp: Any, input: Any) -> Any:
        if not fake and input.shape[-1] % (8 // bits):
            raise ValueError(f"the last axis must be a multiple of {8 // bits}, found {input.shape[-1]}; pad it")
        numbers, scale, bias = quantize_half(xp, as_matrix(input), bits)
        rows = fused(xp, numbers if fake else pack(xp, numbers, bits), scale, bias, xp.float32 if fake else xp.float16)
        return rows.reshape(*input.shape[:-1], rows.shape[1])

    return kernel


def to_floats(bits: int, half_scale: bool, dtype: str) -> Kernel:
    def kernel(xp: Any, scale_bias_quantized_input: Any) -> Any:
        rows = dequantize(xp, as_matrix(scale_bias_quantized_input), bits, xp.float16 if half_scale else xp.float32)
        return xp.astype(rows, xp.dtype_of(dtype)).reshape(*scale_bias_quantized_input.shape[:-1], rows.shape[1])

    return kernel


class ToFused(Operator, abstract=True):
    """Base of the conversions from floats."""

    inputs = [FLOATS]
    outputs = [Out("output", "(..., bytes) uint8: numbers, scale, bias", differentiable=False)]
    gradient = no_gradient
    host = True


class FromFused(Operator, abstract=True):
    """Base of the conversions to floats."""

    inputs = [FUSED]
    outputs = [FLOAT_OUT]
    gradient = no_gradient
    host = True


# ---- 8 bits


class FloatToFused8BitRowwiseQuantized(ToFused):
    """Floats to rows of 8 bits, scale and bias in single precision."""

    shape = last_axis("uint8", lambda d: d + 8)
    kernel = to_8(half_scale=False)
    example = Example(
        {"input": [[0.0, 1.0, 2.0, 3.0]]},
        {"output": Tensor([[0, 85, 170, 255, 193, 192, 64, 60, 0, 0, 0, 0]], "uint8")})


class FloatToFused8BitRowwiseQuantizedHalfScaleBias(ToFused):
    """Floats to rows of 8 bits, scale and bias in half precision."""

    shape = last_axis("uint8", lambda d: d + 4)
    kernel = to_8(half_scale=True)
    example = Example({"input": [[0.0, 1.0, 2.0, 3.0]]}, {"output": Tensor([[0, 85, 170, 255, 6, 34, 0, 0]], "uint8")})


class HalfFloatToFused8BitRowwiseQuantized(ToFused):
    """Halves to rows of 8 bits, scale and bias in single precision."""

    inputs = [HALVES]
    shape = last_axis("uint8", lambda d: d + 8)
    kernel = to_8(half_scale=False)
    example = Example(
        {"input": Tensor([[0.0, 1.0, 2.0, 3.0]], "float16")},
        {"output": Tensor([[0, 85, 170, 255, 193, 192, 64, 60, 0, 0, 0, 0]], "uint8")})


class HalfFloatToFused8BitRowwiseQuantizedHalfScaleBias(ToFused):
    """Halves to rows of 8 bits, scale and bias in half precision."""

    inputs = [HALVES]
    shape = last_axis("uint8", lambda d: d + 4)
    kernel = to_8(half_scale=True)
    example = Example(
        {"input": Tensor([[0.0, 1.0, 2.0, 3.0]], "float16")},
        {"output": Tensor([[0, 85, 170, 255, 6, 34, 0, 0]], "uint8")})


class Fused8BitRowwiseQuantizedToFloat(FromFused):
    """Rows of 8 bits, scale and bias in single precision, to floats."""

    shape = last_axis("float32", lambda d: d - 8)
    kernel = to_floats(8, half_scale=False, dtype="float32")
    example = Example(
        {"scale_bias_quantized_input": Tensor([[0, 85, 170, 255, 0, 0, 128, 60, 0, 0, 0, 0]], "uint8")},
        {"float_output": [[0.0, 1.32812, 2.65625, 3.98438]]})


class Fused8BitRowwiseQuantizedToHalfFloat(FromFused):
    """Rows of 8 bits, scale and bias in single precision, to halves."""

    outputs = [HALF_OUT]
    shape = last_axis("float16", lambda d: d - 8)
    kernel = to_floats(8, half_scale=False, dtype="float16")
    example = Example(
        {"scale_bias_quantized_input": Tensor([[0, 85, 170, 255, 0, 0, 128, 60, 0, 0, 0, 0]], "uint8")},
        {"float16_output": Tensor([[0.0, 1.32812, 2.65625, 3.98438]], "float16")})


class Fused8BitRowwiseQuantizedHalfScaleBiasToFloat(FromFused):
    """Rows of 8 bits, scale and bias in half precision, to floats."""

    shape = last_axis("float32", lambda d: d - 4)
    kernel = to_floats(8, half_scale=True, dtype="float32")
    example = Example(
        {"scale_bias_quantized_input": Tensor([[0, 85, 170, 255, 0, 36, 0, 0]], "uint8")},
        {"float_output": [[0.0, 1.32812, 2.65625, 3.98438]]})


class Fused8BitRowwiseQuantizedHalfScaleBiasToHalfFloat(FromFused):
    """Rows of 8 bits, scale and bias in half precision, to floats: in spite of the name, as in Caffe2."""

    shape = last_axis("float32", lambda d: d - 4)
    kernel = to_floats(8, half_scale=True, dtype="float32")
    example = Example(
        {"scale_bias_quantized_input": Tensor([[0, 85, 170, 255, 0, 36, 0, 0]], "uint8")},
        {"float_output": [[0.0, 1.32812, 2.65625, 3.98438]]})


# ---- 4 and 2 bits


class FloatToFused4BitRowwiseQuantized(ToFused):
    """Floats to rows of 4 bits, two numbers to a byte, scale and bias in half precision."""

    shape = last_axis("uint8", lambda d: -(-d // 2) + 4)
    kernel = to_few(4)
    example = Example({"input": [[0.0, 1.0, 2.0, 3.0]]}, {"output": Tensor([[80, 250, 102, 50, 0, 0]], "uint8")})


class FloatToFused4BitFakeRowwiseQuantized(ToFused):
    """Floats to rows of 4 bits, but each number in a byte of its own, scale and bias in single precision."""

    shape = last_axis("uint8", lambda d: d + 8)
    kernel = to_few(4, fake=True)
    example = Example(
        {"input": [[0.0, 1.0, 2.0, 3.0]]},
        {"output": Tensor([[0, 5, 10, 15, 0, 192, 76, 62, 0, 0, 0, 0]], "uint8")})


class HalfToFused4BitRowwiseQuantized(ToFused):
    """Halves to rows of 4 bits, two numbers to a byte, scale and bias in half precision."""

    inputs = [HALVES]
    shape = last_axis("uint8", lambda d: -(-d // 2) + 4)
    kernel = to_few(4)
    example = Example(
        {"input": Tensor([[0.0, 1.0, 2.0, 3.0]], "float16")},
        {"output": Tensor([[80, 250, 102, 50, 0, 0]], "uint8")})


class HalfToFused4BitFakeRowwiseQuantized(ToFused):
    """Halves to rows of 4 bits, but each number in a byte of its own, scale and bias in single precision."""

    inputs = [HALVES]
    shape = last_axis("uint8", lambda d: d + 8)
    kernel = to_few(4, fake=True)
    example = Example(
        {"input": Tensor([[0.0, 1.0, 2.0, 3.0]], "float16")},
        {"output": Tensor([[0, 5, 10, 15, 0, 192, 76, 62, 0, 0, 0, 0]], "uint8")})


class Fused4BitRowwiseQuantizedToFloat(FromFused):
    """Rows of 4 bits to floats."""

    shape = last_axis("float32", lambda d: (d - 4) * 2)
    kernel = to_floats(4, half_scale=True, dtype="float32")
    example = Example(
        {"scale_bias_quantized_input": Tensor([[80, 250, 0, 52, 0, 56]], "uint8")},
        {"float_output": [[0.5, 1.75, 3.0, 4.25]]})


class Fused4BitRowwiseQuantizedToHalf(FromFused):
    """Rows of 4 bits to halves."""

    outputs = [HALF_OUT]
    shape = last_axis("float16", lambda d: (d - 4) * 2)
    kernel = to_floats(4, half_scale=True, dtype="float16")
    example = Example(
        {"scale_bias_quantized_input": Tensor([[80, 250, 0, 52, 0, 56]], "uint8")},
        {"float16_output": Tensor([[0.5, 1.75, 3.0, 4.25]], "float16")})


class FloatToFused2BitRowwiseQuantized(ToFused):
    """Floats to rows of 2 bits, four numbers to a byte, scale and bias in half precision."""

    shape = last_axis("uint8", lambda d: -(-d // 4) + 4)
    kernel = to_few(2)
    example = Example({"input": [[0.0, 1.0, 2.0, 3.0]]}, {"output": Tensor([[228, 0, 60, 0, 0]], "uint8")})


class FloatToFused2BitFakeRowwiseQuantized(ToFused):
    """Floats to rows of 2 bits, but each number in a byte of its own, scale and bias in single precision."""

    shape = last_axis("uint8", lambda d: d + 8)
    kernel = to_few(2, fake=True)
    example = Example(
        {"input": [[0.0, 1.0, 2.0, 3.0]]},
        {"output": Tensor([[0, 1, 2, 3, 0, 0, 128, 63, 0, 0, 0, 0]], "uint8")})


class HalfToFused2BitRowwiseQuantized(ToFused):
    """Halves to rows of 2 bits, four numbers to a byte, scale and bias in half precision."""

    inputs = [HALVES]
    shape = last_axis("uint8", lambda d: -(-d // 4) + 4)
    kernel = to_few(2)
    example = Example(
        {"input": Tensor([[0.0, 1.0, 2.0, 3.0]], "float16")},
        {"output": Tensor([[228, 0, 60, 0, 0]], "uint8")})


class HalfToFused2BitFakeRowwiseQuantized(ToFused):
    """Halves to rows of 2 bits, but each number in a byte of its own, scale and bias in single precision."""

    inputs = [HALVES]
    shape = last_axis("uint8", lambda d: d + 8)
    kernel = to_few(2, fake=True)
    example = Example(
        {"input": Tensor([[0.0, 1.0, 2.0, 3.0]], "float16")},
        {"output": Tensor([[0, 1, 2, 3, 0, 0, 128, 63, 0, 0, 0, 0]], "uint8")})


class Fused2BitRowwiseQuantizedToFloat(FromFused):
    """Rows of 2 bits to floats."""

    shape = last_axis("float32", lambda d: (d - 4) * 4)
    kernel = to_floats(2, half_scale=True, dtype="float32")
    example = Example(
        {"scale_bias_quantized_input": Tensor([[228, 0, 52, 0, 56]], "uint8")},
        {"float_output": [[0.5, 0.75, 1.0, 1.25]]})


class Fused2BitRowwiseQuantizedToHalf(FromFused):
    """Rows of 2 bits to halves."""

    outputs = [HALF_OUT]
    shape = last_axis("float16", lambda d: (d - 4) * 4)
    kernel = to_floats(2, half_scale=True, dtype="float16")
    example = Example(
        {"scale_bias_quantized_input": Tensor([[228, 0, 52, 0, 56]], "uint8")},
        {"float16_output": Tensor([[0.5, 0.75, 1.0, 1.25]], "float16")})


# ---- other formats


class FloatToFusedRandRowwiseQuantized(ToFused):
    """Floats to rows of ``bitwidth`` bits, rounded at random so that the mean is right, or to nearest.

    A row is: bitwidth, how many numbers the last byte lacks, least and greatest value (float32), then B bytes, where
    number k is in byte k mod B.
    """

    arguments = [Int("bitwidth", 8, "1, 2, 4 or 8"), Bool("random", True)]
    effects = {"random"}
    example = Example(
        {"input": [[0.0, 1.0, 2.0, 3.0]]},
        {"output": Tensor([[2, 0, 0, 0, 0, 0, 0, 0, 64, 64, 228]], "uint8")},
        {"bitwidth": 2, "random": 0})

    def shape(X: TensorType, *, bitwidth: int, random: bool) -> TensorType:
        return last_axis("uint8", lambda d: 10 - (-d * bitwidth // 8))(X)

    def kernel(xp: Any, input: Any, *, bitwidth: int, random: bool, op: Any) -> Any:
        if bitwidth not in (1, 2, 4, 8):
            raise ValueError(f"bitwidth must be 1, 2, 4 or 8, found {bitwidth}")
        if input.ndim != 2 or input.shape[1] == 0:
            raise ValueError(f"the input must be a matrix with columns, found shape {tuple(input.shape)}")
        noise = xp.astype(op.rng.uniform(input.shape), xp.float32) if random else None
        return pack_random(xp, xp.astype(input, xp.float32), bitwidth, noise)


class FusedRandRowwiseQuantizedToFloat(FromFused):
    """Rows made by FloatToFusedRandRowwiseQuantized back to floats."""

    inputs = [In("quantized_input", "(N, bytes) uint8")]
    outputs = [Out("float_input", "(N, D) float32", differentiable=False)]
    example = Example(
        {"quantized_input": Tensor([[2, 0, 0, 0, 0, 0, 0, 0, 64, 64, 228]], "uint8")},
        {"float_input": [[0.0, 1.0, 2.0, 3.0]]})

    def kernel(xp: Any, quantized_input: Any) -> Any:
        return unpack_random(xp, quantized_input)


class FloatToRowwiseQuantized8Bits(Operator):
    """Floats to 8 bits, the scale and bias of each row of the first axis beside them."""

    inputs = [In("input", "(N, ...), float")]
    outputs = [Out("quantized_input", "(N, ...) uint8", differentiable=False),
               Out("scale_bias", "(N, 2) float32", differentiable=False)]
    gradient = no_gradient
    host = True
    example = Example(
        {"input": [[0.0, 1.0]]},
        {"quantized_input": Tensor([[0, 255]], "uint8"), "scale_bias": [[0.00392157, 0.0]]})

    def shape(input: TensorType) -> tuple[TensorType, ...]:
        return input.with_dtype("uint8"), TensorType("float32", (rows_of(input), 2))

    def kernel(xp: Any, input: Any) -> Any:
        rows = input.reshape(input.shape[0], -1) if input.size else input.reshape(input.shape[0], 0)
        numbers, scale, bias = quantize_8(xp, rows, floor=1e-10)
        return numbers.reshape(input.shape), xp.concat([scale, bias], axis=1)


class Rowwise8BitQuantizedToFloat(Operator):
    """What FloatToRowwiseQuantized8Bits made, back to floats."""

    inputs = [In("quantized_input", "(N, ...) uint8"), In("scale_bias", "(N, 2) float32")]
    outputs = [Out("output", "(N, ...) float32", differentiable=False)]
    gradient = no_gradient
    host = True
    example = Example(
        {"quantized_input": Tensor([[0, 255]], "uint8"), "scale_bias": [[0.5, 1.0]]},
        {"output": [[1.0, 128.5]]})

    def shape(quantized_input: TensorType, scale_bias: TensorType) -> TensorType:
        return quantized_input.with_dtype("float32")

    def kernel(xp: Any, quantized_input: Any, scale_bias: Any) -> Any:
        count = quantized_input.shape[0]
        if tuple(scale_bias.shape) != (count, 2):
            raise ValueError(f"scale_bias must have shape ({count}, 2), found {tuple(scale_bias.shape)}")
        scale_bias = xp.astype(scale_bias, xp.float32)
        beside = (count,) + (1,) * (quantized_input.ndim - 1)
        scale, bias = scale_bias[:, 0].reshape(beside), scale_bias[:, 1].reshape(beside)
        return xp.astype(quantized_input, xp.float32) * scale + bias


class ByteWeightDequant(Operator):
    """Bytes to floats between ``min`` and ``max``, of a given shape."""

    inputs = [In("WI", "uint8")]
    outputs = [Out("WO", "float32, of the shape given", differentiable=False)]
    arguments = [Float("min", -3.0), Float("max", 3.0), Ints("shape", (), as_="shape_argument")]
    example = Example({"WI": Tensor([0, 255], "uint8")}, {"WO": [-1.0, 1.0]}, {"min": -1.0, "max": 1.0, "shape": [2]})

    def shape(WI: TensorType, *, shape_argument: Any, **others: Any) -> TensorType:
        return TensorType("float32", tuple(shape_argument))

    def kernel(xp: Any, WI: Any, *, min: float, max: float, shape_argument: Any) -> Any:
        require_size("WI", WI, product(shape_argument), ", that of the argument shape")
        return xp.reshape(xp.astype(WI, xp.float32), tuple(shape_argument)) * ((max - min) / 255) + min
