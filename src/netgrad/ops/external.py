"""Operators that hand work to another runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netgrad.graph.arguments import Any_, Int, Str, Strs, Tensors, value_of
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example


def _call_of(schema: Any, tensors: Sequence[Any], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments of one overload: tensors in order, the rest by name; None if that is not how it is called."""
    kinds = [str(a.type) for a in schema.arguments]
    single = sum(kind == "Tensor" for kind in kinds)
    values: dict[str, Any] = {}
    left, named = list(tensors), dict(given)
    for argument, kind in zip(schema.arguments, kinds, strict=True):
        if kind in ("List[Tensor]", "List[Optional[Tensor]]"):
            count = len(tensors) - single
            values[argument.name], left = left[:count], left[count:]
        elif kind == "Tensor" or (kind == "Optional[Tensor]" and left):
            if not left:
                return None
            values[argument.name] = left.pop(0)
        elif argument.name in named:
            value = named.pop(argument.name)
            if kind.startswith("List") and not isinstance(value, list):
                value = [value]
            values[argument.name] = bool(value) if kind == "bool" else value
        elif not argument.has_default_value():
            return None
    return None if left or named else values


class ATen(Operator):
    """Calls a function of PyTorch's tensor library by name; it needs PyTorch, whatever the backend is.

    Inputs are the tensors of the call in their order, further arguments those of the function by their names.
    """

    inputs = [In("inputs", "the tensors of the call, in order", variadic=True, optional=True)]
    outputs = [Out("outputs", "what the function returns", variadic=True, optional=True)]
    arguments = [Str("operator", "", "the name of the function"), Str("overload_name", "")]
    example = Example({"X": [1.0, 4.0]}, {"Y": [1.0, 2.0]}, {"operator": "sqrt"}, wrt=())

    def kernel(xp: Any, *inputs: Any, operator: str, overload_name: str, op: Any) -> Any:
        try:
            import torch
        except ImportError:
            raise ValueError("it calls PyTorch, which is not installed: pip install netgrad[torch]") from None
        tensors = [x if isinstance(x, torch.Tensor) else torch.from_numpy(xp.to_numpy(x).copy()) for x in inputs]
        if operator in ("index", "index_put"):  # masks were bytes once
            tensors[1:] = [t.bool() if t.dtype == torch.uint8 else t for t in tensors[1:]]
        family = getattr(torch.ops.aten, operator, None) if operator else None
        if family is None:
            raise ValueError(f"PyTorch has no function {operator!r}")
        given = {a.name: value_of(a) for a in op.definition.arg if a.name not in ("operator", "overload_name")}
        for name in [overload_name] if overload_name else family.overloads():
            function = getattr(family, name)
            call = None if "out" in name.split("_") else _call_of(function._schema, tensors, given)
            if call is not None:
                results = function(**call)
                results = tuple(results) if isinstance(results, (tuple, list)) else (results,)
                return tuple(xp.from_numpy(r.numpy()) if r.device.type == "cpu" else r for r in results)
        raise ValueError(f"no form of {operator} takes {len(tensors)} tensors and {', '.join(given) or 'nothing else'}")


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
        Any_("output_qshape_info", ()), Any_("output_qshapes_bs_", ()), Any_("output_resize_hints", ()),
    ]
