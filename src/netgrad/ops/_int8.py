"""8-bit tensors: between real numbers and bytes, and kernels made of those on real numbers.

x = scale (q - zero_point). The result of an operator is computed from the real values and rounded once, to the nearest
byte, halves to even; Caffe2's integer arithmetic may differ from that by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from netgrad.graph.shapes import ShapeError


class QuantizationParameters(NamedTuple):
    """Scale and zero point of an 8-bit tensor that is yet to be made."""

    scale: float
    zero_point: int


def require_parameters(name: str, x: Any) -> QuantizationParameters:
    if not isinstance(x, QuantizationParameters):
        raise ValueError(f"{name} holds no scale and zero point; make them with Int8GenQuantParams")
    return x


def int8_tensor(data: Any, scale: float, zero_point: int) -> Any:
    from netgrad.runtime.int8 import Int8Tensor

    return Int8Tensor(data, float(scale), int(zero_point))


def is_int8(x: Any) -> bool:
    return hasattr(x, "zero_point")


def require_int8(name: str, x: Any) -> Any:
    if not is_int8(x):
        raise ValueError(f"{name} is no 8-bit tensor; make one with Int8Quantize or Int8GivenTensorFill")
    return x


def real(xp: Any, x: Any) -> Any:
    """The real values of an 8-bit tensor, float32; an ordinary tensor as it is."""
    if not is_int8(x):
        return x
    return xp.astype(xp.astype(x.data, xp.float64) - x.zero_point, xp.float32) * xp.asarray(x.scale, dtype=xp.float32)


def quantized(xp: Any, x: Any, scale: float, zero_point: int) -> Any:
    """Real values as an 8-bit tensor of that scale and zero point; what does not fit is cut."""
    if not scale > 0:
        raise ValueError(f"the scale is {scale}: it must be positive")
    levels = xp.round(xp.astype(x, xp.float64) / scale) + zero_point
    return int8_tensor(xp.astype(xp.clip(levels, 0, 255), xp.uint8), scale, zero_point)


def chosen(xp: Any, x: Any) -> tuple[float, int]:
    """Scale and zero point that cover the values of ``x`` and represent 0 exactly."""
    if 0 in x.shape:
        return 1.0, 0
    low, high = min(float(xp.min(x)), 0.0), max(float(xp.max(x)), 0.0)
    scale = (high - low) / 255 or 1.0
    return scale, min(max(round(-low / scale), 0), 255)


def given_or_chosen(xp: Any, x: Any, op: Any) -> Any:
    """``x`` quantized as the arguments say or, where they do not, by its own values."""
    scale = op.argument("Y_scale")
    found = chosen(xp, x) if scale is None else (float(scale), int(op.argument("Y_zero_point", 0)))
    return quantized(xp, x, *found)


Compute = Callable[..., Any]


def of_reals(compute: Compute, relu: bool = False) -> Compute:
    """A kernel that computes with real values: compute(xp, *real inputs, op) -> real result."""

    def kernel(xp: Any, *inputs: Any, Y_scale: float, Y_zero_point: int, op: Any) -> Any:
        require_int8("the first input", inputs[0])
        result = compute(xp, *(None if x is None else real(xp, x) for x in inputs), op=op)
        return quantized(xp, xp.maximum(result, xp.zeros_like(result)) if relu else result, Y_scale, Y_zero_point)

    return kernel


def of_bytes(compute: Compute) -> Compute:
    """A kernel that only moves bytes about: scale and zero point stay."""

    def kernel(xp: Any, X: Any, *others: Any, op: Any) -> Any:
        require_int8("the first input", X)
        return int8_tensor(compute(xp, X.data, *others, op=op), X.scale, X.zero_point)

    return kernel


def require_rank(x: Any, rank: int) -> None:
    if x.ndim != rank:
        raise ShapeError(f"the input has shape {tuple(x.shape)}, expected {rank} dimensions")
