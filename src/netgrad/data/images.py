"""Images from records, made ready for a net: decoded, cut out, scaled, cropped, mirrored, their colours changed.

An image is an array (height, width, channels), its channels blue, green, red (or one of grey), as Caffe2 and OpenCV
have them.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from netgrad.persist.errors import StorageError
from netgrad.proto import caffe2_legacy_pb2, caffe2_pb2

_TYPES = caffe2_pb2.TensorProto

#: how labels are stored: one; which of several are there; all values; which are there, and how much each counts
SINGLE, SPARSE, DENSE, WEIGHTED_SPARSE = range(4)

#: (top, left, height, width) in pixels
Box = tuple[int, int, int, int]
#: gives a number from [0, 1)
Draw = Callable[[], float]


class Undecodable(StorageError):
    """An image cannot be decoded."""


@dataclass(frozen=True)
class Sample:
    """A record: the image as it is stored (decoded or not), its label, what else there is, and the part to cut out."""

    image: bytes | np.ndarray
    label: np.ndarray
    others: list[np.ndarray]
    box: Box | None = None


def _values(tensor: Any, what: str) -> np.ndarray:
    """The numbers of a TensorProto, whatever its shape."""
    if tensor.data_type == _TYPES.FLOAT:
        return np.array(tensor.float_data, np.float32)
    if tensor.data_type == _TYPES.INT32:
        return np.array(tensor.int32_data, np.int32)
    if tensor.data_type == _TYPES.INT64:
        return np.array(tensor.int64_data, np.int64)
    raise StorageError(f"{what} has data type {tensor.data_type}; expected FLOAT, INT32 or INT64")


def _label(protos: Sequence[Any], label_type: int, num_labels: int) -> np.ndarray:
    values = _values(protos[1], "the label")
    if label_type == SINGLE:
        if len(values) != 1:
            raise StorageError(f"the label has {len(values)} values; expected one, or a label_type for several")
        return values[0]  # type: ignore[no-any-return]
    if label_type == DENSE:
        if len(values) != num_labels:
            raise StorageError(f"the label has {len(values)} values, and num_labels is {num_labels}")
        return values
    places = values.astype(np.int64)
    if len(places) and not 0 <= places.min() <= places.max() < num_labels:
        raise StorageError(f"labels go from {places.min()} to {places.max()}, and num_labels is {num_labels}")
    if label_type == SPARSE:
        found = np.zeros(num_labels, values.dtype)
        found[places] = 1
        return found
    weights = _values(protos[2], "the weights")
    if len(weights) != len(places):
        raise StorageError(f"there are {len(weights)} weights for {len(places)} labels")
    found = np.zeros(num_labels, np.float32)
    found[places] = weights
    return found


def parse_tensors(value: bytes, label_type: int, num_labels: int, others: int) -> Sample:
    """A record of TensorProtos: image, label, weights where ``label_type`` has them, ``others`` more, and maybe a box.

    Raises `StorageError` where it is not that.
    """
    try:
        protos = list(caffe2_pb2.TensorProtos.FromString(value).protos)
    except DecodeError as error:
        raise StorageError(f"it is no list of tensors (TensorProtos): {error}") from None
    first = 3 if label_type == WEIGHTED_SPARSE else 2
    if not first + others <= len(protos) <= first + others + 1:
        raise StorageError(f"it has {len(protos)} tensors; expected {first + others} for the outputs, and maybe a box")
    box = None
    if len(protos) > first + others:
        edges = _values(protos[-1], "the box")
        if len(edges) != 4:
            raise StorageError(f"the box has {len(edges)} values; expected top, left, height and width")
        box = (int(edges[0]), int(edges[1]), int(edges[2]), int(edges[3]))
    more = [_values(tensor, f"tensor {first + k}") for k, tensor in enumerate(protos[first:first + others])]
    return Sample(_stored_image(protos[0]), _label(protos, label_type, num_labels), more, box)


def _stored_image(tensor: Any) -> bytes | np.ndarray:
    if tensor.data_type == _TYPES.STRING:
        if len(tensor.string_data) != 1:
            raise StorageError(f"the image has {len(tensor.string_data)} strings; expected one")
        return bytes(tensor.string_data[0])
    if tensor.data_type not in (_TYPES.BYTE, _TYPES.UINT8):
        raise StorageError(f"the image has data type {tensor.data_type}; expected STRING (encoded) or BYTE (pixels)")
    dims = tuple(tensor.dims)
    shape = (*dims, 1) if len(dims) == 2 else dims
    data = tensor.byte_data or bytes(tensor.int32_data)
    if len(shape) != 3 or shape[2] not in (1, 3) or min(shape) < 1 or math.prod(shape) != len(data):
        raise StorageError(f"the image has shape {dims} and {len(data)} bytes; expected (height, width) or (height, "
                           "width, 1 or 3), and a byte for each value")
    return np.frombuffer(data, np.uint8).reshape(shape)


def parse_datum(value: bytes) -> Sample:
    """A record of Caffe (CaffeDatum): an encoded image, or the pixels of one channel after the other, and a label."""
    try:
        datum = caffe2_legacy_pb2.CaffeDatum.FromString(value)
    except DecodeError as error:
        raise StorageError(f"it is no record of Caffe (CaffeDatum): {error}") from None
    label = np.asarray(datum.label, np.int32)
    if datum.encoded:
        return Sample(datum.data, label, [])
    shape = (datum.channels, datum.height, datum.width)
    if shape[0] not in (1, 3) or min(shape) < 1 or math.prod(shape) != len(datum.data):
        raise StorageError(f"its image has {shape[0]} channels of {shape[1]} by {shape[2]} pixels, and "
                           f"{len(datum.data)} bytes; expected 1 or 3 channels, and a byte for each value")
    return Sample(np.frombuffer(datum.data, np.uint8).reshape(shape).transpose(1, 2, 0), label, [])


def decode(stored: bytes | np.ndarray, colour: bool) -> np.ndarray:
    """Pixels (height, width, 3 or 1), uint8, from those of a record or an encoded image, turned as its EXIF data say.

    Raises `Undecodable`.
    """
    if isinstance(stored, np.ndarray):
        if stored.shape[2] == (3 if colour else 1):
            return stored
        return np.repeat(stored, 3, axis=2) if colour else _grey(stored)
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(stored)) as opened:
            image = ImageOps.exif_transpose(opened)
            if image.mode.startswith("I"):  # 16 bits
                high = (np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)
                return decode(high[:, :, np.newaxis], colour)
            pixels = np.asarray(image.convert("RGB" if colour else "L"))
    except Exception as error:  # every format has errors of its own
        raise Undecodable(f"the image cannot be decoded: {error}") from None
    return pixels[:, :, ::-1] if colour else pixels[:, :, np.newaxis]


def _grey(pixels: np.ndarray) -> np.ndarray:
    return np.rint(pixels @ _GREY).astype(np.uint8)[:, :, np.newaxis]


#: how much blue, green and red count for the brightness (ITU-R BT.601)
_GREY = np.array([0.114, 0.587, 0.299], np.float32)


def resize(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Another size, as OpenCV's INTER_AREA: the mean of the area that a pixel covers; linear where one side grows."""
    rows, columns = image.shape[:2]
    if (rows, columns) == (height, width):
        return image
    weigh = _area_weights if height <= rows and width <= columns else _linear_weights
    wide = np.einsum("xw,hwc->hxc", weigh(columns, width), image.astype(np.float32), optimize=True)
    whole = np.einsum("yh,hxc->yxc", weigh(rows, height), wide, optimize=True)
    return np.rint(whole).clip(0, 255).astype(np.uint8)


def _area_weights(size: int, new_size: int) -> np.ndarray:
    """(new_size, size): which part of each new pixel's span an old one covers."""
    edges = np.arange(new_size + 1) * (size / new_size)
    old = np.arange(size)
    covered = np.minimum(edges[1:, None], old + 1) - np.maximum(edges[:-1, None], old)
    return (covered.clip(0) * (new_size / size)).astype(np.float32)


def _linear_weights(size: int, new_size: int) -> np.ndarray:
    """(new_size, size): between two old pixels where a new one lies across their border."""
    scale = size / new_size
    new = np.arange(new_size)
    left = np.floor(new * scale).astype(np.int64)
    part = (new + 1) - (left + 1) / scale
    part = np.where(part <= 0, 0, part - np.floor(part))
    weights = np.zeros((new_size, size), np.float32)
    weights[new, left.clip(0, size - 1)] = 1 - part
    weights[new, (left + 1).clip(0, size - 1)] += part
    return weights


@dataclass(frozen=True)
class Preparation:
    """What is done with each image.

    Attributes:
        crop: side of the square that is cut out, in pixels: from the middle, or anywhere while training.
        scale: the shorter side gets this length; not if less than 1.
        minsize: the shorter side gets at least this length, without ``scale``.
        warp: whether both sides get it, whatever the proportions.
        random_scale: the shorter side gets a length drawn from these two while training.
        inception: whether, while training, a part of random size and proportions is cut out and scaled to ``crop``.
        mirror: whether half of the images are mirrored while training.
        mean, std: for each channel: subtracted, then divided by.
        jitter: how much saturation, brightness and contrast may change while training; none if None.
        lighting: while training, how much the colours move along the directions ``eigvecs`` (one in a column, for red,
            green, blue) of lengths ``eigvals``; not at all if None.
    """

    crop: int
    is_test: bool
    scale: int = -1
    minsize: int = -1
    warp: bool = False
    random_scale: tuple[float, float] | None = None
    inception: bool = False
    mirror: bool = False
    colour: bool = True
    mean: Sequence[float] = (0.0,)
    std: Sequence[float] = (1.0,)
    jitter: tuple[float, float, float] | None = None
    lighting: float | None = None
    eigvecs: np.ndarray | None = None
    eigvals: np.ndarray | None = None

    def __call__(self, stored: bytes | np.ndarray, box: Box | None, draw: Draw) -> np.ndarray:
        """The image, (crop, crop, channels) float32.

        Raises:
            Undecodable: it cannot be decoded.
            StorageError: it is smaller than the crop.
        """
        image = _cut_out(decode(stored, self.colour), box)
        part = self._random_part(image, draw) if self.inception and not self.is_test else None
        image = self._scaled(image, draw) if part is None else part
        cropped = self._cropped(image, draw).astype(np.float32)
        if not self.is_test and self.colour:
            if self.jitter is not None:
                cropped = _jittered(cropped, self.jitter, draw)
            if self.lighting is not None:
                cropped = self._lit(cropped, self.lighting, draw)
        return (cropped - np.asarray(self.mean, np.float32)) * (1 / np.asarray(self.std, np.float32))

    def _scaled(self, image: np.ndarray, draw: Draw) -> np.ndarray:
        rows, columns = image.shape[:2]
        side = self.scale if self.scale > 0 else self.minsize
        if self.random_scale is not None and not self.is_test:
            low, high = self.random_scale
            side = int(low + draw() * (high - low))
        if self.warp:
            height = width = side
        elif rows > columns:
            height, width = rows * side // columns, side
        else:
            height, width = side, columns * side // rows
        if self.scale > 0 or self.random_scale is not None or height > rows or width > columns:
            return resize(image, height, width)
        return image

    def _random_part(self, image: np.ndarray, draw: Draw) -> np.ndarray | None:
        """A part of 8 to 100 % of the area with sides 3:4 to 4:3, scaled; None if ten tries find none."""
        rows, columns = image.shape[:2]
        for _ in range(10):
            area = (0.08 + 0.92 * draw()) * rows * columns
            ratio = 3 / 4 + draw() * (4 / 3 - 3 / 4)
            width, height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if draw() < 0.5:
                width, height = height, width
            if 0 < height <= rows and 0 < width <= columns:
                top, left = int(draw() * (rows - height + 1)), int(draw() * (columns - width + 1))
                return resize(image[top:top + height, left:left + width], self.crop, self.crop)
        return None

    def _cropped(self, image: np.ndarray, draw: Draw) -> np.ndarray:
        rows, columns = (size - self.crop for size in image.shape[:2])
        if min(rows, columns) < 0:
            raise StorageError(f"the image has {image.shape[0]} by {image.shape[1]} pixels, less than the crop of "
                               f"{self.crop}; set scale or minsize to at least that")
        if self.is_test:
            top, left = rows // 2, columns // 2
        else:
            top, left = int(draw() * (rows + 1)), int(draw() * (columns + 1))
        image = image[top:top + self.crop, left:left + self.crop]
        return image[:, ::-1] if self.mirror and not self.is_test and draw() < 0.5 else image

    def _lit(self, image: np.ndarray, deviation: float, draw: Draw) -> np.ndarray:
        vectors = _EIGVECS if self.eigvecs is None else self.eigvecs
        values = _EIGVALS if self.eigvals is None else self.eigvals
        alphas = np.array([deviation * _normal(draw) for _ in range(3)])
        red_green_blue = vectors @ (values * alphas)
        return image + red_green_blue[::-1].astype(np.float32)


#: principal directions (columns; for red, green, blue) and variances of the colours of ImageNet, in units of 1/255
_EIGVECS = 255 * np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
_EIGVALS = np.array([0.2175, 0.0188, 0.0045])


def _normal(draw: Draw) -> float:
    """A number from the normal distribution (Box and Muller 1958)."""
    return math.sqrt(-2 * math.log(1 - draw())) * math.cos(2 * math.pi * draw())


def _cut_out(image: np.ndarray, box: Box | None) -> np.ndarray:
    """The part in a box; all of it where the box does not lie within the image."""
    if box is None or min(box[:2]) < 0 or min(box[2:]) < 1:
        return image
    top, left, height, width = box
    if top + height > image.shape[0] or left + width > image.shape[1]:
        return image
    return image[top:top + height, left:left + width]


def _jittered(image: np.ndarray, amounts: tuple[float, float, float], draw: Draw) -> np.ndarray:
    """Saturation, brightness and contrast changed by up to these amounts, in a random order."""
    def saturation(x: np.ndarray, alpha: float) -> np.ndarray:
        return x * alpha + (x @ _GREY)[:, :, np.newaxis] * (1 - alpha)

    def brightness(x: np.ndarray, alpha: float) -> np.ndarray:
        return x * alpha

    def contrast(x: np.ndarray, alpha: float) -> np.ndarray:
        return x * alpha + (x @ _GREY).mean() * (1 - alpha)

    changes = list(zip((saturation, brightness, contrast), amounts, strict=True))
    while changes:
        change, amount = changes.pop(int(draw() * len(changes)))
        image = change(image, 1 + amount * (2 * draw() - 1)).astype(np.float32)
    return image
