"""The choice of scale and zero point by a tensor's values, as a scheme says.

A scheme bounds the real values that the 256 levels span; what lies beyond is cut. Schemes other than the smallest and
largest value look at a histogram: a few outliers then do not cost all other values their resolution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from netgrad.graph.arguments import Bool, Str
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Step
from netgrad.ops._int8 import QuantizationParameters

_KINDS = ("MIN_MAX_QUANTIZATION", "L2_MIN_QUANTIZATION", "L2_MIN_QUANTIZATION_APPROX", "P99_QUANTIZATION")
#: bins of the histogram, and candidates for each end of the range
_BINS, _CANDIDATES = 2048, 128
#: of the values that P99_QUANTIZATION keeps
_SHARE = 0.99


class QuantizationScheme(NamedTuple):
    """How scale and zero point are chosen.

    Attributes:
        kind: MIN_MAX_QUANTIZATION, from the smallest to the largest value; P99_QUANTIZATION, the range that keeps 99 of
            100 values; L2_MIN_QUANTIZATION, that of the least squared error, L2_MIN_QUANTIZATION_APPROX, of the least
            that is expected where values spread evenly between the levels.
        preserve_sparsity: 0 is in the middle of the levels where there are values of both signs.
    """

    kind: str
    preserve_sparsity: bool


class Int8QuantSchemeBlobFill(Operator):
    """Makes a scheme by which Int8GenQuantParams chooses: what the range of the levels is to be."""

    outputs = [Out("quant_scheme", "opaque", differentiable=False)]
    arguments = [
        Str("quantization_kind", "MIN_MAX_QUANTIZATION", " or ".join(_KINDS)),
        Bool("preserve_sparsity", False, "0 in the middle of the levels where there are values of both signs"),
    ]
    host = True
    example = Example({}, {"quant_scheme": None})

    def kernel(xp: Any, *, quantization_kind: str, preserve_sparsity: bool) -> Any:
        if quantization_kind not in _KINDS:
            raise ValueError(f"quantization_kind is {quantization_kind!r}, expected {' or '.join(_KINDS)}")
        return QuantizationScheme(quantization_kind, preserve_sparsity)


class Int8GenQuantParams(Operator):
    """Chooses scale and zero point by the values of a tensor, as the scheme says."""

    inputs = [In("X", "float"), In("quant_scheme", "opaque, of Int8QuantSchemeBlobFill")]
    outputs = [Out("quant_param", "opaque: scale and zero point", differentiable=False)]
    host = True
    example = Example(
        {"X": [-1.0, 0.0, 2.0]},
        {"quant_param": None},
        before=(Step("Int8QuantSchemeBlobFill", (), ("quant_scheme",)),),
        inputs=("X", "quant_scheme"))

    def kernel(xp: Any, X: Any, quant_scheme: Any) -> Any:
        if not isinstance(quant_scheme, QuantizationScheme):
            raise ValueError(f"quant_scheme is a {type(quant_scheme).__name__}, expected what Int8QuantSchemeBlobFill "
                             "makes")
        x = xp.reshape(xp.astype(X, xp.float64), (-1,))
        low, high = (float(xp.min(x)), float(xp.max(x))) if x.shape[0] else (0.0, 0.0)
        if not math.isfinite(low) or not math.isfinite(high):
            raise ValueError(f"X reaches from {low} to {high}: no scale covers values that are not finite")
        if quant_scheme.kind != "MIN_MAX_QUANTIZATION" and low < high:
            low, high = _range(xp, x, min(low, 0.0), max(high, 0.0), quant_scheme)
        return parameters(low, high, quant_scheme.preserve_sparsity)


def parameters(low: float, high: float, preserve_sparsity: bool = False) -> QuantizationParameters:
    """Scale and zero point whose levels 0 to 255 span a range, extended to 0, which is always a level."""
    low, high = min(low, 0.0), max(high, 0.0)
    both = preserve_sparsity and low < 0 < high
    if both:
        step = max(low / -128, high / 127)
        low, high = -128 * step, 127 * step
    scale = (high - low) / 255
    if scale == 0 or not math.isfinite(1 / scale):
        scale = 0.1  # all values are 0: any scale serves
    return QuantizationParameters(scale, 128 if both else min(max(round(-low / scale), 0), 255))


def _range(xp: Any, x: Any, low: float, high: float, scheme: QuantizationScheme) -> tuple[float, float]:
    """The part of low to high that the levels are to span."""
    width = (high - low) / _BINS
    places = xp.clip(xp.astype((x - low) / width, xp.int64), 0, _BINS - 1)
    counts = xp.scatter_add(xp.zeros(_BINS), places, xp.ones_like(x))
    centres = low + width * (xp.arange(_BINS) + 0.5)
    symmetric = scheme.preserve_sparsity and low < 0 < high
    if scheme.kind == "P99_QUANTIZATION":
        return _shortest(xp, counts, centres, width, symmetric)

    def best(error: Callable[[float, float], float]) -> tuple[float, float]:
        """The ends of least error: each in turn, for the other one given."""
        if symmetric:
            return min(((-r, r) for k in range(1, _CANDIDATES + 1)
                        for r in [max(-low, high) * k / _CANDIDATES]), key=lambda ends: error(*ends))
        below, above = low, high
        shares = [k / _CANDIDATES for k in range(_CANDIDATES)]
        for _ in range(3):
            above = min((high * (1 - share) for share in shares), key=lambda end: error(below, end))
            below = min((low * (1 - share) for share in shares), key=lambda end: error(end, above))
        return below, above

    def squared(below: float, above: float) -> float:
        scale, zero = parameters(below, above, symmetric)
        levels = xp.clip(xp.round(centres / scale) + zero, 0, 255)
        return float(xp.sum(counts * ((levels - zero) * scale - centres) ** 2))

    def expected(below: float, above: float) -> float:
        scale, _ = parameters(below, above, symmetric)
        beyond = centres - xp.clip(centres, below, above)
        return float(xp.sum(counts * xp.where(beyond == 0, scale**2 / 12, beyond**2)))

    return best(squared if scheme.kind == "L2_MIN_QUANTIZATION" else expected)


def _shortest(xp: Any, counts: Any, centres: Any, width: float, symmetric: bool) -> tuple[float, float]:
    """The shortest range of bins (around 0 if it is to be symmetric) that holds the share of the values."""
    needed = _SHARE * float(xp.sum(counts))
    if symmetric:
        order = xp.argsort(xp.abs(centres))
        held = xp.cumulative_sum(counts[order])
        reach = float(xp.abs(centres)[order][int(xp.searchsorted(held, xp.asarray(needed)))]) + width / 2
        return -reach, reach
    before = xp.cumulative_sum(counts, include_initial=True)
    ends = xp.searchsorted(before, before[:-1] + needed)  # the first end that leaves enough; none is beyond the last
    lengths = xp.where(ends < before.shape[0], ends - xp.arange(_BINS), xp.full_like(ends, _BINS + 1))
    start = int(xp.argmin(lengths))
    return float(centres[start]) - width / 2, float(centres[int(ends[start]) - 1]) + width / 2
