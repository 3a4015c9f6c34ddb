"""Rows of a tensor chosen by lengths, segment ids and indices: the checks and sums that several families share."""

from __future__ import annotations

from typing import Any

from netgrad.graph.shapes import TensorType


def as_index(xp: Any, numbers: Any) -> Any:
    """Integers that index without surprise: int64."""
    return numbers if numbers.dtype == xp.int64 else xp.astype(numbers, xp.int64)


def check_indices(xp: Any, indices: Any, size: int, name: str = "INDICES") -> Any:
    """``indices`` as int64; refused unless each is at least 0 and below ``size``."""
    indices = as_index(xp, indices)
    if 0 in indices.shape:
        return indices
    low, high = int(xp.min(indices)), int(xp.max(indices))
    if low < 0 or high >= size:
        raise ValueError(f"{name} must lie in 0..{size - 1} ({size} rows), found {low if low < 0 else high}")
    return indices


def check_lengths(xp: Any, lengths: Any, name: str = "LENGTHS") -> Any:
    """``lengths`` as int64; refused unless they are a vector without a negative."""
    if lengths.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, found shape {tuple(lengths.shape)}")
    lengths = as_index(xp, lengths)
    if lengths.shape[0] and int(xp.min(lengths)) < 0:
        raise ValueError(f"{name} must not be negative, found {int(xp.min(lengths))}")
    return lengths


def arange_like(xp: Any, count: int, like: Any) -> Any:
    """0, 1, ..., count - 1 as int64, beside ``like``."""
    return xp.arange(count, dtype=xp.int64, device=like.device)


def spread(xp: Any, lengths: Any, rows: int | None = None, name: str = "LENGTHS") -> Any:
    """The segment that each row belongs to: lengths (2, 0, 1) give (0, 0, 2).

    Refused when the lengths do not add up to ``rows``.
    """
    lengths = check_lengths(xp, lengths, name)
    if rows is not None and (total := int(xp.sum(lengths))) != rows:
        raise ValueError(f"{name} must add up to the number of rows, {rows}; their sum is {total}")
    return xp.repeat(arange_like(xp, lengths.shape[0], lengths), lengths)


def starts(xp: Any, lengths: Any) -> Any:
    """Where each segment begins: the sum of the lengths before it."""
    return xp.cumulative_sum(lengths, axis=0, dtype=lengths.dtype) - lengths


def places(xp: Any, lengths: Any, segments: Any) -> Any:
    """Each row's position within its segment."""
    return arange_like(xp, segments.shape[0], segments) - xp.take(starts(xp, lengths), segments, axis=0)


def sorted_segments(xp: Any, ids: Any, rows: int | None = None) -> tuple[Any, int]:
    """Segment ids as int64 and the number of segments; refused unless they go 0, 0, ..., 1, ... without a gap."""
    ids = _segment_ids(xp, ids, rows)
    if ids.shape[0] == 0:
        return ids, 0
    steps = ids[1:] - ids[:-1]
    if int(ids[0]) != 0 or bool(xp.any((steps < 0) | (steps > 1))):
        raise ValueError("SEGMENT_IDS must begin at 0 and go up by 0 or 1 from row to row (sorted, without gaps); "
                         "use an UnsortedSegment operator for others")
    return ids, int(ids[-1]) + 1


def unsorted_segments(xp: Any, ids: Any, rows: int | None, num_segments: int) -> tuple[Any, int]:
    """Segment ids as int64 and the number of segments: ``num_segments``, or one more than the greatest id where -1."""
    ids = _segment_ids(xp, ids, rows)
    count = num_segments if num_segments != -1 else int(xp.max(ids)) + 1 if ids.shape[0] else 0
    return check_indices(xp, ids, count, "SEGMENT_IDS"), count


def _segment_ids(xp: Any, ids: Any, rows: int | None) -> Any:
    if ids.ndim != 1:
        raise ValueError(f"SEGMENT_IDS must be one-dimensional, found shape {tuple(ids.shape)}")
    if rows is not None and ids.shape[0] != rows:
        raise ValueError(f"SEGMENT_IDS must have one entry per row, {rows}; found {ids.shape[0]}")
    return as_index(xp, ids)


def along(xp: Any, vector: Any, rows: Any) -> Any:
    """A vector laid along the first axis of ``rows``: reshaped to (N, 1, ..., 1) and given their dtype."""
    return xp.reshape(xp.astype(vector, rows.dtype), (vector.shape[0],) + (1,) * (rows.ndim - 1))


def segment_sum(xp: Any, rows: Any, segments: Any, count: int) -> Any:
    """(N, ...) -> (count, ...): the sum of each segment's rows; 0 for an empty one."""
    return xp.scatter_add(xp.zeros((count, *rows.shape[1:]), dtype=rows.dtype, device=rows.device), segments, rows)


def segment_sizes(xp: Any, segments: Any, count: int) -> Any:
    """How many rows each segment has."""
    zeros = xp.zeros((count,), dtype=xp.int64, device=segments.device)
    return xp.scatter_add(zeros, segments, xp.ones_like(segments))


def divisors(xp: Any, sizes: Any, rows: Any) -> Any:
    """Sizes to divide ``rows`` by: 1 in place of 0."""
    return along(xp, xp.where(sizes > 0, sizes, xp.ones_like(sizes)), rows)


def segment_mean(xp: Any, rows: Any, segments: Any, count: int) -> Any:
    """(N, ...) -> (count, ...): the mean of each segment's rows; 0 for an empty one."""
    total = segment_sum(xp, rows, segments, count)
    return total / divisors(xp, segment_sizes(xp, segments, count), total)


def padded(xp: Any, rows: Any, lengths: Any, width: int, fill: Any) -> Any:
    """(N, ...) -> (segments, width, ...): each segment's first ``width`` rows, then ``fill`` (empty strings)."""
    if xp.dtype_name(rows) == "string":
        fill = b""
    segments = spread(xp, lengths, rows.shape[0])
    column = places(xp, lengths, segments)
    kept = column < width
    grid = xp.full((lengths.shape[0] * width, *rows.shape[1:]), fill, dtype=rows.dtype, device=rows.device)
    grid = xp.index_put(grid, (segments * width + column)[kept], rows[kept, ...])
    return xp.reshape(grid, (lengths.shape[0], width, *rows.shape[1:]))


def segment_max(xp: Any, rows: Any, lengths: Any) -> Any:
    """(N, ...) -> (segments, ...): the greatest entry of each segment; 0 for an empty one."""
    width = int(xp.max(lengths)) if lengths.shape[0] else 0
    if width == 0:
        spread(xp, lengths, rows.shape[0])
        return xp.zeros((lengths.shape[0], *rows.shape[1:]), dtype=rows.dtype, device=rows.device)
    greatest = xp.max(padded(xp, rows, lengths, width, -float("inf")), axis=1)
    return xp.where(along(xp, lengths, rows) > 0, greatest, xp.zeros_like(greatest))


def in_turn(xp: Any, indices: Any) -> list[Any]:
    """Positions of ``indices`` in rounds: no index twice in a round, equal ones in their order over the rounds."""
    if indices.shape[0] == 0:
        return []
    order = xp.argsort(indices, stable=True)
    ordered = xp.take(indices, order, axis=0)
    turn = arange_like(xp, order.shape[0], order) - as_index(xp, xp.searchsorted(ordered, ordered))
    return [order[turn == k] for k in range(int(xp.max(turn)) + 1)]


def rows_like(count: int | None, data: TensorType) -> TensorType:
    """``count`` rows of the kind that ``data`` has."""
    return data.with_dims(None if data.dims is None else (count, *data.dims[1:]))


def rows_of(data: TensorType) -> int | None:
    """The size of the first axis, where it is known."""
    return data.dims[0] if data.dims else None
