"""Losses of comparison: rankings, margins, embeddings, and the divergence of two coins."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from netgrad.graph.arguments import Bool, Float
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example
from netgrad.graph.rules import Rule, emits
from netgrad.graph.shapes import TensorType, same_as
from netgrad.ops._arrays import require_shape, require_size, zeros
from netgrad.ops._logistic import sigmoid, softplus
from netgrad.ops.losses import LEAST_PROBABILITY, _at_least

#: the gain of an ideal ranking is not taken to be smaller than this
LEAST_GAIN = 1e-5


def _sessions(xp: Any, lengths: Any, count: int) -> Iterator[slice]:
    """The rows of every session; all rows are one where there are no lengths."""
    sizes = [count] if lengths is None else [int(n) for n in xp.to_numpy(lengths).ravel()]
    ends = list(itertools.accumulate(sizes, initial=0))
    if ends[-1] != count or min(sizes, default=0) < 0:
        raise ValueError(f"the lengths add up to {ends[-1]}, expected {count}, the number of rows")
    return map(slice, ends, ends[1:])


def _stacked(xp: Any, numbers: list[Any], like: Any) -> Any:
    return xp.stack(numbers) if numbers else zeros(xp, (0,), like)


def _joined(xp: Any, parts: list[Any], like: Any) -> Any:
    return xp.reshape(xp.concat(parts), like.shape) if parts else xp.zeros_like(like)


def _differences(xp: Any, x: Any) -> Any:
    """x_i - x_j for all pairs."""
    return xp.expand_dims(x, axis=1) - xp.expand_dims(x, axis=0)


class PairWiseLoss(Operator):
    """Y = mean of log(1 + exp(X_j - X_i)) over the pairs with label_i > label_j, per session."""

    inputs = [In("X", "(N,) or (N, 1), float: scores"), In("label", "like X: what the order should follow"),
              In("lengths", "int: rows per session; one session unless given", optional=True, differentiable=False)]
    outputs = [Out("Y", "one number per session")]
    example = Example({"X": [1.0, 2.0], "label": [1.0, 0.0]}, {"Y": [1.31326]}, wrt=("X",))

    def shape(X: TensorType, label: TensorType, *lengths: TensorType) -> TensorType:
        return X.with_dims(lengths[0].dims if lengths else (1,))

    def kernel(xp: Any, X: Any, label: Any, lengths: Any) -> Any:
        require_size("the label", label, X.shape[0], ", one per row")
        scores, label = xp.reshape(X, (-1,)), xp.reshape(label, (-1,))
        losses = []
        for rows in _sessions(xp, lengths, X.shape[0]):
            above = xp.astype(_differences(xp, label[rows]) > 0, X.dtype)
            pairs = _at_least(xp, xp.sum(above), 1.0)
            losses.append(xp.sum(above * softplus(xp, -_differences(xp, scores[rows]))) / pairs)
        return _stacked(xp, losses, scores)

    def gradient(op: Rule) -> None:
        lengths = [op.I(2)] if op.num_inputs > 2 else []
        op.emit("PairWiseLossGradient", [op.I(0), op.I(1), op.GO(0), *lengths], [op.GI(0)])


class PairWiseLossGradient(Operator):
    """dX of PairWiseLoss."""

    inputs = [In("X"), In("label"), In("dY", "one number per session, float"),
              In("lengths", optional=True, differentiable=False)]
    outputs = [Out("dX", "like X")]
    internal = True
    shape = same_as(0)
    example = Example({"X": [1.0, 2.0], "label": [1.0, 0.0], "dY": [1.0]}, {"dX": [-0.731059, 0.731059]})

    def kernel(xp: Any, X: Any, label: Any, dY: Any, lengths: Any) -> Any:
        require_size("the label", label, X.shape[0], ", one per row")
        sessions = list(_sessions(xp, lengths, X.shape[0]))
        require_size("the output's gradient", dY, len(sessions), ", one per session")
        scores, label, dY = (xp.reshape(x, (-1,)) for x in (X, label, dY))
        parts = []
        for k, rows in enumerate(sessions):
            above = xp.astype(_differences(xp, label[rows]) > 0, X.dtype)
            slope = above * sigmoid(xp, -_differences(xp, scores[rows]))
            pairs = _at_least(xp, xp.sum(above), 1.0)
            parts.append((xp.sum(slope, axis=0) - xp.sum(slope, axis=1)) * dY[k] / pairs)
        return _joined(xp, parts, X)


class LambdaRankNdcg(Operator):
    """The loss of a ranking by its discounted cumulative gain, per session, and its derivative.

    Pairs in the wrong order are weighted by what swapping them would change. Source: Burges 2010, From RankNet to
    LambdaRank to LambdaMART.
    """

    inputs = [In("scores", "(N,), float"), In("relevance", "(N,), float"),
              In("lengths", "int: rows per session", differentiable=False)]
    outputs = [Out("loss", "one number per session"), Out("dscores", "(N,)")]
    arguments = [
        Bool("use_ndcg_as_loss", False, "the loss is the missing gain itself"),
        Bool("use_idcg_normalization", True, "divide by the gain of the ideal ranking"),
        Bool("use_exp_gain", True, "with use_ndcg_as_loss: the gain is 2^relevance, not relevance"),
    ]
    gradient = emits("LambdaRankNdcgGradient", "I0 I2 O1 GO0", "GI0")
    example = Example(
        {"scores": [1.0, 2.0, 0.5], "relevance": [0.0, 1.0, 2.0], "lengths": [3]},
        {"loss": [0.763516], "dscores": [0.0596602, 0.124667, -0.184328]},
        wrt=())  # LambdaRank's slopes are not those of the loss

    def shape(scores: TensorType, relevance: TensorType, lengths: TensorType,
              **_: Any) -> tuple[TensorType, TensorType]:
        return scores.with_dims(lengths.dims), scores

    def kernel(xp: Any, scores: Any, relevance: Any, lengths: Any, *, use_ndcg_as_loss: bool,
               use_idcg_normalization: bool, use_exp_gain: bool) -> Any:
        require_shape("the relevance", relevance, scores.shape, ", the scores'")
        losses, slopes = [], []
        for rows in _sessions(xp, lengths, scores.shape[0]):
            y, r = scores[rows], relevance[rows]
            if not y.shape[0]:
                losses.append(zeros(xp, (), scores))
                continue
            gain = 2.0 ** r if use_exp_gain or not use_ndcg_as_loss else r
            places = xp.argsort(xp.argsort(y, descending=True, stable=True))
            by_place = 1 / xp.log2(xp.arange(2, y.shape[0] + 2, dtype=y.dtype, device=getattr(y, "device", None)))
            discount = xp.take(by_place, places, axis=0)
            ideal = xp.sum(xp.sort(gain, descending=True) * by_place)
            sign = xp.sign(_differences(xp, r))
            weight = xp.abs(_differences(xp, gain) * _differences(xp, discount))
            margin = sign * _differences(xp, y)
            slope = -xp.sum(sign * weight * sigmoid(xp, -margin), axis=1)
            if use_ndcg_as_loss:
                loss = ideal - xp.sum(gain * discount)
            else:
                loss = xp.sum(xp.abs(sign) * weight * softplus(xp, -margin))
            scale = _at_least(xp, ideal, LEAST_GAIN) if use_idcg_normalization else xp.ones_like(ideal)
            losses.append(loss / scale)
            slopes.append(slope / scale)
        return _stacked(xp, losses, scores), _joined(xp, slopes, scores)


class LambdaRankNdcgGradient(Operator):
    """dscores = the saved derivative times the gradient of its session's loss."""

    inputs = [In("scores", shape_only=True), In("lengths", differentiable=False),
              In("saved", "the saved derivative"), In("dloss")]
    outputs = [Out("dscores", "like scores")]
    internal = True
    shape = same_as(0)
    example = Example(
        {"scores": [1.0, 2.0, 0.5], "lengths": [3], "saved": [0.0596602, 0.124667, -0.184328], "dloss": [1.0]},
        {"dscores": [0.0596602, 0.124667, -0.184328]})

    def kernel(xp: Any, scores: Any, lengths: Any, saved: Any, dloss: Any) -> Any:
        sessions = list(_sessions(xp, lengths, scores.shape[0]))
        require_size("the loss's gradient", dloss, len(sessions), ", one per session")
        require_shape("the saved derivative", saved, scores.shape, ", the scores'")
        return _joined(xp, [saved[rows] * dloss[k] for k, rows in enumerate(sessions)], scores)


class MarginRankingCriterion(Operator):
    """loss = max(0, margin - Y (X1 - X2)): Y = 1 says that X1 should be the larger, -1 that X2 should."""

    inputs = [In("X1", "any shape, float"), In("X2", "like X1"), In("Y", "like X1, int: 1 or -1", differentiable=False)]
    outputs = [Out("loss", "like X1")]
    arguments = [Float("margin", 1.0)]
    shape = same_as(0)
    gradient = emits("MarginRankingCriterionGradient", "I0 I1 I2 GO0", "GI0 GI1")
    example = Example({"X1": [1.0, 2.0], "X2": [0.5, 2.5], "Y": [-1, 1]}, {"loss": [1.0, 1.0]}, {"margin": 0.5})

    def kernel(xp: Any, X1: Any, X2: Any, Y: Any, *, margin: float) -> Any:
        short = _shortfall(xp, X1, X2, Y, margin)
        return xp.where(short < 0, xp.zeros_like(short), short)


def _shortfall(xp: Any, X1: Any, X2: Any, Y: Any, margin: float) -> Any:
    require_shape("X2", X2, X1.shape, ", X1's")
    require_shape("Y", Y, X1.shape, ", X1's")
    return margin - xp.astype(Y, X1.dtype) * (X1 - X2)


class MarginRankingCriterionGradient(Operator):
    """dX1 = -Y dloss where the margin is not kept, dX2 = -dX1."""

    inputs = [In("X1"), In("X2"), In("Y", differentiable=False), In("dloss", "like X1, float")]
    outputs = [Out("dX1", "like X1"), Out("dX2", "like X2")]
    arguments = [Float("margin", 1.0)]
    internal = True
    shape = same_as(0, 1)
    example = Example(
        {"X1": [1.0, 2.0], "X2": [0.5, 2.5], "Y": [-1, 1], "dloss": [1.0, 0.5]},
        {"dX1": [1.0, -0.5], "dX2": [-1.0, 0.5]},
        {"margin": 0.5})

    def kernel(xp: Any, X1: Any, X2: Any, Y: Any, dloss: Any, *, margin: float) -> Any:
        require_shape("the output's gradient", dloss, X1.shape, ", the input's")
        kept = _shortfall(xp, X1, X2, Y, margin) < 0
        dX2 = xp.where(kept, xp.zeros_like(dloss), xp.astype(Y, X1.dtype) * dloss)
        return -dX2, dX2


class CosineEmbeddingCriterion(Operator):
    """loss = 1 - S where Y is 1, max(0, S - margin) where it is -1; S are cosines of pairs."""

    inputs = [In("S", "any shape, float"), In("Y", "like S, int: 1 or -1", differentiable=False)]
    outputs = [Out("loss", "like S")]
    arguments = [Float("margin", 0.0)]
    shape = same_as(0)
    gradient = emits("CosineEmbeddingCriterionGradient", "I0 I1 GO0", "GI0")
    example = Example({"S": [0.5, 0.3], "Y": [1, -1]}, {"loss": [0.5, 0.2]}, {"margin": 0.1})

    def kernel(xp: Any, S: Any, Y: Any, *, margin: float) -> Any:
        require_shape("Y", Y, S.shape, ", S's")
        return xp.where(Y == 1, 1 - S, xp.where(S > margin, S - margin, xp.zeros_like(S)))


class CosineEmbeddingCriterionGradient(Operator):
    """dS = -dloss where Y is 1, dloss where it is -1 and S at least margin."""

    inputs = [In("S"), In("Y", differentiable=False), In("dloss", "like S, float")]
    outputs = [Out("dS", "like S")]
    arguments = [Float("margin", 0.0)]
    internal = True
    shape = same_as(0)
    example = Example({"S": [0.5, 0.3], "Y": [1, -1], "dloss": [1.0, 0.5]}, {"dS": [-1.0, 0.5]}, {"margin": 0.1})

    def kernel(xp: Any, S: Any, Y: Any, dloss: Any, *, margin: float) -> Any:
        require_shape("Y", Y, S.shape, ", S's")
        require_shape("the output's gradient", dloss, S.shape, ", the input's")
        return xp.where(Y == 1, -dloss, xp.where(S >= margin, dloss, xp.zeros_like(dloss)))


def _entropy(xp: Any, p: Any) -> Any:
    """Of a coin, in nats."""
    q = 1 - p
    return -p * xp.log(_at_least(xp, p, LEAST_PROBABILITY)) - q * xp.log(_at_least(xp, q, LEAST_PROBABILITY))


def _log_odds(xp: Any, p: Any) -> Any:
    return xp.log(_at_least(xp, p, LEAST_PROBABILITY)) - xp.log(_at_least(xp, 1 - p, LEAST_PROBABILITY))


class BernoulliJSD(Operator):
    """L = the Jensen-Shannon divergence of two coins, element by element."""

    inputs = [In("X", "any shape, float: probabilities"), In("T", "like X: the wanted ones")]
    outputs = [Out("L", "like X")]
    shape = same_as(0)
    gradient = emits("BernoulliJSDGradient", "GO0 I0 I1", "GI0")
    example = Example({"X": [0.2, 0.6], "T": [0.3, 0.5]}, {"L": [0.00670177, 0.00505942]}, wrt=("X",))

    def kernel(xp: Any, X: Any, T: Any) -> Any:
        require_shape("T", T, X.shape, ", X's")
        return _entropy(xp, (X + T) * 0.5) - (_entropy(xp, X) + _entropy(xp, T)) * 0.5


class BernoulliJSDGradient(Operator):
    """dX = dL / 2 (log odds of X - log odds of the mean)."""

    inputs = [In("dL", "like X, float"), In("X"), In("T")]
    outputs = [Out("dX", "like X")]
    internal = True
    shape = same_as(1)
    example = Example({"dL": [1.0, 0.5], "X": [0.2, 0.6], "T": [0.3, 0.5]}, {"dX": [-0.143841, 0.0511986]})

    def kernel(xp: Any, dL: Any, X: Any, T: Any) -> Any:
        require_shape("T", T, X.shape, ", X's")
        require_shape("the output's gradient", dL, X.shape, ", the input's")
        return dL * (_log_odds(xp, X) - _log_odds(xp, (X + T) * 0.5)) * 0.5
