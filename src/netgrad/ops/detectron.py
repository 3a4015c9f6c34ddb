"""The operators of Detectron's own module: focal and smooth losses, pooling by regions, narrowing."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Float, Int
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.rules import emits
from netgrad.graph.shapes import TensorType, same_as, scalar
from netgrad.ops._arrays import require_shape, require_size
from netgrad.ops.images import _give, _image, _take

FOCAL = (Float("scale", 1.0, "multiplies the loss"), Float("alpha", 0.25, "weight of the foreground"),
         Float("gamma", 1.0, "how much easy examples count less"), Int("num_classes", 80))
SMOOTH = (Float("beta", 1.0, "below it the loss is quadratic"), Float("scale", 1.0, "multiplies the loss"))


class SigmoidFocalLoss(Operator):
    """loss = scale / normalizer (focal loss of independent classes), summed.

    Source: Lin et al. 2017, https://arxiv.org/abs/1708.02002.
    """

    inputs = [In("logits", "(N, anchors x classes, H, W), float"),
              In("labels", "(N, anchors, H, W), int32: -1 ignored"),
              In("normalizer", "one element: number of foreground anchors")]
    outputs = [Out("loss", "shape ()")]
    arguments = [*FOCAL]
    shape = scalar()
    gradient = emits("SigmoidFocalLossGradient", "I0 I1 I2 GO0", "GI0")


class SigmoidFocalLossGradient(Operator):
    """dlogits of SigmoidFocalLoss."""

    inputs = [In("logits"), In("labels"), In("normalizer"), In("d_loss", "one element")]
    outputs = [Out("d_logits", "like logits")]
    arguments = [*FOCAL]
    internal = True
    shape = same_as(0)


class SoftmaxFocalLoss(Operator):
    """loss = scale / normalizer (focal loss of exclusive classes), summed.

    Source: Lin et al. 2017, https://arxiv.org/abs/1708.02002.
    """

    inputs = [In("scores", "(N, anchors x classes, H, W), float"),
              In("labels", "(N, anchors, H, W), int32: -1 ignored"),
              In("normalizer", "one element: number of foreground anchors")]
    outputs = [Out("loss", "shape ()"), Out("probabilities", "like scores")]
    arguments = [*FOCAL]
    gradient = emits("SoftmaxFocalLossGradient", "I0 I1 I2 O1 GO0", "GI0")

    def shape(scores: TensorType, *_: TensorType, **__: Any) -> tuple[TensorType, TensorType]:
        return scores.with_dims(()), scores


class SoftmaxFocalLossGradient(Operator):
    """dscores of SoftmaxFocalLoss."""

    inputs = [In("scores", shape_only=True), In("labels"), In("normalizer"), In("probabilities"),
              In("d_loss", "one element")]
    outputs = [Out("d_scores", "like scores")]
    arguments = [*FOCAL]
    internal = True
    shape = same_as(0)


class SigmoidCrossEntropyLoss(Operator):
    """loss = scale (sum of sigmoid cross entropies) / (number of targets that are not -1)."""

    inputs = [In("X", "any shape, float"), In("targets", "like X, int32: 0, 1, or -1 ignored")]
    outputs = [Out("loss", "shape ()")]
    arguments = [Float("scale", 1.0), Int("normalize", 1, "0: do not divide")]
    shape = scalar()
    gradient = emits("SigmoidCrossEntropyLossGradient", "I0 I1 GO0", "GI0")


class SigmoidCrossEntropyLossGradient(Operator):
    """dX of SigmoidCrossEntropyLoss."""

    inputs = [In("X"), In("targets"), In("d_loss", "one element")]
    outputs = [Out("dX", "like X")]
    arguments = [Float("scale", 1.0), Int("normalize", 1)]
    internal = True
    shape = same_as(0)


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

    def kernel(xp: Any, Y_hat: Any, Y: Any, alpha_in: Any, alpha_out: Any, *, beta: float, scale: float) -> Any:
        for name, x in (("Y", Y), ("alpha_in", alpha_in), ("alpha_out", alpha_out)):
            require_shape(name, x, Y_hat.shape, ", Y_hat's")
        losses = alpha_out * _smooth(xp, alpha_in * (Y_hat - Y), beta)
        return xp.sum(losses) * (scale / max(Y_hat.shape[0], 1))


class SmoothL1LossGradient(Operator):
    """dY_hat of SmoothL1Loss."""

    inputs = [In("Y_hat"), In("Y"), In("alpha_in"), In("alpha_out"), In("d_loss", "one element")]
    outputs = [Out("d_Y_hat", "like Y_hat")]
    arguments = [*SMOOTH]
    internal = True
    shape = same_as(0)

    def kernel(xp: Any, Y_hat: Any, Y: Any, alpha_in: Any, alpha_out: Any, d_loss: Any, *, beta: float,
               scale: float) -> Any:
        require_size("the loss's gradient", d_loss, 1)
        slope = alpha_in * alpha_out * _smooth_slope(xp, alpha_in * (Y_hat - Y), beta)
        return slope * xp.reshape(d_loss, ()) * (scale / max(Y_hat.shape[0], 1))


class SelectSmoothL1Loss(Operator):
    """loss = scale / normalizer (sum of smooth(Y_hat - Y)) over the places of Y_hat that are listed."""

    inputs = [In("Y_hat", "(N, channels, H, W), float"), In("Y", "(M, 4)"),
              In("locations", "(M, 4): image, first channel, row, column"), In("normalizer", "one element")]
    outputs = [Out("loss", "shape ()")]
    arguments = [*SMOOTH]
    shape = scalar()
    gradient = emits("SelectSmoothL1LossGradient", "I0 I1 I2 I3 GO0", "GI0")


class SelectSmoothL1LossGradient(Operator):
    """dY_hat of SelectSmoothL1Loss."""

    inputs = [In("Y_hat"), In("Y"), In("locations"), In("normalizer"), In("d_loss", "one element")]
    outputs = [Out("d_Y_hat", "like Y_hat")]
    arguments = [*SMOOTH]
    internal = True
    shape = same_as(0)


class GroupSpatialSoftmax(Operator):
    """probabilities = softmax over each group of num_classes channels, at every pixel."""

    inputs = [In("scores", "(N, groups x classes, H, W), float")]
    outputs = [Out("probabilities", "like scores")]
    arguments = [Int("num_classes", 81)]
    shape = same_as(0)
    gradient = emits("GroupSpatialSoftmaxGradient", "O0 GO0", "GI0")

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

    inputs = [In("scores", "the probabilities"), In("d_probabilities", "like scores")]
    outputs = [Out("d_scores", "like scores")]
    arguments = [Int("num_classes", 81)]
    internal = True
    shape = same_as(0)

    def kernel(xp: Any, scores: Any, d_probabilities: Any, *, num_classes: int) -> Any:
        require_shape("the output's gradient", d_probabilities, scores.shape, ", the output's")
        P, dP = _grouped(xp, scores, num_classes), _grouped(xp, d_probabilities, num_classes)
        return xp.reshape(P * (dP - xp.sum(P * dP, axis=2, keepdims=True)), scores.shape)


class SampleAs(Operator):
    """Y = the rows of X whose label is positive; one row of zeros if there are none."""

    inputs = [In("X", "(N, ...), float"), In("labels", "(N,), int32")]
    outputs = [Out("Y", "(positive labels, ...)")]
    gradient = emits("SampleAsGradient", "I0 I1 GO0", "GI0")

    def shape(X: TensorType, labels: TensorType) -> TensorType:
        return X.with_dims(None if X.dims is None else (None, *X.dims[1:]))


class SampleAsGradient(Operator):
    """dX: the gradients of the chosen rows at their places, 0 elsewhere."""

    inputs = [In("X", shape_only=True), In("labels"), In("dY")]
    outputs = [Out("dX", "like X")]
    internal = True
    shape = same_as(0)


class SpatialNarrowAs(Operator):
    """C = A cut to the height and width of B, from the upper left corner."""

    inputs = [In("A", "(N, C, H, W) or (N, H, W), float"), In("B", "of no larger height and width", shape_only=True)]
    outputs = [Out("C", "like A, with B's height and width")]
    gradient = emits("SpatialNarrowAsGradient", "I0 I1 GO0", "GI0")

    def shape(A: TensorType, B: TensorType) -> TensorType:
        return A.with_dims(None if A.dims is None or B.dims is None else (*A.dims[:-2], *B.dims[-2:]))

    def kernel(xp: Any, A: Any, B: Any) -> Any:
        if B.ndim < 2 or A.ndim < 2 or B.shape[-2] > A.shape[-2] or B.shape[-1] > A.shape[-1]:
            raise ValueError(f"A has shape {tuple(A.shape)}, which is smaller than B's, {tuple(B.shape)}")
        return A[..., :B.shape[-2], :B.shape[-1]] + 0


class SpatialNarrowAsGradient(Operator):
    """dA = dC at its place, 0 in what was cut off."""

    inputs = [In("A", shape_only=True), In("B", shape_only=True), In("dC")]
    outputs = [Out("dA", "like A")]
    internal = True
    shape = same_as(0)

    def kernel(xp: Any, A: Any, B: Any, dC: Any) -> Any:
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

    def shape(X: TensorType, *, scale: int = 2) -> TensorType:
        if X.dims is None:
            return X
        return X.with_dims((*X.dims[:-2], *(None if n is None else n * scale for n in X.dims[-2:])))

    def kernel(xp: Any, X: Any, *, scale: int) -> Any:
        Y = _image(xp, X, "NCHW")
        for axis in (2, 3):
            Y = _take(xp, Y, [k // scale for k in range(Y.shape[axis] * scale)], axis)
        return Y


class UpsampleNearestGradient(Operator):
    """dX: the gradients of an element's repetitions, added up."""

    inputs = [In("X", shape_only=True), In("dY")]
    outputs = [Out("dX", "like X")]
    arguments = [Int("scale", 2)]
    internal = True
    shape = same_as(0)

    def kernel(xp: Any, X: Any, dY: Any, *, scale: int) -> Any:
        require_shape("the output's gradient", dY, (*X.shape[:2], *(n * scale for n in X.shape[2:])), ", the output's")
        dX = dY
        for axis in (2, 3):
            dX = _give(xp, dX, [k // scale for k in range(dX.shape[axis])], X.shape[axis], axis)
        return dX
