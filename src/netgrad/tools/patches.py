"""Tensors shown as images: one, many side by side, or the channels of one. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, isqrt
from typing import Any

import numpy as np


def ChannelFirst(arr: np.ndarray) -> np.ndarray:
    """A view with the last axis before the two in front of it: (..., H, W, C) to (..., C, H, W)."""
    return np.moveaxis(arr, -1, -3)


def ChannelLast(arr: np.ndarray) -> np.ndarray:
    """A view with the third axis from behind last: (..., C, H, W) to (..., H, W, C)."""
    return np.moveaxis(arr, -3, -1)


class PatchVisualizer:
    """Shows images in the current figure of matplotlib, and returns what it showed."""

    def __init__(self, gap: int = 1) -> None:
        """``gap``: pixels between images that lie side by side."""
        self.gap = gap

    def ShowSingle(self, patch: np.ndarray, cmap: Any = None) -> np.ndarray:
        """Shows one image: (H, W), (H, W, 1), (H, W, 3), or flat, if it is square."""
        patch = np.asarray(patch)
        if patch.ndim == 1:
            patch = patch.reshape(self.get_patch_shape(patch))
        if patch.ndim == 3 and patch.shape[2] == 1:
            patch = patch[:, :, 0]
        if patch.ndim not in (2, 3) or (patch.ndim == 3 and patch.shape[2] != 3):
            raise ValueError(f"an image has shape (H, W), (H, W, 1) or (H, W, 3), not {patch.shape}")
        _pyplot().imshow(patch, cmap=_gray(patch, cmap))
        return patch

    def ShowMultiple(self, patches: np.ndarray, ncols: int | None = None, cmap: Any = None,
                     bg_func: Callable[[np.ndarray], Any] = np.mean) -> np.ndarray:
        """Shows images in rows.

        Args:
            patches: (N, H, W), (N, H, W, 1), (N, H, W, 3), or (N, pixels) of square images.
            ncols: images in a row; None: about as many as there are rows.
            cmap: matplotlib's colour map; None: gray, for images without colours.
            bg_func: finds the value between images.

        Returns:
            The whole picture.
        """
        patches = np.asarray(patches)
        if patches.ndim == 2 and len(patches):
            patches = patches.reshape(len(patches), *self.get_patch_shape(patches[0]))
        if patches.ndim == 4 and patches.shape[3] == 1:
            patches = patches[..., 0]
        if patches.ndim not in (3, 4) or (patches.ndim == 4 and patches.shape[3] != 3) or not len(patches):
            raise ValueError("images have shape (N, H, W), (N, H, W, 1), (N, H, W, 3) or (N, pixels), N at least 1, "
                             f"not {patches.shape}")
        count, height, width = patches.shape[:3]
        columns = isqrt(count - 1) + 1 if ncols is None else ncols
        down, right = height + self.gap, width + self.gap
        image = np.full((ceil(count / columns) * down - self.gap, columns * right - self.gap, *patches.shape[3:]),
                        bg_func(patches), dtype=np.float64)
        for k, patch in enumerate(patches):
            row, column = divmod(k, columns)
            image[row * down:row * down + height, column * right:column * right + width] = patch
        plot = _pyplot()
        plot.imshow(image, cmap=_gray(image, cmap), interpolation="nearest")
        plot.axis("off")
        return image

    def ShowImages(self, patches: np.ndarray, *args: Any, **kwargs: Any) -> np.ndarray:
        """`ShowMultiple` of values that are brought to the range from 0 to 1."""
        patches = np.asarray(patches, dtype=np.float64)
        patches = patches - np.min(patches)
        return self.ShowMultiple(patches / (np.max(patches) + np.finfo(np.float64).eps), *args, **kwargs)

    def ShowChannels(self, patch: np.ndarray, cmap: Any = None,
                     bg_func: Callable[[np.ndarray], Any] = np.mean) -> np.ndarray:
        """Shows the channels of an image (H, W, C), each as a gray one."""
        patch = np.asarray(patch)
        if patch.ndim != 3:
            raise ValueError(f"an image with channels has shape (H, W, C), not {patch.shape}")
        return self.ShowMultiple(ChannelFirst(patch), cmap=cmap, bg_func=bg_func)

    def get_patch_shape(self, patch: np.ndarray) -> tuple[int, ...]:
        """The shape of a flat square image, with three channels if it has none as one channel."""
        for channels in ((), (3,)):
            side = isqrt(patch.size // 3 if channels else patch.size)
            if side * side * (3 if channels else 1) == patch.size:
                return (side, side, *channels)
        raise ValueError(f"{patch.size} values are no square image, gray or of three colours; give it its shape")


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("showing images needs matplotlib; `pip install netgrad[draw]`") from error
    return pyplot


def _gray(image: np.ndarray, cmap: Any) -> Any:
    return "gray" if cmap is None and image.ndim == 2 else cmap


_default_visualizer = PatchVisualizer()


class NHWC:
    """The functions of a `PatchVisualizer` for images with channels last; they return nothing."""

    @staticmethod
    def ShowSingle(*args: Any, **kwargs: Any) -> None:
        _default_visualizer.ShowSingle(*args, **kwargs)

    @staticmethod
    def ShowMultiple(*args: Any, **kwargs: Any) -> None:
        _default_visualizer.ShowMultiple(*args, **kwargs)

    @staticmethod
    def ShowImages(*args: Any, **kwargs: Any) -> None:
        _default_visualizer.ShowImages(*args, **kwargs)

    @staticmethod
    def ShowChannels(*args: Any, **kwargs: Any) -> None:
        _default_visualizer.ShowChannels(*args, **kwargs)


class NCHW:
    """The functions of a `PatchVisualizer` for images with channels first; they return nothing."""

    @staticmethod
    def ShowSingle(patch: np.ndarray, *args: Any, **kwargs: Any) -> None:
        NHWC.ShowSingle(ChannelLast(patch) if patch.ndim > 2 else patch, *args, **kwargs)

    @staticmethod
    def ShowMultiple(patch: np.ndarray, *args: Any, **kwargs: Any) -> None:
        NHWC.ShowMultiple(ChannelLast(patch) if patch.ndim > 3 else patch, *args, **kwargs)

    @staticmethod
    def ShowImages(patch: np.ndarray, *args: Any, **kwargs: Any) -> None:
        NHWC.ShowImages(ChannelLast(patch) if patch.ndim > 3 else patch, *args, **kwargs)

    @staticmethod
    def ShowChannels(patch: np.ndarray, *args: Any, **kwargs: Any) -> None:
        NHWC.ShowChannels(ChannelLast(patch), *args, **kwargs)
