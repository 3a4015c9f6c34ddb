"""Fully connected layers, dropout, elementwise linear maps."""

from __future__ import annotations

from typing import Any

from netgrad.training.helpers._params import XAVIER, ZEROS, constant, create, fill, state
from netgrad.training.initializers import Filler, Initializer
from netgrad.training.parameters import ParameterTags


def _connect(
    model: Any,
    op_type: str,
    blob_in: Any,
    blob_out: str,
    dim_in: int,
    dim_out: int,
    weight_init: Filler | None = None,
    bias_init: Filler | None = None,
    WeightInitializer: type[Initializer] | None = None,
    BiasInitializer: type[Initializer] | None = None,
    enable_tensor_core: bool = False,
    float16_compute: bool = False,
    **kwargs: Any,
) -> Any:
    blob_out = blob_out or model.net.NextName()
    bias_tags = [ParameterTags.BIAS] + [ParameterTags.COMPUTED_PARAM] * ("freeze_bias" in kwargs)
    weight = create(
        model, blob_out + "_w", [dim_out, dim_in], WeightInitializer, weight_init, XAVIER, ParameterTags.WEIGHT
    )
    bias = create(model, blob_out + "_b", [dim_out], BiasInitializer, bias_init, ZEROS, bias_tags)
    if enable_tensor_core:
        kwargs["engine"] = "TENSORCORE"
    if float16_compute:
        kwargs["float16_compute"] = True
    return getattr(model.net, op_type)([blob_in, weight, bias], blob_out, **kwargs)


def fc(model: Any, *args: Any, **kwargs: Any) -> Any:
    """Y = X W^T + b: ``fc(model, blob_in, blob_out, dim_in, dim_out)``.

    The parameters are ``*_w`` [dim_out, dim_in] and ``*_b`` [dim_out]; fillers are given as
    ``weight_init=("XavierFill", {})``, ``bias_init=...``.
    """
    return _connect(model, "FC", *args, **kwargs)


def packed_fc(model: Any, *args: Any, **kwargs: Any) -> Any:
    """`fc` by the operator PackedFC."""
    return _connect(model, "PackedFC", *args, **kwargs)


def fc_decomp(
    model: Any,
    blob_in: Any,
    blob_out: str,
    dim_in: int,
    dim_out: int,
    rank_approx: int = 5,
    weight_init: Filler | None = None,
    bias_init: Filler | None = None,
    WeightInitializer: type[Initializer] | None = None,
    BiasInitializer: type[Initializer] | None = None,
    **kwargs: Any,
) -> Any:
    """Y = (X V) U^T + b, a fully connected layer of rank ``rank_approx``.

    The parameters are ``*_u`` [dim_out, rank_approx], ``*_v`` [dim_in, rank_approx] and ``*_b`` [dim_out].
    """
    blob_out = blob_out or model.net.NextName()
    u = create(model, blob_out + "_u", [dim_out, rank_approx], WeightInitializer, weight_init, XAVIER, None)
    v = create(model, blob_out + "_v", [dim_in, rank_approx], WeightInitializer, weight_init, XAVIER, None)
    bias = create(model, blob_out + "_b", [dim_out], BiasInitializer, bias_init, ZEROS, None)
    return model.net.FC([model.net.MatMul([blob_in, v], f"_{blob_out}_xv"), u, bias], blob_out, **kwargs)


def fc_prune(
    model: Any,
    blob_in: Any,
    blob_out: str,
    dim_in: int,
    dim_out: int,
    weight_init: Filler | None = None,
    bias_init: Filler | None = None,
    mask_init: Filler | None = None,
    threshold: float = 0.00001,
    need_compress_rate: bool = False,
    comp_lb: float = 0.05,
    **kwargs: Any,
) -> Any:
    """A fully connected layer by the operator FC_Prune, which Caffe2 built without and you have to register.

    The parameters are ``*_w`` and ``*_b``; beside them the operator reads ``*_m`` (a mask of ones), ``*_ag_dw`` and
    ``*_mask_seq`` (filled by ``mask_init``), ``*_thres`` and ``*_lb``.
    """
    blob_out = blob_out or model.net.NextName()
    shape, zeros = [dim_out, dim_in], mask_init or ZEROS
    lower = state(model, blob_out + "_lb", [1], constant(comp_lb))
    weight = fill(model, blob_out + "_w", shape, weight_init, XAVIER)
    mask = state(model, blob_out + "_m", shape, constant(1.0))
    averages = state(model, blob_out + "_ag_dw", shape, zeros)
    bias = fill(model, blob_out + "_b", [dim_out], bias_init, ZEROS)
    sequence = state(model, blob_out + "_mask_seq", shape, zeros)
    least = state(model, blob_out + "_thres", [1], constant(threshold))
    outputs = [blob_out, blob_out + "_compress_rate"] if need_compress_rate else blob_out
    return model.net.FC_Prune([blob_in, weight, mask, bias, averages, sequence, least, lower], outputs, **kwargs)


def fc_sparse(model: Any, blob_in: Any, blob_out: Any, w_csr: Any, iw: Any, jw: Any, bias: Any, **kwargs: Any) -> Any:
    """A fully connected layer with weights in CSR form, which exist, by the operator FC_Sparse.

    Caffe2 was built without it; register it yourself.
    """
    parameters = [w_csr, iw, jw, bias]
    for blob in parameters:
        model.AddParameter(blob)
    return model.net.FC_Sparse([blob_in, *parameters], blob_out, **kwargs)


def elementwise_linear(
    model: Any,
    blob_in: Any,
    blob_out: str,
    dim: int,
    weight_init: Filler | None = None,
    bias_init: Filler | None = None,
    **kwargs: Any,
) -> Any:
    """Y[n, d] = X[n, d] w[d] + b[d], with ``*_w`` (ones) and ``*_b`` (zeros), both [dim]."""
    blob_out = blob_out or model.net.NextName()
    weight = fill(model, blob_out + "_w", [dim], weight_init, constant(1.0), ParameterTags.WEIGHT)
    bias = fill(model, blob_out + "_b", [dim], bias_init, constant(0.0), ParameterTags.BIAS)
    return model.net.ElementwiseLinear([blob_in, weight, bias], blob_out, **kwargs)


def dropout(model: Any, blob_in: Any, blob_out: str, use_cudnn: bool = False, **kwargs: Any) -> Any:
    """Dropout, with its mask in ``_*_mask``; ``is_test`` has to be said."""
    if "is_test" not in kwargs:
        raise AssertionError("dropout needs is_test=: True drops nothing, False is for training")
    kwargs["engine"] = "CUDNN" if use_cudnn else "DEFAULT"
    return model.net.Dropout(blob_in, [blob_out, f"_{blob_out}_mask"], **kwargs)[0]
