"""The operators of Detectron's own module: focal and smooth losses, pooling by regions, narrowing."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Float, Int
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example
from netgrad.graph.rules import emits
from netgrad.graph.shapes import ShapeError, TensorType, same_as, scalar
from netgrad.ops._arrays import array, countable, full, require_labels, require_shape, require_size, zeros
from netgrad.ops._logistic import sigmoid, softplus
from netgrad.ops.images import _give, _image, _take

#: what a probability counts as at least, before its logarithm is taken: the smallest normal single
SMALLEST = 1.17549435e-38
FOCAL = (Float("scale", 1.0, "multiplies the loss"), Float("alpha", 0.25, "weight of the foreground"),
         Float("gamma", 1.0, "how much easy examples count less"), Int("num_classes", 80))
SMOOTH = (Float("beta", 1.0, "below it the loss is quadratic"), Float("scale", 1.0, "multiplies the loss"))


class SigmoidFocalLoss(Operator):
    """loss = scale / normalizer (focal loss of independent classes), summed.

    Source: Lin et al. 2017, https://arxiv.org/abs/1708.02002.
    """

    inputs = [In("logits", "(N, anchors x classes, H, W), float"),
              In("labels", "(N, anchors, H, W), int32: -1 ignored", differentiable=False),
              In("normalizer", "one element: number of foreground anchors", differentiable=False)]
    outputs = [Out("loss", "shape ()")]
    arguments = [*FOCAL]
    shape = scalar()
    gradient = emits("SigmoidFocalLossGradient", "I0 I1 I2 GO0", "GI0")
    example = Example(
        {"logits": [[[[1.0]], [[-2.0]]]], "labels": [[[[1]]]], "normalizer": [1.0]},
        {"loss": 0.00701718},
        {"num_classes": 2, "gamma": 2.0},
        wrt=("logits",))

    def kernel(xp: Any, logits: Any, labels: Any, normalizer: Any, *, scale: float, alpha: float, gamma: float,
               num_classes: int) -> Any:
        x, is_it, is_other, near = _classwise(xp, logits, labels, normalizer, alpha, num_classes)
        p = sigmoid(xp, x)
        losses = is_it * (1 - p) ** gamma * softplus(xp, -x) + is_other * p**gamma * softplus(xp, x)
        return xp.sum(losses) * (scale / near)


def _foreground(xp: Any, normalizer: Any) -> float:
    """What losses are divided by: the number of foreground anchors, but at least 1."""
    require_size("the normalizer", normalizer, 1)
    return max(float(normalizer if not normalizer.ndim else xp.reshape(normalizer, ())), 1.0)


def _anchor_labels(xp: Any, scores: Any, labels: Any, num_classes: int, least: int, most: int) -> tuple[Any, Any]:
    """Scores as (N, anchors, classes, H, W) and labels as (N, anchors, 1, H, W)."""
    grouped = _grouped(xp, scores, num_classes)
    require_shape("the labels", labels, (*grouped.shape[:2], *grouped.shape[3:]), ": one for each anchor and pixel")
    require_labels(xp, labels, most + 1, least)
    return grouped, labels[:, :, None, ...]


def _classwise(xp: Any, logits: Any, labels: Any, normalizer: Any, alpha: float,
               num_classes: int) -> tuple[Any, Any, Any, float]:
    """Grouped logits; the weight of each class where the label is that one; where it is another; the divisor."""
    x, label = _anchor_labels(xp, logits, labels, num_classes, -1, num_classes)
    own = xp.reshape(array(xp, list(range(1, num_classes + 1)), labels), (1, 1, num_classes, 1, 1))
    is_it = xp.astype(label == own, x.dtype) * alpha
    is_other = xp.astype((label != own) & (label != -1), x.dtype) * (1 - alpha)
    return x, is_it, is_other, _foreground(xp, normalizer)


class SigmoidFocalLossGradient(Operator):
    """dlogits of SigmoidFocalLoss."""

    inputs = [In("logits"), In("labels", differentiable=False), In("normalizer", differentiable=False),
              In("d_loss", "one element, float")]
    outputs = [Out("d_logits", "like logits")]
    arguments = [*FOCAL]
    internal = True
    shape = same_as(0)
    example = Example(
        {"logits": [[[[1.0]], [[-2.0]]]], "labels": [[[[1]]]], "normalizer": [1.0], "d_loss": 1.0},
        {"d_logits": [[[[-0.0131453]], [[0.0036532]]]]},
        {"num_classes": 2, "gamma": 2.0})

    def kernel(xp: Any, logits: Any, labels: Any, normalizer: Any, d_loss: Any, *, scale: float, alpha: float,
               gamma: float, num_classes: int) -> Any:
        require_size("the loss's gradient", d_loss, 1)
        x, is_it, is_other, near = _classwise(xp, logits, labels, normalizer, alpha, num_classes)
        p = sigmoid(xp, x)
        slope = (is_other * p**gamma * (p + gamma * (1 - p) * softplus(xp, x))
                 - is_it * (1 - p) ** gamma * (1 - p + gamma * p * softplus(xp, -x)))
        return xp.reshape(slope, logits.shape) * xp.reshape(d_loss, ()) * (scale / near)


class SoftmaxFocalLoss(Operator):
    """loss = scale / normalizer (focal loss of exclusive classes), summed.

    Source: Lin et al. 2017, https://arxiv.org/abs/1708.02002.
    """

    inputs = [In("scores", "(N, anchors x classes, H, W), float"),
              In("labels", "(N, anchors, H, W), int32: -1 ignored", differentiable=False),
              In("normalizer", "one element: number of foreground anchors", differentiable=False)]
    outputs = [Out("loss", "shape ()"), Out("probabilities", "like scores")]
    arguments = [*FOCAL]
    gradient = emits("SoftmaxFocalLossGradient", "I0 I1 I2 O1 GO0", "GI0")
    example = Example(
        {"scores": [[[[1.0]], [[-2.0]]]], "labels": [[[[1]]]], "normalizer": [1.0]},
        {"loss": 0.69157, "probabilities": [[[[0.952574]], [[0.0474259]]]]},
        {"num_classes": 2, "gamma": 2.0},
        wrt=("scores",),
        ys=("loss",))

    def shape(scores: TensorType, *_: TensorType, **__: Any) -> tuple[TensorType, TensorType]:
        return scores.with_dims(()), scores

    def kernel(xp: Any, scores: Any, labels: Any, normalizer: Any, *, scale: float, alpha: float, gamma: float,
               num_classes: int) -> Any:
        x, label = _anchor_labels(xp, scores, labels, num_classes, -1, num_classes - 1)
        x = x - xp.max(x, axis=2, keepdims=True)
        logs = x - xp.log(xp.sum(xp.exp(x), axis=2, keepdims=True))
        probabilities = xp.exp(logs)
        log_p, weight = _labelled(xp, logs, label), _label_weights(xp, label, alpha, x)
        losses = -weight * (1 - xp.exp(log_p)) ** gamma * log_p
        return (xp.sum(losses) * (scale / _foreground(xp, normalizer)), xp.reshape(probabilities, scores.shape))


def _labelled(xp: Any, values: Any, label: Any) -> Any:
    """The value of the labelled class of each anchor and pixel; of class 0 where the label is ignored."""
    places = xp.astype(xp.where(label < 0, xp.zeros_like(label), label), xp.int64)
    return xp.take_along_axis(values, places, axis=2)


def _label_weights(xp: Any, label: Any, alpha: float, like: Any) -> Any:
    return (xp.astype(label >= 1, like.dtype) * alpha + xp.astype(label == 0, like.dtype) * (1 - alpha))


class SoftmaxFocalLossGradient(Operator):
    """dscores of SoftmaxFocalLoss."""

    inputs = [In("scores", shape_only=True), In("labels", differentiable=False),
              In("normalizer", differentiable=False), In("probabilities"),
              In("d_loss", "one element, float")]
    outputs = [Out("d_scores", "like scores")]
    arguments = [*FOCAL]
    internal = True
    shape = same_as(0)
    example = Example(
        {"scores": [[[[1.0]], [[-2.0]]]], "labels": [[[[1]]]], "normalizer": [1.0],
         "probabilities": [[[[0.952574]], [[0.0474259]]]], "d_loss": 1.0},
        {"d_scores": [[[[0.281687]], [[-0.281687]]]]},
        {"num_classes": 2, "gamma": 2.0})

    def kernel(xp: Any, scores: Any, labels: Any, normalizer: Any, probabilities: Any, d_loss: Any, *, scale: float,
               alpha: float, gamma: float, num_classes: int) -> Any:
        require_size("the loss's gradient", d_loss, 1)
        require_shape("the probabilities", probabilities, scores.shape, ", the scores'")
        P, label = _anchor_labels(xp, probabilities, labels, num_classes, -1, num_classes - 1)
        p = _labelled(xp, P, label)
        log_p = xp.log(xp.maximum(p, full(xp, (), SMALLEST, p)))
        rest = 1 - p
        spread = gamma * p * log_p * rest ** (gamma - 1) if gamma else xp.zeros_like(p)
        along = _label_weights(xp, label, alpha, P) * (spread - rest**gamma)  # d loss / d log p
        own = xp.reshape(array(xp, list(range(num_classes)), labels), (1, 1, num_classes, 1, 1))
        slope = along * (xp.astype(label == own, P.dtype) - P)
        return xp.reshape(slope, scores.shape) * xp.reshape(d_loss, ()) * (scale / _foreground(xp, normalizer))


class SigmoidCrossEntropyLoss(Operator):
    """loss = scale (sum of sigmoid cross entropies) / (number of targets that are not -1)."""

    inputs = [In("X", "any shape, float"), In("targets", "like X, int32: 0, 1, or -1 ignored", differentiable=False)]
    outputs = [Out("loss", "shape ()")]
    arguments = [Float("scale", 1.0), Int("normalize", 1, "0: do not divide")]
    shape = scalar()
    gradient = emits("SigmoidCrossEntropyLossGradient", "I0 I1 GO0", "GI0")
    example = Example({"X": [1.0, -2.0, 3.0], "targets": [1, 0, -1]}, {"loss": 0.220095})

    def kernel(xp: Any, X: Any, targets: Any, *, scale: float, normalize: int) -> Any:
        counted, target = _counted(xp, X, targets)
        losses = counted * (softplus(xp, X) - X * target)
        return xp.sum(losses) * scale / _divisor(xp, counted, normalize)


def _counted(xp: Any, X: Any, targets: Any) -> tuple[Any, Any]:
    """1 where a target counts and 0 where it is -1; the targets as floats."""
    require_shape("the targets", targets, X.shape, ", the logits'")
    targets = xp.astype(targets, X.dtype)
    return xp.astype(targets != -1, X.dtype), targets


def _divisor(xp: Any, counted: Any, normalize: int) -> Any:
    return max(float(xp.sum(counted)), 1e-5) if normalize else 1.0


class SigmoidCrossEntropyLossGradient(Operator):
    """dX of SigmoidCrossEntropyLoss."""

    inputs = [In("X"), In("targets", differentiable=False), In("d_loss", "one element, float")]
    outputs = [Out("dX", "like X")]
    arguments = [Float("scale", 1.0), Int("normalize", 1)]
    internal = True
    shape = same_as(0)
    example = Example(
        {"X": [1.0, -2.0, 3.0], "targets": [1, 0, -1], "d_loss": 1.0},
        {"dX": [-0.134471, 0.0596015, 0.0]})

    def kernel(xp: Any, X: Any, targets: Any, d_loss: Any, *, scale: float, normalize: int) -> Any:
        require_size("the loss's gradient", d_loss, 1)
        counted, target = _counted(xp, X, targets)
        slope = counted * (sigmoid(xp, X) - target)
        return slope * xp.reshape(d_loss, ()) * (scale / _divisor(xp, counted, normalize))


def _smooth(xp: Any, difference: Any, beta: float) -> Any:
    size = xp.abs(difference)
    return xp.where(size < beta, difference * difference * (0.5 / beta), size - 0.5 * beta)


def _smooth_slope(xp: Any, difference: Any, beta: float) -> Any:
    return xp.where(xp.abs(difference) < beta, difference / beta, xp.sign(difference))


class SmoothL1Loss(Operator):
    """loss = scale / N (sum of alpha_out smooth(alpha_in (Y_hat - Y))): quadratic near 0, linear further out."""

    inputs = [In("Y_hat", "(N, D), float"), In("Y", "like Y_hat"), In("alpha_in", "like Y_hat: weights inside"),
              In("alpha_out", "like Y_hat: weights outside")]
    outputs = [Out("loss", "shape ()")]
    arguments = [*SMOOTH]
    shape = scalar()
    gradient = emits("SmoothL1LossGradient", "I0 I1 I2 I3 GO0", "GI0")
    example = Example(
        {"Y_hat": [[1.0, 3.0]], "Y": [[0.5, 1.0]], "alpha_in": [[1.0, 1.0]], "alpha_out": [[1.0, 1.0]]},
        {"loss": 1.625},
        wrt=("Y_hat",))

    def kernel(xp: Any, Y_hat: Any, Y: Any, alpha_in: Any, alpha_out: Any, *, beta: float, scale: float) -> Any:
        for name, x in (("Y", Y), ("alpha_in", alpha_in), ("alpha_out", alpha_out)):
            require_shape(name, x, Y_hat.shape, ", Y_hat's")
        losses = alpha_out * _smooth(xp, alpha_in * (Y_hat - Y), beta)
        return xp.sum(losses) * (scale / max(Y_hat.shape[0], 1))


class SmoothL1LossGradient(Operator):
    """dY_hat of SmoothL1Loss."""

    inputs = [In("Y_hat"), In("Y"), In("alpha_in"), In("alpha_out"), In("d_loss", "one element, float")]
    outputs = [Out("d_Y_hat", "like Y_hat")]
    arguments = [*SMOOTH]
    internal = True
    shape = same_as(0)
    example = Example(
        {"Y_hat": [[1.0, 3.0]], "Y": [[0.5, 1.0]], "alpha_in": [[1.0, 1.0]], "alpha_out": [[1.0, 1.0]], "d_loss": 1.0},
        {"d_Y_hat": [[0.5, 1.0]]})

    def kernel(xp: Any, Y_hat: Any, Y: Any, alpha_in: Any, alpha_out: Any, d_loss: Any, *, beta: float,
               scale: float) -> Any:
        require_size("the loss's gradient", d_loss, 1)
        for name, x in (("Y", Y), ("alpha_in", alpha_in), ("alpha_out", alpha_out)):
            require_shape(name, x, Y_hat.shape, ", Y_hat's")
        slope = alpha_in * alpha_out * _smooth_slope(xp, alpha_in * (Y_hat - Y), beta)
        return slope * xp.reshape(d_loss, ()) * (scale / max(Y_hat.shape[0], 1))


class SelectSmoothL1Loss(Operator):
    """loss = scale / normalizer (sum of smooth(Y_hat - Y)) over the places of Y_hat that are listed."""

    inputs = [In("Y_hat", "(N, channels, H, W), float"), In("Y", "(M, 4)"),
              In("locations", "(M, 4): image, first channel, row, column"),
              In("normalizer", "one element", differentiable=False)]
    outputs = [Out("loss", "shape ()")]
    arguments = [*SMOOTH]
    shape = scalar()
    gradient = emits("SelectSmoothL1LossGradient", "I0 I1 I2 I3 GO0", "GI0")
    example = Example(
        {"Y_hat": [[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]], "Y": [[0.5, 2.25, 3.0, 6.0]],
         "locations": [[0.0, 0.0, 0.0, 0.0]], "normalizer": [1.0]},
        {"loss": 1.65625},
        wrt=("Y_hat",))

    def kernel(xp: Any, Y_hat: Any, Y: Any, locations: Any, normalizer: Any, *, beta: float, scale: float) -> Any:
        places = _places(xp, Y_hat, Y, locations)
        chosen = xp.reshape(xp.take(xp.reshape(Y_hat, (-1,)), xp.reshape(places, (-1,)), axis=0), Y.shape)
        return xp.sum(_smooth(xp, chosen - Y, beta)) * (scale / _foreground(xp, normalizer))


def _places(xp: Any, Y_hat: Any, Y: Any, locations: Any) -> Any:
    """(M, 4): where in the flat Y_hat the four numbers of each box stand, in consecutive channels of one pixel."""
    if Y_hat.ndim != 4:
        raise ShapeError(f"Y_hat has shape {tuple(Y_hat.shape)}, expected (N, channels, H, W)")
    require_shape("Y", Y, (locations.shape[0], 4), ", four numbers for each location")
    require_shape("the locations", locations, (locations.shape[0], 4), ": image, first channel, row, column")
    where = xp.astype(locations, xp.int64)
    names = ("image", "first channel", "row", "column")
    limits = (Y_hat.shape[0], Y_hat.shape[1] - 3, *Y_hat.shape[2:])
    for k, (name, limit) in enumerate(zip(names, limits)):
        if where.shape[0] and (int(xp.min(where[:, k])) < 0 or int(xp.max(where[:, k])) >= limit):
            raise ValueError(f"a location's {name} is out of range: expected 0 to {limit - 1}")
    channels = where[:, 1:2] + xp.reshape(array(xp, [0, 1, 2, 3], where), (1, 4))
    rows = (where[:, 0:1] * Y_hat.shape[1] + channels) * Y_hat.shape[2] + where[:, 2:3]
    return rows * Y_hat.shape[3] + where[:, 3:4]


class SelectSmoothL1LossGradient(Operator):
    """dY_hat of SelectSmoothL1Loss."""

    inputs = [In("Y_hat"), In("Y"), In("locations"), In("normalizer", differentiable=False),
              In("d_loss", "one element, float")]
    outputs = [Out("d_Y_hat", "like Y_hat")]
    arguments = [*SMOOTH]
    internal = True
    shape = same_as(0)
    example = Example(
        {"Y_hat": [[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]], "Y": [[0.5, 2.25, 3.0, 6.0]],
         "locations": [[0.0, 0.0, 0.0, 0.0]], "normalizer": [1.0], "d_loss": 1.0},
        {"d_Y_hat": [[[[0.5]], [[-0.25]], [[0.0]], [[-1.0]]]]})

    def kernel(xp: Any, Y_hat: Any, Y: Any, locations: Any, normalizer: Any, d_loss: Any, *, beta: float,
               scale: float) -> Any:
        require_size("the loss's gradient", d_loss, 1)
        places = xp.reshape(_places(xp, Y_hat, Y, locations), (-1,))
        flat = xp.reshape(Y_hat, (-1,))
        slope = _smooth_slope(xp, xp.take(flat, places, axis=0) - xp.reshape(Y, (-1,)), beta)
        slope = slope * xp.reshape(d_loss, ()) * (scale / _foreground(xp, normalizer))
        return xp.reshape(xp.scatter_add(zeros(xp, flat.shape, flat), places, slope), Y_hat.shape)


class GroupSpatialSoftmax(Operator):
    """probabilities = softmax over each group of num_classes channels, at every pixel."""

    inputs = [In("scores", "(N, groups x classes, H, W), float")]
    outputs = [Out("probabilities", "like scores")]
    arguments = [Int("num_classes", 81)]
    shape = same_as(0)
    gradient = emits("GroupSpatialSoftmaxGradient", "O0 GO0", "GI0")
    example = Example(
        {"scores": [[[[1.0]], [[2.0]]]]},
        {"probabilities": [[[[0.268941]], [[0.731059]]]]},
        {"num_classes": 2})

    def kernel(xp: Any, scores: Any, *, num_classes: int) -> Any:
        grouped = _grouped(xp, scores, num_classes)
        powers = xp.exp(grouped - xp.max(grouped, axis=2, keepdims=True))
        return xp.reshape(powers / xp.sum(powers, axis=2, keepdims=True), scores.shape)


def _grouped(xp: Any, x: Any, num_classes: int) -> Any:
    """(N, groups, classes, H, W)."""
    if x.ndim != 4 or num_classes < 1 or x.shape[1] % num_classes:
        raise ValueError(f"the input has shape {tuple(x.shape)}, expected (N, groups x {num_classes}, H, W)")
    return xp.reshape(x, (x.shape[0], x.shape[1] // num_classes, num_classes, *x.shape[2:]))


class GroupSpatialSoftmaxGradient(Operator):
    """dscores = P (dP - sum of P dP over the group)."""

    inputs = [In("scores", "the probabilities"), In("d_probabilities", "like scores, float")]
    outputs = [Out("d_scores", "like scores")]
    arguments = [Int("num_classes", 81)]
    internal = True
    shape = same_as(0)
    example = Example(
        {"scores": [[[[0.268941]], [[0.731059]]]], "d_probabilities": [[[[1.0]], [[0.5]]]]},
        {"d_scores": [[[[0.098306]], [[-0.098306]]]]},
        {"num_classes": 2})

    def kernel(xp: Any, scores: Any, d_probabilities: Any, *, num_classes: int) -> Any:
        require_shape("the output's gradient", d_probabilities, scores.shape, ", the output's")
        P, dP = _grouped(xp, scores, num_classes), _grouped(xp, d_probabilities, num_classes)
        return xp.reshape(P * (dP - xp.sum(P * dP, axis=2, keepdims=True)), scores.shape)


class SampleAs(Operator):
    """Y = the rows of X whose label is positive; one row of zeros if there are none."""

    inputs = [In("X", "(N, ...), float"), In("labels", "(N,), int32", differentiable=False)]
    outputs = [Out("Y", "(positive labels, ...)")]
    gradient = emits("SampleAsGradient", "I0 I1 GO0", "GI0")
    example = Example({"X": [[1.0], [2.0], [3.0]], "labels": [1, 0, 2]}, {"Y": [[1.0], [3.0]]})

    def shape(X: TensorType, labels: TensorType) -> TensorType:
        return X.with_dims(None if X.dims is None else (None, *X.dims[1:]))

    def kernel(xp: Any, X: Any, labels: Any) -> Any:
        chosen = _chosen(xp, X, labels)
        if not chosen.shape[0]:
            return zeros(xp, (1, *X.shape[1:]), X)
        return xp.take(X, chosen, axis=0)


def _chosen(xp: Any, X: Any, labels: Any) -> Any:
    if X.ndim < 1:
        raise ShapeError("X has shape (), expected one row per label")
    require_shape("the labels", labels, X.shape[:1], ", one for each row of X")
    return xp.nonzero(labels > 0)[0]


class SampleAsGradient(Operator):
    """dX: the gradients of the chosen rows at their places, 0 elsewhere."""

    inputs = [In("X", shape_only=True), In("labels", differentiable=False), In("dY")]
    outputs = [Out("dX", "like X")]
    internal = True
    shape = same_as(0)
    example = Example(
        {"X": [[1.0], [2.0], [3.0]], "labels": [1, 0, 2], "dY": [[1.0], [0.5]]},
        {"dX": [[1.0], [0.0], [0.5]]})

    def kernel(xp: Any, X: Any, labels: Any, dY: Any) -> Any:
        chosen = _chosen(xp, X, labels)
        require_shape("the output's gradient", dY, (max(chosen.shape[0], 1), *X.shape[1:]), ", the output's")
        dX = zeros(xp, X.shape, X)
        return xp.index_put(dX, chosen, dY) if chosen.shape[0] else dX


def _require_larger(A: Any, B: Any) -> None:
    if B.ndim < 2 or A.ndim < 2 or B.shape[-2] > A.shape[-2] or B.shape[-1] > A.shape[-1]:
        raise ValueError(f"A has shape {tuple(A.shape)}, which is smaller than B's, {tuple(B.shape)}")


class SpatialNarrowAs(Operator):
    """C = A cut to the height and width of B, from the upper left corner."""

    inputs = [In("A", "(N, C, H, W) or (N, H, W), float"), In("B", "of no larger height and width", shape_only=True)]
    outputs = [Out("C", "like A, with B's height and width")]
    gradient = emits("SpatialNarrowAsGradient", "I0 I1 GO0", "GI0")
    example = Example({"A": [[[[1.0, 2.0], [3.0, 4.0]]]], "B": [[[[0.0]]]]}, {"C": [[[[1.0]]]]}, wrt=("A",))

    def shape(A: TensorType, B: TensorType) -> TensorType:
        return A.with_dims(None if A.dims is None or B.dims is None else (*A.dims[:-2], *B.dims[-2:]))

    def kernel(xp: Any, A: Any, B: Any) -> Any:
        _require_larger(A, B)
        return A[..., :B.shape[-2], :B.shape[-1]] + 0


class SpatialNarrowAsGradient(Operator):
    """dA = dC at its place, 0 in what was cut off."""

    inputs = [In("A", shape_only=True), In("B", shape_only=True), In("dC")]
    outputs = [Out("dA", "like A")]
    internal = True
    shape = same_as(0)
    example = Example(
        {"A": [[[[1.0, 2.0], [3.0, 4.0]]]], "B": [[[[0.0]]]], "dC": [[[[1.0]]]]},
        {"dA": [[[[1.0, 0.0], [0.0, 0.0]]]]})

    def kernel(xp: Any, A: Any, B: Any, dC: Any) -> Any:
        _require_larger(A, B)
        require_shape("the output's gradient", dC, (*A.shape[:-2], *B.shape[-2:]), ", the output's")
        dA = xp.zeros_like(A)
        dA[..., :dC.shape[-2], :dC.shape[-1]] = dC
        return dA


class UpsampleNearest(Operator):
    """Y = X with every element repeated scale times along height and width."""

    inputs = [In("X", "(N, C, H, W), float")]
    outputs = [Out("Y", "(N, C, scale H, scale W)")]
    arguments = [Int("scale", 2)]
    gradient = emits("UpsampleNearestGradient", "I0 GO0", "GI0")
    example = Example({"X": [[[[1.0, 2.0]]]]}, {"Y": [[[[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]]]}, {"scale": 2})

    def shape(X: TensorType, *, scale: int = 2) -> TensorType:
        if X.dims is None:
            return X
        return X.with_dims((*X.dims[:-2], *(None if n is None else n * scale for n in X.dims[-2:])))

    def kernel(xp: Any, X: Any, *, scale: int) -> Any:
        Y = _image(xp, X, "NCHW")
        for axis in (2, 3):
            size = countable("the size scaled", Y.shape[axis] * scale)
            Y = _take(xp, Y, [k // scale for k in range(size)], axis)
        return Y


class UpsampleNearestGradient(Operator):
    """dX: the gradients of an element's repetitions, added up."""

    inputs = [In("X", shape_only=True), In("dY")]
    outputs = [Out("dX", "like X")]
    arguments = [Int("scale", 2)]
    internal = True
    shape = same_as(0)
    example = Example(
        {"X": [[[[1.0, 2.0]]]], "dY": [[[[1.0, 0.5, 2.0, -1.0], [0.25, 3.0, 1.0, 0.5]]]]},
        {"dX": [[[[4.75, 2.5]]]]},
        {"scale": 2})

    def kernel(xp: Any, X: Any, dY: Any, *, scale: int) -> Any:
        require_shape("the output's gradient", dY, (*X.shape[:2], *(n * scale for n in X.shape[2:])), ", the output's")
        dX = dY
        for axis in (2, 3):
            dX = _give(xp, dX, [k // scale for k in range(dX.shape[axis])], X.shape[axis], axis)
        return dX
