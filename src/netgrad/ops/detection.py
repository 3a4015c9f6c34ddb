"""Object detection: boxes, proposals and their levels, key points."""

from __future__ import annotations

import math
from typing import Any

from netgrad.graph.arguments import Bool, Float, Floats, Int, Str
from netgrad.graph.declaration import In, Operator, Out, between
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import forbidden
from netgrad.graph.shapes import ShapeError, TensorType
from netgrad.ops import _boxes
from netgrad.ops._arrays import require_shape
from netgrad.ops.region_pooling import ROIS

LEGACY = Bool("legacy_plus_one", True, "a box of one pixel has width 1, its corners being equal")
BOXES = (
    Bool("angle_bound_on", True, "bring angles into the range"), Int("angle_bound_lo", -90),
    Int("angle_bound_hi", 90),
    Float("clip_angle_thresh", 1.0, "rotated boxes within it are clipped as upright ones"), LEGACY,
)
FPN = (Int("roi_canonical_scale", 224, "size of the regions that belong to the canonical level"),
       Int("roi_canonical_level", 4), Int("roi_min_level", 2), Int("roi_max_level", 5), LEGACY)
RPN = (Int("rpn_min_level", 2), Int("rpn_max_level", 6), Int("rpn_post_nms_topN", 2000, "how many regions are kept"))


class BBoxTransform(Operator):
    """Boxes moved and scaled by regressed deltas, then clipped to their image."""

    inputs = [In("rois", ROIS), In("deltas", "(R, 4 classes): dx, dy, log dw, log dh; 5 classes if rotated, float"),
              In("im_info", "(N, 3): height, width, scale")]
    outputs = [Out("box_out", "like deltas: left, top, right, bottom"),
               Out("roi_batch_splits", "(N,): regions per image", optional=True)]
    arguments = [
        Floats("weights", (1.0, 1.0, 1.0, 1.0), "divide the deltas"),
        Bool("apply_scale", True, "back to the original image"),
        Bool("rotated", False), Bool("correct_transform_coords", False, "ignored, see legacy_plus_one"), *BOXES,
    ]
    gradient = forbidden()
    host = True
    example = Example(
        {"rois": [[0.0, 0.0, 0.0, 9.0, 9.0]], "deltas": [[0.1, 0.0, 0.0, 0.2]], "im_info": [[20.0, 20.0, 1.0]]},
        {"box_out": [[1.0, 0.0, 10.0, 10.107]]})

    def shape(rois: TensorType, deltas: TensorType, im_info: TensorType, **_: Any) -> tuple[TensorType, TensorType]:
        return deltas, deltas.with_dims(None if im_info.dims is None else im_info.dims[:1])

    def kernel(xp: Any, rois: Any, deltas: Any, im_info: Any, *, weights: Any, apply_scale: bool, rotated: bool,
               correct_transform_coords: bool, **how: Any) -> Any:
        size = 5 if rotated else 4
        if len(weights) != 4:
            raise ValueError(f"the argument weights has {len(weights)} numbers, expected 4")
        if rois.ndim != 2 or rois.shape[1] not in (size, size + 1):
            raise ShapeError(f"the regions have shape {tuple(rois.shape)}, expected (R, {size + 1}), or (R, {size}) "
                             "for regions of one image")
        if deltas.ndim != 2 or deltas.shape[0] != rois.shape[0] or deltas.shape[1] % size:
            raise ShapeError(f"the deltas have shape {tuple(deltas.shape)}, expected ({rois.shape[0]}, {size} classes)")
        info, images = _image_info(im_info), rois[:, 0] if rois.shape[1] == size + 1 else xp.zeros(rois.shape[0])
        if rois.shape[0] and not (0 <= images.min() and images.max() < info.shape[0]
                                  and (images[1:] >= images[:-1]).all()):
            raise ValueError(f"the images of the regions are {images.tolist()}: expected ascending numbers from 0 to "
                             f"{info.shape[0] - 1}")
        boxes = xp.empty_like(deltas)
        counts = xp.zeros((info.shape[0],), dtype=deltas.dtype)
        for image, (height, width, scale) in enumerate(info.tolist()):
            here = images == image
            counts[image] = here.sum()
            own = xp.asarray(rois[here, -size:], copy=True)
            own[:, :4] /= scale
            moved = _moved(xp, own, deltas[here], weights, int(height / scale + 0.5), int(width / scale + 0.5), **how)
            if apply_scale:
                for k in range(4):
                    moved[:, k::size] *= scale
            boxes[here] = moved
        return boxes, counts


def _image_info(im_info: Any) -> Any:
    if im_info.ndim != 2 or im_info.shape[1] != 3:
        raise ShapeError(f"im_info has shape {tuple(im_info.shape)}, expected (images, 3): height, width, scale")
    if (im_info[:, 2] <= 0).any():
        raise ValueError("im_info has a scale that is not positive")
    return im_info


def _moved(xp: Any, boxes: Any, deltas: Any, weights: Any, height: float, width: float, *,
           angle_bound_on: bool, angle_bound_lo: int, angle_bound_hi: int,
           clip_angle_thresh: float, legacy_plus_one: bool) -> Any:
    """Boxes of one image moved by deltas and cut to it."""
    extra = float(legacy_plus_one)
    if boxes.shape[1] == 4:
        moved = _boxes.transform(xp, boxes, deltas, weights, extra)
        return _boxes.clip(xp, moved, height, width, extra)
    bounds = (angle_bound_lo, angle_bound_hi) if angle_bound_on else None
    moved = _boxes.transform_turned(xp, boxes, deltas, weights, bounds)
    return _boxes.clip_turned(xp, moved, height, width, clip_angle_thresh, extra)


class BoxWithNMSLimit(Operator):
    """Detections: per class, boxes above a score, thinned by non-maximum suppression; the best of each image."""

    inputs = [In("scores", "(R, classes)"), In("boxes", "(R, 4 classes), float"),
              In("batch_splits", "(N,): regions per image", optional=True)]
    outputs = [Out("scores", "(D,)"), Out("boxes", "(D, 4)"), Out("classes", "(D,)"),
               Out("batch_splits", "(N,): detections per image", optional=True),
               Out("keeps", "(D,), int32: which rows they were", optional=True),
               Out("keeps_size", "(N, classes), int32: detections per class", optional=True)]
    arguments = [
        Float("score_thresh", 0.05), Float("nms", 0.3, "overlap above which the weaker goes"),
        Int("detections_per_im", 100), Bool("soft_nms_enabled", False, "lower its score instead"),
        Str("soft_nms_method", "linear", "linear or gaussian"), Float("soft_nms_sigma", 0.5),
        Float("soft_nms_min_score_thres", 0.001), Bool("rotated", False), Bool("cls_agnostic_bbox_reg", False),
        Bool("input_boxes_include_bg_cls", True), Bool("output_classes_include_bg_cls", True),
        LEGACY,
    ]
    gradient = forbidden()
    host = True
    example = Example(
        {"scores": [[0.1, 0.9], [0.2, 0.8]],
         "boxes": [[0.0, 0.0, 9.0, 9.0, 0.0, 0.0, 9.0, 9.0], [1.0, 0.0, 9.0, 9.0, 1.0, 0.0, 9.0, 9.0]]},
        {"scores_out": [0.9], "boxes_out": [[0.0, 0.0, 9.0, 9.0]], "classes": [1.0]})

    def shape(scores: TensorType, boxes: TensorType, *splits_in: TensorType, rotated: bool = False, **_: Any) -> Any:
        found = scores.with_dims((None,))
        splits = splits_in[0] if splits_in else scores.with_dims((1,))
        keeps = TensorType("int32", (None,))
        return (found, scores.with_dims((None, 5 if rotated else 4)), found, splits, keeps,
                TensorType("int32", (None, None)))

    def kernel(xp: Any, scores: Any, boxes: Any, batch_splits: Any, *, detections_per_im: int, rotated: bool,
               cls_agnostic_bbox_reg: bool, input_boxes_include_bg_cls: bool, output_classes_include_bg_cls: bool,
               **how: Any) -> Any:
        size, first = 5 if rotated else 4, int(input_boxes_include_bg_cls)
        scores = scores[:, None] if scores.ndim == 1 else scores
        if scores.ndim != 2:
            raise ShapeError(f"the scores have shape {tuple(scores.shape)}, expected (R, classes)")
        classes = scores.shape[1]
        columns = 1 if cls_agnostic_bbox_reg else classes - 1 + first
        if boxes.ndim != 2 or boxes.shape[0] != scores.shape[0] or boxes.shape[1] < columns * size:
            raise ShapeError(f"the boxes have shape {tuple(boxes.shape)}, expected ({scores.shape[0]}, "
                             f"{size * columns}): {columns} boxes per region")
        splits = [scores.shape[0]] if batch_splits is None else [int(n) for n in batch_splits]
        if sum(splits) != scores.shape[0] or min(splits, default=0) < 0:
            raise ValueError(f"the batch splits {splits} add up to {sum(splits)}, expected {scores.shape[0]}, the "
                             "number of regions")
        rows, values, corners, labels, kept = [], [], [], [], []
        sizes = xp.zeros((len(splits), classes), dtype=xp.int32)
        start = 0
        for image, count in enumerate(splits):
            found = []
            for k in range(1, classes):
                box = 0 if cls_agnostic_bbox_reg else k - 1 + first
                own = boxes[start:start + count, box * size:(box + 1) * size]
                found += [(k, row, value) for row, value in
                          _detections(xp, scores[start:start + count, k - 1 + first], own, **how)]
            if 0 < detections_per_im < len(found):
                best = sorted(found, key=lambda detection: -detection[2])[:detections_per_im]
                found = sorted(best, key=lambda detection: detection[0])
            for k, row, value in found:
                box = 0 if cls_agnostic_bbox_reg else k - 1 + first
                sizes[image, k] += 1
                rows.append(row)
                values.append(value)
                labels.append(k if output_classes_include_bg_cls else k - 1)
                corners.append(boxes[start + row, box * size:(box + 1) * size])
            kept.append(len(found))
            start += count
        splits_dtype = scores.dtype if batch_splits is None else batch_splits.dtype
        return (xp.asarray(values, dtype=scores.dtype), xp.stack(corners) if corners else boxes[:0, :size],
                xp.asarray(labels, dtype=scores.dtype), xp.asarray(kept, dtype=splits_dtype),
                xp.asarray(rows, dtype=xp.int32), sizes)


def _detections(xp: Any, scores: Any, boxes: Any, *, score_thresh: float, nms: float, soft_nms_enabled: bool,
                soft_nms_method: str, soft_nms_sigma: float, soft_nms_min_score_thres: float,
                legacy_plus_one: bool) -> list[tuple[int, float]]:
    """The rows of one class that are kept, and their scores, the best first."""
    extra = float(legacy_plus_one)
    order = xp.argsort(scores, descending=True, stable=True)
    order = order[scores[order] > score_thresh]
    if soft_nms_enabled:
        kept, values = _boxes.suppress_softly(xp, boxes, scores, order, nms, extra, soft_nms_method, soft_nms_sigma,
                                              soft_nms_min_score_thres)
        return list(zip(kept, values))
    kept = _boxes.suppress(xp, boxes, order, nms, extra)
    return [(row, float(scores[row])) for row in kept]


class _Proposals(Operator, abstract=True):
    inputs = [In("scores", "(N, anchors, H, W), float"),
              In("bbox_deltas", "(N, 4 anchors, H, W); 5 anchors if rotated"),
              In("im_info", "(N, 3): height, width, scale"), In("anchors", "(anchors, 4); (anchors, 5) if rotated")]
    outputs = [Out("rois", ROIS), Out("rois_probs", "(R,)")]
    arguments = [
        Float("spatial_scale", 1.0 / 16, "of the feature map"), Int("pre_nms_topN", 6000), Int("post_nms_topN", 300),
        Float("nms_thresh", 0.7), Float("min_size", 16.0),
        Bool("correct_transform_coords", False, "ignored, see legacy_plus_one"), *BOXES,
    ]
    gradient = forbidden()
    host = True

    def shape(scores: TensorType, bbox_deltas: TensorType, im_info: TensorType, anchors: TensorType,
              **_: Any) -> tuple[TensorType, TensorType]:
        columns = None if anchors.dims is None or anchors.dims[1] is None else anchors.dims[1] + 1
        return scores.with_dims((None, columns)), scores.with_dims((None,))

    def kernel(xp: Any, scores: Any, bbox_deltas: Any, im_info: Any, anchors: Any, **how: Any) -> Any:
        if anchors.ndim != 2 or anchors.shape[1] not in (4, 5):
            raise ShapeError(f"the anchors have shape {tuple(anchors.shape)}, expected (anchors, 4), or 5 if rotated")
        count, size = anchors.shape
        if scores.ndim != 4 or scores.shape[1] != count:
            raise ShapeError(f"the scores have shape {tuple(scores.shape)}, expected (N, {count}, H, W)")
        require_shape("bbox_deltas", bbox_deltas, (scores.shape[0], count * size, *scores.shape[2:]))
        require_shape("im_info", im_info, (scores.shape[0], 3))
        found = [_proposals(xp, scores[k], bbox_deltas[k], info, anchors, **how)
                 for k, info in enumerate(_image_info(im_info).tolist())]
        rois = [xp.concat([xp.full((boxes.shape[0], 1), k, dtype=boxes.dtype), boxes], axis=1)
                for k, (boxes, _) in enumerate(found)]
        if not found:
            return xp.zeros((0, size + 1), dtype=scores.dtype), xp.zeros((0,), dtype=scores.dtype)
        return xp.concat(rois), xp.concat([probabilities for _, probabilities in found])


def _proposals(xp: Any, scores: Any, deltas: Any, info: list[float], anchors: Any, *, spatial_scale: float,
               pre_nms_topN: int, post_nms_topN: int, nms_thresh: float, min_size: float, legacy_plus_one: bool,
               correct_transform_coords: bool, **how: Any) -> tuple[Any, Any]:
    """The regions of one image, and how probable they are."""
    (count, size), (rows, columns), extra = anchors.shape, scores.shape[1:], float(legacy_plus_one)
    height, width, scale = info
    flat = xp.reshape(xp.permute_dims(scores, (1, 2, 0)), (-1,))
    order = xp.argsort(flat, descending=True, stable=True)
    order = order[:pre_nms_topN] if 0 < pre_nms_topN else order
    steps = xp.permute_dims(xp.reshape(deltas, (count, size, rows, columns)), (2, 3, 0, 1))
    steps = xp.reshape(steps, (-1, size))[order]
    place, boxes = order // count, xp.asarray(anchors[order % count], copy=True)
    stride = 1.0 / spatial_scale
    boxes[:, 0] += place % columns * stride
    boxes[:, 1] += place // columns * stride
    if size == 4:
        boxes[:, 2] += place % columns * stride
        boxes[:, 3] += place // columns * stride
    moved = _moved(xp, boxes, steps, (1.0, 1.0, 1.0, 1.0), height, width, legacy_plus_one=legacy_plus_one, **how)
    large = _large_enough(moved, max(min_size * scale, 1.0), height, width, extra)
    moved, probabilities = moved[large], flat[order][large]
    kept = _boxes.suppress(xp, moved, xp.arange(moved.shape[0]), nms_thresh, extra,
                           post_nms_topN if post_nms_topN > 0 else -1)
    return moved[kept], probabilities[kept]


def _large_enough(boxes: Any, least: float, height: float, width: float, extra: float) -> Any:
    """Which boxes are at least so wide and high, their centres on the image."""
    if boxes.shape[1] == 4:
        across, down = boxes[:, 2] - boxes[:, 0] + extra, boxes[:, 3] - boxes[:, 1] + extra
        x, y = boxes[:, 0] + across / 2, boxes[:, 1] + down / 2
    else:
        x, y, across, down = (boxes[:, k] for k in range(4))
    return (across >= least) & (down >= least) & (x < width) & (y < height)


class GenerateProposals(_Proposals):
    """Regions that may hold objects: anchors moved by deltas, clipped, filtered, the best after suppression.

    Source: Ren et al. 2015, https://arxiv.org/abs/1506.01497.
    """

    example = Example(
        {"scores": [[[[0.9, 0.2]]]], "bbox_deltas": [[[[0.0, 0.1]], [[0.0, 0.1]], [[0.0, 0.1]], [[0.0, 0.1]]]],
         "im_info": [[32.0, 32.0, 1.0]], "anchors": [[0.0, 0.0, 9.0, 9.0]]},
        {"rois": [[0.0, 0.0, 0.0, 9.0, 9.0], [0.0, 16.4741, 0.474145, 26.5259, 10.5259]], "rois_probs": [0.9, 0.2]},
        {"spatial_scale": 0.0625, "min_size": 1.0})


class GenerateProposalsCPP(_Proposals):
    """Another name of GenerateProposals."""

    example = Example(
        {"scores": [[[[0.9, 0.2]]]], "bbox_deltas": [[[[0.0, 0.1]], [[0.0, 0.1]], [[0.0, 0.1]], [[0.0, 0.1]]]],
         "im_info": [[32.0, 32.0, 1.0]], "anchors": [[0.0, 0.0, 9.0, 9.0]]},
        {"rois": [[0.0, 0.0, 0.0, 9.0, 9.0], [0.0, 16.4741, 0.474145, 26.5259, 10.5259]], "rois_probs": [0.9, 0.2]},
        {"spatial_scale": 0.0625, "min_size": 1.0})


class CollectRpnProposals(Operator):
    """The best regions of all levels of a feature pyramid."""

    inputs = [In("rpn_rois", "a blob per level", variadic=True), In("rpn_roi_probs", "a blob per level", variadic=True)]
    outputs = [Out("rois", ROIS)]
    num_inputs = between(2, None)
    arguments = [*RPN]
    gradient = forbidden()
    host = True
    example = Example(
        {"rpn_rois_fpn2": [[0.0, 0.0, 0.0, 50.0, 50.0]], "rpn_rois_fpn3": [[0.0, 0.0, 0.0, 400.0, 400.0]],
         "rpn_roi_probs_fpn2": [0.2], "rpn_roi_probs_fpn3": [0.7]},
        {"rois": [[0.0, 0.0, 0.0, 400.0, 400.0]]},
        {"rpn_min_level": 2, "rpn_max_level": 3, "rpn_post_nms_topN": 1})

    def kernel(xp: Any, *blobs: Any, rpn_post_nms_topN: int, rpn_min_level: int, rpn_max_level: int) -> Any:
        return _best(xp, blobs, rpn_post_nms_topN, rpn_max_level - rpn_min_level + 1)


def _best(xp: Any, blobs: Any, count: int, levels: int) -> Any:
    """The regions of the highest scores among those of all levels."""
    if len(blobs) != 2 * levels:
        raise ValueError(f"there are {len(blobs)} inputs, expected regions and scores of {levels} levels each")
    for rois, scores in zip(blobs[:levels], blobs[levels:]):
        if rois.ndim != 2 or rois.shape[1] != 5:
            raise ShapeError(f"regions have shape {tuple(rois.shape)}, expected {ROIS.partition(';')[0]}")
        if scores.size != rois.shape[0]:
            raise ShapeError(f"scores have shape {tuple(scores.shape)}, expected {rois.shape[0]} of them, one for each "
                             "region of their level")
    rois = xp.concat(blobs[:levels])
    order = xp.argsort(xp.concat([xp.reshape(s, (-1,)) for s in blobs[levels:]]), descending=True, stable=True)
    return rois[order[:count]]


def _by_level(xp: Any, rois: Any, canonical_scale: int, canonical_level: int, low: int, high: int,
              legacy_plus_one: bool) -> tuple[Any, ...]:
    """The regions of each level, and where each region is when those are laid one after the other.

    Source: Lin et al. 2017, https://arxiv.org/abs/1612.03144, equation 1.
    """
    if rois.ndim != 2 or rois.shape[1] not in (4, 5):
        raise ShapeError(f"the regions have shape {tuple(rois.shape)}, expected {ROIS}")
    extra = float(legacy_plus_one)
    left, top, right, bottom = (rois[:, k] for k in range(-4, 0))
    area = (right - left + extra) * (bottom - top + extra)
    if (area < 0).any():
        raise ValueError("a region ends before it begins: expected left <= right and top <= bottom")
    levels = xp.clip(xp.floor(canonical_level + xp.log2(xp.sqrt(area) / canonical_scale + 1e-6)), low, high)
    places = [xp.nonzero(levels == level)[0] for level in range(low, high + 1)]
    restore = xp.argsort(xp.concat(places), stable=True)
    return (*(rois[place] for place in places), xp.astype(restore, xp.int32))


def _pyramid_types(rois: TensorType, count: int) -> tuple[TensorType, ...]:
    some = rois.with_dims(None if rois.dims is None else (None, *rois.dims[1:]))
    return (*[some] * (count - 1), TensorType("int32", (None,)))


class DistributeFpnProposals(Operator):
    """Regions by the level of the feature pyramid that suits their size, and how to restore their order."""

    inputs = [In("rois", f"{ROIS}; float")]
    outputs = [Out("rois_fpn", "a blob per level", variadic=True),
               Out("rois_idx_restore", "int32", differentiable=False)]
    num_outputs = between(2, None)
    arguments = [*FPN]
    gradient = forbidden()
    host = True
    example = Example(
        {"rois": [[0.0, 0.0, 0.0, 50.0, 50.0], [0.0, 0.0, 0.0, 400.0, 400.0]]},
        {"rois_fpn2": [[0.0, 0.0, 0.0, 50.0, 50.0]], "rois_fpn3": Tensor([], "float32", (0, 5)),
         "rois_fpn4": [[0.0, 0.0, 0.0, 400.0, 400.0]], "rois_idx_restore": [0, 1]},
        {"roi_min_level": 2, "roi_max_level": 4})

    def shape(rois: TensorType, *, num_outputs: int = 5, **_: Any) -> tuple[TensorType, ...]:
        return _pyramid_types(rois, num_outputs)

    def kernel(xp: Any, rois: Any, *, roi_canonical_scale: int, roi_canonical_level: int, roi_min_level: int,
               roi_max_level: int, legacy_plus_one: bool, op: Any) -> Any:
        _require_levels(op.num_outputs - 1, roi_min_level, roi_max_level)
        return _by_level(xp, rois, roi_canonical_scale, roi_canonical_level, roi_min_level, roi_max_level,
                         legacy_plus_one)


def _require_levels(outputs: int, low: int, high: int) -> None:
    if outputs != high - low + 1:
        raise ValueError(f"there are {outputs} outputs for levels, expected {high - low + 1}: levels go from "
                         f"roi_min_level {low} to roi_max_level {high}")


class CollectAndDistributeFpnRpnProposals(Operator):
    """CollectRpnProposals and then DistributeFpnProposals."""

    inputs = [In("rpn_rois", "a blob per level, float", variadic=True),
              In("rpn_roi_probs", "a blob per level", variadic=True)]
    outputs = [Out("rois", ROIS), Out("rois_fpn", "a blob per level", variadic=True),
               Out("rois_idx_restore", "int32", differentiable=False)]
    num_inputs = between(2, None)
    num_outputs = between(3, None)
    arguments = [*FPN, *RPN, Int("post_nms_topN", 2000)]
    gradient = forbidden()
    host = True
    example = Example(
        {"rpn_rois_fpn2": [[0.0, 0.0, 0.0, 50.0, 50.0]], "rpn_rois_fpn3": [[0.0, 0.0, 0.0, 400.0, 400.0]],
         "rpn_roi_probs_fpn2": [0.2], "rpn_roi_probs_fpn3": [0.7]},
        {"rois": [[0.0, 0.0, 0.0, 400.0, 400.0], [0.0, 0.0, 0.0, 50.0, 50.0]],
         "rois_fpn2": [[0.0, 0.0, 0.0, 50.0, 50.0]], "rois_fpn3": Tensor([], "float32", (0, 5)),
         "rois_fpn4": [[0.0, 0.0, 0.0, 400.0, 400.0]], "rois_idx_restore": [1, 0]},
        {"rpn_min_level": 2, "rpn_max_level": 3, "rpn_post_nms_topN": 2, "roi_min_level": 2, "roi_max_level": 4})

    def shape(*types: TensorType, num_outputs: int = 6, **_: Any) -> tuple[TensorType, ...]:
        first = types[0].with_dims(None if types[0].dims is None else (None, *types[0].dims[1:]))
        return (first, *_pyramid_types(types[0], num_outputs - 1))

    def kernel(xp: Any, *blobs: Any, roi_canonical_scale: int, roi_canonical_level: int, roi_min_level: int,
               roi_max_level: int, legacy_plus_one: bool, rpn_post_nms_topN: int, rpn_min_level: int,
               rpn_max_level: int, post_nms_topN: int, op: Any) -> Any:
        _require_levels(op.num_outputs - 2, roi_min_level, roi_max_level)
        count = rpn_post_nms_topN if op.argument("rpn_post_nms_topN") is not None else post_nms_topN
        rois = _best(xp, blobs, count, rpn_max_level - rpn_min_level + 1)
        return (rois, *_by_level(xp, rois, roi_canonical_scale, roi_canonical_level, roi_min_level, roi_max_level,
                                 legacy_plus_one))


class HeatmapMaxKeypoint(Operator):
    """The place and score of the peak of every key point's heat map, in the image's coordinates."""

    inputs = [In("heatmaps", "(R, keypoints, S, S), float"), In("bboxes", "(R, 4 or more)")]
    outputs = [Out("keypoints", "(R, 4, keypoints): x, y, logit, probability")]
    arguments = [Bool("should_output_softmax", False, "fill in the probability")]
    gradient = forbidden()
    host = True
    example = Example(
        {"heatmaps": [[[[1.0, 2.0], [4.0, 3.0]]]], "bboxes": [[0.0, 0.0, 10.0, 10.0]]},
        {"keypoints": [[[2.5], [7.5], [4.0], [0.643914]]]},
        {"should_output_softmax": 1})

    def shape(heatmaps: TensorType, bboxes: TensorType, **_: Any) -> TensorType:
        dims = heatmaps.dims
        return heatmaps.with_dims(None if dims is None else (dims[0], 4, dims[1]))

    def kernel(xp: Any, heatmaps: Any, bboxes: Any, *, should_output_softmax: bool) -> Any:
        if heatmaps.ndim != 4 or heatmaps.shape[2] != heatmaps.shape[3] or heatmaps.shape[2] < 2:
            raise ShapeError(f"the heat maps have shape {tuple(heatmaps.shape)}, expected (R, keypoints, S, S), S at "
                             "least 2")
        if bboxes.ndim != 2 or bboxes.shape[0] != heatmaps.shape[0] or bboxes.shape[1] < 4:
            raise ShapeError(f"the boxes have shape {tuple(bboxes.shape)}, expected ({heatmaps.shape[0]}, 4 or more)")
        regions, keypoints, size = heatmaps.shape[:3]
        out = xp.zeros((regions, 4, keypoints), dtype=heatmaps.dtype)
        for r in range(regions):
            left, top, right, bottom = (float(v) for v in bboxes[r, :4])
            width, height = max(right - left, 1.0), max(bottom - top, 1.0)
            for k in range(keypoints):
                map_ = heatmaps[r, k]
                row, column = divmod(int(xp.argmax(map_)), size)
                right_, down, score = _refined(map_.tolist(), row, column, size)
                probability = 1 / float(xp.exp(map_ - map_[row, column]).sum()) if should_output_softmax else 0.0
                out[r, :, k] = xp.asarray([left + (column + right_ + 0.5) * width / size,
                                           top + (row + down + 0.5) * height / size, score, probability])
        return out


def _refined(map_: list[list[float]], row: int, column: int, size: int) -> tuple[float, float, float]:
    """How far beside its highest pixel a map peaks, and how high: one step of Newton's method."""
    def at(down: int, right: int) -> float:
        y, x = row + down, column + right  # mirrored at the border
        return map_[row - down if not 0 <= y < size else y][column - right if not 0 <= x < size else x]

    slope = ((at(0, 1) - at(0, -1)) / 2, (at(1, 0) - at(-1, 0)) / 2)
    xx, yy = at(0, -1) - 2 * at(0, 0) + at(0, 1), at(-1, 0) - 2 * at(0, 0) + at(1, 0)
    xy = (at(1, 1) - at(1, -1) - at(-1, 1) + at(-1, -1)) / 4
    determinant = xx * yy - xy * xy
    if math.fabs(determinant) < 1e-4:
        return 0.0, 0.0, at(0, 0)
    x, y = (xy * slope[1] - yy * slope[0]) / determinant, (xy * slope[0] - xx * slope[1]) / determinant
    if (reach := max(abs(x), abs(y))) > 1.5:
        x, y = x * 1.5 / reach, y * 1.5 / reach
    return x, y, at(0, 0) + slope[0] * x + slope[1] * y + (xx * x * x + 2 * xy * x * y + yy * y * y) / 2
