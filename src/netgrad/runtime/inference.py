"""Shapes and dtypes of a net's blobs, from its declarations, without running it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from netgrad.graph import registry
from netgrad.graph.shapes import UNKNOWN, Fixed, Same, ShapeError, TensorType
from netgrad.proto import caffe2_pb2
from netgrad.runtime import dtypes, lending
from netgrad.runtime.binding import arguments_of
from netgrad.runtime.blobs import Strings
from netgrad.runtime.errors import BadShape, OperatorError, Place
from netgrad.runtime.workspace import Workspace, definition_of


def type_of(value: Any) -> TensorType:
    """The type of a blob's value; unknown for what is no tensor."""
    if isinstance(value, lending.Lent):
        value = lending.current(value)
    if isinstance(value, Strings):
        return TensorType("string", tuple(value.shape))
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return TensorType(str(value.dtype).removeprefix("torch."), tuple(int(n) for n in value.shape))
    return UNKNOWN


def infer(ops: Iterable[caffe2_pb2.OperatorDef], known: Mapping[str, TensorType],
          net: str = "", largest: bool = False) -> dict[str, TensorType]:
    """The types of all blobs, as far as declarations tell: what is unknown stays so.

    With ``largest``, an output whose shape is not known before the run has the largest that it can have, where its
    declaration tells that.

    Raises `BadShape`, located, where the shapes of an operator's inputs do not go together.
    """
    types = dict(known)
    for position, op in enumerate(ops):
        inputs = [types.get(name, UNKNOWN) for name in op.input]
        try:
            outputs = infer_operator(op, inputs)
            if largest and (declaration := registry.find(op.type)) and declaration.largest_shape:
                outputs = list(declaration.largest_shape(*inputs, **arguments_of(op, declaration)))
        except (OperatorError, ShapeError) as error:
            found = error if isinstance(error, OperatorError) else BadShape(str(error))
            described = [f"{name}: {t.dtype or '?'} {t.dims or '?'}" for name, t in zip(op.input, inputs)]
            raise found.at(Place(op.type, position, net, described, list(op.output))) from None
        if op.is_gradient_op:  # a gradient is like what it is the gradient of
            outputs = [types.get(name.removesuffix("_grad"), t)
                       if name.endswith("_grad") and (t.dims is None or None in t.dims) else t
                       for name, t in zip(op.output, outputs)]
        types.update(zip(op.output, outputs))
    return types


@functools.cache
def _counts_outputs(shape: Callable[..., Any]) -> bool:
    """Whether a shape function wants to know how many outputs there are (Split)."""
    return "num_outputs" in getattr(getattr(shape, "__code__", None), "co_varnames", ())


def infer_operator(op: caffe2_pb2.OperatorDef, inputs: Sequence[TensorType]) -> list[TensorType]:
    """The types of one operator's outputs; unknown where its declaration has no rule, or a rank that it needs is."""
    declaration = registry.find(op.type)
    nothing = [UNKNOWN] * len(op.output)
    if declaration is None or declaration.shape is None:
        return nothing
    arguments = arguments_of(op, declaration)
    if any(t.dims is None for t in inputs) and not isinstance(declaration.shape, (Same, Fixed)):
        return nothing  # those two ask no more than the inputs that they name
    if _counts_outputs(declaration.shape):
        arguments["num_outputs"] = len(op.output)
    found = declaration.shape(*inputs, **arguments)
    outputs = [found] if isinstance(found, TensorType) else list(found)
    return (outputs + nothing)[: len(op.output)]


def InferShapesAndTypes(nets: Sequence[Any], blob_dimensions: Mapping[str, Sequence[int | None]] | None = None,
                        nets_proto: bool = False, blob_types: Mapping[str, int] | None = None,
                        ) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Shapes and `TensorProto.DataType` numbers of all blobs of some nets, those that are known.

    Inputs are those of the current workspace, or of ``blob_dimensions`` (float unless ``blob_types`` says otherwise).
    A dimension of -1 or None is unknown, and so are, as -1, those that follow from it. A size that depends on values is
    the largest that it can be, where an operator tells that (LastNWindowCollector).

    Raises `BadShape`, located, where shapes do not go together.
    """
    if blob_dimensions is None:
        types = types_of_workspace()
    else:
        types = types_of_map(blob_dimensions, blob_types or {})
    partial = any(t.dims is not None and None in t.dims for t in types.values())
    found = infer_nets([net if nets_proto else net.Proto() for net in nets], types, largest=True)
    shown = {name: t for name, t in found.items() if t.dims is not None and (partial or None not in t.dims)}
    return ({name: [-1 if n is None else int(n) for n in t.dims or ()] for name, t in shown.items()},
            {name: dtypes.NUMBERS[t.dtype] for name, t in shown.items() if t.dtype in dtypes.NUMBERS})


def types_of_workspace() -> dict[str, TensorType]:
    """The types of all tensors of the current workspace, those of its parents included."""
    workspace = Workspace.current
    return {name: type_of(workspace.values[name]) for name in workspace.names()}


def types_of_map(dims: Mapping[str, Sequence[int | None]], numbers: Mapping[str, int]) -> dict[str, TensorType]:
    """Types from shapes, with -1 and None for unknown, and `TensorProto.DataType` numbers (float unless given)."""
    default = caffe2_pb2.TensorProto.FLOAT
    return {str(name): TensorType(dtypes.name_of(numbers.get(name, default)),
                                  tuple(None if n is None or n < 0 else int(n) for n in shape))
            for name, shape in dims.items()}


def infer_nets(nets: Iterable[Any], known: Mapping[str, TensorType], largest: bool = False) -> dict[str, TensorType]:
    """The types of all blobs of nets that run one after the other; they are messages, or their wire form.

    Args:
        largest: see `infer`.
    """
    types = dict(known)
    for net in nets:
        definition = definition_of(net, caffe2_pb2.NetDef)
        types = infer(definition.op, types, definition.name, largest)
    return types
