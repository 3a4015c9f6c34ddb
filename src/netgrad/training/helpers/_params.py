"""What helpers share: parameters by filler, and engines."""

from __future__ import annotations

from typing import Any

from netgrad.graph.blob import BlobReference, ScopedBlobReference
from netgrad.training.initializers import ExternalInitializer, Filler, Initializer, update_initializer
from netgrad.training.parameters import ParameterTags

XAVIER: Filler = ("XavierFill", {})
ZEROS: Filler = ("ConstantFill", {})


def constant(value: float) -> Filler:
    return "ConstantFill", {"value": value}


def create(
    model: Any,
    name: str,
    shape: list[int],
    initializer_class: type[Initializer] | None,
    filler: Filler | None,
    default: Filler,
    tags: Any,
) -> BlobReference:
    """A parameter, filled as asked, or provided by others where the model does not initialize its parameters."""
    initializer = update_initializer(initializer_class, filler, default) if model.init_params else ExternalInitializer()
    return model.create_param(param_name=name, shape=shape, initializer=initializer, tags=tags)  # type: ignore[no-any-return]


def fill(
    model: Any, name: str, shape: list[int], filler: Filler | None, default: Filler, tags: Any = None
) -> BlobReference:
    """Like `create`, for the helpers whose parameters do not take part in parameter sharing."""
    blob = state(model, name, shape, filler or default)
    model.AddParameter(blob, tags)
    return blob


def state(model: Any, name: str, shape: list[int], filler: Filler) -> BlobReference:
    """A blob of the init net that is not trained, or is provided by others."""
    if not model.init_params:
        return ScopedBlobReference(name, model.param_init_net)
    operator, arguments = filler
    return getattr(model.param_init_net, operator)([], name, shape=shape, **arguments)  # type: ignore[no-any-return]


def weight_and_bias(
    model: Any,
    blob_out: str,
    weight_shape: list[int],
    bias_shape: list[int],
    weight: Filler | None,
    bias: Filler | None,
) -> tuple[BlobReference, BlobReference]:
    """``*_w`` (Xavier by default) and ``*_b`` (zeros by default), outside of parameter sharing."""
    return (
        fill(model, blob_out + "_w", weight_shape, weight, XAVIER, ParameterTags.WEIGHT),
        fill(model, blob_out + "_b", bias_shape, bias, ZEROS, ParameterTags.BIAS),
    )


def cudnn(use_cudnn: bool) -> dict[str, str]:
    """The engine argument of operators that have a cuDNN implementation."""
    return {"engine": "CUDNN"} if use_cudnn else {}
