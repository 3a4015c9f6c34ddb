"""Convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.training.helpers._params import XAVIER, ZEROS, create, fill, weight_and_bias
from netgrad.training.initializers import Filler, Initializer
from netgrad.training.parameters import ParameterTags

Kernel = int | list[int]


def _convolve(
    model: Any,
    kernels: list[int],
    kernel_arguments: dict[str, Any],
    blob_in: Any,
    blob_out: str,
    dim_in: int,
    dim_out: int,
    weight_init: Filler | None,
    bias_init: Filler | None,
    WeightInitializer: type[Initializer] | None,
    BiasInitializer: type[Initializer] | None,
    group: int,
    transform_inputs: Callable[[Any, str, list[Any]], None] | None,
    use_cudnn: bool = False,
    order: str = "NCHW",
    cudnn_exhaustive_search: bool = False,
    ws_nbytes_limit: int | None = None,
    float16_compute: bool = False,
    **kwargs: Any,
) -> Any:
    engine = kwargs.get("engine")
    if engine is not None and use_cudnn != (engine == "CUDNN"):
        raise ValueError(f"engine={engine!r} and use_cudnn={use_cudnn} contradict each other; give one of them")
    kwargs.update(_cudnn_arguments(use_cudnn, cudnn_exhaustive_search, ws_nbytes_limit))
    no_bias = kwargs.pop("no_bias", False)
    blob_out = blob_out or model.net.NextName()
    depth = [int(dim_in / group)]
    weight_shape = [dim_out, *depth, *kernels] if order == "NCHW" else [dim_out, *kernels, *depth]
    inputs = [
        blob_in,
        create(model, blob_out + "_w", weight_shape, WeightInitializer, weight_init, XAVIER, ParameterTags.WEIGHT),
    ]
    if not no_bias:
        inputs.append(create(model, blob_out + "_b", [dim_out], BiasInitializer, bias_init, ZEROS, ParameterTags.BIAS))
    if transform_inputs is not None:
        transform_inputs(model, blob_out, inputs)
    if float16_compute:
        kwargs["float16_compute"] = True
    if group != 1:
        kwargs["group"] = group
    return model.net.Conv(inputs, blob_out, **kernel_arguments, order=order, **kwargs)


def _cudnn_arguments(use_cudnn: bool, exhaustive_search: bool, workspace_limit: int | None) -> dict[str, Any]:
    if not use_cudnn:
        return {}
    limit = {"ws_nbytes_limit": workspace_limit} if workspace_limit else {}
    return {"engine": "CUDNN", "exhaustive_search": exhaustive_search, **limit}


def conv_nd(
    model: Any,
    blob_in: Any,
    blob_out: str,
    dim_in: int,
    dim_out: int,
    kernel: Kernel,
    weight_init: Filler | None = None,
    bias_init: Filler | None = None,
    WeightInitializer: type[Initializer] | None = None,
    BiasInitializer: type[Initializer] | None = None,
    group: int = 1,
    transform_inputs: Any = None,
    order: str = "NCHW",
    **kwargs: Any,
) -> Any:
    """Convolution over any number of axes, one per entry of ``kernel``; NCHW only."""
    if order != "NCHW":
        raise AssertionError(f"conv_nd works in NCHW order, not in {order}")
    kernels = kernel if isinstance(kernel, list) else [kernel]
    return _convolve(
        model,
        kernels,
        {"kernels": kernels},
        blob_in,
        blob_out,
        dim_in,
        dim_out,
        weight_init,
        bias_init,
        WeightInitializer,
        BiasInitializer,
        group,
        transform_inputs,
        order=order,
        **kwargs,
    )


def conv(
    model: Any,
    blob_in: Any,
    blob_out: str,
    dim_in: int,
    dim_out: int,
    kernel: Kernel,
    weight_init: Filler | None = None,
    bias_init: Filler | None = None,
    WeightInitializer: type[Initializer] | None = None,
    BiasInitializer: type[Initializer] | None = None,
    group: int = 1,
    transform_inputs: Any = None,
    **kwargs: Any,
) -> Any:
    """Convolution over two axes; ``kernel`` is its side, or [height, width].

    The parameters are ``*_w`` [dim_out, dim_in / group, height, width] (for ``order="NHWC"`` with the depth last) and,
    unless ``no_bias=True``, ``*_b`` [dim_out]. ``stride``, ``pad``, ``dilation`` and so on go to the operator.
    """
    if not isinstance(kernel, list):
        kernels, arguments = [kernel] * 2, {"kernel": kernel}
    elif len(kernel) == 2:
        kernels, arguments = kernel, {"kernel_h": kernel[0], "kernel_w": kernel[1]}
    else:
        raise AssertionError(f"conv works over two axes, not the {len(kernel)} of kernel={kernel}; use conv_nd")
    return _convolve(
        model,
        kernels,
        arguments,
        blob_in,
        blob_out,
        dim_in,
        dim_out,
        weight_init,
        bias_init,
        WeightInitializer,
        BiasInitializer,
        group,
        transform_inputs,
        **kwargs,
    )


def group_conv(
    model: Any,
    blob_in: Any,
    blob_out: str,
    dim_in: int,
    dim_out: int,
    kernel: Kernel,
    weight_init: Filler | None = None,
    bias_init: Filler | None = None,
    group: int = 1,
    **kwargs: Any,
) -> Any:
    """`conv` with groups."""
    return conv(
        model,
        blob_in,
        blob_out,
        dim_in,
        dim_out,
        kernel,
        weight_init=weight_init,
        bias_init=bias_init,
        group=group,
        **kwargs,
    )


def conv_transpose(
    model: Any,
    blob_in: Any,
    blob_out: str,
    dim_in: int,
    dim_out: int,
    kernel: int,
    weight_init: Filler | None = None,
    bias_init: Filler | None = None,
    use_cudnn: bool = False,
    order: str = "NCHW",
    cudnn_exhaustive_search: bool = False,
    ws_nbytes_limit: int | None = None,
    **kwargs: Any,
) -> Any:
    """Transposed convolution over two axes; ``*_w`` is [dim_in, dim_out, kernel, kernel] (NHWC: dim_out last)."""
    blob_out = blob_out or model.net.NextName()
    shape = [dim_in, dim_out, kernel, kernel] if order == "NCHW" else [dim_in, kernel, kernel, dim_out]
    weight, bias = weight_and_bias(model, blob_out, shape, [dim_out], weight_init, bias_init)
    kwargs.update(_cudnn_arguments(use_cudnn, cudnn_exhaustive_search, ws_nbytes_limit))
    return model.net.ConvTranspose([blob_in, weight, bias], blob_out, kernel=kernel, order=order, **kwargs)


def group_conv_deprecated(
    model: Any,
    blob_in: Any,
    blob_out: str,
    dim_in: int,
    dim_out: int,
    kernel: int,
    weight_init: Filler | None = None,
    bias_init: Filler | None = None,
    group: int = 1,
    use_cudnn: bool = False,
    order: str = "NCHW",
    cudnn_exhaustive_search: bool = False,
    ws_nbytes_limit: int | None = None,
    **kwargs: Any,
) -> Any:
    """The older form of `group_conv`: a convolution per group, with parameters ``*_gconv_0_w``, ``*_gconv_0_b``, ..."""
    if dim_in % group or dim_out % group:
        raise ValueError(f"group_conv_deprecated: {dim_in} and {dim_out} channels do not divide into {group} groups")
    kwargs.update(_cudnn_arguments(use_cudnn, cudnn_exhaustive_search, ws_nbytes_limit))
    no_bias = kwargs.pop("no_bias", False)
    deep, wide = dim_in // group, dim_out // group
    parts = model.net.DepthSplit(blob_in, [f"_{blob_out}_gconv_split_{k}" for k in range(group)], order=order)
    shape = [wide, deep, kernel, kernel] if order == "NCHW" else [wide, kernel, kernel, deep]
    convolved = []
    for k, part in enumerate(parts if group > 1 else [parts]):
        name = f"{blob_out}_gconv_{k}"
        inputs = [part, fill(model, name + "_w", shape, weight_init, XAVIER, ParameterTags.WEIGHT)]
        if not no_bias:
            inputs.append(fill(model, name + "_b", [wide], bias_init, ZEROS, ParameterTags.BIAS))
        convolved.append(model.net.Conv(inputs, name, kernel=kernel, order=order, **kwargs))
    return model.net.Concat(convolved, [blob_out, f"_{blob_out}_concat_dims"], order=order)[0]
