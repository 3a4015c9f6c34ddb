"""Batches of images and labels from a database."""

from __future__ import annotations

import math
from typing import Any

from netgrad.graph.arguments import Bool, Float, Floats, Int, Ints, Str
from netgrad.graph.declaration import In, Operator, Out, between
from netgrad.graph.rules import no_gradient


class ImageInput(Operator):
    """Reads images, decodes them, and makes them ready: cut out, scaled, cropped, mirrored, normalized.

    A record is a TensorProtos: the image (STRING: JPEG, PNG, ...; BYTE: pixels, blue green red), the label, a tensor
    for each further output, and maybe a box (top, left, height, width) to cut out; or a CaffeDatum. What is random
    happens with ``is_test=0`` only. The next batch is read while others compute.
    """

    inputs = [In("reader", "a reader of a database; without it, db and db_type say which", optional=True)]
    outputs = [
        Out("data", "(batch_size, crop, crop, channels), channels blue, green, red; with use_gpu_transform "
                    "(batch_size, channels, crop, crop)"),
        Out("label", "(batch_size,), or (batch_size, num_labels)"),
        Out("additional outputs", "one row for each image", variadic=True, optional=True),
    ]
    num_inputs = between(0, 1)
    num_outputs = between(2, None)
    arguments = [
        Int("batch_size", 0), Int("crop", -1, "side of the square that is cut out, in pixels"),
        Int("scale", -1, "length of the shorter side before that"),
        Int("minsize", -1, "least length of the shorter side, instead of scale"),
        Bool("warp", False, "scale both sides to it"), Bool("is_test", False), Bool("mirror", False),
        Bool("color", True, "three channels, else one"), Float("mean", 0.0), Float("std", 1.0),
        Floats("mean_per_channel", ()), Floats("std_per_channel", ()),
        Floats("random_scale", (), "least and greatest length of the shorter side, to draw from"),
        Int("scale_jitter_type", 0, "1: parts of random size and proportions, as for Inception"),
        Bool("color_jitter", False), Float("img_saturation", 0.4), Float("img_brightness", 0.4),
        Float("img_contrast", 0.4),
        Bool("color_lighting", False), Float("color_lighting_std", 0.1),
        Floats("color_lighting_eigvecs", (), "nine, by rows: red, green, blue"), Floats("color_lighting_eigvals", ()),
        Int("bounding_ymin", -1, "the box of records without one"), Int("bounding_xmin", -1),
        Int("bounding_height", -1), Int("bounding_width", -1),
        Int("label_type", 0, "0: one; 1: places of several; 2: all values; 3: places and weights"),
        Int("num_labels", 0), Ints("output_sizes", (), "of the additional outputs, as they are stored"),
        Bool("use_caffe_datum", False), Bool("use_gpu_transform", False), Str("output_type", "float", "or float16"),
        Str("db", "", "path of the database"), Str("db_type", "", "its kind"),
        Int("num_shards", 1), Int("shard_id", 0), Int("decode_threads", 4),
        Float("max_decode_error_ratio", 0.0, "which part of a batch may be images that cannot be decoded: others take "
                                             "their place"),
        Bool("no_prefetch", False, "read when it runs, and not before"),
    ]
    effects = {"io", "random", "state"}
    host = True
    gradient = no_gradient

    def kernel(
        xp: Any, reader: Any = None, *, batch_size: int, crop: int, scale: int, minsize: int, warp: bool, is_test: bool,
        mirror: bool, color: bool, mean: float, std: float, mean_per_channel: Any, std_per_channel: Any,
        random_scale: Any, scale_jitter_type: int, color_jitter: bool, img_saturation: float, img_brightness: float,
        img_contrast: float, color_lighting: bool, color_lighting_std: float, color_lighting_eigvecs: Any,
        color_lighting_eigvals: Any, bounding_ymin: int, bounding_xmin: int, bounding_height: int, bounding_width: int,
        label_type: int, num_labels: int, use_caffe_datum: bool, use_gpu_transform: bool, output_type: str, db: str,
        db_type: str, num_shards: int, shard_id: int, decode_threads: int, max_decode_error_ratio: float,
        no_prefetch: bool, op: Any,
    ) -> Any:
        import numpy as np

        from netgrad.data.image_batches import ImageBatches
        from netgrad.data.images import DENSE, SINGLE, WEIGHTED_SPARSE, Preparation, parse_datum, parse_tensors
        from netgrad.persist import batches
        from netgrad.persist.readers import DBReader, RecordReader

        if "batches" not in op.state:
            channels = 3 if color else 1
            means, deviations = list(mean_per_channel) or [mean], list(std_per_channel) or [std]
            limit = scale if scale > 0 else minsize
            need(batch_size > 0 and crop > 0, f"batch_size is {batch_size} and crop {crop}; say both")
            need((scale > 0) != (minsize > 0), f"scale is {scale} and minsize {minsize}; say one of them")
            need(limit >= crop, f"scale or minsize is {limit}, less than the crop of {crop}")
            need(all(len(x) in (1, channels) for x in (means, deviations)) and all(
                math.isfinite(x) and x != 0 for x in deviations),
                f"means are {means} and standard deviations {deviations}: expected one, or {channels}, none of them 0")
            need(len(random_scale) in (0, 2), f"random_scale is {list(random_scale)}; expected two lengths")
            need(not len(random_scale) or crop <= random_scale[0] <= random_scale[1],
                 f"random_scale is {list(random_scale)} for a crop of {crop}; expected crop <= first <= second")
            need(SINGLE <= label_type <= WEIGHTED_SPARSE, f"label_type is {label_type}; expected 0, 1, 2 or 3")
            need(label_type == SINGLE or num_labels > 0, f"num_labels is {num_labels}; say how many labels there are")
            need(scale_jitter_type in (0, 1), f"scale_jitter_type is {scale_jitter_type}; expected 0 or 1")
            need(output_type in ("float", "float16"), f"output_type is {output_type!r}; expected float or float16")
            need(len(color_lighting_eigvecs) in (0, 9) and len(color_lighting_eigvals) in (0, 3),
                 "color_lighting_eigvecs and color_lighting_eigvals: expected 9 and 3 numbers")
            need(not use_caffe_datum or (op.num_outputs == 2 and label_type in (SINGLE, DENSE)),
                 "records of Caffe hold an image and one label, and nothing for more outputs")
            if reader is None:
                need(db and db_type, "there is no reader; give one as the input, or db and db_type")
                reader = DBReader(db_type, db, num_shards, shard_id)
            need(isinstance(reader, RecordReader),
                 f"{(op.inputs or ('',))[0]!r} is no reader of records; make one with CreateDB")
            prepare = Preparation(
                crop, is_test, scale, minsize, warp, tuple(random_scale) or None, scale_jitter_type == 1, mirror, color,
                means, deviations, (img_saturation, img_brightness, img_contrast) if color_jitter else None,
                color_lighting_std if color_lighting else None,
                np.reshape(color_lighting_eigvecs, (3, 3)) if len(color_lighting_eigvecs) else None,
                np.asarray(color_lighting_eigvals) if len(color_lighting_eigvals) else None)
            box = (bounding_ymin, bounding_xmin, bounding_height, bounding_width)
            others = op.num_outputs - 2
            op.state["batches"] = ImageBatches(
                reader,
                parse_datum if use_caffe_datum else lambda value: parse_tensors(value, label_type, num_labels, others),
                prepare, batch_size, None if min(box) < 0 else box, max_decode_error_ratio, op.rng.uniform)
            op.state["threads"] = threads(max(1, decode_threads))
        source: ImageBatches = op.state["batches"]
        images, *rest = batches.next_batch(op.state, lambda: source.read(op.state["threads"], op.cancelled),
                                           ahead=source.reader.ahead and not no_prefetch)
        if use_gpu_transform:
            images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        return (images.astype(np.float16) if output_type == "float16" else images, *rest)


def need(holds: Any, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def threads(count: int) -> Any:
    """Threads that decode images."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(count, "netgrad-decode-image")
