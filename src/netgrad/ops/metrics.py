"""Measures of predictions, and of how values are distributed."""

from __future__ import annotations

import itertools
import math
import sys
from typing import Any

from netgrad.graph.arguments import Bool, Float, Floats, Int, Ints, Str
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import forbidden, no_gradient
from netgrad.graph.shapes import Fixed, TensorType, same_as, scalar
from netgrad.ops._arrays import array, product, require_labels, require_shape, require_size, single, zeros

#: how far the last edge of a self-binning histogram lies beyond the largest value
ROOM = 1.0001


class Accuracy(Operator):
    """accuracy = the share of rows whose label is among the top_k largest scores; ties go to the smaller class."""

    inputs = [In("predictions", "(N, D), float: scores"), In("labels", "(N,), int")]
    outputs = [Out("accuracy", "shape (), float32")]
    arguments = [Int("top_k", 1)]
    shape = scalar("float32")
    gradient = forbidden()
    example = Example({"predictions": [[0.1, 0.9], [0.8, 0.2]], "labels": [1, 1]}, {"accuracy": 0.5})

    def kernel(xp: Any, predictions: Any, labels: Any, *, top_k: int) -> Any:
        require_shape("the labels", labels, predictions.shape[:1], ", one per row")
        require_labels(xp, labels, predictions.shape[1])
        column = xp.expand_dims(xp.astype(labels, xp.int64), axis=1)
        own = xp.take_along_axis(predictions, column, axis=1)
        classes = xp.arange(predictions.shape[1], dtype=xp.int64, device=getattr(labels, "device", None))
        ahead = (predictions > own) | ((predictions == own) & (classes < column))
        hits = xp.sum(xp.astype(ahead, xp.int64), axis=1) < top_k
        return xp.mean(xp.astype(hits, xp.float32))


class MultiClassAccuracy(Operator):
    """For every class: the share of its rows that are recognized, and how many rows it has."""

    inputs = [In("prediction", "(N, D), float: scores"), In("labels", "(N,), int")]
    outputs = [Out("accuracies", "(D,), float32"), Out("amounts", "(D,), int32")]
    gradient = forbidden()
    example = Example(
        {"prediction": [[0.1, 0.9], [0.8, 0.2]], "labels": [1, 1]},
        {"accuracies": [0.0, 0.5], "amounts": [0, 2]})

    def shape(prediction: TensorType, labels: TensorType) -> tuple[TensorType, TensorType]:
        classes = None if prediction.dims is None else prediction.dims[1:]
        return TensorType("float32", classes), TensorType("int32", classes)

    def kernel(xp: Any, prediction: Any, labels: Any) -> Any:
        require_shape("the labels", labels, prediction.shape[:1], ", one per row")
        require_labels(xp, labels, prediction.shape[1])
        labels = xp.astype(labels, xp.int64)
        right = xp.astype(xp.argmax(prediction, axis=1) == labels, xp.float32)
        none = zeros(xp, (prediction.shape[1],), right)
        amounts = xp.scatter_add(none, labels, xp.ones_like(right))
        rights = xp.scatter_add(none, labels, right)
        return rights / xp.where(amounts > 0, amounts, xp.ones_like(amounts)), xp.astype(amounts, xp.int32)


class Perplexity(Operator):
    """output = exp(-mean of log p): the geometric mean of 1 / p."""

    inputs = [In("probabilities", "(N,) or (N, 1), float")]
    outputs = [Out("output", "shape ()")]
    shape = scalar()
    gradient = forbidden()
    example = Example({"probabilities": [0.5, 0.25]}, {"output": 2.82843})

    def kernel(xp: Any, probabilities: Any) -> Any:
        require_size("the input", probabilities, probabilities.shape[0], ", one per row")
        return xp.exp(-xp.sum(xp.log(probabilities)) / max(probabilities.shape[0], 1))


class APMeter(Operator):
    """The average precision of every class over the latest rows, kept from run to run."""

    inputs = [In("predictions", "(N, D), float: scores"), In("labels", "(N, D), int: 1 where the row is of the class")]
    outputs = [Out("AP", "(D,)")]
    arguments = [Int("buffer_size", 1000, "how many rows are kept")]
    gradient = forbidden()
    effects = {"state"}
    host = True
    example = Example({"predictions": [[0.9], [0.2]], "labels": [[1], [0]]}, {"AP": [1.0]})

    def shape(predictions: TensorType, labels: TensorType, **_: Any) -> TensorType:
        return predictions.with_dims(None if predictions.dims is None else predictions.dims[1:])

    def kernel(xp: Any, predictions: Any, labels: Any, *, buffer_size: int, op: Any) -> Any:
        require_shape("the labels", labels, predictions.shape, ", the predictions'")
        scores = xp.concat([op.state.get("scores", predictions[:0]), predictions])[-buffer_size:]
        truth = xp.concat([op.state.get("truth", labels[:0]), labels])[-buffer_size:]
        op.state.update(scores=scores, truth=truth)
        order = xp.argsort(scores, axis=0, descending=True, stable=True)
        hits = xp.astype(xp.take_along_axis(truth, order, axis=0) == 1, predictions.dtype)
        ranks = xp.arange(1, scores.shape[0] + 1, dtype=predictions.dtype)[:, None]
        total = xp.sum(hits, axis=0)
        precision = xp.sum(hits * xp.cumulative_sum(hits, axis=0) / ranks, axis=0)
        return precision / xp.where(total > 0, total, xp.ones_like(total))


class AccumulateHistogram(Operator):
    """How many values fall into each of num_buckets equal intervals, below and above, in this run and in all."""

    inputs = [In("X", "float")]
    outputs = [Out("CurHist", "(num_buckets + 2,), int64: what lies below, in each interval, above"),
               Out("AccHist", "the sum over all runs")]
    arguments = [Float("lower_bound", 0.0), Float("upper_bound", 1.0), Int("num_buckets", 1)]
    gradient = forbidden()
    effects = {"state"}
    example = Example(
        {"X": [0.5, 1.5, 1.7]},
        {"CurHist": Tensor([0, 1, 2, 0], "int64"), "AccHist": Tensor([0, 1, 2, 0], "int64")},
        {"lower_bound": 0.0, "upper_bound": 2.0, "num_buckets": 2})

    def shape(X: TensorType, *, num_buckets: int = 1, **_: Any) -> tuple[TensorType, TensorType]:
        return (TensorType("int64", (num_buckets + 2,)),) * 2

    def kernel(xp: Any, X: Any, *, lower_bound: float, upper_bound: float, num_buckets: int, op: Any) -> Any:
        if num_buckets < 1 or lower_bound > upper_bound:
            raise ValueError(f"num_buckets is {num_buckets} and the bounds {lower_bound} and {upper_bound}: expected "
                             "at least one bucket and bounds in order")
        x = xp.reshape(X, (-1,))
        segment = (upper_bound - lower_bound) / num_buckets
        inside = xp.astype(xp.floor((x - lower_bound) / segment), xp.int64) + 1
        inside = xp.where(x < lower_bound, xp.zeros_like(inside), inside)
        bucket = xp.where(x >= upper_bound, xp.full_like(inside, num_buckets + 1), inside)
        none = zeros(xp, (num_buckets + 2,), X, xp.int64)
        current = xp.scatter_add(none, bucket, xp.ones_like(bucket))
        op.state["sum"] = current + op.state.get("sum", none)
        return current, op.state["sum"]


class Histogram(Operator):
    """How many values of all inputs fall between each bin edge (included) and the next (not)."""

    inputs = [In("X", "float", variadic=True)]
    outputs = [Out("histogram", "(edges - 1,), int64")]
    arguments = [Floats("bin_edges", (), "ascending")]
    gradient = forbidden()
    example = Example({"X": [0.5, 1.5, 1.7]}, {"histogram": Tensor([1, 2], "int64")}, {"bin_edges": [0.0, 1.0, 2.0]})

    def shape(*X: TensorType, bin_edges: Any = ()) -> TensorType:
        return TensorType("int64", (max(len(bin_edges) - 1, 0),))

    def kernel(xp: Any, *X: Any, bin_edges: Any) -> Any:
        if len(bin_edges) < 2 or any(a >= b for a, b in itertools.pairwise(bin_edges)):
            raise ValueError(f"the argument bin_edges has {len(bin_edges)} numbers, expected two or more in strictly "
                             "ascending order")
        counted = zeros(xp, (len(bin_edges) + 1,), X[0], xp.int64)
        for x in X:
            x = xp.reshape(x, (-1,))
            edges = xp.asarray(list(bin_edges), dtype=x.dtype, device=getattr(x, "device", None))
            bucket = xp.astype(xp.searchsorted(edges, x, side="right"), xp.int64)
            counted = xp.scatter_add(counted, bucket, xp.ones_like(bucket))
        return counted[1:-1]


class SelfBinningHistogram(Operator):
    """A histogram whose edges span the values: equally spaced, or by equal factors."""

    inputs = [In("X", "float", variadic=True)]
    outputs = [Out("histogram_values", "(num_bins + 1,): the edges"), Out("histogram_counts", "(num_bins + 1,), int64")]
    arguments = [Int("num_bins", 0), Str("bin_spacing", "linear", "linear or logarithmic"),
                 Float("logspace_start", 1e-24, "the first edge, if logarithmic"), Bool("abs", False, as_="absolute")]
    gradient = forbidden()
    example = Example(
        {"X": [0.0, 1.0, 2.0]},
        {"histogram_values": [0.0, 1.0001, 2.0002], "histogram_counts": Tensor([2, 1, 0], "int64")},
        {"num_bins": 2})

    def shape(*X: TensorType, num_bins: int = 0, **_: Any) -> tuple[TensorType, TensorType]:
        return TensorType(X[0].dtype, (num_bins + 1,)), TensorType("int64", (num_bins + 1,))

    def kernel(xp: Any, *X: Any, num_bins: int, bin_spacing: str, logspace_start: float, absolute: bool) -> Any:
        if num_bins < 1:
            raise ValueError(f"Number of bins must be greater than or equal to 1. Found num_bins {num_bins}")
        if bin_spacing not in ("linear", "logarithmic"):
            raise ValueError(f"bin_spacing is {bin_spacing!r}, expected linear or logarithmic")
        x = xp.concat([xp.reshape(part, (-1,)) for part in X])
        x = xp.abs(x) if absolute else x
        none = zeros(xp, (num_bins + 1,), x, xp.int64)
        if not x.shape[0]:
            return zeros(xp, (num_bins + 1,), x), none
        low, high = float(xp.min(x)), float(xp.max(x))
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError(f"the values go from {low} to {high}; only finite ones have bins, take the others out")
        if bin_spacing == "logarithmic":
            low, high = max(low, logspace_start), max(high, logspace_start)
        steps = xp.arange(num_bins + 1, dtype=x.dtype, device=getattr(x, "device", None)) / num_bins
        if low == high:
            edges = xp.full_like(steps, low)
            bucket = xp.zeros_like(x, dtype=xp.int64)
        else:  # the last edge lies a little beyond the largest value, so that this falls before it
            edges = (steps * ((high - low) * ROOM) + low if bin_spacing == "linear"
                     else low * (high * ROOM / low) ** steps)
            bucket = xp.astype(xp.searchsorted(edges, x, side="right"), xp.int64) - 1
            bucket = xp.clip(bucket, 0, num_bins)
        return edges, xp.scatter_add(none, bucket, xp.ones_like(bucket))


class Quantile(Operator):
    """The number that the share ``quantile`` of all values does not exceed, to a tolerance."""

    inputs = [In("X", "float", variadic=True)]
    outputs = [Out("quantile_value", "(1,)")]
    arguments = [Float("quantile", -1.0, "between 0 and 1"),
                 Bool("abs", True, "of the absolute values", as_="absolute"),
                 Float("tol", 1e-3, "of the result")]
    shape = Fixed((TensorType(None, (1,)),))
    gradient = forbidden()
    example = Example({"X": [1.0, 2.0, 3.0, 4.0]}, {"quantile_value": [2.5]}, {"quantile": 0.5})

    def kernel(xp: Any, *X: Any, quantile: float, absolute: bool, tol: float) -> Any:
        if not 0 <= quantile <= 1:
            raise ValueError(f"the argument quantile is {quantile}, expected 0 to 1")
        x = xp.concat([xp.reshape(part, (-1,)) for part in X])
        if not x.shape[0]:
            raise ValueError("there are no values to take a quantile of")
        x = xp.abs(x) if absolute else x

        def below(bound: float) -> int:
            return int(xp.sum(xp.astype(x <= bound, xp.int64)))

        wanted = math.ceil(single(x.shape[0] * quantile))
        low, high = float(xp.min(x)), float(xp.max(x))
        if below(low) >= wanted:
            high = low
        while high - low > tol * max(abs(low), abs(high)):
            middle = (low + high) / 2
            found = below(middle)
            low, high = (low, middle) if found >= wanted else (middle, high)
            if found == wanted:
                break
        return array(xp, [high], x)


class Percentile(Operator):
    """Maps every value to its percentile by a table per column, linear in between."""

    inputs = [In("original_values", "(N, D), float"), In("value_to_pct", "(M, 2): value and percentile, ascending"),
              In("lengths", "(D,), int: rows of the table per column")]
    outputs = [Out("percentile_values", "(N, D)")]
    shape = same_as(0)
    gradient = no_gradient
    host = True
    example = Example(
        {"original_values": [[1.5]], "value_to_pct": [[1.0, 0.0], [2.0, 1.0]], "lengths": [2]},
        {"percentile_values": [[0.5]]})

    def kernel(xp: Any, original_values: Any, value_to_pct: Any, lengths: Any) -> Any:
        require_shape("the lengths", lengths, original_values.shape[1:], ", one per column")
        require_shape("the table", value_to_pct, (int(xp.sum(lengths)), 2), ", the sum of the lengths")
        columns, start = [], 0
        for k, length in enumerate(int(n) for n in lengths):
            table = value_to_pct[start:start + length]
            columns.append(_interpolated(xp, original_values[:, k], table[:, 0], table[:, 1], table[:, 1]))
            start += length
        return xp.stack(columns, axis=1) if columns else original_values


def _interpolated(xp: Any, x: Any, points: Any, above: Any, below: Any) -> Any:
    """Linear between the points, from ``above`` one to ``below`` the next; the ends go on outside."""
    high = xp.clip(xp.searchsorted(points, x, side="left"), 1, max(points.shape[0] - 1, 1))
    high = xp.clip(high, 0, points.shape[0] - 1)
    low = xp.clip(high - 1, 0, points.shape[0] - 1)
    span = points[high] - points[low]
    share = xp.clip((x - points[low]) / xp.where(span > 0, span, xp.ones_like(span)), 0.0, 1.0)
    return xp.astype(above[low] + share * (below[high] - above[low]), x.dtype)


class BisectPercentile(Operator):
    """Percentile by tables that say at each point what holds at it, just below and just above it."""

    inputs = [In("raw_values", "(N, D), float")]
    outputs = [Out("percentile", "(N, D)")]
    arguments = [
        Floats("percentile_raw", (), "the points of all columns, ascending in each"),
        Floats("percentile_mapping", (), "at a point"), Floats("percentile_lower", (), "just below it"),
        Floats("percentile_upper", (), "just above it"), Ints("lengths", (), "points per column"),
    ]
    shape = same_as(0)
    gradient = no_gradient
    host = True
    example = Example(
        {"raw_values": [[1.5]]},
        {"percentile": [[0.5]]},
        {"percentile_raw": [1.0, 2.0], "percentile_mapping": [0.0, 1.0], "percentile_lower": [0.0, 1.0],
         "percentile_upper": [0.0, 1.0], "lengths": [2]})

    def kernel(xp: Any, raw_values: Any, *, percentile_raw: Any, percentile_mapping: Any, percentile_lower: Any,
               percentile_upper: Any, lengths: Any) -> Any:
        if raw_values.ndim != 2 or raw_values.shape[1] != len(lengths):
            raise ValueError(f"the input has shape {tuple(raw_values.shape)}, expected {len(lengths)} columns, one per "
                             "table")
        columns, start = [], 0
        for k, length in enumerate(lengths):
            rows = slice(start, start + length)
            points, at, above, below = (xp.asarray(list(table[rows]), dtype=raw_values.dtype) for table in (
                percentile_raw, percentile_mapping, percentile_upper, percentile_lower))
            x = raw_values[:, k]
            y = _interpolated(xp, x, points, above, below)
            place = xp.clip(xp.searchsorted(points, x, side="left"), 0, length - 1)
            y = xp.where(points[place] == x, at[place], y)
            y = xp.where(x < points[0], xp.zeros_like(y), xp.where(x > points[-1], xp.ones_like(y), y))
            columns.append(y)
            start += length
        return xp.stack(columns, axis=1) if columns else raw_values


class Summarize(Operator):
    """Smallest, largest, mean and standard deviation (of a sample) of a tensor, also written to standard error."""

    inputs = [In("data", "float, at least one element")]
    outputs = [Out("output", "(4,): smallest, largest, mean, standard deviation", optional=True)]
    arguments = [Int("to_file", 0, "1: append them to <folder>/<blob>_summary.txt instead")]
    shape = Fixed((TensorType(None, (4,)),))
    gradient = forbidden()
    effects = {"io"}
    example = Example({"data": [1.0, 2.0, 3.0]}, {})

    def kernel(xp: Any, data: Any, *, to_file: int, op: Any) -> Any:
        count = product(data.shape)
        if not count:
            raise ValueError("there is nothing to summarize: the input is empty")
        mean = xp.mean(data)
        spread = xp.sqrt(xp.sum((data - mean) ** 2) / max(count - 1, 1))
        found = xp.stack([xp.min(data), xp.max(data), mean, spread])
        text = " ".join(f"{float(value):g}" for value in found)
        if to_file:
            from pathlib import Path

            folder = Path(getattr(op.workspace, "root_folder", "."))
            with (folder / f"{op.inputs[0]}_summary.txt").open("a") as file:
                file.write(text + "\n")
        else:
            print(f"{op.inputs[0]}: smallest, largest, mean, deviation: {text}", file=sys.stderr)
        return found
