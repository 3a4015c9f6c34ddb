"""Pooling."""

from __future__ import annotations

from typing import Any

from netgrad.training.helpers._params import cudnn


def max_pool(
    model: Any, blob_in: Any, blob_out: str, use_cudnn: bool = False, order: str = "NCHW", **kwargs: Any
) -> Any:
    """Maximum over windows: ``kernel``, ``stride``, ``pad`` go to the operator."""
    return model.net.MaxPool(blob_in, blob_out, order=order, **{**kwargs, **cudnn(use_cudnn)})


def average_pool(
    model: Any, blob_in: Any, blob_out: str, use_cudnn: bool = False, order: str = "NCHW", **kwargs: Any
) -> Any:
    """Mean over windows."""
    return model.net.AveragePool(blob_in, blob_out, order=order, **{**kwargs, **cudnn(use_cudnn)})


def max_pool_with_index(model: Any, blob_in: Any, blob_out: str, order: str = "NCHW", **kwargs: Any) -> Any:
    """`max_pool` that also leaves the positions of the maxima in ``*_index``."""
    return model.net.MaxPoolWithIndex(blob_in, [blob_out, blob_out + "_index"], order=order, **kwargs)[0]
