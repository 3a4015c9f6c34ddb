"""Pooling: maximum, average and p-norm over sliding windows."""

from __future__ import annotations

import itertools
from typing import Any

from netgrad.graph.arguments import Bool, Float
from netgrad.graph.declaration import In, Operator, Out, between
from netgrad.graph.example import Example
from netgrad.graph.rules import emits
from netgrad.graph.shapes import UNKNOWN, TensorType, same_as
from netgrad.ops._arrays import array, channels_back, channels_first, product, require_shape, zeros
from netgrad.ops._windows import WINDOW, Placed, Window, join_dims, split_dims, window_of

POOL = (*WINDOW, Float("p", 2.0, "the norm of LpPool"))
IMAGE = "(N, C, sizes) or, with order NHWC, (N, sizes, C); float; one to three sizes"


def place(xp: Any, X: Any, order: str, op: Any) -> tuple[Any, Placed]:
    first = channels_first(xp, X, order)
    if first.ndim < 3:
        raise ValueError(f"the input has shape {tuple(X.shape)}, expected {IMAGE}")
    window = window_of(op, first.ndim - 2)
    if max(window.dilation) > 1:
        raise ValueError(f"pooling has no dilation, but the arguments ask for {window.dilation}")
    if any(pad >= k for pad, k in zip(window.pads, window.kernel * 2, strict=True)) and any(window.pads):
        raise ValueError(f"padding {window.pads} must be smaller than the window {window.kernel}")
    return first, window.on(first.shape[2:])


def check_gradient(X: Any, dY: Any, at: Placed, order: str) -> None:
    batch, channels, _ = split_dims(TensorType(None, tuple(X.shape)), order)
    require_shape("the output's gradient", dY, join_dims(batch, channels, at.out, order), ", the output's")


def _counts(xp: Any, at: Placed, like: Any, include_pad: bool) -> Any:
    """How many elements each window averages: (out), or a number where all are alike."""
    if include_pad or not any(at.heads + at.tails):
        return float(at.elements)
    per_axis = [[min(p * s - h + k, size) - max(p * s - h, 0) for p in range(n)]
                for k, s, h, size, n in zip(at.kernel, at.stride, at.heads, at.sizes, at.out, strict=True)]
    counts = array(xp, [1.0 * product(c) for c in itertools.product(*per_axis)], like)
    return xp.reshape(counts, at.out)


class _Pool(Operator, abstract=True):
    inputs = [In("X", IMAGE)]
    outputs = [Out("Y", "like X with fewer positions")]
    arguments = [*POOL]

    def shape(X: TensorType, order: str = "NCHW", **arguments: Any) -> TensorType:
        if X.rank is None:
            return X
        batch, channels, sizes = split_dims(X, order)
        window = Window.declared(arguments, len(sizes))
        return X.with_dims(join_dims(batch, channels, window.out_dims(sizes), order))


class _PoolGradient(Operator, abstract=True):
    inputs = [In("X", IMAGE), In("Y", "the output"), In("dY", "like Y")]
    outputs = [Out("dX", "like X")]
    arguments = [*POOL]
    internal = True
    shape = same_as(0)


class _MaxPool(_Pool, abstract=True):
    def kernel(xp: Any, X: Any, *, order: str, op: Any) -> Any:
        first, at = place(xp, X, order, op)
        if at.whole:
            return channels_back(xp, xp.max(first, axis=tuple(range(2, first.ndim)), keepdims=True), order)
        P = at.padded(xp, first, float("-inf"))
        views = [P[where] for where in at.slices()]
        Y = views[0] + 0
        for view in views[1:]:
            Y = xp.maximum(Y, view)
        return channels_back(xp, Y, order)


class _MaxPoolGradient(_PoolGradient, abstract=True):
    def kernel(xp: Any, X: Any, Y: Any, dY: Any, *, order: str, op: Any) -> Any:
        first, at = place(xp, X, order, op)
        check_gradient(X, Y, at, order)
        check_gradient(X, dY, at, order)
        Y, dY = channels_first(xp, Y, order), channels_first(xp, dY, order)
        P = at.padded(xp, first, float("-inf"))
        dP = xp.zeros_like(P)
        for where in at.slices():  # every element that equals the maximum receives the gradient, as in Caffe2
            dP[where] += xp.where(P[where] == Y, dY, xp.zeros_like(dY))
        return channels_back(xp, at.cropped(xp, dP), order)


class _AveragePool(_Pool, abstract=True):
    arguments = [*POOL, Bool("count_include_pad", False, "padding counts as elements of the window")]

    def kernel(xp: Any, X: Any, *, order: str, count_include_pad: bool, op: Any) -> Any:
        first, at = place(xp, X, order, op)
        if at.whole:
            return channels_back(xp, xp.mean(first, axis=tuple(range(2, first.ndim)), keepdims=True), order)
        P = at.padded(xp, first)
        total = 0
        for where in at.slices():
            total = total + P[where]
        return channels_back(xp, total / _counts(xp, at, first, count_include_pad), order)


class _AveragePoolGradient(_PoolGradient, abstract=True):
    inputs = [In("X", IMAGE, shape_only=True), In("Y", "the output", shape_only=True), In("dY", "like Y")]
    arguments = [*POOL, Bool("count_include_pad", False)]

    def kernel(xp: Any, X: Any, Y: Any, dY: Any, *, order: str, count_include_pad: bool, op: Any) -> Any:
        first, at = place(xp, X, order, op)
        check_gradient(X, dY, at, order)
        share = channels_first(xp, dY, order) / _counts(xp, at, dY, count_include_pad)
        dP = xp.zeros_like(at.padded(xp, first))
        for where in at.slices():
            dP[where] += share
        return channels_back(xp, at.cropped(xp, dP), order)


class MaxPool(_MaxPool):
    """Y = the largest element of every window; padding never wins."""

    gradient = emits("MaxPoolGradient", "I0 O0 GO0", "GI0")
    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]]},
        {"Y": [[[[5.0, 6.0], [8.0, 9.0]]]]},
        {"kernel": 2})


class MaxPool1D(_MaxPool):
    """MaxPool over one spatial axis."""

    gradient = emits("MaxPool1DGradient", "I0 O0 GO0", "GI0")
    example = Example({"X": [[[1.0, 2.0, 4.0]]]}, {"Y": [[[2.0, 4.0]]]}, {"kernel": 2})


class MaxPool2D(_MaxPool):
    """MaxPool over two spatial axes."""

    gradient = emits("MaxPool2DGradient", "I0 O0 GO0", "GI0")
    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]]},
        {"Y": [[[[5.0, 6.0], [8.0, 9.0]]]]},
        {"kernel": 2})


class MaxPool3D(_MaxPool):
    """MaxPool over three spatial axes."""

    gradient = emits("MaxPool3DGradient", "I0 O0 GO0", "GI0")
    example = Example(
        {"X": [[[[[1.0, 2.0], [3.0, 4.0]]]]]},
        {"Y": [[[[[4.0]]]]]},
        {"kernels": [1, 2, 2], "strides": [1, 1, 1]})


class MaxPoolGradient(_MaxPoolGradient):
    """dX: each element that is the largest of its window receives the window's gradient; in a tie all of them do."""

    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]], "Y": [[[[5.0, 6.0], [8.0, 9.0]]]],
         "dY": [[[[1.0, 0.5], [2.0, -1.0]]]]},
        {"dX": [[[[0.0, 0.0, 0.0], [0.0, 1.0, 0.5], [0.0, 2.0, -1.0]]]]},
        {"kernel": 2})


class MaxPool1DGradient(_MaxPoolGradient):
    """MaxPoolGradient over one spatial axis."""

    example = Example(
        {"X": [[[1.0, 2.0, 4.0]]], "Y": [[[2.0, 4.0]]], "dY": [[[1.0, 0.5]]]},
        {"dX": [[[0.0, 1.0, 0.5]]]},
        {"kernel": 2})


class MaxPool2DGradient(_MaxPoolGradient):
    """MaxPoolGradient over two spatial axes."""

    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]], "Y": [[[[5.0, 6.0], [8.0, 9.0]]]],
         "dY": [[[[1.0, 0.5], [2.0, -1.0]]]]},
        {"dX": [[[[0.0, 0.0, 0.0], [0.0, 1.0, 0.5], [0.0, 2.0, -1.0]]]]},
        {"kernel": 2})


class MaxPool3DGradient(_MaxPoolGradient):
    """MaxPoolGradient over three spatial axes."""

    example = Example(
        {"X": [[[[[1.0, 2.0], [3.0, 4.0]]]]], "Y": [[[[[4.0]]]]], "dY": [[[[[1.0]]]]]},
        {"dX": [[[[[0.0, 0.0], [0.0, 1.0]]]]]},
        {"kernels": [1, 2, 2], "strides": [1, 1, 1]})


class MaxPoolWithIndex(_Pool):
    """MaxPool that also says where in its image each maximum was."""

    outputs = [Out("Y", "like X with fewer positions"), Out("Index", "like Y, int32", differentiable=False)]
    gradient = emits("MaxPoolWithIndexGradient", "I0 GO0 O1", "GI0")
    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]]},
        {"Y": [[[[5.0, 6.0], [8.0, 9.0]]]], "Index": [[[[4, 5], [7, 8]]]]},
        {"kernel": 2})

    def shape(X: TensorType, **arguments: Any) -> tuple[TensorType, TensorType]:
        Y = _Pool.shape(X, **arguments)
        return Y, Y.with_dtype("int32")

    def kernel(xp: Any, X: Any, *, order: str, op: Any) -> Any:
        first, at = place(xp, X, order, op)
        numbers = xp.reshape(array(xp, list(range(product(at.sizes))), X, xp.int32), (1, 1, *at.sizes))
        P, N = at.padded(xp, first, float("-inf")), at.padded(xp, numbers, -1)
        start, *others = at.slices()
        Y = P[start] + 0
        Index = xp.broadcast_to(N[start], Y.shape) + 0
        for where in others:
            more = P[where] > Y
            Y, Index = xp.where(more, P[where], Y), xp.where(more, N[where], Index)
        return channels_back(xp, Y, order), channels_back(xp, Index, order)


class MaxPoolWithIndexGradient(Operator):
    """dX: the gradient of every window goes to the element that Index names."""

    inputs = [In("X", IMAGE, shape_only=True), In("dY", "like Y"), In("Index", "like Y, int32", differentiable=False)]
    outputs = [Out("dX", "like X")]
    num_inputs = num_outputs = between(0, None)
    arguments = [*POOL]
    internal = True
    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]], "dY": [[[[1.0, 0.5], [2.0, -1.0]]]],
         "Index": [[[[4, 5], [7, 8]]]]},
        {"dX": [[[[0.0, 0.0, 0.0], [0.0, 1.0, 0.5], [0.0, 2.0, -1.0]]]]},
        {"kernel": 2})

    def shape(*inputs: TensorType, **_: Any) -> TensorType:
        return inputs[0] if inputs else UNKNOWN

    def kernel(xp: Any, X: Any, dY: Any, Index: Any, *, order: str, op: Any) -> Any:
        first, at = place(xp, X, order, op)
        check_gradient(X, dY, at, order)
        check_gradient(X, Index, at, order)
        dY, Index = channels_first(xp, dY, order), channels_first(xp, Index, order)
        images, size = first.shape[0] * first.shape[1], product(at.sizes)
        offsets = xp.reshape(array(xp, [k * size for k in range(images)], X, xp.int64), (images, 1))
        places = xp.astype(xp.reshape(Index, (images, product(at.out))), xp.int64)
        if product(places.shape) and (int(xp.min(places)) < 0 or int(xp.max(places)) >= size):
            raise ValueError(f"Index reaches from {int(xp.min(places))} to {int(xp.max(places))}; expected 0 to "
                             f"{size - 1}, the places of an image")
        dX = xp.scatter_add(zeros(xp, (images * size,), first), xp.reshape(places + offsets, (-1,)),
                            xp.reshape(dY, (-1,)))
        return channels_back(xp, xp.reshape(dX, first.shape), order)


class AveragePool(_AveragePool):
    """Y = the mean of every window, over the elements that lie in the image (or all, with count_include_pad)."""

    gradient = emits("AveragePoolGradient", "I0 O0 GO0", "GI0")
    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]]},
        {"Y": [[[[3.0, 4.0], [6.0, 7.0]]]]},
        {"kernel": 2})


class AveragePool1D(_AveragePool):
    """AveragePool over one spatial axis."""

    gradient = emits("AveragePool1DGradient", "I0 O0 GO0", "GI0")
    example = Example({"X": [[[1.0, 2.0, 4.0]]]}, {"Y": [[[1.5, 3.0]]]}, {"kernel": 2})


class AveragePool2D(_AveragePool):
    """AveragePool over two spatial axes."""

    gradient = emits("AveragePool2DGradient", "I0 O0 GO0", "GI0")
    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]]},
        {"Y": [[[[3.0, 4.0], [6.0, 7.0]]]]},
        {"kernel": 2})


class AveragePool3D(_AveragePool):
    """AveragePool over three spatial axes."""

    gradient = emits("AveragePool3DGradient", "I0 O0 GO0", "GI0")
    example = Example(
        {"X": [[[[[1.0, 2.0], [3.0, 4.0]]]]]},
        {"Y": [[[[[2.5]]]]]},
        {"kernels": [1, 2, 2], "strides": [1, 1, 1]})


class AveragePoolGradient(_AveragePoolGradient):
    """dX: every element receives its share of the gradients of the windows that it is in."""

    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]], "Y": [[[[3.0, 4.0], [6.0, 7.0]]]],
         "dY": [[[[1.0, 0.5], [2.0, -1.0]]]]},
        {"dX": [[[[0.25, 0.375, 0.125], [0.75, 0.625, -0.125], [0.5, 0.25, -0.25]]]]},
        {"kernel": 2})


class AveragePool1DGradient(_AveragePoolGradient):
    """AveragePoolGradient over one spatial axis."""

    example = Example(
        {"X": [[[1.0, 2.0, 4.0]]], "Y": [[[1.5, 3.0]]], "dY": [[[1.0, 0.5]]]},
        {"dX": [[[0.5, 0.75, 0.25]]]},
        {"kernel": 2})


class AveragePool2DGradient(_AveragePoolGradient):
    """AveragePoolGradient over two spatial axes."""

    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]], "Y": [[[[3.0, 4.0], [6.0, 7.0]]]],
         "dY": [[[[1.0, 0.5], [2.0, -1.0]]]]},
        {"dX": [[[[0.25, 0.375, 0.125], [0.75, 0.625, -0.125], [0.5, 0.25, -0.25]]]]},
        {"kernel": 2})


class AveragePool3DGradient(_AveragePoolGradient):
    """AveragePoolGradient over three spatial axes."""

    example = Example(
        {"X": [[[[[1.0, 2.0], [3.0, 4.0]]]]], "Y": [[[[[2.5]]]]], "dY": [[[[[1.0]]]]]},
        {"dX": [[[[[0.25, 0.25], [0.25, 0.25]]]]]},
        {"kernels": [1, 2, 2], "strides": [1, 1, 1]})


class LpPool(_Pool):
    """Y = (sum |x|^p)^(1/p) over every window."""

    arguments = [*POOL]
    gradient = emits("LpPoolGradient", "I0 O0 GO0", "GI0")
    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]]},
        {"Y": [[[[6.78233, 8.60233], [12.4097, 14.3527]]]]},
        {"kernel": 2})

    def kernel(xp: Any, X: Any, *, order: str, p: float, op: Any) -> Any:
        first, at = place(xp, X, order, op)
        P = at.padded(xp, xp.abs(first) ** p)
        total = 0
        for where in at.slices():
            total = total + P[where]
        return channels_back(xp, total ** (1 / p), order)


class LpPoolGradient(_PoolGradient):
    """dX = sum over windows of dY x |x|^(p-2) / Y^(p-1); zero where x is zero."""

    arguments = [*POOL]
    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]],
         "Y": [[[[6.78233, 8.60233], [12.4097, 14.3527]]]], "dY": [[[[1.0, 0.5], [2.0, -1.0]]]]},
        {"dX": [[[[0.147442, 0.411132, 0.174371], [1.23443, 1.48529, -0.0692969], [1.12815, 0.73193, -0.62706]]]]},
        {"kernel": 2})

    def kernel(xp: Any, X: Any, Y: Any, dY: Any, *, order: str, p: float, op: Any) -> Any:
        first, at = place(xp, X, order, op)
        check_gradient(X, Y, at, order)
        check_gradient(X, dY, at, order)
        Y, dY = channels_first(xp, Y, order), channels_first(xp, dY, order)
        share = xp.where(Y <= 0, xp.zeros_like(Y), dY / xp.where(Y <= 0, xp.ones_like(Y), Y) ** (p - 1))
        dP = xp.zeros_like(at.padded(xp, first))
        for where in at.slices():
            dP[where] += share
        size = xp.abs(first)
        slope = xp.sign(first) * xp.where(size == 0, xp.ones_like(size), size) ** (p - 1)
        return channels_back(xp, at.cropped(xp, dP) * slope, order)
