"""Nonlinearities, arithmetic, and moving things around."""

from __future__ import annotations

from typing import Any

from netgrad.training.helpers._params import constant, cudnn, fill
from netgrad.training.initializers import Filler


def relu(model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, order: str = "NCHW", **kwargs: Any) -> Any:
    """max(X, 0)."""
    return model.net.Relu(blob_in, blob_out, order=order, **{**kwargs, **cudnn(use_cudnn)})


def tanh(model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, order: str = "NCHW", **kwargs: Any) -> Any:
    """tanh X."""
    return model.net.Tanh(blob_in, blob_out, order=order, **{**kwargs, **cudnn(use_cudnn)})


def prelu(
    model: Any, blob_in: Any, blob_out: str, num_channels: int = 1, slope_init: Filler | None = None, **kwargs: Any
) -> Any:
    """X where X > 0, slope X elsewhere; the slopes are the parameter ``*_slope`` [num_channels], first 0.25."""
    slope = fill(model, blob_out + "_slope", [num_channels], slope_init, constant(0.25))
    return model.net.PRelu([blob_in, slope], [blob_out])


def softmax(model: Any, blob_in: Any, blob_out: Any = None, use_cudnn: bool = False, **kwargs: Any) -> Any:
    """Softmax over the last axes, from ``axis`` (1) on."""
    outputs = [] if blob_out is None else [blob_out]
    return model.net.Softmax(blob_in, *outputs, **{**kwargs, **cudnn(use_cudnn)})


def transpose(model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, **kwargs: Any) -> Any:
    """Axes in another order: ``axes``, or reversed."""
    return model.net.Transpose(blob_in, blob_out, **{**kwargs, **cudnn(use_cudnn)})


def sum(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    return model.net.Sum(blob_in, blob_out, **kwargs)


def reduce_sum(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    return model.net.ReduceSum(blob_in, blob_out, **kwargs)


def sub(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    return model.net.Sub(blob_in, blob_out, **kwargs)


def mat_mul(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    return model.net.MatMul(blob_in, blob_out, **kwargs)


def batch_mat_mul(model: Any, blob_in: Any, blob_out: Any, enable_tensor_core: bool = False, **kwargs: Any) -> Any:
    if enable_tensor_core:
        kwargs["engine"] = "TENSORCORE"
    return model.net.BatchMatMul(blob_in, blob_out, **kwargs)


def arg_min(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    return model.net.ArgMin(blob_in, blob_out, **kwargs)


def concat(model: Any, blobs_in: Any, blob_out: str, **kwargs: Any) -> Any:
    """Joins along ``axis``, or along the channels of ``order``; the parts' sizes are left in ``_*_concat_dims``."""
    if kwargs.get("order") and kwargs.get("axis"):
        del kwargs["order"]
    return model.net.Concat(blobs_in, [blob_out, f"_{blob_out}_concat_dims"], **kwargs)[0]


def depth_concat(model: Any, blobs_in: Any, blob_out: str, **kwargs: Any) -> Any:
    """The older name of `concat`."""
    return concat(model, blobs_in, blob_out, **kwargs)


def fused_8bit_rowwise_quantized_to_float(model: Any, blob_in: Any, blob_out: Any) -> Any:
    """Rows of 8-bit numbers, each with its scale and bias, as floats."""
    return model.net.Fused8BitRowwiseQuantizedToFloat(blob_in, blob_out)


def sparse_lengths_sum_4bit_rowwise_sparse(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """Sums of looked-up rows of a pruned 4-bit table, by the operator SparseLengthsSum4BitRowwiseSparse."""
    return model.net.SparseLengthsSum4BitRowwiseSparse(blob_in, blob_out, **kwargs)
