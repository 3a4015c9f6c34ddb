"""Sliding windows: the geometry that convolution, pooling and padding share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netgrad.graph.arguments import Bool, Int, Ints, Str
from netgrad.graph.shapes import Dim, ShapeError, TensorType
from netgrad.ops._arrays import full, product, zeros

#: values of the argument legacy_pad
NOTSET, VALID, SAME, CAFFE = 0, 1, 2, 3

#: the arguments that say how a window moves; sizes come as one number, per side, or as a list over the spatial axes
WINDOW = (
    Ints("kernel", None, "one size for all spatial axes"), Int("kernel_h"), Int("kernel_w"),
    Ints("kernels", None, "a size per spatial axis"),
    Ints("stride"), Int("stride_h"), Int("stride_w"), Ints("strides"),
    Ints("dilation", None, "distance between the elements of a window"), Int("dilation_h"), Int("dilation_w"),
    Ints("dilations"),
    Ints("pad", None, "zeros around the image"), Int("pad_t"), Int("pad_l"), Int("pad_b"), Int("pad_r"),
    Ints("pads", None, "before every axis, then behind every axis"),
    Int("legacy_pad", NOTSET, "1: valid, 2: same (padding follows from the sizes), 3: Caffe's rounding up"),
    Bool("global_pooling", False, "the window is the whole image"),
    Str("order", "NCHW", "NCHW or NHWC: where the channels are"),
    Int("group", 1, "convolutions: channels are split in so many groups that do not see each other"),
    Int("shared_buffer", 0, "ignored"), Bool("float16_compute", False, "ignored"),
)

Get = Callable[[str, Any], Any]


def _as_list(value: Any) -> list[int]:
    return [int(v) for v in value] if isinstance(value, (list, tuple)) else [int(value)]


def _per_axis(get: Get, name: str, sides: Sequence[str], length: int, default: int) -> list[int]:
    """The values of ``name`` along every axis (or, for pads, every side) from whichever argument gives them."""
    several = get(name + "s", None)
    single = get(name, None)
    by_side = [get(f"{name}_{side}", None) for side in sides]
    if several:
        found = _as_list(several)
    elif single:
        found = _as_list(single)
        found = found * length if len(found) == 1 else found
    elif any(side is not None for side in by_side):
        found = [default if side is None else int(side) for side in by_side]
    else:
        found = [default] * length
    if len(found) != length:
        raise ValueError(f"the argument {name}s gives {len(found)} sizes, expected {length}")
    return found


@dataclass(frozen=True)
class Placed:
    """A window on an image of known size: ``out`` positions per axis after padding by ``heads`` and ``tails``."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    heads: tuple[int, ...]
    tails: tuple[int, ...]
    out: tuple[int, ...]

    @property
    def elements(self) -> int:
        return product(self.kernel)

    @property
    def whole(self) -> bool:
        """Whether there is one window and it is the image."""
        return self.kernel == self.sizes and product(self.out) == 1 and not any(self.heads + self.tails)

    def padded(self, xp: Any, X: Any, value: float = 0.0) -> Any:
        """(N, C, sizes) with borders of ``value``; X itself where there are none. Negative padding crops."""
        if not any(self.heads) and not any(self.tails):
            return X
        kept = (slice(max(0, -h), s + min(0, t))
                for h, t, s in zip(self.heads, self.tails, self.sizes, strict=True))
        inside = X[(..., *kept)]
        grown = [h + s + t for h, s, t in zip(self.heads, self.sizes, self.tails, strict=True)]
        P = full(xp, (*X.shape[:2], *grown), value, X)
        P[(..., *(slice(max(0, h), max(0, h) + n)
                  for h, n in zip(self.heads, inside.shape[2:], strict=True)))] = inside
        return P

    def cropped(self, xp: Any, P: Any) -> Any:
        """The adjoint of `padded` with zeros."""
        if not any(self.heads) and not any(self.tails):
            return P
        if min(self.heads + self.tails) >= 0:
            return P[(..., *(slice(h, h + s) for h, s in zip(self.heads, self.sizes, strict=True)))]
        undo = Placed(tuple(P.shape[2:]), self.kernel, self.stride, self.dilation, tuple(-h for h in self.heads),
                      tuple(-t for t in self.tails), self.out)
        return undo.padded(xp, P)

    def slices(self) -> Iterator[tuple[Any, ...]]:
        """For every element of the window: where it lies in the padded image, over all positions."""
        for offset in itertools.product(*map(range, self.kernel)):
            yield (..., *(slice(o * d, o * d + s * (n - 1) + 1, s)
                          for o, d, s, n in zip(offset, self.dilation, self.stride, self.out, strict=True)))

    def columns(self, xp: Any, X: Any) -> Any:
        """All windows of (N, C, sizes): (N, C, elements, out)."""
        P = self.padded(xp, X)
        views = [P[where] for where in self.slices()]
        return xp.stack(views, axis=2) if len(views) > 1 else xp.expand_dims(views[0], axis=2)

    def scattered(self, xp: Any, columns: Any) -> Any:
        """The adjoint of `columns`: windows laid back on the image, overlaps added."""
        grown = [h + s + t for h, s, t in zip(self.heads, self.sizes, self.tails, strict=True)]
        P = zeros(xp, (*columns.shape[:2], *grown), columns)
        for k, where in enumerate(self.slices()):
            P[where] += columns[:, :, k, ...]
        return self.cropped(xp, P)


@dataclass(frozen=True)
class Window:
    """A window as the arguments describe it, before the size of the image is known."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: tuple[int, ...]
    legacy_pad: int = NOTSET
    whole: bool = False

    @classmethod
    def declared(cls, arguments: Mapping[str, Any], rank: int, kernel: Sequence[int] | None = None) -> Window:
        """From a shape function's arguments."""
        return cls.read(lambda name, default: arguments.get(name, default), rank, kernel)

    @classmethod
    def read(cls, get: Get, rank: int, kernel: Sequence[int] | None = None) -> Window:
        """From a look-up of arguments, for ``rank`` spatial axes; ``kernel`` where the arguments give none.

        Raises ValueError when lists have the wrong length, or sizes cannot be.
        """
        whole = bool(get("global_pooling", False))
        flat = rank == 2
        sizes = _per_axis(get, "kernel", ("h", "w") if flat else (), rank, 0)
        if not all(sizes):
            if kernel is None and not whole:
                raise ValueError("the window has no size: give the argument kernel, kernel_h and kernel_w, or kernels")
            sizes = list(kernel or sizes)
        window = cls(
            tuple(sizes), tuple(_per_axis(get, "stride", ("h", "w") if flat else (), rank, 1)),
            tuple(_per_axis(get, "dilation", ("h", "w") if flat else (), rank, 1)),
            tuple(_per_axis(get, "pad", ("t", "l", "b", "r") if flat else (), 2 * rank, 0)),
            int(get("legacy_pad", NOTSET) or NOTSET), whole)
        window._check()
        return window

    def _check(self) -> None:
        if min((*self.stride, *self.dilation), default=1) < 1 or min(self.kernel, default=1) < 0:
            raise ValueError(f"kernel {self.kernel}, stride {self.stride} and dilation {self.dilation} "
                             "must be positive")
        if self.whole and (any(self.pads) or set(self.stride + self.dilation) > {1}):
            raise ValueError("global_pooling goes with no padding, stride or dilation")
        if self.legacy_pad in (VALID, SAME) and any(self.pads):
            raise ValueError("legacy_pad computes the padding; do not give pads as well")

    def _along(self, axis: int, size: int) -> tuple[int, int, int]:
        """Padding before and behind an axis of ``size``, and the number of positions."""
        rank = len(self.kernel)
        k, s, d = self.kernel[axis], self.stride[axis], self.dilation[axis]
        head, tail = self.pads[axis], self.pads[rank + axis]
        reach = d * (k - 1) + 1
        if self.legacy_pad == SAME:
            needed = (-(-size // s) - 1) * s + k - size
            head = int(needed / 2)  # rounds towards zero
            tail = needed - head
        elif self.legacy_pad == CAFFE:
            out = -(-(size + 2 * head - k) // s) + 1
            if head > 0 and (out - 1) * s >= size + head:  # the last window must begin inside the image
                out -= 1
            return head, head + s * (out - ((size + 2 * head - k) // s + 1)), out
        if size + head + tail < reach:
            raise ShapeError(f"the window of {reach} does not fit an image of {size} padded by {head} and {tail} "
                             f"along spatial axis {axis}")
        return head, tail, (size + head + tail - reach) // s + 1

    def on(self, sizes: Sequence[int]) -> Placed:
        """This window on an image of these sizes; raises `ShapeError` where it does not fit."""
        sizes = tuple(int(s) for s in sizes)
        if self.whole:
            ones, none = (1,) * len(sizes), (0,) * len(sizes)
            return Placed(sizes, sizes, ones, ones, none, none, ones)
        along = [self._along(axis, size) for axis, size in enumerate(sizes)]
        heads, tails, out = zip(*along, strict=True) if along else ((), (), ())
        return Placed(sizes, self.kernel, self.stride, self.dilation, heads, tails, out)

    def out_dims(self, dims: Sequence[Dim]) -> tuple[Dim, ...]:
        """Numbers of positions where some sizes may be unknown."""
        if self.whole:
            return (1,) * len(dims)
        return tuple(None if size is None else self._along(axis, size)[2] for axis, size in enumerate(dims))


def window_of(op: Any, rank: int, kernel: Sequence[int] | None = None) -> Window:
    """The window of a running operator; read from the arguments once."""
    key = ("window", rank, None if kernel is None else tuple(kernel))
    if key not in op.state:
        op.state[key] = Window.read(op.argument, rank, kernel)
    return op.state[key]


def split_dims(X: TensorType, order: str) -> tuple[Dim, Dim, tuple[Dim, ...]]:
    """Batch, channels and spatial sizes of an image type whose rank is known."""
    dims = X.dims or ()
    if len(dims) < 2:
        raise ShapeError(f"the input has shape {dims}, expected a batch of images: at least 2 dimensions")
    return (dims[0], dims[1], dims[2:]) if order == "NCHW" else (dims[0], dims[-1], dims[1:-1])


def join_dims(batch: Dim, channels: Dim, spatial: Sequence[Dim], order: str) -> tuple[Dim, ...]:
    return (batch, channels, *spatial) if order == "NCHW" else (batch, *spatial, channels)
