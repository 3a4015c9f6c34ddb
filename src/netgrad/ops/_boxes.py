"""Boxes on NumPy arrays: moved by regressed deltas, clipped, measured, thinned by non-maximum suppression.

Upright boxes are (left, top, right, bottom), turned ones (centre x, centre y, width, height, degrees). ``extra`` is the
width of a box whose corners are equal: 1 where pixels are counted with their edges.
"""

from __future__ import annotations

import math
from typing import Any

#: deltas of a logarithmic size are cut here, before they are exponentiated
LARGEST_GROWTH = math.log(1000.0 / 16.0)


def transform(xp: Any, boxes: Any, deltas: Any, weights: Any, extra: float) -> Any:
    """Boxes (R, 4) moved by deltas (R, 4 K): (R, 4 K)."""
    width, height = boxes[:, 2:3] - boxes[:, 0:1] + extra, boxes[:, 3:4] - boxes[:, 1:2] + extra
    x, y = boxes[:, 0:1] + 0.5 * width, boxes[:, 1:2] + 0.5 * height
    x, y, width, height = _moved(xp, (x, y, width, height), deltas, weights, 4)
    out = xp.empty_like(deltas)
    out[:, 0::4], out[:, 1::4] = x - 0.5 * width, y - 0.5 * height
    out[:, 2::4], out[:, 3::4] = x + 0.5 * width - extra, y + 0.5 * height - extra
    return out


def _moved(xp: Any, box: Any, deltas: Any, weights: Any, step: int) -> tuple[Any, Any, Any, Any]:
    x, y, width, height = box
    dx, dy, dw, dh = (deltas[:, k::step] / weights[k] for k in range(4))
    return (dx * width + x, dy * height + y, xp.exp(xp.minimum(dw, LARGEST_GROWTH)) * width,
            xp.exp(xp.minimum(dh, LARGEST_GROWTH)) * height)


def transform_turned(xp: Any, boxes: Any, deltas: Any, weights: Any, bounds: tuple[int, int] | None) -> Any:
    """Turned boxes (R, 5) moved by deltas (R, 5 K); angles are brought between ``bounds``, where given."""
    out = xp.empty_like(deltas)
    out[:, 0::5], out[:, 1::5], out[:, 2::5], out[:, 3::5] = _moved(
        xp, (boxes[:, 0:1], boxes[:, 1:2], boxes[:, 2:3], boxes[:, 3:4]), deltas, weights, 5)
    angle = deltas[:, 4::5] * (180.0 / math.pi) + boxes[:, 4:5]
    if bounds is not None:
        low, high = bounds
        if (high - low) % 180 or high <= low:
            raise ValueError(f"angles are to lie between {low} and {high}, expected a range of a multiple of 180")
        angle = xp.where(angle < low, angle + (high - low), xp.where(angle > high, angle - (high - low), angle))
    out[:, 4::5] = angle
    return out


def clip(xp: Any, boxes: Any, height: float, width: float, extra: float) -> Any:
    """Upright boxes (R, 4 K) cut to an image."""
    out = xp.empty_like(boxes)
    for k, limit in enumerate((width, height, width, height)):
        out[:, k::4] = xp.maximum(xp.minimum(boxes[:, k::4], limit - extra), 0)
    return out


def clip_turned(xp: Any, boxes: Any, height: float, width: float, threshold: float, extra: float) -> Any:
    """Turned boxes (R, 5 K) cut to an image as if they were upright, where their angle is within ``threshold``."""
    out = xp.asarray(boxes, copy=True)
    level = xp.abs(boxes[:, 4::5]) <= threshold
    for place, size, limit in ((0, 2, width), (1, 3, height)):
        half = (boxes[:, size::5] - extra) / 2
        low = xp.maximum(xp.minimum(boxes[:, place::5] - half, limit - extra), 0)
        high = xp.maximum(xp.minimum(boxes[:, place::5] + half, limit - extra), 0)
        out[:, place::5] = xp.where(level, (low + high) / 2, boxes[:, place::5])
        out[:, size::5] = xp.where(level, high - low + extra, boxes[:, size::5])
    return out


def _upright_overlaps(xp: Any, box: Any, others: Any, extra: float) -> Any:
    """Intersection over union of one upright box with others."""
    def area(b: Any) -> Any:
        return (b[..., 2] - b[..., 0] + extra) * (b[..., 3] - b[..., 1] + extra)

    width = xp.minimum(box[2], others[:, 2]) - xp.maximum(box[0], others[:, 0]) + extra
    height = xp.minimum(box[3], others[:, 3]) - xp.maximum(box[1], others[:, 1]) + extra
    both = xp.maximum(width, 0) * xp.maximum(height, 0)
    return both / (area(box) + area(others) - both)


Point = tuple[float, float]


def _corners(box: Any) -> list[Point]:
    x, y, width, height, degrees = (float(v) for v in box)
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return [(x + a * width / 2 * cos + b * height / 2 * sin, y - a * width / 2 * sin + b * height / 2 * cos)
            for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]


def _area(polygon: list[Point]) -> float:
    return 0.5 * abs(sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in zip(polygon, polygon[1:] + polygon[:1])))


def _common(polygon: list[Point], other: list[Point]) -> list[Point]:
    """The part of a polygon inside a convex one: cut by its sides, one after the other (Sutherland and Hodgman)."""
    for (x0, y0), (x1, y1) in zip(other, other[1:] + other[:1]):
        sides = [(x1 - x0) * (y - y0) - (y1 - y0) * (x - x0) for x, y in polygon]
        kept: list[Point] = []
        for k, (x, y) in enumerate(polygon):
            before, here = sides[k - 1], sides[k]
            if before * here < 0:
                part = before / (before - here)
                px, py = polygon[k - 1]
                kept.append((px + part * (x - px), py + part * (y - py)))
            if here >= 0:
                kept.append((x, y))
        polygon = kept
    return polygon


def _turned_overlaps(xp: Any, box: Any, others: Any) -> Any:
    """Intersection over union of one turned box with others."""
    def overlap(other: Any) -> float:
        both = _area(_common(_corners(box), _corners(other)))
        union = float(box[2] * box[3] + other[2] * other[3]) - both
        return both / union if union > 0 else 0.0

    return xp.asarray([overlap(other) for other in others], dtype=others.dtype)


def overlaps(xp: Any, box: Any, others: Any, extra: float) -> Any:
    """Intersection over union of one box with others, upright or turned by the number of columns."""
    return _turned_overlaps(xp, box, others) if others.shape[1] == 5 else _upright_overlaps(xp, box, others, extra)


def suppress(xp: Any, boxes: Any, order: Any, threshold: float, extra: float, most: int = -1) -> list[int]:
    """Of the boxes listed in ``order``, those that no earlier kept one overlaps by more than ``threshold``."""
    kept: list[int] = []
    while order.shape[0] and (most < 0 or len(kept) < most):
        best, order = int(order[0]), order[1:]
        kept.append(best)
        order = order[overlaps(xp, boxes[best], boxes[order], extra) <= threshold]
    return kept


def suppress_softly(xp: Any, boxes: Any, scores: Any, candidates: Any, threshold: float, extra: float, method: str,
                    sigma: float, least: float) -> tuple[list[int], list[float]]:
    """Instead of removing what overlaps a better box, lowers its score; those below ``least`` go.

    Source: Bodla et al. 2017, https://arxiv.org/abs/1704.04503.
    """
    kept, values, left = [], [], xp.asarray(scores[candidates], copy=True)
    while candidates.shape[0]:
        best = int(xp.argmax(left))
        kept.append(int(candidates[best]))
        values.append(float(left[best]))
        rest = xp.arange(candidates.shape[0]) != best
        candidates, left = candidates[rest], left[rest]
        shared = overlaps(xp, boxes[kept[-1]], boxes[candidates], extra)
        if method == "gaussian":
            left = left * xp.exp(-shared * shared / sigma)
        elif method == "linear":
            left = xp.where(shared > threshold, left * (1 - shared), left)
        else:
            raise ValueError(f"soft_nms_method is {method!r}, expected linear or gaussian")
        enough = left >= least
        candidates, left = candidates[enough], left[enough]
    return kept, values
