"""Pooling by regions of interest: each is cut into pooled_h x pooled_w bins, and each bin becomes one number."""

from __future__ import annotations

import math
from typing import Any

from netgrad.graph.arguments import Bool, Float, Int, Str
from netgrad.graph.declaration import In, Operator, Out, counts
from netgrad.graph.example import Example
from netgrad.graph.rules import Rule, emits
from netgrad.graph.shapes import ShapeError, TensorType, same_as
from netgrad.ops._arrays import (
    array,
    channels_back,
    channels_first,
    countable,
    full,
    require_shape,
    single,
    zeros,
)
from netgrad.ops._windows import join_dims, split_dims

ORDER = Str("order", "NCHW", "NCHW or NHWC: where the channels are")
ROIS = "(R, 5): image, left, top, right, bottom; or (R, 4) for one image"
SCALE = Float("spatial_scale", 1.0, "from the regions' coordinates to those of X")
POOLED = (SCALE, Int("pooled_h", 1), Int("pooled_w", 1))
ALIGNED = (*POOLED, Int("sampling_ratio", -1, "samples per bin along each axis; by the region's size if not positive"),
           Bool("aligned", False, "pixels are centred at half numbers"))


def _regions(xp: Any, RoIs: Any, X: Any, columns: int) -> list[tuple[int, list[float]]]:
    """Image and coordinates of each region; raises for a wrong shape or an image that is not there."""
    if RoIs.ndim != 2 or RoIs.shape[1] not in (columns, columns + 1):
        raise ShapeError(f"the regions have shape {tuple(RoIs.shape)}, expected (R, {columns + 1}), or (R, {columns}) "
                         "for regions of one image")
    found = []
    for row in xp.to_numpy(RoIs).tolist():
        image, where = (0, row) if len(row) == columns else (int(row[0]), row[1:])
        if not 0 <= image < X.shape[0]:
            raise ValueError(f"a region is of image {image}: expected 0 to {X.shape[0] - 1}")
        if not all(map(math.isfinite, where)):
            raise ValueError(f"a region has the coordinates {where}: they must be finite")
        found.append((image, where))
    return found


def _images(xp: Any, X: Any, order: str, pooled_h: int, pooled_w: int) -> Any:
    if X.ndim != 4:
        raise ShapeError(f"X has shape {tuple(X.shape)}, expected four dimensions")
    if pooled_h < 1 or pooled_w < 1:
        raise ValueError(f"regions cannot be pooled to {pooled_h} x {pooled_w}: give pooled_h and pooled_w, at least 1")
    return channels_first(xp, X, order)


def _rounded(value: float) -> int:
    """To the nearest integer, halves away from zero."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


# ---- RoIAlign: the mean of samples read between the pixels


def _between(place: float, size: int) -> list[tuple[int, float]] | None:
    """The pixels that a sample at ``place`` mixes and their shares; None outside of the image."""
    if place < -1 or place > size:
        return None
    place = max(place, 0.0)
    low = int(place)
    if low >= size - 1:
        return [(size - 1, 1.0)]
    return [(low, 1 - (place - low)), (low + 1, place - low)]


def _axis(start: float, length: float, bins: int, samples: int, size: int) -> tuple[int, list[list[float]]]:
    """How the bins of a region read one axis: the first pixel, and for each bin the shares of those from it on."""
    grid = samples if samples > 0 else math.ceil(single(length / bins))
    countable("the number of samples along an axis", bins * grid)
    shares: list[tuple[int, int, float]] = []
    for b in range(bins):
        for k in range(grid):
            for pixel, share in _between(start + (b + (k + 0.5) / grid) * length / bins, size) or ():
                shares.append((b, pixel, share / grid))
    first = min((pixel for _, pixel, _ in shares), default=0)
    last = max((pixel for _, pixel, _ in shares), default=0)
    table = [[0.0] * (last - first + 1) for _ in range(bins)]
    for b, pixel, share in shares:
        table[b][pixel - first] += share
    return first, table


class _Windows:
    """RoIAlign as products of matrices: Y = V X[window] H^T, as samples lie on grids, for one region after another."""

    def __init__(self, xp: Any, X: Any, RoIs: Any, *, spatial_scale: float, pooled_h: int, pooled_w: int,
                 sampling_ratio: int, aligned: bool) -> None:
        self.xp, self.X, self.sampling, self.bins = xp, X, sampling_ratio, (pooled_h, pooled_w)
        self.scale, self.aligned = spatial_scale, aligned
        self.regions = _regions(xp, RoIs, X, 4)

    def __iter__(self) -> Any:
        """For each region: its window as an index of X, V and H."""
        offset = 0.5 if self.aligned else 0.0
        for image, (left, top, right, bottom) in self.regions:
            rows = self._matrix(single(top * self.scale) - offset, single(bottom * self.scale) - offset, 0)
            columns = self._matrix(single(left * self.scale) - offset, single(right * self.scale) - offset, 1)
            yield (image, slice(None), rows[0], columns[0]), rows[1], columns[1]

    def _matrix(self, start: float, end: float, axis: int) -> tuple[slice, Any]:
        length = single(end - start)
        if not self.aligned:
            length = max(length, 1.0)
        elif length < 0:
            raise ValueError("a region ends before it begins: expected left <= right and top <= bottom")
        first, table = _axis(start, length, self.bins[axis], self.sampling, self.X.shape[2 + axis])
        return slice(first, first + len(table[0])), array(self.xp, table, self.X)


class _Align(Operator, abstract=True):
    outputs = [Out("Y", "(R, C, pooled_h, pooled_w) or, with order NHWC, (R, pooled_h, pooled_w, C)")]
    arguments = [*ALIGNED, ORDER]

    def shape(X: TensorType, RoIs: TensorType, *, pooled_h: int = 1, pooled_w: int = 1, order: str = "NCHW",
              **_: Any) -> TensorType:
        if X.rank is None or RoIs.dims is None:
            return X.with_dims(None)
        _batch, channels, _sizes = split_dims(X, order)
        return X.with_dims(join_dims(RoIs.dims[0], channels, (pooled_h, pooled_w), order))


class _AlignGradient(Operator, abstract=True):
    inputs = [In("X", "the images", shape_only=True), In("RoIs", "the regions", differentiable=False),
              In("dY", "like Y, float")]
    outputs = [Out("dX", "like X")]
    arguments = [*ALIGNED, ORDER]
    internal = True
    shape = same_as(0)


def _given_gradient(xp: Any, dY: Any, X: Any, regions: int, order: str, pooled_h: int, pooled_w: int) -> Any:
    dY = channels_first(xp, dY, order)
    require_shape("the output's gradient", dY, (regions, X.shape[1], pooled_h, pooled_w), ", the output's")
    return dY


class RoIAlign(_Align):
    """Y = the mean, in each of pooled_h x pooled_w bins of every region, of samples read between the pixels.

    Source: He et al. 2017, https://arxiv.org/abs/1703.06870.
    """

    inputs = [In("X", "(N, C, H, W) or, with order NHWC, (N, H, W, C); float"), In("RoIs", ROIS, differentiable=False)]
    gradient = emits("RoIAlignGradient", "I0 I1 GO0", "GI0")
    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]], "RoIs": [[0.0, 0.0, 0.0, 1.0, 1.0]]},
        {"Y": [[[[3.0]]]]},
        {"pooled_h": 1, "pooled_w": 1, "sampling_ratio": 1},
        wrt=("X",))

    def kernel(xp: Any, X: Any, RoIs: Any, *, order: str, pooled_h: int, pooled_w: int, **how: Any) -> Any:
        X = _images(xp, X, order, pooled_h, pooled_w)
        windows = _Windows(xp, X, RoIs, pooled_h=pooled_h, pooled_w=pooled_w, **how)
        pooled = [xp.matmul(xp.matmul(V, X[window]), xp.permute_dims(H, (1, 0))) for window, V, H in windows]
        Y = xp.stack(pooled) if pooled else zeros(xp, (0, X.shape[1], pooled_h, pooled_w), X)
        return channels_back(xp, Y, order)


class RoIAlignGradient(_AlignGradient):
    """dX of RoIAlign: every sample gives the pixels it mixed their shares."""

    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]], "RoIs": [[0.0, 0.0, 0.0, 1.0, 1.0]],
         "dY": [[[[1.0]]]]},
        {"dX": [[[[0.25, 0.25, 0.0], [0.25, 0.25, 0.0], [0.0, 0.0, 0.0]]]]},
        {"pooled_h": 1, "pooled_w": 1, "sampling_ratio": 1})

    def kernel(xp: Any, X: Any, RoIs: Any, dY: Any, *, order: str, pooled_h: int, pooled_w: int, **how: Any) -> Any:
        X = _images(xp, X, order, pooled_h, pooled_w)
        windows = _Windows(xp, X, RoIs, pooled_h=pooled_h, pooled_w=pooled_w, **how)
        dY = _given_gradient(xp, dY, X, len(windows.regions), order, pooled_h, pooled_w)
        dX = zeros(xp, X.shape, X)
        for r, (window, V, H) in enumerate(windows):
            dX[window] += xp.matmul(xp.matmul(xp.permute_dims(V, (1, 0)), dY[r, ...]), H)
        return channels_back(xp, dX, order)


def _turned_samples(xp: Any, X: Any, RoIs: Any, *, spatial_scale: float, pooled_h: int, pooled_w: int,
                    sampling_ratio: int, aligned: bool) -> list[tuple[int, list[tuple[int, int, float]]]]:
    """For each region, its image and the pixels that its bins read: (bin, pixel, share)."""
    height, width = X.shape[2:]
    offset = 0.5 if aligned else 0.0
    found = []
    for image, (x, y, w, h, degrees) in _regions(xp, RoIs, X, 5):
        w, h = single(w * spatial_scale), single(h * spatial_scale)
        if not aligned:
            w, h = max(w, 1.0), max(h, 1.0)
        elif w < 0 or h < 0:
            raise ValueError(f"a region has the width {w} and height {h}: they must not be negative")
        cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
        down = sampling_ratio if sampling_ratio > 0 else math.ceil(single(h / pooled_h))
        across = sampling_ratio if sampling_ratio > 0 else math.ceil(single(w / pooled_w))
        countable("the number of samples of a region", pooled_h * down * pooled_w * across)
        shares: list[tuple[int, int, float]] = []
        for i in range(pooled_h * down):
            along = (i + 0.5) / down * h / pooled_h - h / 2
            for j in range(pooled_w * across):
                aside = (j + 0.5) / across * w / pooled_w - w / 2
                rows = _between(along * cos - aside * sin + y * spatial_scale - offset, height)
                columns = _between(aside * cos + along * sin + x * spatial_scale - offset, width)
                where = i // down * pooled_w + j // across
                shares += [(where, row * width + column, a * b / (down * across))
                           for row, a in rows or () for column, b in columns or ()]
        found.append((image, shares))
    return found


class RoIAlignRotated(_Align):
    """RoIAlign of regions that are turned by an angle."""

    inputs = [In("X", "(N, C, H, W) or, with order NHWC, (N, H, W, C); float"),
              In("RoIs", "(R, 6): image, centre x, centre y, width, height, degrees; or (R, 5) for one image",
                 differentiable=False)]
    gradient = emits("RoIAlignRotatedGradient", "I0 I1 GO0", "GI0")
    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]], "RoIs": [[0.0, 1.0, 1.0, 2.0, 1.0, 30.0]]},
        {"Y": [[[[5.0]]]]},
        {"sampling_ratio": 1, "pooled_h": 1, "pooled_w": 1},
        wrt=("X",))

    def kernel(xp: Any, X: Any, RoIs: Any, *, order: str, pooled_h: int, pooled_w: int, **how: Any) -> Any:
        X = _images(xp, X, order, pooled_h, pooled_w)
        pixels = xp.reshape(xp.permute_dims(X, (0, 2, 3, 1)), (X.shape[0], -1, X.shape[1]))
        samples = _turned_samples(xp, X, RoIs, pooled_h=pooled_h, pooled_w=pooled_w, **how)
        pooled = []
        for image, shares in samples:
            bins, sources, weights = _columns(xp, shares, X)
            read = xp.take(pixels[image, ...], sources, axis=0) * weights
            pooled.append(xp.scatter_add(zeros(xp, (pooled_h * pooled_w, X.shape[1]), X), bins, read))
        Y = xp.stack(pooled) if pooled else zeros(xp, (0, pooled_h * pooled_w, X.shape[1]), X)
        Y = xp.permute_dims(xp.reshape(Y, (len(samples), pooled_h, pooled_w, X.shape[1])), (0, 3, 1, 2))
        return channels_back(xp, Y, order)


def _columns(xp: Any, shares: list[tuple[int, int, float]], like: Any) -> tuple[Any, Any, Any]:
    """Bins and pixels as indices, and shares as a column."""
    bins, sources, weights = zip(*shares) if shares else ((), (), ())
    return (array(xp, list(bins), like, xp.int64), array(xp, list(sources), like, xp.int64),
            xp.reshape(array(xp, list(weights), like), (-1, 1)))


class RoIAlignRotatedGradient(_AlignGradient):
    """dX of RoIAlignRotated: every sample gives the pixels it mixed their shares."""

    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]], "RoIs": [[0.0, 1.0, 1.0, 2.0, 1.0, 30.0]],
         "dY": [[[[1.0]]]]},
        {"dX": [[[[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]]},
        {"sampling_ratio": 1, "pooled_h": 1, "pooled_w": 1})

    def kernel(xp: Any, X: Any, RoIs: Any, dY: Any, *, order: str, pooled_h: int, pooled_w: int, **how: Any) -> Any:
        X = _images(xp, X, order, pooled_h, pooled_w)
        samples = _turned_samples(xp, X, RoIs, pooled_h=pooled_h, pooled_w=pooled_w, **how)
        dY = _given_gradient(xp, dY, X, len(samples), order, pooled_h, pooled_w)
        given = xp.reshape(xp.permute_dims(dY, (0, 2, 3, 1)), (len(samples), pooled_h * pooled_w, X.shape[1]))
        dX = zeros(xp, (X.shape[0], X.shape[2] * X.shape[3], X.shape[1]), X)
        for r, (image, shares) in enumerate(samples):
            bins, targets, weights = _columns(xp, shares, X)
            dX[image, ...] = xp.scatter_add(dX[image, ...], targets, xp.take(given[r, ...], bins, axis=0) * weights)
        dX = xp.permute_dims(xp.reshape(dX, (X.shape[0], *X.shape[2:], X.shape[1])), (0, 3, 1, 2))
        return channels_back(xp, dX, order)


# ---- RoIPool: the largest pixel of each bin


def _bins(where: list[float], scale: float, pooled_h: int, pooled_w: int, X: Any) -> list[tuple[slice, slice]]:
    """The pixels of each bin of a region whose corners belong to it; bins may be empty."""
    left, top, right, bottom = (_rounded(v * scale) for v in where)

    def along(first: int, last: int, bins: int, size: int) -> list[slice]:
        step = max(last - first + 1, 1) / bins
        return [slice(min(max(math.floor(b * step) + first, 0), size),
                      min(max(math.ceil((b + 1) * step) + first, 0), size)) for b in range(bins)]

    return [(rows, columns) for rows in along(top, bottom, pooled_h, X.shape[2])
            for columns in along(left, right, pooled_w, X.shape[3])]


def _pool(xp: Any, X: Any, rois: Any, spatial_scale: float, pooled_h: int, pooled_w: int) -> tuple[Any, Any]:
    regions = _regions(xp, rois, X, 4)
    Y = zeros(xp, (len(regions), X.shape[1], pooled_h * pooled_w), X)
    places = full(xp, Y.shape, -1, X, xp.int32)
    for r, (image, where) in enumerate(regions):
        for b, (rows, columns) in enumerate(_bins(where, spatial_scale, pooled_h, pooled_w, X)):
            height, width = rows.stop - rows.start, columns.stop - columns.start
            if height <= 0 or width <= 0:
                continue
            found = xp.reshape(X[image, :, rows, columns], (X.shape[1], height * width))
            best = xp.argmax(found, axis=1)
            Y[r, :, b] = xp.take_along_axis(found, best[:, None], axis=1)[:, 0]
            place = (best // width + rows.start) * X.shape[3] + best % width + columns.start
            places[r, :, b] = xp.astype(place, xp.int32)
    shape = (len(regions), X.shape[1], pooled_h, pooled_w)
    return xp.reshape(Y, shape), xp.reshape(places, shape)


def _unpool(xp: Any, X: Any, rois: Any, argmaxes: Any, dY: Any, pooled_h: int, pooled_w: int) -> Any:
    """Adds the gradient of every bin to where its number came from; bins without a place give nothing."""
    regions = _regions(xp, rois, X, 4)
    channels, size = X.shape[1], X.shape[2] * X.shape[3]
    for name, x in (("the output's gradient", dY), ("the places", argmaxes)):
        require_shape(name, x, (len(regions), channels, pooled_h, pooled_w), ", the output's")
    images = array(xp, [image for image, _ in regions], X, xp.int64)
    target = xp.reshape(images, (-1, 1)) * channels + xp.reshape(array(xp, list(range(channels)), X, xp.int64), (1, -1))
    places = xp.astype(argmaxes, xp.int64)
    if len(regions) and (int(xp.min(places)) < -1 or int(xp.max(places)) >= size):
        raise ValueError(f"the places of the maxima reach from {int(xp.min(places))} to {int(xp.max(places))}: "
                         f"expected 0 to {size - 1}, or -1 for an empty bin")
    index = xp.reshape(target, (*target.shape, 1, 1)) * size + xp.where(places < 0, xp.zeros_like(places), places)
    values = xp.where(places < 0, xp.zeros_like(dY), dY)
    dX = xp.scatter_add(zeros(xp, (X.shape[0] * channels * size,), X), xp.reshape(index, (-1,)),
                        xp.reshape(values, (-1,)))
    return xp.reshape(dX, X.shape)


class _Pool(Operator, abstract=True):
    inputs = [In("X", "(N, C, H, W), float"), In("rois", ROIS, differentiable=False)]

    def shape(X: TensorType, rois: TensorType, *, pooled_h: int = 1, pooled_w: int = 1, **_: Any) -> Any:
        if X.dims is None or rois.dims is None:
            return X.with_dims(None), TensorType("int32", None)
        Y = X.with_dims((rois.dims[0], X.dims[1], pooled_h, pooled_w))
        return Y, Y.with_dtype("int32")


class _PoolGradient(Operator, abstract=True):
    inputs = [In("X", "the images", shape_only=True), In("rois", "the regions", differentiable=False),
              In("argmaxes", "like Y, int32", differentiable=False),
              In("dY", "like Y")]
    outputs = [Out("dX", "like X")]
    arguments = [ORDER, *POOLED]
    internal = True
    shape = same_as(0)

    def kernel(xp: Any, X: Any, rois: Any, argmaxes: Any, dY: Any, *, pooled_h: int, pooled_w: int) -> Any:
        return _unpool(xp, X, rois, argmaxes, dY, pooled_h, pooled_w)


class RoIPool(_Pool):
    """Y = the largest element in each of pooled_h x pooled_w bins of every region.

    Source: Girshick 2015, https://arxiv.org/abs/1504.08083.
    """

    outputs = [Out("Y", "(R, C, pooled_h, pooled_w)"),
               Out("argmaxes", "like Y, int32: where each was found, row by row; -1: empty bin. Not in test mode",
                   optional=True, differentiable=False)]
    num_outputs = counts(1, 2)
    arguments = [Int("is_test", 0), ORDER, *POOLED]
    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]], "rois": [[0.0, 0.0, 0.0, 1.0, 1.0]]},
        {"Y": [[[[5.0]]]], "argmaxes": [[[[4]]]]},
        {"pooled_h": 1, "pooled_w": 1},
        wrt=("X",))

    def gradient(op: Rule) -> None:
        if op.num_outputs < 2:
            raise op.fail("it needs its second output, the places of the maxima")
        op.emit("RoIPoolGradient", [op.I(0), op.I(1), op.O(1), op.GO(0)], [op.GI(0)])

    def kernel(xp: Any, X: Any, rois: Any, *, order: str, pooled_h: int, pooled_w: int, spatial_scale: float) -> Any:
        if order != "NCHW":
            raise ValueError(f"the order is {order!r}; only NCHW is supported")
        return _pool(xp, _images(xp, X, order, pooled_h, pooled_w), rois, spatial_scale, pooled_h, pooled_w)


class RoIPoolGradient(_PoolGradient):
    """dX of RoIPool: the gradient of every bin goes to its largest element."""

    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]], "rois": [[0.0, 0.0, 0.0, 1.0, 1.0]],
         "argmaxes": [[[[4]]]], "dY": [[[[1.0]]]]},
        {"dX": [[[[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]]},
        {"pooled_h": 1, "pooled_w": 1})


class RoIPoolF(_Pool):
    """RoIPool that always says where the maxima were."""

    outputs = [Out("Y", "(R, C, pooled_h, pooled_w)"),
               Out("argmaxes", "like Y, int32: where each was found", differentiable=False)]
    arguments = [*POOLED]
    gradient = emits("RoIPoolFGradient", "I0 I1 O1 GO0", "GI0")
    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]], "rois": [[0.0, 0.0, 0.0, 1.0, 1.0]]},
        {"Y": [[[[5.0]]]], "argmaxes": [[[[4]]]]},
        {"pooled_h": 1, "pooled_w": 1},
        wrt=("X",))

    def kernel(xp: Any, X: Any, rois: Any, *, pooled_h: int, pooled_w: int, spatial_scale: float) -> Any:
        return _pool(xp, _images(xp, X, "NCHW", pooled_h, pooled_w), rois, spatial_scale, pooled_h, pooled_w)


class RoIPoolFGradient(_PoolGradient):
    """dX of RoIPoolF: the gradient of every bin goes to its largest element."""

    arguments = [*POOLED]
    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]], "rois": [[0.0, 0.0, 0.0, 1.0, 1.0]],
         "argmaxes": [[[[4]]]], "dY": [[[[1.0]]]]},
        {"dX": [[[[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]]},
        {"pooled_h": 1, "pooled_w": 1})


# ---- PSRoIPool: the mean of each bin, read from channels of its own


def _position_sensitive(xp: Any, X: Any, RoIs: Any, scale: float, size: int, channels: int) -> Any:
    """For each region and bin: (region, row of the bin, its column), an index of what it averages, the count of it."""
    if X.ndim != 4 or X.shape[1] != channels * size * size:
        raise ShapeError(f"X has shape {tuple(X.shape)}, expected (N, {channels * size * size}, H, W): output_dim "
                         f"{channels} times group_size {size} squared channels")

    def along(first: float, last: float, b: int, limit: int) -> slice:
        start = _rounded(first) * scale
        step = max((_rounded(last) + 1) * scale - start, 0.1) / size
        return slice(min(max(math.floor(b * step + start), 0), limit),
                     min(max(math.ceil((b + 1) * step + start), 0), limit))

    for r, (image, (left, top, right, bottom)) in enumerate(_regions(xp, RoIs, X, 4)):
        for i in range(size):
            rows = along(top, bottom, i, X.shape[2])
            for j in range(size):
                columns = along(left, right, j, X.shape[3])
                count = max(rows.stop - rows.start, 0) * max(columns.stop - columns.start, 0)
                yield (r, slice(None), i, j), (image, slice(i * size + j, None, size * size), rows, columns), count


class PSRoIPool(Operator):
    """Position-sensitive pooling: each bin of a region is averaged from a channel group of its own.

    Source: Dai et al. 2016, https://arxiv.org/abs/1605.06409.
    """

    inputs = [In("X", "(N, output_dim group_size^2, H, W), float"), In("RoIs", ROIS, differentiable=False)]
    outputs = [Out("Y", "(R, output_dim, group_size, group_size)"),
               Out("argmaxes", "like Y, int32: the channel of each bin", differentiable=False)]
    arguments = [SCALE, Int("group_size", 1), Int("output_dim", 1)]
    gradient = emits("PSRoIPoolGradient", "I0 I1 O1 GO0", "GI0")
    example = Example(
        {"X": [[[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]], [[7.0, 8.0]]]], "RoIs": [[0.0, 0.0, 0.0, 1.0, 0.0]]},
        {"Y": [[[[1.0, 4.0], [5.0, 8.0]]]], "argmaxes": [[[[0, 1], [2, 3]]]]},
        {"group_size": 2, "output_dim": 1},
        wrt=("X",))

    def shape(X: TensorType, RoIs: TensorType, *, group_size: int = 1, output_dim: int = 1, **_: Any) -> Any:
        regions = None if RoIs.dims is None else RoIs.dims[0]
        Y = X.with_dims((regions, output_dim, group_size, group_size))
        return Y, Y.with_dtype("int32")

    def kernel(xp: Any, X: Any, RoIs: Any, *, spatial_scale: float, group_size: int, output_dim: int) -> Any:
        shape = (RoIs.shape[0], output_dim, group_size, group_size)
        Y = zeros(xp, shape, X)
        for bin_, source, count in _position_sensitive(xp, X, RoIs, spatial_scale, group_size, output_dim):
            if count:
                Y[bin_] = xp.sum(X[source], axis=(1, 2)) / count
        channels = xp.reshape(array(xp, list(range(X.shape[1])), X, xp.int32), (1, *shape[1:]))
        return Y, xp.broadcast_to(channels, shape) + array(xp, 0, X, xp.int32)


class PSRoIPoolGradient(Operator):
    """dX of PSRoIPool: every element of a bin receives an equal share of its gradient."""

    inputs = [In("X", "the images", shape_only=True), In("RoIs", "the regions", differentiable=False),
              In("argmaxes", "like Y, int32", differentiable=False),
              In("dY", "like Y, float")]
    outputs = [Out("dX", "like X")]
    arguments = [SCALE, Int("group_size", 1), Int("output_dim", 1)]
    internal = True
    shape = same_as(0)
    example = Example(
        {"X": [[[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]], [[7.0, 8.0]]]], "RoIs": [[0.0, 0.0, 0.0, 1.0, 0.0]],
         "argmaxes": [[[[0, 1], [2, 3]]]], "dY": [[[[1.0, 0.5], [2.0, -1.0]]]]},
        {"dX": [[[[1.0, 0.0]], [[0.0, 0.5]], [[2.0, 0.0]], [[0.0, -1.0]]]]},
        {"group_size": 2, "output_dim": 1})

    def kernel(xp: Any, X: Any, RoIs: Any, argmaxes: Any, dY: Any, *, spatial_scale: float, group_size: int,
               output_dim: int) -> Any:
        shape = (RoIs.shape[0], output_dim, group_size, group_size)
        require_shape("the output's gradient", dY, shape, ", the output's")
        dX = zeros(xp, X.shape, X)
        for bin_, target, count in _position_sensitive(xp, X, RoIs, spatial_scale, group_size, output_dim):
            if count:
                dX[target] += xp.reshape(dY[bin_], (-1, 1, 1)) / count
        return dX
