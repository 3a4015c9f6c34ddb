"""Images: padding, resizing, sums over rectangles, and the formats of cameras."""

from __future__ import annotations

import math
from typing import Any

from netgrad.graph.arguments import Float, Int, Str
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import Rule, emits, forbidden
from netgrad.graph.shapes import ShapeError, TensorType, same_as
from netgrad.ops._arrays import array, channels_back, channels_first, countable, product, require_shape, single, zeros
from netgrad.ops._windows import WINDOW, join_dims, split_dims

IMAGE = "(N, C, H, W) or, with order NHWC, (N, H, W, C); float"
ORDER = Str("order", "NCHW", "NCHW or NHWC: where the channels are")


def _image(xp: Any, X: Any, order: str, rank: int = 4) -> Any:
    if X.ndim != rank:
        raise ShapeError(f"the input has shape {tuple(X.shape)}, expected {rank} dimensions: {IMAGE}")
    return channels_first(xp, X, order)


# Every linear map below reads, for each place of the output, one or a few places of the input along each axis; `take`
# applies it and `give` is its adjoint.


def _take(xp: Any, X: Any, places: list[int], axis: int) -> Any:
    return xp.take(X, xp.asarray(places, dtype=xp.int64, device=getattr(X, "device", None)), axis=axis)


def _give(xp: Any, Y: Any, places: list[int], size: int, axis: int) -> Any:
    """The adjoint of `_take`: what was read from one place is added up there."""
    index = xp.asarray(places, dtype=xp.int64, device=getattr(Y, "device", None))
    front = xp.moveaxis(Y, axis, 0)
    return xp.moveaxis(xp.scatter_add(zeros(xp, (size, *front.shape[1:]), Y), index, front), 0, axis)


class _Pads(Operator, abstract=True):
    arguments = [*WINDOW, Str("mode", "constant", "constant, reflect or edge"),
                 Float("value", 0.0, "what a constant border holds")]


def _borders(get: Any) -> tuple[int, int, int, int]:
    """Top, left, bottom and right padding."""
    several, single = get("pads", None), get("pad", None)
    if several:
        if len(several) != 4:
            raise ValueError(f"the argument pads gives {len(several)} sizes, expected 4")
        pads = [int(p) for p in several]
    elif single:
        values = [int(p) for p in single] if isinstance(single, (list, tuple)) else [int(single)]
        pads = values * 4 if len(values) == 1 else values
    else:
        pads = [int(get(f"pad_{side}", None) or 0) for side in "tlbr"]
    top, left, bottom, right = pads
    return top, left, bottom, right


def _sources(size: int, head: int, tail: int, mode: str) -> list[int]:
    """For each place of a padded axis, the place that is copied there."""
    if mode == "edge":
        return [min(max(k, 0), size - 1) for k in range(-head, size + tail)]
    if mode == "reflect":
        if max(head, tail) >= size:
            raise ShapeError(f"an axis of {size} cannot be reflected by {head} and {tail}: it must be longer")
        return [size - 1 - abs(size - 1 - abs(k)) for k in range(-head, size + tail)]
    raise ValueError(f"the mode {mode!r} is unknown: expected constant, reflect or edge")


class PadImage(_Pads):
    """Y = X with borders: constant, or copied from the image (its edge, or its reflection)."""

    inputs = [In("X", IMAGE)]
    outputs = [Out("Y", "like X, larger")]
    gradient = emits("PadImageGradient", "GO0", "GI0")
    example = Example(
        {"X": [[[[1.0, 2.0]]]]},
        {"Y": [[[[0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0]]]]},
        {"pad": 1})

    def shape(X: TensorType, *, order: str = "NCHW", **arguments: Any) -> TensorType:
        if X.rank is None:
            return X
        top, left, bottom, right = _borders(lambda name, default: arguments.get(name, default))
        batch, channels, (height, width) = split_dims(X, order)
        grown = (None if height is None else height + top + bottom, None if width is None else width + left + right)
        return X.with_dims(join_dims(batch, channels, grown, order))

    def kernel(xp: Any, X: Any, *, order: str, mode: str, value: float, op: Any) -> Any:
        x = _image(xp, X, order)
        top, left, bottom, right = _borders(op.argument)
        height, width = x.shape[2:]
        if mode == "constant":
            Y = xp.full((*x.shape[:2], height + top + bottom, width + left + right), value, dtype=x.dtype,
                        device=getattr(x, "device", None))
            Y[:, :, top:top + height, left:left + width] = x
        else:
            Y = _take(xp, x, _sources(height, top, bottom, mode), 2)
            Y = _take(xp, Y, _sources(width, left, right, mode), 3)
        return channels_back(xp, Y, order)


class PadImageGradient(_Pads):
    """dX: the gradients of all places that an element was copied to, added up."""

    inputs = [In("dY", IMAGE)]
    outputs = [Out("dX", "like dY, smaller")]
    shares = {(0, 0)}
    internal = True
    example = Example(
        {"dY": [[[[1.0, 0.5, 2.0, -1.0], [0.25, 3.0, 1.0, 0.5], [2.0, -1.0, 0.25, 3.0]]]]},
        {"dX": [[[[3.0, 1.0]]]]},
        {"pad": 1})

    def shape(dY: TensorType, *, order: str = "NCHW", **arguments: Any) -> TensorType:
        if dY.rank is None:
            return dY
        top, left, bottom, right = _borders(lambda name, default: arguments.get(name, default))
        batch, channels, (height, width) = split_dims(dY, order)
        inner = (None if height is None else height - top - bottom, None if width is None else width - left - right)
        return dY.with_dims(join_dims(batch, channels, inner, order))

    def kernel(xp: Any, dY: Any, *, order: str, mode: str, op: Any) -> Any:
        dy = _image(xp, dY, order)
        top, left, bottom, right = _borders(op.argument)
        height, width = dy.shape[2] - top - bottom, dy.shape[3] - left - right
        if height < 0 or width < 0:
            raise ShapeError(f"the output's gradient has shape {tuple(dY.shape)}, which is smaller than its borders")
        if mode == "constant":
            dX = dy[:, :, top:top + height, left:left + width]
        else:
            dX = _give(xp, dy, _sources(height, top, bottom, mode), height, 2)
            dX = _give(xp, dX, _sources(width, left, right, mode), width, 3)
        return channels_back(xp, dX, order)


def _scaled(size: int, scale: float) -> int:
    if scale <= 0:
        raise ValueError(f"the scale is {scale}, expected a positive number")
    return countable("the size scaled", int(single(size * single(scale))))


def _nearest(size: int, out: int, scale: float) -> list[int]:
    return [min(int(single(k / single(scale))), size - 1) for k in range(out)]


def _scales(xp: Any, scales: Any, height_scale: float, width_scale: float) -> tuple[float, float]:
    """Of height and width; an input of scales goes before the arguments."""
    if scales is None:
        return height_scale, width_scale
    require_shape("the scales", scales, (2,), ": of height and width")
    height, width = (float(s) for s in xp.to_numpy(scales))
    return height, width


SCALES = (Float("height_scale", 1.0), Float("width_scale", 1.0))


def _resized_dims(X: TensorType, order: str, known: bool, scales: tuple[float, ...]) -> TensorType:
    if X.rank is None:
        return X
    batch, channels, sizes = split_dims(X, order)
    out = tuple(None if n is None or not known else _scaled(n, s) for n, s in zip(sizes, scales, strict=True))
    return X.with_dims(join_dims(batch, channels, out, order))


class ResizeNearest(Operator):
    """Y = X at other sizes: every place takes the nearest element before it."""

    inputs = [In("X", IMAGE), In("scales", "(2,): of height and width, instead of the arguments", optional=True)]
    outputs = [Out("Y", "like X, height and width scaled and rounded down")]
    arguments = [*SCALES, ORDER]
    example = Example(
        {"X": [[[[1.0, 2.0]]]]},
        {"Y": [[[[1.0, 1.0, 2.0, 2.0]]]]},
        {"width_scale": 2.0, "height_scale": 1.0})

    def shape(X: TensorType, *scales: TensorType, height_scale: float = 1.0, width_scale: float = 1.0,
              order: str = "NCHW") -> TensorType:
        return _resized_dims(X, order, not scales, (height_scale, width_scale))

    def kernel(xp: Any, X: Any, scales: Any, *, height_scale: float, width_scale: float, order: str) -> Any:
        Y = _image(xp, X, order)
        for axis, scale in zip((2, 3), _scales(xp, scales, height_scale, width_scale), strict=True):
            size = Y.shape[axis]
            Y = _take(xp, Y, _nearest(size, _scaled(size, scale), scale), axis)
        return channels_back(xp, Y, order)

    def gradient(op: Rule) -> None:
        op.emit("ResizeNearestGradient", [op.GO(0), *map(op.I, range(op.num_inputs))], [op.GI(0)])


class ResizeNearestGradient(Operator):
    """dX: the gradients of all places that took an element, added up."""

    inputs = [In("dY", IMAGE), In("X", shape_only=True), In("scales", optional=True)]
    outputs = [Out("dX", "like X")]
    arguments = [*SCALES, ORDER]
    internal = True
    shape = same_as(1)
    example = Example(
        {"dY": [[[[1.0, 0.5, 2.0, -1.0]]]], "X": [[[[1.0, 2.0]]]]},
        {"dX": [[[[1.5, 1.0]]]]},
        {"width_scale": 2.0, "height_scale": 1.0})

    def kernel(xp: Any, dY: Any, X: Any, scales: Any, *, height_scale: float, width_scale: float, order: str) -> Any:
        dX, x = _image(xp, dY, order), _image(xp, X, order)
        wanted = _scales(xp, scales, height_scale, width_scale)
        require_shape("the output's gradient", dX, (*x.shape[:2], *map(_scaled, x.shape[2:], wanted)), ", the output's")
        for axis, scale in zip((2, 3), wanted, strict=True):
            dX = _give(xp, dX, _nearest(x.shape[axis], dX.shape[axis], scale), x.shape[axis], axis)
        return channels_back(xp, dX, order)


class ResizeNearest3D(Operator):
    """ResizeNearest over time, height and width."""

    inputs = [In("X", "(N, C, T, H, W), float")]
    outputs = [Out("Y", "like X, sizes scaled and rounded down")]
    arguments = [Float("temporal_scale", 1.0), *SCALES, ORDER]
    gradient = emits("ResizeNearest3DGradient", "GO0 I0", "GI0")
    example = Example(
        {"X": [[[[[1.0, 2.0]]]]]},
        {"Y": [[[[[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]]]]},
        {"width_scale": 2.0, "height_scale": 2.0})

    def shape(X: TensorType, *, temporal_scale: float = 1.0, height_scale: float = 1.0, width_scale: float = 1.0,
              order: str = "NCHW") -> TensorType:
        return _resized_dims(X, order, True, (temporal_scale, height_scale, width_scale))

    def kernel(xp: Any, X: Any, *, temporal_scale: float, height_scale: float, width_scale: float, order: str) -> Any:
        Y = _image(xp, X, order, 5)
        for axis, scale in zip((2, 3, 4), (temporal_scale, height_scale, width_scale), strict=True):
            Y = _take(xp, Y, _nearest(Y.shape[axis], _scaled(Y.shape[axis], scale), scale), axis)
        return channels_back(xp, Y, order)


class ResizeNearest3DGradient(Operator):
    """dX: the gradients of all places that took an element, added up."""

    inputs = [In("dY", "(N, C, T, H, W)"), In("X", shape_only=True)]
    outputs = [Out("dX", "like X")]
    arguments = [Float("temporal_scale", 1.0), *SCALES, ORDER]
    internal = True
    shape = same_as(1)
    example = Example(
        {"dY": [[[[[1.0, 0.5, 2.0, -1.0], [0.25, 3.0, 1.0, 0.5]]]]], "X": [[[[[1.0, 2.0]]]]]},
        {"dX": [[[[[4.75, 2.5]]]]]},
        {"width_scale": 2.0, "height_scale": 2.0})

    def kernel(xp: Any, dY: Any, X: Any, *, temporal_scale: float, height_scale: float, width_scale: float,
               order: str) -> Any:
        dX, x = _image(xp, dY, order, 5), _image(xp, X, order, 5)
        wanted = (temporal_scale, height_scale, width_scale)
        require_shape("the output's gradient", dX, (*x.shape[:2], *map(_scaled, x.shape[2:], wanted)), ", the output's")
        for axis, scale in zip((2, 3, 4), wanted, strict=True):
            dX = _give(xp, dX, _nearest(x.shape[axis], dX.shape[axis], scale), x.shape[axis], axis)
        return channels_back(xp, dX, order)


def _bilinear(size: int, out: int) -> tuple[list[int], list[int], list[float]]:
    """For each place: the places before and behind, and the share of the latter. The corners stay where they are."""
    step = (size - 1) / (out - 1) if out > 1 else 0.0
    before = [int(step * k) for k in range(out)]
    return before, [min(b + 1, size - 1) for b in before], [step * k - b for k, b in enumerate(before)]


def _weights(xp: Any, share: list[float], like: Any, axis: int) -> Any:
    weights = xp.asarray(share, dtype=like.dtype, device=getattr(like, "device", None))
    return xp.reshape(weights, (-1, *(1 for _ in like.shape[axis + 1:])))


class UpsampleBilinear(Operator):
    """Y = X at larger sizes, linear between the elements along height and width."""

    inputs = [In("X", "(N, C, H, W), float"),
              In("scales", "(2,): of height and width, instead of the arguments", optional=True)]
    outputs = [Out("Y", "like X, height and width scaled and rounded down")]
    arguments = [*SCALES]
    example = Example(
        {"X": [[[[1.0, 2.0]]]]},
        {"Y": [[[[1.0, 1.33333, 1.66667, 2.0]]]]},
        {"width_scale": 2.0, "height_scale": 1.0})

    def shape(X: TensorType, *scales: TensorType, height_scale: float = 1.0, width_scale: float = 1.0) -> TensorType:
        return _resized_dims(X, "NCHW", not scales, (height_scale, width_scale))

    def kernel(xp: Any, X: Any, scales: Any, *, height_scale: float, width_scale: float) -> Any:
        Y = _image(xp, X, "NCHW")
        for axis, scale in zip((2, 3), _scales(xp, scales, height_scale, width_scale), strict=True):
            before, behind, share = _bilinear(Y.shape[axis], _scaled(Y.shape[axis], scale))
            weights = _weights(xp, share, Y, axis)
            Y = _take(xp, Y, before, axis) * (1 - weights) + _take(xp, Y, behind, axis) * weights
        return Y

    def gradient(op: Rule) -> None:
        op.emit("UpsampleBilinearGradient", [op.GO(0), *map(op.I, range(op.num_inputs))], [op.GI(0)])


class UpsampleBilinearGradient(Operator):
    """dX: every element takes back the shares it gave."""

    inputs = [In("dY", "(N, C, H, W), float"), In("X", shape_only=True), In("scales", optional=True)]
    outputs = [Out("dX", "like X")]
    arguments = [*SCALES]
    internal = True
    shape = same_as(1)
    example = Example(
        {"dY": [[[[1.0, 0.5, 2.0, -1.0]]]], "X": [[[[1.0, 2.0]]]]},
        {"dX": [[[[2.0, 0.5]]]]},
        {"width_scale": 2.0, "height_scale": 1.0})

    def kernel(xp: Any, dY: Any, X: Any, scales: Any, *, height_scale: float, width_scale: float) -> Any:
        wanted = _scales(xp, scales, height_scale, width_scale)
        dX = _image(xp, dY, "NCHW")
        require_shape("the output's gradient", dY, (*X.shape[:2], *map(_scaled, X.shape[2:], wanted)), ", the output's")
        for axis in (2, 3):
            before, behind, share = _bilinear(X.shape[axis], dX.shape[axis])
            weights = _weights(xp, share, dX, axis)
            dX = (_give(xp, dX * (1 - weights), before, X.shape[axis], axis)
                  + _give(xp, dX * weights, behind, X.shape[axis], axis))
        return dX


class IntegralImage(Operator):
    """Y[h, w] = the sum of X above row h and left of column w."""

    inputs = [In("X", "(N, C, H, W), float")]
    outputs = [Out("Y", "(N, C, H + 1, W + 1)")]
    gradient = emits("IntegralImageGradient", "I0 GO0", "GI0")
    example = Example(
        {"X": [[[[1.0, 2.0], [3.0, 4.0]]]]},
        {"Y": [[[[0.0, 0.0, 0.0], [0.0, 1.0, 3.0], [0.0, 4.0, 10.0]]]]})

    def shape(X: TensorType) -> TensorType:
        if X.dims is None:
            return X
        return X.with_dims((*X.dims[:2], *(None if n is None else n + 1 for n in X.dims[2:])))

    def kernel(xp: Any, X: Any) -> Any:
        x = _image(xp, X, "NCHW")
        Y = zeros(xp, (*x.shape[:2], x.shape[2] + 1, x.shape[3] + 1), x)
        Y[:, :, 1:, 1:] = xp.cumulative_sum(xp.cumulative_sum(x, axis=2), axis=3)
        return Y


class IntegralImageGradient(Operator):
    """dX[h, w] = the sum of dY below row h and right of column w.

    That is the derivative, and what a backward pass computes. Called on its own, the operator sums dY above and left of
    (h, w), as Caffe2's does everywhere.
    """

    inputs = [In("X", shape_only=True), In("dY", "(N, C, H + 1, W + 1), float")]
    outputs = [Out("dX", "like X")]
    internal = True
    shape = same_as(0)
    example = Example(
        {"X": [[[[1.0, 2.0], [3.0, 4.0]]]], "dY": [[[[1.0, 0.5, 2.0], [-1.0, 0.25, 3.0], [1.0, 0.5, 2.0]]]]},
        {"dX": [[[[1.0, 1.5], [0.0, 0.75]]]]})

    def kernel(xp: Any, X: Any, dY: Any, *, op: Any) -> Any:
        require_shape("the output's gradient", dY, (*X.shape[:2], X.shape[2] + 1, X.shape[3] + 1), ", the output's")
        backward = op.definition.is_gradient_op
        dX = dY[:, :, 1:, 1:] if backward else dY[:, :, :-1, :-1]
        for axis in (2, 3):
            dX = xp.flip(dX, axis=axis) if backward else dX
            dX = xp.cumulative_sum(dX, axis=axis)
            dX = xp.flip(dX, axis=axis) if backward else dX
        return dX


class RMACRegions(Operator):
    """Square regions of several scales that cover a feature map, for RoIPool.

    Source: Tolias et al. 2016, https://arxiv.org/abs/1511.05879.
    """

    inputs = [In("X", "(N, C, H, W)", shape_only=True)]
    outputs = [Out("RMAC_REGIONS", "(regions, 5): image, left, top, right, bottom")]
    arguments = [Int("scales", 3), Float("overlap", 0.4, "wanted overlap of neighbours")]
    gradient = forbidden()
    example = Example({"X": [[[[0.0, 0.0], [0.0, 0.0]]]]}, {"RMAC_REGIONS": [[0.0, 0.0, 0.0, 1.0, 1.0]]}, {"scales": 1})

    def shape(X: TensorType, **_: Any) -> TensorType:
        return TensorType("float32", (None, 5))

    def kernel(xp: Any, X: Any, *, scales: int, overlap: float) -> Any:
        if X.ndim != 4 or min(X.shape[2:]) < 1:
            raise ShapeError(f"X has shape {tuple(X.shape)}, expected (N, C, H, W) with pixels")
        boxes = _covering(X.shape[2], X.shape[3], scales, overlap)
        rows = [[float(image), *box] for image in range(X.shape[0]) for box in boxes]
        return xp.reshape(array(xp, rows, X, xp.float32), (len(rows), 5))


def _covering(height: int, width: int, scales: int, overlap: float) -> list[list[float]]:
    """Squares that cover an image, more and smaller ones at every scale: left, top, right, bottom.

    Along the longer side there are so many more of them that neighbours overlap about as wished.
    """
    short, long_ = min(height, width), max(height, width)
    shared = [single(1 - single((long_ - short) / (steps - 1)) / short) for steps in range(2, 8)]
    more = 1 + min(range(len(shared)), key=lambda k: single(abs(shared[k] - single(overlap))))

    def starts(size: int, side: int, count: int) -> list[int]:
        step = (size - side) / (count - 1) if count > 1 else 0.0
        return [min(math.floor(step * k), size - side) for k in range(count)]

    boxes = []
    for scale in range(1, min(scales + 1, 2 * short)):  # from there on a square has no pixel
        side = 2 * short // (scale + 1)
        for left in starts(width, side, scale + (more if width > height else 0)):
            for top in starts(height, side, scale + (more if height > width else 0)):
                boxes.append([float(left), float(top), float(left + side - 1), float(top + side - 1)])
    return boxes


class NormalizePlanarYUV(Operator):
    """Y = (X - mean) / std per channel, mean and std one row per image or one for all."""

    inputs = [In("X", "(N, C, H, W), float"), In("mean", "(1, C)"), In("std", "(1, C)")]
    outputs = [Out("Y", "like X")]
    inplace = {(0, 0)}
    shape = same_as(0)
    example = Example(
        {"X": [[[[1.0]], [[2.0]]]], "mean": [[0.5, 1.0]], "std": [[2.0, 4.0]]},
        {"Y": [[[[0.25]], [[0.25]]]]},
        wrt=())

    def kernel(xp: Any, X: Any, mean: Any, std: Any) -> Any:
        x = _image(xp, X, "NCHW")
        for name, v in (("mean", mean), ("std", std)):
            require_shape(name, v, (v.shape[0] or 1, x.shape[1]), ", one number per channel")
        return (x - xp.reshape(mean[0, :], (1, -1, 1, 1))) / xp.reshape(std[0, :], (1, -1, 1, 1))


class PackedInt8BGRANHWCToNCHWCStylizerPreprocess(Operator):
    """A camera's image of bytes as floats less a mean, with noise, for a style network.

    The noise is drawn once in the operator's life, and repeats along the image.
    """

    inputs = [In("image", "(N, H, W, 4), uint8: blue, green, red, alpha"), In("mean", "(3,), float")]
    outputs = [Out("Y", "(N, 3, H, W), float")]
    arguments = [Int("noise_size", 491, "how many values of noise there are"),
                 Float("noise_std", 10.0, "their standard deviation")]
    effects = {"random", "state"}
    example = Example(
        {"image": Tensor([[[[11, 22, 33, 255]]]], "uint8"), "mean": [10.0, 20.0, 30.0]},
        {"Y": [[[[1.0]], [[2.0]], [[3.0]]]]},
        {"noise_std": 0.0})

    def shape(image: TensorType, mean: TensorType, **_: Any) -> TensorType:
        dims = image.dims
        return TensorType("float32", None if dims is None else (dims[0], 3, *dims[1:3]))

    def kernel(xp: Any, image: Any, mean: Any, *, noise_size: int, noise_std: float, op: Any) -> Any:
        if image.ndim != 4 or image.shape[3] != 4 or image.dtype != xp.uint8:
            raise ShapeError(f"the image has shape {tuple(image.shape)} and dtype {xp.dtype_name(image)}, expected "
                             "(N, H, W, 4), uint8")
        require_shape("the mean", mean, (3,), ", one number per channel")
        mean = xp.astype(mean, xp.float32)
        if noise_size < 1 or not noise_std >= 0:
            raise ValueError(f"noise_size is {noise_size} and noise_std {noise_std}: expected a positive number of "
                             "values, and a standard deviation")
        if "noise" not in op.state:
            op.state["noise"] = op.rng.normal((noise_size,)) * noise_std
        colours = xp.permute_dims(xp.astype(image[..., :3], xp.float32), (0, 3, 1, 2))
        places = xp.arange(product(colours.shape), device=getattr(image, "device", None)) % noise_size
        noise = xp.take(xp.astype(xp.from_numpy(op.state["noise"], like=image), xp.float32), places, axis=0)
        return colours - xp.reshape(mean, (1, 3, 1, 1)) + xp.reshape(noise, colours.shape)


class BRGNCHWCToPackedInt8BGRAStylizerDeprocess(Operator):
    """The converse of the stylizer's preprocessing: floats plus a mean as bytes, alpha added."""

    inputs = [In("X", "(1, 3, H, W), float"), In("mean", "(3,)")]
    outputs = [Out("image", "(1, H, W, 4), uint8")]
    example = Example(
        {"X": [[[[1.0]], [[2.0]], [[3.0]]]], "mean": [10.0, 20.0, 30.0]},
        {"image": Tensor([[[[11, 22, 33, 255]]]], "uint8")})

    def shape(X: TensorType, mean: TensorType) -> TensorType:
        return TensorType("uint8", None if X.dims is None else (X.dims[0], *X.dims[2:], 4))

    def kernel(xp: Any, X: Any, mean: Any) -> Any:
        x = _image(xp, X, "NCHW")
        require_shape("the mean", mean, (3,), ", one number per channel")
        bytes_ = xp.astype(xp.clip(x + xp.reshape(mean, (1, 3, 1, 1)), 0.0, 255.0), xp.uint8)
        alpha = xp.full((x.shape[0], 1, *x.shape[2:]), 255, dtype=xp.uint8, device=getattr(x, "device", None))
        return xp.permute_dims(xp.concat([bytes_, alpha], axis=1), (0, 2, 3, 1))
