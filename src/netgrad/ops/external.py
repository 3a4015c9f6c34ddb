"""Operators that hand work to another runtime."""

from __future__ import annotations

from netgrad.graph.arguments import Any_, Int, Str, Strs, Tensors
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.rules import RuleFunction


class ATen(Operator):
    """Calls a function of PyTorch's tensor library by name; further arguments are those of the function."""

    inputs = [In("inputs", "the tensors of the call, in order", variadic=True, optional=True)]
    outputs = [Out("outputs", variadic=True, optional=True)]
    arguments = [Str("operator", "", "the name of the function"), Str("overload_name", "")]
    gradient: RuleFunction | None = None


class Onnxifi(Operator):
    """Runs an ONNX model on an accelerator's own runtime."""

    inputs = [In("inputs", variadic=True, optional=True)]
    outputs = [Out("outputs", variadic=True, optional=True)]
    arguments = [
        Str("onnx_model", "", "the model"), Strs("initializers", ()), Strs("input_names", ()), Strs("output_names", ()),
        Int("backend_id", None), Str("model_id", ""), Str("net_pos", ""), Str("netdef_str", ""), Int("use_onnx", 0),
        Int("use_glow_aot", 0), Int("timeout", 0), Int("max_batch_size", 0), Int("max_seq_size", 0),
        Int("nominal_batch_idx", 0), Int("adjust_output_batch", 0), Int("adjust_quantized_offset", 128),
        Int("use_passed_output_shapes", 0), Tensors("output_shape_info", ()), Tensors("output_shapes_bs_", ()),
        Any_("output_qshape_info", ()), Any_("output_resize_hints", ()),
    ]
