"""``torch.ops._caffe2``: the operators that torch programs, scripted ones too, call by name and position.

Importing this module registers them. They run on the torch backend, on the device of their tensors, and take no part
in autograd, which is how Caffe2 exported them. The signatures are its interface: scripted models hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from netgrad.graph.argument_values import MakeArgument
from netgrad.proto import caffe2_pb2

NAMESPACE = "_caffe2"

#: what each is called with. Every one takes ``_caffe2_preallocated_outputs`` besides: tensors to put the results into
SIGNATURES = """
AliasWithName(Tensor input, str name, bool is_backward=False) -> (Tensor output)
BBoxTransform(Tensor rois, Tensor deltas, Tensor im_info, float[] weights, bool apply_scale, bool rotated, bool angle_bound_on, int angle_bound_lo, int angle_bound_hi, float clip_angle_thresh, bool legacy_plus_one) -> (Tensor output_0, Tensor output_1)
BatchBoxCox(Tensor data, Tensor lambda1, Tensor lambda2, int min_block_size=256) -> (Tensor results)
BatchBucketOneHot(Tensor data, Tensor lengths, Tensor boundaries) -> (Tensor output)
BatchPermutation(Tensor X, Tensor indices) -> (Tensor)
BoxWithNMSLimit(Tensor scores, Tensor boxes, Tensor batch_splits, float score_thresh, float nms, int detections_per_im, bool soft_nms_enabled, str soft_nms_method, float soft_nms_sigma, float soft_nms_min_score_thres, bool rotated, bool cls_agnostic_bbox_reg, bool input_boxes_include_bg_cls, bool output_classes_include_bg_cls, bool legacy_plus_one) -> (Tensor scores, Tensor boxes, Tensor classes, Tensor batch_splits, Tensor keeps, Tensor keeps_size)
Bucketize(Tensor data, float[] boundaries) -> (Tensor output)
CollectAndDistributeFpnRpnProposals(Tensor[] input_list, int roi_canonical_scale, int roi_canonical_level, int roi_max_level, int roi_min_level, int rpn_max_level, int rpn_min_level, int rpn_post_nms_topN, bool legacy_plus_one) -> (Tensor rois, Tensor rois_fpn2, Tensor rois_fpn3, Tensor rois_fpn4, Tensor rois_fpn5, Tensor rois_idx_restore_int32)
CollectRpnProposals(Tensor[] input_list, int rpn_max_level, int rpn_min_level, int rpn_post_nms_topN) -> (Tensor rois)
CopyCPUToGPU(Tensor input) -> (Tensor)
CopyGPUToCPU(Tensor input) -> (Tensor)
DistributeFpnProposals(Tensor rois, int roi_canonical_scale, int roi_canonical_level, int roi_max_level, int roi_min_level, bool legacy_plus_one) -> (Tensor rois_fpn2, Tensor rois_fpn3, Tensor rois_fpn4, Tensor rois_fpn5, Tensor rois_idx_restore_int32)
Fused8BitRowwiseQuantizedToFloat(Tensor scale_bias_quantized_input) -> (Tensor)
GatherRanges(Tensor data, Tensor ranges) -> (Tensor, Tensor)
GatherRangesToDense(Tensor data, Tensor ranges, Tensor? key, int[] lengths, int min_observation, float max_mismatched_ratio, float max_empty_ratio) -> (Tensor[] outputs)
Gelu(Tensor input, bool fast_gelu=False) -> (Tensor output)
GenerateProposals(Tensor scores, Tensor bbox_deltas, Tensor im_info, Tensor anchors, float spatial_scale, int pre_nms_topN, int post_nms_topN, float nms_thresh, float min_size, bool angle_bound_on, int angle_bound_lo, int angle_bound_hi, float clip_angle_thresh, bool legacy_plus_one) -> (Tensor output_0, Tensor output_1)
HeatmapMaxKeypoint(Tensor heatmaps, Tensor bboxes_in, bool should_output_softmax=True) -> (Tensor keypoints)
IndexHash(Tensor indices, int seed, int modulo) -> (Tensor hashed_indices)
InferenceLSTM(Tensor[] input_list, int num_layers, bool has_biases, bool batch_first, bool bidirectional) -> (Tensor output, Tensor hidden, Tensor cell)
LayerNorm(Tensor X, Tensor? gamma, Tensor? beta, int axis=1, float epsilon=1e-5, bool elementwise_affine=False) -> (Tensor Y, Tensor mean, Tensor std)
LearningRate(Tensor iterations, float base_lr, str policy, float? power=1., float? gamma=1., int? stepsize=1, float? max_lr=0.005, bool? active_first=True, int? active_period=-1, int? inactive_period=-1, int? max_iter=-1, int? num_iter=0, float? start_multiplier=0, float? end_multiplier=0, float? multiplier=0.5, float? multiplier_1=1., float? multiplier_2=1., int[]? sub_policy_num_iters=None, float? m1=0.5, float? n1=0, float? m2=0.5, float? n2=0, float? m3=0.5, float? start_warmup_multiplier=0.1, int? constant_warmup_num_iter=10000000, int? linear_warmup_num_iter=10000000, float? cyclical_max_lr=0.05, int? cyclical_step_size=1000000, float? cyclical_decay=0.999, float? cosine_min_lr=0.01, float? cosine_max_lr=0.05, int? cosine_period=50, float? cosine_t_mult=1., float? cosine_lr_shrink=0.99, float? decay=1.) -> (Tensor output)
LengthsGather(Tensor data, Tensor lengths, Tensor indices) -> (Tensor)
LengthsMax(Tensor data, Tensor lengths) -> (Tensor)
LengthsMean(Tensor data, Tensor lengths) -> (Tensor)
LengthsSum(Tensor data, Tensor lengths) -> (Tensor)
Logit(Tensor X, float eps=1e-6) -> (Tensor Y)
MergeIdLists(Tensor[] lengths_and_values) -> (Tensor merged_lengths, Tensor merged_values)
PackSegments(Tensor lengths, Tensor tensor, int max_length=-1, bool pad_minf=False, bool return_presence_mask=False) -> (Tensor packed_tensor, Tensor presence_mask)
Percentile(Tensor original_values, Tensor value_to_pct, Tensor lengths) -> (Tensor percentile_values)
PiecewiseLinearTransform(Tensor predictions, float[] bounds, float[] slopes, float[] intercepts, bool binary) -> (Tensor output_0)
ResizeNearest(Tensor X, str order, float width_scale, float height_scale) -> (Tensor Y)
ResizeNearest3D(Tensor X, str order, float temporal_scale, float width_scale, float height_scale) -> (Tensor Y)
RoIAlign(Tensor features, Tensor rois, str order, float spatial_scale, int pooled_h, int pooled_w, int sampling_ratio, bool aligned) -> (Tensor)
RoIAlignGradient(Tensor features, Tensor rois, Tensor grad, str order, float spatial_scale, int pooled_h, int pooled_w, int sampling_ratio, bool aligned) -> (Tensor)
RoIAlignRotated(Tensor features, Tensor rois, str order, float spatial_scale, int pooled_h, int pooled_w, int sampling_ratio, bool aligned) -> (Tensor)
SparseLengthsSum8BitRowwiseSparse(Tensor data, Tensor indices, Tensor lengths, Tensor compressed_indices_mapping) -> (Tensor output)
SparseToDenseMask(Tensor indices, Tensor values, Tensor default_value, Tensor? lengths, int[] mask, bool? return_presence_mask=False, int? max_skipped_indices=50) -> (Tensor output, Tensor presence_mask)
UnpackSegments(Tensor lengths, Tensor tensor, int max_length=-1) -> (Tensor packed_tensor)
"""  # noqa: E501 (one operator a line)


def _register() -> torch.library.Library:
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    for line in SIGNATURES.strip().splitlines():
        signature = line.replace(") ->", ", Tensor[]? _caffe2_preallocated_outputs=None) ->", 1)
        library.define(signature)
        schema = torch._C.parse_schema(f"{NAMESPACE}::{signature}")
        type = schema.name.partition("::")[2]
        library.impl(type, _implementation(schema), "CompositeExplicitAutograd")
        library.impl(type, torch.library.fallthrough_kernel, "Autograd")
    return library


def _implementation(schema: Any) -> Callable[..., Any]:
    """What torch calls, with the values of the schema's first parameters; the others have their defaults."""
    type = schema.name.partition("::")[2]
    parameters = schema.arguments

    def run(*given: Any) -> Any:
        values = [*given, *(parameter.default_value for parameter in parameters[len(given):])]
        into = values.pop() or []
        tensors: list[torch.Tensor | None] = []
        arguments: dict[str, Any] = {}
        for parameter, value in zip(parameters, values):
            if "Tensor" not in str(parameter.type):
                arguments[parameter.name] = value
            elif isinstance(value, (list, tuple)):
                tensors.extend(value)
            else:
                tensors.append(value)
        if str(schema.returns[0].type) == "List[Tensor]":  # GatherRangesToDense: one for each range
            return _placed(type, run_operator(type, tensors, arguments, len(arguments["lengths"])), into)
        made = [k for k, returned in enumerate(schema.returns) if arguments.get(f"return_{returned.name}", True)]
        results: list[torch.Tensor | None] = [None] * len(schema.returns)
        for k, result in zip(made, run_operator(type, tensors, arguments, len(made))):
            results[k] = result
        results = _placed(type, results, into)
        return results[0] if len(results) == 1 else tuple(results)

    return run


def run_operator(type: str, tensors: Sequence[torch.Tensor | None], arguments: dict[str, Any],
                 outputs: int) -> list[torch.Tensor]:
    """One operator on torch tensors, on their device.

    Args:
        type: the operator's type.
        tensors: its inputs; None for one that is left off.
        arguments: name -> value; those that are None are left off.
        outputs: how many of its outputs are wanted.

    Raises:
        OperatorError: what is wrong with the inputs or arguments.
    """
    from netgrad.runtime.workspace import Workspace

    while tensors and tensors[-1] is None:
        tensors = tensors[:-1]
    workspace = Workspace(backend="torch")
    op = caffe2_pb2.OperatorDef(type=type)
    for k, tensor in enumerate(tensors):
        op.input.append("" if tensor is None else f"input_{k}")
        if tensor is not None:
            workspace.values[op.input[k]] = tensor.detach().contiguous()
    op.output.extend(f"output_{k}" for k in range(outputs))
    op.arg.extend(MakeArgument(name, value) for name, value in arguments.items() if value is not None)
    cuda = next((tensor.device for tensor in tensors if tensor is not None and tensor.device.type == "cuda"), None)
    if cuda is not None or type == "CopyCPUToGPU":
        op.device_option.device_type = caffe2_pb2.CUDA
        if cuda is not None:
            op.device_option.device_id = cuda.index
        elif torch.cuda.is_available():
            op.device_option.device_id = torch.cuda.current_device()
    workspace.run_operator(op)
    found = [workspace.values[name] for name in op.output]
    return [value if isinstance(value, torch.Tensor) else torch.as_tensor(value) for value in found]


def _placed(type: str, results: list[Any], into: Sequence[torch.Tensor]) -> list[Any]:
    """The results, put into the tensors that the caller gave for them."""
    if not into:
        return results
    if len(into) != len(results):
        raise ValueError(f"{type} has {len(results)} outputs, and {len(into)} tensors were given for them")
    for tensor, result in zip(into, results):
        if result is not None:
            with torch.no_grad():
                tensor.resize_(result.shape).copy_(result)
    return list(into)


_LIBRARY = _register()
