"""Object detection: regions of interest, proposals, boxes and key points."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Bool, Float, Floats, Int, Str
from netgrad.graph.declaration import In, Operator, Out, between, counts
from netgrad.graph.rules import Rule, emits, forbidden
from netgrad.graph.shapes import TensorType, same_as
from netgrad.ops._windows import join_dims, split_dims

ORDER = Str("order", "NCHW", "NCHW or NHWC: where the channels are")
ROIS = "(R, 5): image, left, top, right, bottom; or (R, 4) for one image"
POOLED = (Float("spatial_scale", 1.0, "from the regions' coordinates to those of X"), Int("pooled_h", 1),
          Int("pooled_w", 1))
ALIGNED = (*POOLED, Int("sampling_ratio", -1, "samples per bin along each axis; by the region's size if not positive"),
           Bool("aligned", False, "pixels are centred at half numbers"))
BOXES = (
    Bool("angle_bound_on", True), Int("angle_bound_lo", -90), Int("angle_bound_hi", 90),
    Float("clip_angle_thresh", 1.0, "rotated boxes within it are clipped as upright ones"),
    Bool("legacy_plus_one", True, "a box of one pixel has width 1, its corners being equal"),
)
FPN = (Int("roi_canonical_scale", 224, "size of the regions that belong to the canonical level"),
       Int("roi_canonical_level", 4), Int("roi_min_level", 2), Int("roi_max_level", 5),
       Bool("legacy_plus_one", True, "a box of one pixel has width 1, its corners being equal"))
RPN = (Int("rpn_min_level", 2), Int("rpn_max_level", 6), Int("rpn_post_nms_topN", 2000, "how many regions are kept"))


class _Align(Operator, abstract=True):
    outputs = [Out("Y", "(R, C, pooled_h, pooled_w) or, with order NHWC, (R, pooled_h, pooled_w, C)")]
    arguments = [*ALIGNED, ORDER]

    def shape(X: TensorType, RoIs: TensorType, *, pooled_h: int = 1, pooled_w: int = 1, order: str = "NCHW",
              **_: Any) -> TensorType:
        if X.rank is None or RoIs.dims is None:
            return X.with_dims(None)
        _batch, channels, _sizes = split_dims(X, order)
        return X.with_dims(join_dims(RoIs.dims[0], channels, (pooled_h, pooled_w), order))


class RoIAlign(_Align):
    """Y = the mean, in each of pooled_h x pooled_w bins of every region, of samples read between the pixels.

    Source: He et al. 2017, https://arxiv.org/abs/1703.06870.
    """

    inputs = [In("X", "(N, C, H, W) or, with order NHWC, (N, H, W, C); float"), In("RoIs", ROIS)]
    gradient = emits("RoIAlignGradient", "I0 I1 GO0", "GI0")


class RoIAlignGradient(Operator):
    """dX of RoIAlign."""

    inputs = [In("X", shape_only=True), In("RoIs"), In("dY")]
    outputs = [Out("dX", "like X")]
    arguments = [*ALIGNED, ORDER]
    internal = True
    shape = same_as(0)


class RoIAlignRotated(_Align):
    """RoIAlign of regions that are turned by an angle."""

    inputs = [In("X", "(N, C, H, W) or, with order NHWC, (N, H, W, C); float"),
              In("RoIs", "(R, 6): image, centre x, centre y, width, height, degrees; or (R, 5) for one image")]
    gradient = emits("RoIAlignRotatedGradient", "I0 I1 GO0", "GI0")


class RoIAlignRotatedGradient(Operator):
    """dX of RoIAlignRotated."""

    inputs = [In("X", shape_only=True), In("RoIs"), In("dY")]
    outputs = [Out("dX", "like X")]
    arguments = [*ALIGNED, ORDER]
    internal = True
    shape = same_as(0)


class RoIPool(Operator):
    """Y = the largest element in each of pooled_h x pooled_w bins of every region.

    Source: Girshick 2015, https://arxiv.org/abs/1504.08083.
    """

    inputs = [In("X", "(N, C, H, W), float"), In("rois", ROIS)]
    outputs = [Out("Y", "(R, C, pooled_h, pooled_w)"),
               Out("argmaxes", "like Y, int32: where each was found; not in test mode", optional=True,
                   differentiable=False)]
    num_outputs = counts(1, 2)
    arguments = [Int("is_test", 0), ORDER, *POOLED]

    def shape(X: TensorType, rois: TensorType, *, pooled_h: int = 1, pooled_w: int = 1, **_: Any) -> Any:
        if X.dims is None or rois.dims is None:
            return X.with_dims(None), TensorType("int32", None)
        Y = X.with_dims((rois.dims[0], X.dims[1], pooled_h, pooled_w))
        return Y, Y.with_dtype("int32")

    def gradient(op: Rule) -> None:
        if op.num_outputs < 2:
            raise op.fail("it needs its second output, the places of the maxima")
        op.emit("RoIPoolGradient", [op.I(0), op.I(1), op.O(1), op.GO(0)], [op.GI(0)])


class RoIPoolGradient(Operator):
    """dX of RoIPool: the gradient of every bin goes to its largest element."""

    inputs = [In("X", shape_only=True), In("rois"), In("argmaxes"), In("dY")]
    outputs = [Out("dX", "like X")]
    arguments = [ORDER, *POOLED]
    internal = True
    shape = same_as(0)


class BBoxTransform(Operator):
    """Boxes moved and scaled by regressed deltas, then clipped to their image."""

    inputs = [In("rois", ROIS), In("deltas", "(R, 4 classes): dx, dy, log dw, log dh; 5 classes if rotated"),
              In("im_info", "(N, 3): height, width, scale")]
    outputs = [Out("box_out", "like deltas: left, top, right, bottom"),
               Out("roi_batch_splits", "(N,): regions per image", optional=True)]
    arguments = [
        Floats("weights", (1.0, 1.0, 1.0, 1.0), "divide the deltas"),
        Bool("apply_scale", True, "back to the original image"),
        Bool("rotated", False), Bool("correct_transform_coords", False, "the corner is one less"), *BOXES,
    ]
    gradient = forbidden()

    def shape(rois: TensorType, deltas: TensorType, im_info: TensorType, **_: Any) -> tuple[TensorType, TensorType]:
        return deltas, deltas.with_dims(None if im_info.dims is None else im_info.dims[:1])


class BoxWithNMSLimit(Operator):
    """Detections: per class, boxes above a score, thinned by non-maximum suppression; the best of each image."""

    inputs = [In("scores", "(R, classes)"), In("boxes", "(R, 4 classes)"),
              In("batch_splits", "(N,): regions per image", optional=True)]
    outputs = [Out("scores", "(D,)"), Out("boxes", "(D, 4)"), Out("classes", "(D,)"),
               Out("batch_splits", "(N,): detections per image", optional=True),
               Out("keeps", "(D,), int32: which rows they were", optional=True),
               Out("keeps_size", "(N classes,), int32", optional=True)]
    arguments = [
        Float("score_thresh", 0.05), Float("nms", 0.3, "overlap above which the weaker goes"),
        Int("detections_per_im", 100), Bool("soft_nms_enabled", False, "lower its score instead"),
        Str("soft_nms_method", "linear", "linear or gaussian"), Float("soft_nms_sigma", 0.5),
        Float("soft_nms_min_score_thres", 0.001), Bool("rotated", False), Bool("cls_agnostic_bbox_reg", False),
        Bool("input_boxes_include_bg_cls", True), Bool("output_classes_include_bg_cls", True),
        Bool("legacy_plus_one", True),
    ]
    gradient = forbidden()


class _Proposals(Operator, abstract=True):
    inputs = [In("scores", "(N, anchors, H, W)"), In("bbox_deltas", "(N, 4 anchors, H, W)"),
              In("im_info", "(N, 3): height, width, scale"), In("anchors", "(anchors, 4)")]
    outputs = [Out("rois", ROIS), Out("rois_probs", "(R,)")]
    arguments = [
        Float("spatial_scale", 1.0 / 16, "of the feature map"), Int("pre_nms_topN", 6000), Int("post_nms_topN", 300),
        Float("nms_thresh", 0.7), Float("min_size", 16.0), Bool("correct_transform_coords", False), *BOXES,
    ]
    gradient = forbidden()


class GenerateProposals(_Proposals):
    """Regions that may hold objects: anchors moved by deltas, clipped, filtered, the best after suppression.

    Source: Ren et al. 2015, https://arxiv.org/abs/1506.01497.
    """


class GenerateProposalsCPP(_Proposals):
    """Another name of GenerateProposals."""


class CollectRpnProposals(Operator):
    """The best regions of all levels of a feature pyramid."""

    inputs = [In("rpn_rois", "a blob per level", variadic=True), In("rpn_roi_probs", "a blob per level", variadic=True)]
    outputs = [Out("rois", ROIS)]
    num_inputs = between(2, None)
    arguments = [*RPN]
    gradient = forbidden()


class DistributeFpnProposals(Operator):
    """Regions by the level of the feature pyramid that suits their size, and how to restore their order."""

    inputs = [In("rois", ROIS)]
    outputs = [Out("rois_fpn", "a blob per level", variadic=True),
               Out("rois_idx_restore", "int32", differentiable=False)]
    num_outputs = between(2, None)
    arguments = [*FPN]
    gradient = forbidden()


class CollectAndDistributeFpnRpnProposals(Operator):
    """CollectRpnProposals and then DistributeFpnProposals."""

    inputs = [In("rpn_rois", "a blob per level", variadic=True), In("rpn_roi_probs", "a blob per level", variadic=True)]
    outputs = [Out("rois", ROIS), Out("rois_fpn", "a blob per level", variadic=True),
               Out("rois_idx_restore", "int32", differentiable=False)]
    num_inputs = between(2, None)
    num_outputs = between(3, None)
    arguments = [*FPN, *RPN, Int("post_nms_topN", 2000)]
    gradient = forbidden()


class HeatmapMaxKeypoint(Operator):
    """The place and score of the peak of every key point's heat map, in the image's coordinates."""

    inputs = [In("heatmaps", "(R, keypoints, S, S)"), In("bboxes", "(R, 4 or more)")]
    outputs = [Out("keypoints", "(R, 4, keypoints): x, y, logit, probability")]
    arguments = [Bool("should_output_softmax", False, "fill in the probability")]
    gradient = forbidden()

    def shape(heatmaps: TensorType, bboxes: TensorType, **_: Any) -> TensorType:
        dims = heatmaps.dims
        return heatmaps.with_dims(None if dims is None else (dims[0], 4, dims[1]))
