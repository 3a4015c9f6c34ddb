"""From scores per step to sequences of labels: greedy, by beam search, by dynamic programming."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from netgrad.graph.arguments import Bool, Float, Int
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example
from netgrad.graph.rules import forbidden, no_gradient
from netgrad.graph.shapes import ShapeError, TensorType, same_as
from netgrad.ops._arrays import array, require_labels, require_shape


class CTCGreedyDecoder(Operator):
    """The most probable class at each step, without blanks (class 0) and, if asked for, without repetitions."""

    inputs = [In("INPUTS", "(T, N, C), float"), In("SEQ_LEN", "(N,), int32; T unless given", optional=True)]
    outputs = [Out("OUTPUT_LEN", "(N,), int32"), Out("VALUES", "the classes of all sequences, int32")]
    arguments = [Bool("merge_repeated", True)]
    gradient = forbidden()
    host = True
    example = Example({"INPUTS": [[[0.1, 0.9]], [[0.8, 0.2]], [[0.3, 0.7]]]}, {"OUTPUT_LEN": [2], "VALUES": [1, 1]})

    def shape(INPUTS: TensorType, *_: TensorType, **__: Any) -> tuple[TensorType, TensorType]:
        return TensorType("int32", None if INPUTS.dims is None else INPUTS.dims[1:2]), TensorType("int32", (None,))

    def kernel(xp: Any, INPUTS: Any, SEQ_LEN: Any, *, merge_repeated: bool) -> Any:
        if INPUTS.ndim != 3:
            raise ShapeError(f"INPUTS has shape {tuple(INPUTS.shape)}, expected (T, N, C)")
        steps, sequences = INPUTS.shape[:2]
        if SEQ_LEN is not None:
            require_shape("SEQ_LEN", SEQ_LEN, (sequences,), ", one per sequence")
        best = xp.argmax(INPUTS, axis=2)
        lengths, values = [], []
        for n in range(sequences):
            length = steps if SEQ_LEN is None else int(SEQ_LEN[n])
            if length > steps:
                raise ValueError(f"sequence {n} has length {length}, but INPUTS has {steps} steps")
            path = [int(c) for c in best[:length, n]]
            kept = [c for t, c in enumerate(path) if c and not (merge_repeated and t and path[t - 1] == c)]
            lengths.append(len(kept))
            values += kept
        return xp.asarray(lengths, dtype=xp.int32), xp.asarray(values, dtype=xp.int32)


class CTCBeamSearchDecoder(Operator):
    """The most probable label sequences by a prefix beam search; class 0 is the blank.

    Source: Hannun et al. 2014, https://arxiv.org/abs/1408.2873.
    """

    inputs = [In("INPUTS", "(T, N, C), float"), In("SEQ_LEN", "(N,), int32; T unless given", optional=True)]
    outputs = [Out("OUTPUT_LEN", "(N candidates,), int32"), Out("VALUES", "the classes of all candidates, int32"),
               Out("OUTPUT_PROB", "(N candidates,)", optional=True)]
    arguments = [Int("beam_width", 10), Int("num_candidates", 1), Float("prune_threshold", 0.001)]
    gradient = forbidden()
    host = True
    example = Example(
        {"INPUTS": [[[0.1, 0.9]], [[0.8, 0.2]], [[0.3, 0.7]]]},
        {"OUTPUT_LEN": [2], "VALUES": [1, 1], "OUTPUT_PROB": [0.504]})

    def shape(INPUTS: TensorType, *_: TensorType, num_candidates: int = 1, **__: Any) -> Any:
        sequences = None if INPUTS.dims is None else INPUTS.dims[1]
        count = None if sequences is None else sequences * num_candidates
        return TensorType("int32", (count,)), TensorType("int32", (None,)), INPUTS.with_dims((count,))

    def kernel(xp: Any, INPUTS: Any, SEQ_LEN: Any, *, beam_width: int, num_candidates: int,
               prune_threshold: float) -> Any:
        if INPUTS.ndim != 3:
            raise ShapeError(f"INPUTS has shape {tuple(INPUTS.shape)}, expected (T, N, C)")
        if not 0 < num_candidates <= beam_width:
            raise ValueError(f"num_candidates is {num_candidates}: expected 1 to beam_width, which is {beam_width}")
        steps, sequences = INPUTS.shape[:2]
        if SEQ_LEN is not None:
            require_shape("SEQ_LEN", SEQ_LEN, (sequences,), ", one per sequence")
        lengths = xp.zeros(sequences * num_candidates, dtype=xp.int32)
        chances = xp.zeros(sequences * num_candidates, dtype=INPUTS.dtype)
        values: list[int] = []
        for n in range(sequences):
            length = steps if SEQ_LEN is None else int(SEQ_LEN[n])
            if not 0 <= length <= steps:
                raise ValueError(f"sequence {n} has length {length}, but INPUTS has {steps} steps")
            found = _beam(INPUTS[:length, n].tolist(), beam_width, prune_threshold)[:num_candidates]
            for k, (prefix, chance) in enumerate(found, n * num_candidates):
                lengths[k], chances[k] = len(prefix), chance
                values += prefix
        return lengths, xp.asarray(values, dtype=xp.int32), chances


Prefix = tuple[int, ...]


def _beam(scores: Iterable[list[float]], width: int, threshold: float) -> list[tuple[Prefix, float]]:
    """The most probable prefixes after all steps, the best first, and their probabilities.

    The probability that the steps so far spell a prefix is kept in two parts: that the last step was a blank, and that
    it was the prefix's last label. Prefixes that leave the beam keep theirs for a step, in case they are reached again.
    """
    blank: dict[Prefix, float] = {(): 1.0}
    label: dict[Prefix, float] = {}
    beam: list[Prefix] = [()]
    found: list[tuple[Prefix, float]] = [((), 1.0)]
    for step in scores:
        next_blank: dict[Prefix, float] = {}
        next_label: dict[Prefix, float] = {}

        def add(part: dict[Prefix, float], prefix: Prefix, chance: float) -> None:
            part[prefix] = part.get(prefix, 0.0) + chance

        inside = set(beam)
        for prefix in beam:
            ended, going = blank.get(prefix, 0.0), label.get(prefix, 0.0)
            for c, score in enumerate(step):
                if score <= threshold:
                    continue
                if c == 0:
                    add(next_blank, prefix, score * (ended + going))
                    continue
                longer = (*prefix, c)
                if prefix and c == prefix[-1]:
                    add(next_label, longer, score * ended)
                    add(next_label, prefix, score * going)
                else:
                    add(next_label, longer, score * (ended + going))
                if longer not in inside:
                    add(next_blank, longer, step[0] * (blank.get(longer, 0.0) + label.get(longer, 0.0)))
                    add(next_label, longer, score * label.get(longer, 0.0))
        blank, label = next_blank, next_label
        totals = {prefix: blank.get(prefix, 0.0) + label.get(prefix, 0.0) for prefix in (*blank, *label)}
        found = sorted(totals.items(), key=lambda entry: -entry[1])[:width]
        beam = [prefix for prefix, _ in found]
    return found


class ViterbiPath(Operator):
    """The best path through scores per step and transitions between steps."""

    inputs = [In("predictions", "(T, D), float"), In("transitions", "(D, D): from, to")]
    outputs = [Out("viterbi_path", "(T,), int32")]
    gradient = no_gradient
    example = Example(
        {"predictions": [[1.0, 0.0], [0.0, 1.0]], "transitions": [[0.0, -2.0], [0.5, 0.0]]},
        {"viterbi_path": [0, 0]})

    def shape(predictions: TensorType, transitions: TensorType) -> TensorType:
        return TensorType("int32", None if predictions.dims is None else predictions.dims[:1])

    def kernel(xp: Any, predictions: Any, transitions: Any) -> Any:
        if predictions.ndim != 2 or not predictions.shape[1]:
            raise ShapeError(f"the predictions have shape {tuple(predictions.shape)}, expected (T, D), D at least 1")
        labels = predictions.shape[1]
        require_shape("the transitions", transitions, (labels, labels), ", from each label to each")
        best, origins = None, []
        for step in range(predictions.shape[0]):
            if best is None:
                best = predictions[0, ...]
                continue
            ways = xp.reshape(best, (labels, 1)) + transitions
            origins.append([int(k) for k in xp.argmax(ways, axis=0)])
            best = xp.max(ways, axis=0) + predictions[step, ...]
        path = [] if best is None else [int(xp.argmax(best))]
        for origin in reversed(origins):
            path.append(origin[path[-1]])
        return array(xp, path[::-1], predictions, xp.int32)


class SwapBestPath(Operator):
    """Exchanges, at every step, the largest score with that of the step's place on a path."""

    inputs = [In("predictions", "(T, D), float"), In("bestPath", "(T,), int32")]
    outputs = [Out("new_predictions", "like predictions")]
    shape = same_as(0)
    gradient = no_gradient
    example = Example(
        {"predictions": [[1.0, 3.0], [2.0, 0.0]], "bestPath": [0, 0]},
        {"new_predictions": [[3.0, 1.0], [2.0, 0.0]]})

    def kernel(xp: Any, predictions: Any, bestPath: Any) -> Any:
        if predictions.ndim != 2:
            raise ShapeError(f"the predictions have shape {tuple(predictions.shape)}, expected (T, D)")
        require_shape("the path", bestPath, predictions.shape[:1], ", one place per step")
        require_labels(xp, bestPath, predictions.shape[1])
        if not predictions.shape[0]:
            return predictions + 0
        places = xp.reshape(array(xp, list(range(predictions.shape[1])), bestPath), (1, -1))
        chosen, largest = bestPath[:, None], xp.astype(xp.argmax(predictions, axis=1), bestPath.dtype)[:, None]
        at_chosen = xp.take_along_axis(predictions, xp.astype(chosen, xp.int64), axis=1)
        at_largest = xp.max(predictions, axis=1, keepdims=True)
        swapped = xp.where(places == largest, at_chosen, predictions)
        return xp.where(places == chosen, at_largest, swapped)
