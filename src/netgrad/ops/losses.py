"""Cross entropies, with and without the softmax or sigmoid that makes their probabilities, and the mean of a loss."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Bool, Float, Int, Str
from netgrad.graph.declaration import In, Operator, Out, between
from netgrad.graph.example import Example
from netgrad.graph.rules import Rule, emits
from netgrad.graph.shapes import ShapeError, TensorType, same_as, scalar
from netgrad.ops._arrays import (
    canonical_axis,
    full,
    product,
    require_labels,
    require_shape,
    require_size,
    rows,
    zeros,
)
from netgrad.ops._logistic import sigmoid, softplus
from netgrad.ops._second import linear, of_label_cross_entropy, of_sigmoid_cross_entropy

#: probabilities are not taken to be smaller than this when their logarithm is formed
LEAST_PROBABILITY = 1e-20


def _at_least(xp: Any, x: Any, least: float) -> Any:
    """x, or ``least`` where it is below; NaN stays."""
    return xp.where(x < least, xp.full_like(x, least), x)


def _one_hot(xp: Any, labels: Any, classes: int, like: Any) -> Any:
    """(n,) of labels as (n, classes) of bool."""
    where = xp.arange(classes, dtype=xp.int64, device=getattr(like, "device", None))
    return xp.expand_dims(xp.astype(labels, xp.int64), axis=1) == where


def _picked(xp: Any, matrix: Any, labels: Any) -> Any:
    """The element of every row that its label names."""
    return xp.take_along_axis(matrix, xp.expand_dims(xp.astype(labels, xp.int64), axis=1), axis=1)[:, 0]


class AveragedLoss(Operator):
    """output = the mean of all elements; 0 for none."""

    inputs = [In("input", "any shape, float")]
    outputs = [Out("output", "shape ()")]
    arguments = [Bool("average", False, "ignored")]
    shape = scalar()
    gradient = emits("AveragedLossGradient", "I0 GO0", "GI0")
    example = Example({"input": [1.0, 2.0, 3.0]}, {"output": 2.0})

    def kernel(xp: Any, input: Any) -> Any:
        return xp.sum(input) / max(product(input.shape), 1)


class AveragedLossGradient(Operator):
    """dinput = doutput / (number of elements), everywhere."""

    inputs = [In("input", shape_only=True), In("doutput", "one element, float")]
    outputs = [Out("dinput", "like input")]
    arguments = [Bool("average", False)]
    internal = True
    shape = same_as(0)
    gradient = linear("AveragedLoss", "GO0", to=1)
    example = Example({"input": [1.0, 2.0, 3.0], "doutput": 1.0}, {"dinput": [0.333333, 0.333333, 0.333333]})

    def kernel(xp: Any, input: Any, doutput: Any) -> Any:
        require_size("the output's gradient", doutput, 1)
        share = xp.reshape(doutput, ()) / max(product(input.shape), 1)
        return zeros(xp, input.shape, doutput) + share


class CrossEntropy(Operator):
    """Y = -sum(label log X) per row, for rows of probabilities."""

    inputs = [In("X", "(N, D), float"), In("label", "like X")]
    outputs = [Out("Y", "(N,)")]
    gradient = emits("CrossEntropyGradient", "I0 I1 GO0", "GI0")
    example = Example({"X": [[0.25, 0.75]], "label": [[0.5, 0.5]]}, {"Y": [0.836988]}, wrt=("X",))

    def shape(X: TensorType, label: TensorType) -> TensorType:
        return X.with_dims(None if X.dims is None else X.dims[:1])

    def kernel(xp: Any, X: Any, label: Any) -> Any:
        require_shape("the label", label, X.shape, ", the input's")
        return -xp.sum(rows(xp, label) * xp.log(_at_least(xp, rows(xp, X), LEAST_PROBABILITY)), axis=1)


class CrossEntropyGradient(Operator):
    """dX = -dY label / X."""

    inputs = [In("X"), In("label"), In("dY", "(N,), float")]
    outputs = [Out("dX", "like X")]
    internal = True
    shape = same_as(0)
    example = Example({"X": [[0.25, 0.75]], "label": [[0.5, 0.5]], "dY": [1.0]}, {"dX": [[-2.0, -0.666667]]})

    def kernel(xp: Any, X: Any, label: Any, dY: Any) -> Any:
        require_shape("the label", label, X.shape, ", the input's")
        require_size("the output's gradient", dY, X.shape[0], ", one per row")
        return -label * xp.reshape(dY, (-1, *(1 for _ in X.shape[1:]))) / _at_least(xp, X, LEAST_PROBABILITY)


class LabelCrossEntropy(Operator):
    """Y = -log X[label] per row, for rows of probabilities."""

    inputs = [In("X", "(N, D), float"), In("label", "(N,) or (N, 1), int: 0 to D - 1", differentiable=False)]
    outputs = [Out("Y", "(N,)")]
    gradient = emits("LabelCrossEntropyGradient", "I0 I1 GO0", "GI0")
    example = Example({"X": [[0.25, 0.75], [0.5, 0.5]], "label": [1, 0]}, {"Y": [0.287682, 0.693147]})

    def shape(X: TensorType, label: TensorType) -> TensorType:
        return X.with_dims(None if X.dims is None else X.dims[:1])

    def kernel(xp: Any, X: Any, label: Any) -> Any:
        matrix, label = rows(xp, X), _row_labels(xp, label, X.shape[0], product(X.shape[1:]))
        return -xp.log(_at_least(xp, _picked(xp, matrix, label), LEAST_PROBABILITY))


def _row_labels(xp: Any, label: Any, count: int, classes: int) -> Any:
    require_size("the label", label, count, ", one per row")
    require_labels(xp, label, classes)
    return xp.reshape(label, (-1,))


class LabelCrossEntropyGradient(Operator):
    """dX = -dY / X at the label, 0 elsewhere."""

    inputs = [In("X"), In("label", differentiable=False), In("dY", "(N,), float")]
    outputs = [Out("dX", "like X")]
    internal = True
    shape = same_as(0)
    gradient = of_label_cross_entropy
    example = Example(
        {"X": [[0.25, 0.75], [0.5, 0.5]], "label": [1, 0], "dY": [1.0, 0.5]},
        {"dX": [[0.0, -1.33333], [-1.0, 0.0]]})

    def kernel(xp: Any, X: Any, label: Any, dY: Any) -> Any:
        matrix, label = rows(xp, X), _row_labels(xp, label, X.shape[0], product(X.shape[1:]))
        require_size("the output's gradient", dY, X.shape[0], ", one per row")
        slope = -xp.reshape(dY, (-1, 1)) / _at_least(xp, matrix, LEAST_PROBABILITY)
        hot = _one_hot(xp, label, matrix.shape[1], X)
        return xp.reshape(xp.where(hot, slope, xp.zeros_like(slope)), X.shape)


class MakeTwoClass(Operator):
    """Y = (1 - X, X): the probability of one class as those of two."""

    inputs = [In("X", "any shape, float")]
    outputs = [Out("Y", "like X, with a last axis of 2")]
    gradient = emits("MakeTwoClassGradient", "GO0", "GI0")
    example = Example({"X": [0.2, 0.7]}, {"Y": [[0.8, 0.2], [0.3, 0.7]]})

    def shape(X: TensorType) -> TensorType:
        return X.with_dims(None if X.dims is None else (*X.dims, 2))

    def kernel(xp: Any, X: Any) -> Any:
        return xp.stack([1 - X, X], axis=-1)


class MakeTwoClassGradient(Operator):
    """dX = dY[..., 1] - dY[..., 0]."""

    inputs = [In("dY", "(..., 2), float")]
    outputs = [Out("dX", "(...)")]
    internal = True
    example = Example({"dY": [[1.0, 0.5], [2.0, -1.0]]}, {"dX": [-0.5, -3.0]})

    def shape(dY: TensorType) -> TensorType:
        return dY.with_dims(None if dY.dims is None else dY.dims[:-1])

    def kernel(xp: Any, dY: Any) -> Any:
        require_shape("the output's gradient", dY, (*dY.shape[:-1], 2))
        return dY[..., 1] - dY[..., 0]


def _row_mean(xp: Any, losses: Any) -> Any:
    return xp.sum(losses, axis=-1) / max(losses.shape[-1], 1)


class _Logits(Operator, abstract=True):
    inputs = [In("logits", "(..., D), float"), In("targets", "like logits: probabilities")]
    outputs = [Out("xentropy", "(...): the mean over the last axis")]

    def shape(logits: TensorType, *_: TensorType, **__: Any) -> TensorType:
        return logits.with_dims(None if logits.dims is None else logits.dims[:-1])


SIGMOID = (
    Bool("log_D_trick", False, "maximize log D instead of minimizing log(1 - D), as generators do"),
    Bool("unjoined_lr_loss", False, "targets of views and of clicks come as rows of their own"),
)


class SigmoidCrossEntropyWithLogits(_Logits):
    """xentropy = -mean(targets log s + (1 - targets) log(1 - s)) over the last axis, s = sigmoid(logits)."""

    arguments = [*SIGMOID]
    gradient = emits("SigmoidCrossEntropyWithLogitsGradient", "GO0 I0 I1", "GI0")
    example = Example({"logits": [[1.0, -2.0]], "targets": [[1.0, 0.0]]}, {"xentropy": [0.220095]}, wrt=("logits",))

    def kernel(xp: Any, logits: Any, targets: Any, *, log_D_trick: bool, unjoined_lr_loss: bool) -> Any:
        require_shape("the targets", targets, logits.shape, ", the logits'")
        if log_D_trick:
            return _row_mean(xp, (2 * targets - 1) * softplus(xp, -logits))
        if unjoined_lr_loss:
            return _row_mean(xp, (1 - targets) * softplus(xp, logits) - logits * targets)
        return _row_mean(xp, softplus(xp, logits) - logits * targets)


class SigmoidCrossEntropyWithLogitsGradient(Operator):
    """dlogits = dxentropy (sigmoid(logits) - targets) / D, and its like for the other forms of the loss."""

    inputs = [In("dxentropy", "(...), float"), In("logits", "(..., D)"), In("targets", "like logits")]
    outputs = [Out("dlogits", "like logits")]
    arguments = [*SIGMOID]
    internal = True
    shape = same_as(1)
    gradient = of_sigmoid_cross_entropy
    example = Example(
        {"dxentropy": [1.0], "logits": [[1.0, -2.0]], "targets": [[1.0, 0.0]]},
        {"dlogits": [[-0.134471, 0.0596015]]})

    def kernel(xp: Any, dxentropy: Any, logits: Any, targets: Any, *, log_D_trick: bool, unjoined_lr_loss: bool) -> Any:
        require_shape("the targets", targets, logits.shape, ", the logits'")
        require_shape("the output's gradient", dxentropy, logits.shape[:-1], ", the output's")
        if log_D_trick:
            slope = (1 - 2 * targets) * sigmoid(xp, -logits)
        elif unjoined_lr_loss:
            slope = (1 - targets) * sigmoid(xp, logits) - targets
        else:
            slope = sigmoid(xp, logits) - targets
        return slope * xp.expand_dims(dxentropy, axis=-1) / max(logits.shape[-1], 1)


class WeightedSigmoidCrossEntropyWithLogits(_Logits):
    """SigmoidCrossEntropyWithLogits with a weight for every element, inside the mean."""

    inputs = [*_Logits.inputs, In("weights", "like logits")]
    gradient = emits("WeightedSigmoidCrossEntropyWithLogitsGradient", "GO0 I0 I1 I2", "GI0")
    example = Example(
        {"logits": [[1.0, -2.0]], "targets": [[1.0, 0.0]], "weights": [[2.0, 1.0]]},
        {"xentropy": [0.376726]},
        wrt=("logits",))

    def kernel(xp: Any, logits: Any, targets: Any, weights: Any) -> Any:
        require_shape("the targets", targets, logits.shape, ", the logits'")
        require_shape("the weights", weights, logits.shape, ", the logits'")
        return _row_mean(xp, (softplus(xp, logits) - logits * targets) * weights)


class WeightedSigmoidCrossEntropyWithLogitsGradient(Operator):
    """dlogits = dxentropy weights (sigmoid(logits) - targets) / D."""

    inputs = [In("dxentropy", "(...), float"), In("logits", "(..., D)"), In("targets", "like logits"),
              In("weights", "like logits")]
    outputs = [Out("dlogits", "like logits")]
    internal = True
    shape = same_as(1)
    example = Example(
        {"dxentropy": [1.0], "logits": [[1.0, -2.0]], "targets": [[1.0, 0.0]], "weights": [[2.0, 1.0]]},
        {"dlogits": [[-0.268941, 0.0596015]]})

    def kernel(xp: Any, dxentropy: Any, logits: Any, targets: Any, weights: Any) -> Any:
        require_shape("the targets", targets, logits.shape, ", the logits'")
        require_shape("the weights", weights, logits.shape, ", the logits'")
        require_shape("the output's gradient", dxentropy, logits.shape[:-1], ", the output's")
        slope = (sigmoid(xp, logits) - targets) * weights
        return slope * xp.expand_dims(dxentropy, axis=-1) / max(logits.shape[-1], 1)


SOFTMAX = (
    Int("label_prob", 0, "1: labels are rows of probabilities, not class numbers"),
    Int("axis", 1, "the axes from here on form a row"), Float("scale", 1.0, "multiplies the loss"),
    Bool("average_by_batch_size", False, "divide by the number of rows, not by the sum of their weights"),
    Bool("only_loss", False, "the softmax is not wanted"), Str("order", "NCHW", "ignored"),
)


def _log_softmax(xp: Any, X: Any, axis: int) -> Any:
    if not product(X.shape):
        return X
    shifted = X - xp.max(X, axis=axis, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=axis, keepdims=True))


def _row_weights(xp: Any, weights: Any, like: Any) -> Any:
    """One weight per row of ``like``, ones where there are none."""
    if weights is None:
        return full(xp, like.shape[:1], 1.0, like)
    require_size("the weights", weights, like.shape[0], ", one per row")
    return xp.reshape(weights, (-1,))


def _divisor(xp: Any, weights: Any, average_by_batch_size: bool) -> Any:
    """What a sum over rows is divided by, as an array; never 0."""
    total = xp.sum(weights)
    if average_by_batch_size:
        total = xp.ones_like(total) * weights.shape[0]
    return xp.where(total == 0, xp.ones_like(total), total)


class SoftmaxWithLoss(Operator):
    """softmax of rows of logits, and the weighted mean of its cross entropy with the labels."""

    inputs = [
        In("logits", "float; the axes before ``axis`` are rows"),
        In("labels", "one class number per row, a whole number; or, with label_prob, like logits",
           differentiable=False),
        In("weight_tensor", "one weight per row", optional=True),
    ]
    outputs = [Out("softmax", "like logits"), Out("loss", "shape ()"),
               Out("scratch", "left as it is", optional=True, differentiable=False)]
    num_outputs = between(2, 3)
    arguments = [*SOFTMAX]
    example = Example(
        {"logits": [[1.0, 2.0], [3.0, 1.0]], "labels": [1, 0]},
        {"softmax": [[0.268941, 0.731059], [0.880797, 0.119203]], "loss": 0.220095},
        ys=("loss",))

    def shape(logits: TensorType, *_: TensorType, **__: Any) -> tuple[TensorType, ...]:
        return logits, logits.with_dims(()), logits.with_dims(None)

    def kernel(xp: Any, logits: Any, labels: Any, weight_tensor: Any, *, label_prob: int, axis: int, scale: float,
               average_by_batch_size: bool) -> Any:
        X = rows(xp, logits, canonical_axis(axis, logits.ndim))
        logs = _log_softmax(xp, X, 1)
        weights = _row_weights(xp, weight_tensor, X)
        if label_prob:
            require_shape("the labels", labels, logits.shape, ", the logits'")
            least = full(xp, (), LEAST_PROBABILITY, X)
            losses = -xp.sum(xp.reshape(labels, X.shape) * xp.where(logs > xp.log(least), logs, xp.log(least)), axis=1)
        else:
            losses = -_picked(xp, logs, _row_labels(xp, labels, *X.shape))
        loss = xp.sum(losses * weights) * scale / _divisor(xp, weights, average_by_batch_size)
        return xp.reshape(xp.exp(logs), logits.shape), loss, zeros(xp, (0,), X)

    def gradient(op: Rule) -> None:
        op.emit("SoftmaxWithLossGradient", [*map(op.I, range(op.num_inputs)), op.O(0), op.GO(1)], [op.GI(0)])


def _loss_operands(rest: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Weights (None where there are none), softmax and the loss's gradient: what comes after logits and labels."""
    if len(rest) not in (2, 3):
        raise ValueError(f"it has {len(rest) + 2} inputs, expected logits, labels, weights (if any), softmax and dloss")
    return rest[0] if len(rest) == 3 else None, rest[-2], rest[-1]


class SoftmaxWithLossGradient(Operator):
    """dlogits = dloss scale weight (softmax - label) / (sum of weights)."""

    inputs = [In("logits", "float", shape_only=True), In("labels", differentiable=False),
              In("weight_tensor", "absent where the loss has no weights"),
              In("softmax", "like logits"), In("dloss", "one element, float", optional=True)]
    outputs = [Out("dlogits", "like logits")]
    num_inputs = between(0, None)
    arguments = [*SOFTMAX]
    internal = True
    shape = same_as(0)
    example = Example(
        {"logits": [[1.0, 2.0], [3.0, 1.0]], "labels": [1, 0],
         "weight_tensor": [[0.268941, 0.731059], [0.880797, 0.119203]], "softmax": 1.0},
        {"dlogits": [[0.134471, -0.134471], [-0.0596015, 0.0596015]]})

    def kernel(xp: Any, logits: Any, labels: Any, *rest: Any, label_prob: int, axis: int, scale: float,
               average_by_batch_size: bool) -> Any:
        weight_tensor, softmax, dloss = _loss_operands(rest)
        require_shape("the softmax", softmax, logits.shape, ", the logits'")
        require_size("the loss's gradient", dloss, 1)
        P = rows(xp, softmax, canonical_axis(axis, softmax.ndim))
        weights = _row_weights(xp, weight_tensor, P)
        factor = xp.reshape(dloss, ()) * scale / _divisor(xp, weights, average_by_batch_size)
        if label_prob:
            require_shape("the labels", labels, softmax.shape, ", the logits'")
            slope = P - xp.reshape(labels, P.shape)
        else:
            hot = _one_hot(xp, _row_labels(xp, labels, *P.shape), P.shape[1], P)
            slope = P - xp.astype(hot, P.dtype)
        return xp.reshape(slope * xp.expand_dims(weights * factor, axis=1), softmax.shape)


SPATIAL = (Float("scale", 1.0, "multiplies the loss"), Bool("only_loss", False), Str("order", "NCHW", "only NCHW"))

#: the label of a pixel that does not count
DONT_CARE = -1


def _pixels(xp: Any, X: Any, labels: Any, weights: Any, order: str) -> tuple[Any, Any]:
    """One-hot labels like X, and the weight of each pixel (N, H, W), 0 where the label says that it does not count."""
    if order != "NCHW":
        raise ValueError(f"the order {order!r} is not supported here: expected NCHW")
    if X.ndim != 4:
        raise ShapeError(f"the logits have shape {tuple(X.shape)}, expected (N, D, H, W)")
    pixels = (X.shape[0], *X.shape[2:])
    require_shape("the labels", labels, pixels, ", one per pixel")
    require_labels(xp, labels, X.shape[1], DONT_CARE)
    hot = xp.reshape(_one_hot(xp, xp.reshape(labels, (-1,)), X.shape[1], X), (*pixels, X.shape[1]))
    counted = xp.astype(labels != DONT_CARE, X.dtype)
    if weights is not None:
        require_shape("the weights", weights, pixels, ", one per pixel")
        counted = counted * weights
    return xp.astype(xp.permute_dims(hot, (0, 3, 1, 2)), X.dtype), counted


class SpatialSoftmaxWithLoss(Operator):
    """SoftmaxWithLoss for every pixel of an image; pixels labelled -1 do not count."""

    inputs = [In("logits", "(N, D, H, W), float"),
              In("labels", "(N, H, W), int: 0 to D - 1, or -1", differentiable=False),
              In("weight_tensor", "(N, H, W)", optional=True)]
    outputs = [Out("softmax", "like logits"), Out("loss", "shape ()")]
    arguments = [*SPATIAL]
    example = Example(
        {"logits": [[[[1.0]], [[2.0]]]], "labels": [[[1]]]},
        {"softmax": [[[[0.268941]], [[0.731059]]]], "loss": 0.313262},
        ys=("loss",))

    def shape(logits: TensorType, *_: TensorType, **__: Any) -> tuple[TensorType, ...]:
        return logits, logits.with_dims(())

    def kernel(xp: Any, logits: Any, labels: Any, weight_tensor: Any, *, scale: float, order: str) -> Any:
        hot, weights = _pixels(xp, logits, labels, weight_tensor, order)
        logs = _log_softmax(xp, logits, 1)
        losses = -xp.sum(xp.where(hot > 0, logs, xp.zeros_like(logs)), axis=1)
        return xp.exp(logs), xp.sum(losses * weights) * scale / _divisor(xp, weights, False)

    def gradient(op: Rule) -> None:
        op.emit("SpatialSoftmaxWithLossGradient", [*map(op.I, range(op.num_inputs)), op.O(0), op.GO(1)], [op.GI(0)])


class SpatialSoftmaxWithLossGradient(Operator):
    """dlogits = dloss scale weight (softmax - label) / (sum of weights), pixel by pixel."""

    inputs = [In("logits", "float", shape_only=True), In("labels", differentiable=False),
              In("weight_tensor", "absent where the loss has no weights"),
              In("softmax", "like logits"), In("dloss", "one element, float", optional=True)]
    outputs = [Out("dlogits", "like logits")]
    num_inputs = between(0, None)
    arguments = [*SPATIAL]
    internal = True
    shape = same_as(0)
    example = Example(
        {"logits": [[[[1.0]], [[2.0]]]], "labels": [[[1]]], "weight_tensor": [[[[0.268941]], [[0.731059]]]],
         "softmax": 1.0},
        {"dlogits": [[[[0.268941]], [[-0.268941]]]]})

    def kernel(xp: Any, logits: Any, labels: Any, *rest: Any, scale: float, order: str) -> Any:
        weight_tensor, softmax, dloss = _loss_operands(rest)
        require_shape("the softmax", softmax, logits.shape, ", the logits'")
        require_size("the loss's gradient", dloss, 1)
        hot, weights = _pixels(xp, softmax, labels, weight_tensor, order)
        factor = xp.reshape(dloss, ()) * scale / _divisor(xp, weights, False)
        return (softmax - hot) * xp.expand_dims(weights * factor, axis=1)
