"""Rows of bytes that hold a quantized row of floats with its scale and bias: packing and unpacking.

A row is its numbers, several to a byte where they have fewer than 8 bits (the first in the lowest bits), then scale and
bias as float32 or float16: x = scale q + bias. Everything here works on NumPy arrays; the operators run on the host.
"""

from __future__ import annotations

from typing import Any


def pack(xp: Any, numbers: Any, bits: int) -> Any:
    """(N, D) numbers below 2^bits to (N, D * bits / 8) bytes."""
    per_byte = 8 // bits
    shape = (numbers.shape[0], numbers.shape[1] // per_byte, per_byte)
    shifted = numbers.reshape(shape) << (xp.arange(per_byte, dtype=xp.uint8) * bits)
    return xp.astype(xp.sum(shifted, axis=2), xp.uint8)


def unpack(xp: Any, packed: Any, bits: int) -> Any:
    """(N, B) bytes to (N, B * 8 / bits) numbers."""
    numbers = (packed[:, :, None] >> (xp.arange(8 // bits, dtype=xp.uint8) * bits)) & (2 ** bits - 1)
    return numbers.reshape(packed.shape[0], packed.shape[1] * (8 // bits))


def as_matrix(X: Any) -> Any:
    """A tensor as rows: all axes but the last together."""
    if X.ndim < 1:
        raise ValueError("a quantized tensor has rows, found a single number")
    return X.reshape(-1, X.shape[-1]) if X.size else X.reshape(0, X.shape[-1])


def fused(xp: Any, numbers: Any, scale: Any, bias: Any, dtype: Any) -> Any:
    """Rows of bytes: the numbers (already packed), then scale and bias in ``dtype``."""
    tail = xp.astype(xp.concat([scale, bias], axis=1), dtype)
    return xp.concat([numbers, xp.ascontiguous(tail).view(xp.uint8)], axis=1)


def quantize_8(xp: Any, X: Any, floor: float = 0.0) -> tuple[Any, Any, Any]:
    """Rows to numbers 0..255 over the range of each, with scale and bias, (N, 1) float32.

    A range is widened by 1e-8 against division by zero; with ``floor``, one below it is taken as 255 instead.
    """
    X = xp.astype(X, xp.float32)
    if X.shape[1] == 0:
        empty = xp.zeros((X.shape[0], 1), dtype=xp.float32)
        return xp.astype(X, xp.uint8), empty, empty
    low, high = xp.min(X, axis=1, keepdims=True), xp.max(X, axis=1, keepdims=True)
    width = high - low
    if floor:
        width = xp.where(width < floor, xp.full_like(width, 255), width)
    divisor = width if floor else width + 1e-8
    return xp.astype(xp.round((X - low) * (255 / divisor)), xp.uint8), width / 255, low


def quantize_half(xp: Any, X: Any, bits: int) -> tuple[Any, Any, Any]:
    """Rows to numbers of some bits, with scale and bias rounded to half precision, (N, 1) float32."""
    X = xp.astype(X, xp.float32)
    if X.shape[1] == 0:
        empty = xp.zeros((X.shape[0], 1), dtype=xp.float32)
        return xp.astype(X, xp.uint8), empty, empty
    low = xp.astype(xp.astype(xp.min(X, axis=1, keepdims=True), xp.float16), xp.float32)
    width = xp.max(X, axis=1, keepdims=True) - low
    one, top = xp.ones_like(width), 2 ** bits - 1
    scale = xp.astype(xp.astype(xp.where(width == 0, one, width / top), xp.float16), xp.float32)
    inverse = 1 / scale
    usable = (scale != 0) & xp.isfinite(inverse)
    scale, inverse = xp.where(usable, scale, one), xp.where(usable, inverse, one)
    return xp.astype(xp.clip(xp.round((X - low) * inverse), 0, top), xp.uint8), scale, low


def split(xp: Any, rows: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """Bytes of the numbers, scales and biases, (N, 1) float32, of fused rows."""
    size = 2 * xp.dtype(dtype).itemsize
    if rows.dtype != xp.uint8 or rows.ndim != 2 or rows.shape[1] < size:
        raise ValueError(f"fused rows are (N, at least {size}) uint8, found {rows.dtype} of shape {rows.shape}")
    width = rows.shape[1] - size
    tail = xp.astype(xp.ascontiguous(rows[:, width:]).view(dtype), xp.float32)
    return rows[:, :width], tail[:, :1], tail[:, 1:]


def dequantize(xp: Any, rows: Any, bits: int, dtype: Any) -> Any:
    """Fused rows to float32."""
    numbers, scale, bias = split(xp, rows, dtype)
    return xp.astype(unpack(xp, numbers, bits) if bits < 8 else numbers, xp.float32) * scale + bias


def pack_random(xp: Any, X: Any, bits: int, noise: Any) -> Any:
    """Rows of the Rand format: bits, numbers missing in the last byte, least, greatest, then the numbers.

    ``noise``: uniform in [0, 1), like X, for rounding at random; None rounds to nearest.
    """
    per_byte, (count, width) = 8 // bits, X.shape
    low, high = xp.min(X, axis=1, keepdims=True), xp.max(X, axis=1, keepdims=True)
    top = 2 ** bits - 1
    places = (X - low) / ((high - low) / top + 1e-8)
    numbers = xp.round(places) if noise is None else xp.floor(places + noise)
    numbers = xp.astype(xp.clip(numbers, 0, top), xp.uint8)
    size = -(-width // per_byte)
    missing = size * per_byte - width
    numbers = xp.concat([numbers, xp.zeros((count, missing), dtype=xp.uint8)], axis=1).reshape(count, per_byte, size)
    packed = xp.astype(xp.sum(numbers << (xp.arange(per_byte, dtype=xp.uint8) * bits)[:, None], axis=1), xp.uint8)
    head = xp.broadcast_to(xp.asarray([bits, missing], dtype=xp.uint8), (count, 2))
    ends = xp.ascontiguous(xp.concat([low, high], axis=1)).view(xp.uint8)
    return xp.concat([head, ends, packed], axis=1)


def unpack_random(xp: Any, rows: Any) -> Any:
    """Rows of the Rand format to float32."""
    if rows.dtype != xp.uint8 or rows.ndim != 2 or rows.shape[1] < 10:
        raise ValueError(f"rows of this format are (N, more than 10) uint8, found {rows.dtype} of shape {rows.shape}")
    if rows.shape[0] == 0:
        return xp.zeros((0, 0), dtype=xp.float32)
    bits, missing = int(rows[0, 0]), int(rows[0, 1])
    if bits not in (1, 2, 4, 8) or xp.any(rows[:, :2] != rows[:1, :2]):
        raise ValueError(f"every row must begin with the same bit width (1, 2, 4 or 8), found {bits}")
    ends = xp.ascontiguous(rows[:, 2:10]).view(xp.float32)
    shifts = (xp.arange(8 // bits, dtype=xp.uint8) * bits)[:, None]
    numbers = ((rows[:, None, 10:] >> shifts) & (2 ** bits - 1)).reshape(rows.shape[0], -1)
    numbers = xp.astype(numbers[:, :numbers.shape[1] - missing], xp.float32)
    gap = (ends[:, 1:] - ends[:, :1]) / (2 ** bits - 1) + 1e-8
    return numbers * gap + ends[:, :1]
