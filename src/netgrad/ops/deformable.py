"""Convolution by bent windows: each element is read at its place plus an offset, between the pixels."""

from __future__ import annotations

from typing import Any, NamedTuple

from netgrad.graph.arguments import Int
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example
from netgrad.graph.shapes import TensorType
from netgrad.ops._arrays import array, product, require_shape, zeros
from netgrad.ops._windows import Placed
from netgrad.ops.convolution import CONVOLUTION, _Convolution, convolution_gradient, place


class _Corners(NamedTuple):
    """The pixels that samples lie between, flat, one array of each kind per corner; samples are (N, groups, samples).

    ``shares`` are what the corners contribute, ``down`` and ``across`` how that changes as the sample moves.
    """

    places: list[Any]
    shares: list[Any]
    down: list[Any]
    across: list[Any]


def _corners(xp: Any, offset: Any, at: Placed, groups: int) -> _Corners:
    (height, width), batch = at.sizes, offset.shape[0]
    require_shape("the offsets", offset, (batch, 2 * at.elements * groups, *at.out), ": two for each element of the "
                  "window, deformable group and position")
    moves = xp.reshape(offset, (batch, groups, at.elements, 2, product(at.out)))

    def along(axis: int, size: int) -> tuple[Any, Any, Any, Any, Any]:
        """Where samples lie along one axis: whether on the image, the pixel before, the one behind, the way there."""
        other = 1 - axis
        base = []
        for element in range(at.elements):
            step = (element // at.kernel[1], element % at.kernel[1])[axis] * at.dilation[axis] - at.heads[axis]
            starts = [p * at.stride[axis] + step for p in range(at.out[axis])]
            base.append([s for s in starts for _ in range(at.out[other])] if axis == 0 else starts * at.out[other])
        where = moves[:, :, :, axis, :] + array(xp, base, offset)
        inside = (where >= 0) & (where < size)
        where = xp.where(inside, where, xp.zeros_like(where))
        low = xp.floor(where)
        last = low >= size - 1
        before = xp.astype(low, xp.int64)
        behind = xp.where(last, before, before + 1)
        return inside, before, behind, xp.where(last, xp.zeros_like(where), where - low), xp.astype(~last, offset.dtype)

    inside_y, top, bottom, y, slope_y = along(0, height)
    inside_x, left, right, x, slope_x = along(1, width)
    inside = xp.astype(inside_y & inside_x, offset.dtype)
    samples = (batch, groups, at.elements * product(at.out))

    def flat(a: Any) -> Any:
        return xp.reshape(a, samples)

    found = _Corners([], [], [], [])
    for row, share_y, sign_y in ((top, 1 - y, -slope_y), (bottom, y, slope_y)):
        for column, share_x, sign_x in ((left, 1 - x, -slope_x), (right, x, slope_x)):
            found.places.append(flat(row * width + column))
            found.shares.append(flat(share_y * share_x * inside))
            found.down.append(flat(sign_y * share_x * inside))
            found.across.append(flat(share_y * sign_x * inside))
    return found


def _read(xp: Any, pixels: Any, places: Any) -> Any:
    """(N, groups, C / groups, H W) at (N, groups, samples): (N, groups, C / groups, samples)."""
    return xp.take_along_axis(pixels, xp.broadcast_to(places[:, :, None, :], (*pixels.shape[:3], places.shape[2])), 3)


def _grouped(xp: Any, X: Any, groups: int) -> Any:
    if groups < 1 or X.shape[1] % groups:
        raise ValueError(f"{X.shape[1]} channels cannot be split into {groups} deformable groups")
    return xp.reshape(X, (X.shape[0], groups, X.shape[1] // groups, product(X.shape[2:])))


def _columns(xp: Any, pixels: Any, corners: _Corners, group: int, at: Placed) -> Any:
    """All windows: (N, group, C / group x elements, positions)."""
    read = sum(_read(xp, pixels, corner) * share[:, :, None, :]
               for corner, share in zip(corners.places, corners.shares))
    depth = pixels.shape[1] * pixels.shape[2] // group * at.elements
    return xp.reshape(read, (pixels.shape[0], group, depth, product(at.out)))


class DeformConv(Operator):
    """Conv whose windows are bent: each element is read at its place plus a learnt offset, between pixels if need be.

    Source: Dai et al. 2017, https://arxiv.org/abs/1703.06211.
    """

    inputs = [In("X", "(N, C, H, W), float"),
              In("offset", "(N, 2 kernel elements x deformable groups, out H, out W): down and across in turn"),
              In("filter", "(M, C / group, kernel)"), In("bias", "(M,)", optional=True)]
    outputs = [Out("Y", "(N, M, out H, out W)")]
    arguments = [*CONVOLUTION, Int("deformable_group", 1, "channels are split in so many groups with own offsets")]
    gradient = convolution_gradient("DeformConvGradient", operands=3)
    example = Example(
        {"X": [[[[1.0, 2.0], [3.0, 4.0]]]],
         "offset": [[[[0.5]], [[0.25]], [[0.5]], [[0.25]], [[0.5]], [[0.25]], [[0.5]], [[0.25]]]],
         "filter": [[[[1.0, 0.0], [0.0, -1.0]]]], "bias": [0.5]},
        {"Y": [[[[-1.25]]]]},
        {"kernel": 2})

    def shape(X: TensorType, offset: TensorType, filter: TensorType, *bias: TensorType, **arguments: Any) -> TensorType:
        return _Convolution.shape(X, filter, **arguments)

    def kernel(xp: Any, X: Any, offset: Any, filter: Any, bias: Any, *, order: str, group: int, deformable_group: int,
               op: Any) -> Any:
        at = _place(xp, X, filter, order, group, op)
        require_shape("the offsets", offset, (X.shape[0], *offset.shape[1:]), ", one set for each image")
        corners = _corners(xp, offset, at, deformable_group)
        columns = _columns(xp, _grouped(xp, X, deformable_group), corners, group, at)
        filters = filter.shape[0]
        Y = xp.matmul(xp.reshape(filter, (1, group, filters // group, columns.shape[2])), columns)
        Y = xp.reshape(Y, (X.shape[0], filters, *at.out))
        if bias is not None:
            require_shape("the bias", bias, (filters,), ", one number per filter")
            Y = Y + xp.reshape(bias, (1, filters, 1, 1))
        return Y


def _place(xp: Any, X: Any, filter: Any, order: str, group: int, op: Any) -> Placed:
    if order != "NCHW" or X.ndim != 4:
        raise ValueError(f"X has {X.ndim} dimensions and the order {order}; expected (N, C, H, W) and NCHW")
    at: Placed = place(xp, X, filter, order, group, op)[2]
    return at


class DeformConvGradient(Operator):
    """Gradients of DeformConv: offset, filter, bias (unless no_bias), and X where it has an output."""

    inputs = [In("X", "the images"), In("offset", "the offsets"), In("filter", "the filter"), In("dY", "like Y, float")]
    outputs = [Out("doffset", "like offset"), Out("dfilter", "like filter"),
               Out("dbias or dX", "dX with no_bias", optional=True), Out("dX", "like X", optional=True)]
    arguments = [*CONVOLUTION, Int("deformable_group", 1)]
    internal = True
    example = Example(
        {"X": [[[[1.0, 2.0], [3.0, 4.0]]]],
         "offset": [[[[0.5]], [[0.25]], [[0.5]], [[0.25]], [[0.5]], [[0.25]], [[0.5]], [[0.25]]]],
         "filter": [[[[1.0, 0.0], [0.0, -1.0]]]], "dY": [[[[1.0]]]]},
        {"doffset": [[[[2.0]], [[1.0]], [[0.0]], [[0.0]], [[0.0]], [[0.0]], [[0.0]], [[0.0]]]],
         "dfilter": [[[[2.25, 3.0], [3.25, 4.0]]]], "dbias_or_dX": [1.0],
         "dX": [[[[0.375, 0.125], [0.375, -0.875]]]]},
        {"kernel": 2})

    def shape(X: TensorType, offset: TensorType, filter: TensorType, dY: TensorType, *, no_bias: bool = False,
              **_: Any) -> Any:
        bias = filter.with_dims(None if filter.dims is None else filter.dims[:1])
        return (offset, filter, X) if no_bias else (offset, filter, bias, X)

    def kernel(xp: Any, X: Any, offset: Any, filter: Any, dY: Any, *, order: str, group: int, deformable_group: int,
               no_bias: bool, op: Any) -> Any:
        at = _place(xp, X, filter, order, group, op)
        require_shape("the offsets", offset, (X.shape[0], *offset.shape[1:]), ", one set for each image")
        batch, filters, positions = X.shape[0], filter.shape[0], product(at.out)
        require_shape("the output's gradient", dY, (batch, filters, *at.out), ", the output's")
        corners, pixels = _corners(xp, offset, at, deformable_group), _grouped(xp, X, deformable_group)
        grouped = xp.reshape(dY, (batch, group, filters // group, positions))
        columns = _columns(xp, pixels, corners, group, at)
        dfilter = xp.reshape(xp.sum(xp.matmul(grouped, xp.permute_dims(columns, (0, 1, 3, 2))), axis=0), filter.shape)
        weights = xp.reshape(filter, (1, group, filters // group, columns.shape[2]))
        dcolumns = xp.matmul(xp.permute_dims(weights, (0, 1, 3, 2)), grouped)
        dcolumns = xp.reshape(dcolumns, (*pixels.shape[:3], at.elements * positions))
        moved = []
        for slopes in (corners.down, corners.across):
            change = sum(_read(xp, pixels, corner) * slope[:, :, None, :]
                         for corner, slope in zip(corners.places, slopes))
            change = xp.sum(dcolumns * change, axis=2)
            moved.append(xp.reshape(change, (batch, deformable_group, at.elements, positions)))
        doffset = xp.reshape(xp.stack(moved, axis=3), offset.shape)
        results = [doffset, dfilter]
        if not no_bias:
            results.append(xp.sum(dY, axis=(0, 2, 3)))
        if op.wants(len(results)):
            results.append(_given_back(xp, X, dcolumns, corners))
        return tuple(results)


def _given_back(xp: Any, X: Any, dcolumns: Any, corners: _Corners) -> Any:
    """dX: every sample gives the pixels it lay between their shares."""
    size = product(X.shape[2:])
    images = X.shape[0] * X.shape[1]
    starts = xp.reshape(array(xp, [k * size for k in range(images)], X, xp.int64), (*dcolumns.shape[:3], 1))
    dX = zeros(xp, (images * size,), X)
    for corner, share in zip(corners.places, corners.shares):
        dX = xp.scatter_add(dX, xp.reshape(corner[:, :, None, :] + starts, (-1,)),
                            xp.reshape(dcolumns * share[:, :, None, :], (-1,)))
    return xp.reshape(dX, X.shape)
