"""Normalization."""

from __future__ import annotations

from typing import Any

from netgrad.graph import scope
from netgrad.graph.device import IsGPUDeviceType
from netgrad.training.helpers._params import constant, create, fill
from netgrad.training.initializers import Initializer
from netgrad.training.parameters import ParameterTags

InitializerClass = type[Initializer] | None


def lrn(model: Any, blob_in: Any, blob_out: str, order: str = "NCHW", use_cudnn: bool = False, **kwargs: Any) -> Any:
    """Local response normalization: ``size``, ``alpha``, ``beta``, ``bias`` go to the operator."""
    device = kwargs.get("device_option", scope.CurrentDeviceScope())
    if use_cudnn and device is not None and IsGPUDeviceType(device.device_type):
        return model.net.LRN(blob_in, blob_out, order=order, **{**kwargs, "engine": "CUDNN"})
    return model.net.LRN(blob_in, [blob_out, f"_{blob_out}_scale"], order=order, **kwargs)[0]


def _scale_and_bias(
    model: Any,
    blob_out: str,
    dim: int,
    init_scale: float,
    init_bias: float,
    ScaleInitializer: InitializerClass,
    BiasInitializer: InitializerClass,
) -> list[Any]:
    scale, bias = constant(init_scale), constant(init_bias)
    return [
        create(model, blob_out + "_s", [dim], ScaleInitializer, scale, scale, ParameterTags.WEIGHT),
        create(model, blob_out + "_b", [dim], BiasInitializer, bias, bias, ParameterTags.BIAS),
    ]


def _running_moments(
    model: Any, blob_out: str, dim: int, MeanInitializer: InitializerClass, VarianceInitializer: InitializerClass
) -> list[Any]:
    mean, variance = constant(0.0), constant(1.0)
    return [
        create(model, blob_out + "_rm", [dim], MeanInitializer, mean, mean, ParameterTags.COMPUTED_PARAM),
        create(model, blob_out + "_riv", [dim], VarianceInitializer, variance, variance, ParameterTags.COMPUTED_PARAM),
    ]


def spatial_bn(
    model: Any,
    blob_in: Any,
    blob_out: str,
    dim_in: int,
    init_scale: float = 1.0,
    init_bias: float = 0.0,
    ScaleInitializer: InitializerClass = None,
    BiasInitializer: InitializerClass = None,
    RunningMeanInitializer: InitializerClass = None,
    RunningVarianceInitializer: InitializerClass = None,
    order: str = "NCHW",
    **kwargs: Any,
) -> Any:
    """Batch normalization over all axes but the channels.

    Parameters ``*_s`` and ``*_b``; computed parameters ``*_rm`` and ``*_riv`` (running mean and variance, whatever the
    name says); all [dim_in]. ``is_test``, ``epsilon``, ``momentum`` go to the operator.
    """
    blob_out = blob_out or model.net.NextName()
    scale_bias = _scale_and_bias(model, blob_out, dim_in, init_scale, init_bias, ScaleInitializer, BiasInitializer)
    moments = _running_moments(model, blob_out, dim_in, RunningMeanInitializer, RunningVarianceInitializer)
    inputs = [blob_in, *scale_bias, *moments]
    if kwargs.get("is_test"):
        return model.net.SpatialBN(inputs, [blob_out], order=order, **kwargs)
    return model.net.SpatialBN(
        inputs, [blob_out, *moments, blob_out + "_sm", blob_out + "_siv"], order=order, **kwargs
    )[0]


def spatial_gn(
    model: Any,
    blob_in: Any,
    blob_out: str,
    dim_in: int,
    init_scale: float = 1.0,
    init_bias: float = 0.0,
    ScaleInitializer: InitializerClass = None,
    BiasInitializer: InitializerClass = None,
    order: str = "NCHW",
    **kwargs: Any,
) -> Any:
    """Group normalization (https://arxiv.org/abs/1803.08494): parameters ``*_s`` and ``*_b``; ``group`` as usual."""
    blob_out = blob_out or model.net.NextName()
    scale_bias = _scale_and_bias(model, blob_out, dim_in, init_scale, init_bias, ScaleInitializer, BiasInitializer)
    return model.net.GroupNorm([blob_in, *scale_bias], [blob_out, blob_out + "_mean", blob_out + "_std"], **kwargs)[0]


def instance_norm(model: Any, blob_in: Any, blob_out: str, dim_in: int, order: str = "NCHW", **kwargs: Any) -> Any:
    """Normalization of each image and channel by itself; parameters ``*_s`` (ones) and ``*_b`` (zeros)."""
    blob_out = blob_out or model.net.NextName()
    scale = fill(model, blob_out + "_s", [dim_in], None, constant(1.0), ParameterTags.WEIGHT)
    bias = fill(model, blob_out + "_b", [dim_in], None, constant(0.0), ParameterTags.BIAS)
    inputs = [blob_in, scale, bias]
    if kwargs.get("is_test"):
        return model.net.InstanceNorm(inputs, [blob_out], order=order, **kwargs)
    return model.net.InstanceNorm(inputs, [blob_out, blob_out + "_sm", blob_out + "_siv"], order=order, **kwargs)[0]


def layer_norm(
    model: Any,
    blob_in: Any,
    blob_out: str,
    dim_in: int | list[int],
    axis: int = 1,
    epsilon: float = 1e-4,
    initial_scale: float = 1.0,
    initial_bias: float = 0.0,
) -> Any:
    """Layer normalization (https://arxiv.org/abs/1607.06450) over the axes from ``axis`` on.

    Returns: the normalized blob, the means, the standard deviations.
    """
    shape = [dim_in] if isinstance(dim_in, int) else dim_in
    scale = model.create_param(
        f"{blob_out}_scale", shape, Initializer("ConstantFill", value=initial_scale), ParameterTags.WEIGHT
    )
    bias = model.create_param(
        f"{blob_out}_bias", shape, Initializer("ConstantFill", value=initial_bias), ParameterTags.BIAS
    )
    return model.net.LayerNorm(
        [blob_in, scale, bias],
        [blob_out, blob_out + "_mean", blob_out + "_std"],
        axis=axis,
        epsilon=epsilon,
        elementwise_affine=True,
    )


def moments_with_running_stats(
    model: Any,
    blob_in: Any,
    blob_out: str,
    dim_in: int,
    RunningMeanInitializer: InitializerClass = None,
    RunningVarianceInitializer: InitializerClass = None,
    order: str = "NCHW",
    **kwargs: Any,
) -> Any:
    """Mean and variance per channel, ``*_sm`` and ``*_sv``, beside the computed parameters ``*_rm`` and ``*_riv``."""
    _running_moments(model, blob_out, dim_in, RunningMeanInitializer, RunningVarianceInitializer)
    axes = [0, 2, 3] if order == "NCHW" else [0, 1, 2]
    return model.net.Moments(
        [blob_in], [blob_out + "_sm", blob_out + "_sv"], axes=axes, order=order, keepdims=False, **kwargs
    )
