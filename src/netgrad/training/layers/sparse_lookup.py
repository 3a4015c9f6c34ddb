"""`SparseLookup`: rows of an embedding table for lists of ids, joined per list."""

from __future__ import annotations

import logging
import math
from typing import Any, NamedTuple

from netgrad.training.helpers.arg_scope import get_current_scope
from netgrad.training.layers.base import ModelLayer, float_rows
from netgrad.training.layers.checks import describe, refuse, require
from netgrad.training.layers.dense import uniform
from netgrad.training.layers.id_features import (
    get_categorical_limit,
    get_key,
    has_evicted_values,
    is_id_score_list,
)
from netgrad.training.layers.parameters import LayerPsParam

log = logging.getLogger(__name__)

#: the forms of a table in a prediction net; ``uint8rowwise`` keeps scales beside it, the fused forms within
PREDICTOR_VERSIONS = ("fp32", "fp16", "uint8rowwise", "fused_uint8rowwise", "fused_uint4rowwise")
TRAINER_VERSIONS = ("fp32", "fp16")

#: optimizers' engines that update tables in half precision
FP16_ENGINES = ("SIMD_Q_FP16", "SIMD_Q_STOC_FP16", "SIMD_Q_STOC_MKL_FP16")

#: quantized form -> what SparseLengths operators of it are called
_POOLING_SUFFIX = {
    "uint8rowwise": "8BitsRowwise", "fused_uint8rowwise": "Fused8BitRowwise", "fused_uint4rowwise": "Fused4BitRowwise"
}
#: fused form -> the operator that makes floats of its rows
_DEQUANTIZE = {
    "fused_uint8rowwise": "Fused8BitRowwiseQuantizedToFloat", "fused_uint4rowwise": "Fused4BitRowwiseQuantizedToFloat"
}


class QuantizedTable(NamedTuple):
    """A table that may be quantized by rows, with its scales inside."""

    w: Any


class QuantizedTableAndScale(NamedTuple):
    """A table that may be quantized by rows, and the blob of its scales."""

    w: Any
    scale_bias: Any


def get_trainer_version_based_on_optim(optim_def: Any) -> str:
    """"fp16" for optimizers that update in half precision, else "fp32"."""
    return "fp16" if getattr(optim_def, "engine", None) in FP16_ENGINES else "fp32"


def get_sparse_lookup_predictor_version(
    version: str, blob_size: int | None = None, min_blob_size_4bits: int | None = None,
    embedding_dim: int | None = None, sparse_feature_name: Any = None,
) -> str:
    """The form of a table in a prediction net; also a handle for ``arg_scope``, with ``version="fp16"`` and the like.

    Four bits are used for tables of at least ``min_blob_size_4bits`` elements with rows of even size; eight for others.

    Raises:
        AssertionError: an unknown version.
        ValueError: four bits, and one of the sizes is not given.
    """
    if version not in PREDICTOR_VERSIONS:
        raise AssertionError(f"a table is kept as {', '.join(PREDICTOR_VERSIONS)}, not as {version!r}")
    if version != "fused_uint4rowwise":
        return version
    if blob_size is None or min_blob_size_4bits is None or embedding_dim is None:
        raise ValueError(
            f"the table of {sparse_feature_name} can be kept with 4 bits only if blob_size, min_blob_size_4bits and "
            f"embedding_dim are given, but they are {blob_size}, {min_blob_size_4bits} and {embedding_dim}")
    if blob_size < min_blob_size_4bits or embedding_dim % 2:
        log.info("the table of %s is kept with 8 bits: %s elements, of %s needed for 4 bits, in rows of %s",
                 sparse_feature_name, blob_size, min_blob_size_4bits, embedding_dim)
        return "fused_uint8rowwise"
    return version


def get_sparse_lookup_trainer_version(version: str) -> str:
    if version not in TRAINER_VERSIONS:
        raise AssertionError(f"a table is trained as {' or '.join(TRAINER_VERSIONS)}, not as {version!r}")
    return version


class SparseLookup(ModelLayer):
    """Rows ``inner_shape`` of a table for the ids of each list, joined by ``reducer``: (batch, *inner_shape).

    The input record is a list of ids, or of ids with scores, whose metadata gives the ``categorical_limit``, which is
    the number of rows of the table. A record with evicted values has their rows filled anew when training.

    Reducers: "Sum", "Mean", "Sqrt" (the sum over the root of the length), "Max", "LogSumExp", "LogMeanExp"; "None",
    which joins nothing: one row per id. With scores: "WeightedSum" by scores; "PositionWeighted" and "RecencyWeighted",
    weighted sums whose scores have a gradient; "Sum" and "Mean", which ignore scores. Without scores, "WeightedSum" and
    "WeightedMean" are "Sum" and "Mean".

    Attributes:
        w: the table.
        scale_bias: scales of its rows, for prediction with "uint8rowwise".
        shape: of the table.
    """

    _id_list_supported_reducers = (
        "LogMeanExp", "LogSumExp", "Max", "Mean", "Sum", "WeightedSum", "WeightedMean", "Sqrt", "None")
    _id_score_list_supported_reducers = (
        "PositionWeighted", "RecencyWeighted", "Mean", "Sum", "WeightedSum", "None")
    _fp16_compatible_init_op_types = ("Float16UniformFill",)
    _fp16_compatible_reducers = ("Sum", "Mean", "Sqrt", "PositionWeighted", "RecencyWeighted")

    def __init__(
        self, model: Any, input_record: Any, inner_shape: Any, reducer: str, weight_init: Any = None,
        weight_optim: Any = None, name: str = "sparse_lookup", regularizer: Any = None,
        use_external_weights: bool = False, uniform_weight_init_scale_numerator: float = 1.0, **kwargs: Any,
    ) -> None:
        """Makes the layer.

        Args:
            inner_shape: shape of a row, a list or one number.
            use_external_weights: weigh by scores with a gradient, for "Sum" and "WeightedSum".
            uniform_weight_init_scale_numerator: the square of the bound of the usual uniform filling, times rows.
        """
        super().__init__(model, name, input_record, **kwargs)
        try:
            self.sparse_key = get_key(input_record)()
            input_dim = get_categorical_limit(input_record)
        except NotImplementedError:
            refuse(self, "the input record must be a list of ids, List(np.int64), or of ids with scores, "
                         f"Map(np.int64, np.float32), but is {describe(input_record)}")
        except AssertionError as error:
            refuse(self, str(error))
        require(self, input_dim is not None and input_dim > 0,
                f"the ids {self.sparse_key} must have a positive categorical_limit, but it is {input_dim}")
        if isinstance(inner_shape, int):
            inner_shape = [inner_shape]
        require(self, isinstance(inner_shape, (list, tuple)) and inner_shape,
                f"inner_shape is a number or a list of numbers, not {inner_shape!r}")
        self._scored = is_id_score_list(input_record)
        self.reducer = reducer
        self.use_external_weights = use_external_weights
        self._check_reducer()
        self.input_dim = input_dim
        self.shape = [input_dim, *inner_shape]
        self.trainer_version = get_trainer_version_based_on_optim(weight_optim)
        self.uniform_weight_init_scale_numerator = uniform_weight_init_scale_numerator
        self.weight_init = weight_init or uniform(input_dim, uniform_weight_init_scale_numerator)
        self.evicted_values = input_record._evicted_values if has_evicted_values(input_record) else None
        if self.trainer_version == "fp16":
            self._check_half_precision(regularizer)
        lengths = input_record.lengths.metadata
        self.w = self.create_param(
            param_name="w", shape=self.shape, initializer=self.weight_init, optimizer=weight_optim,
            ps_param=LayerPsParam(self.sparse_key, lengths.expected_value if lengths else None),
            regularizer=regularizer,
        )
        if self.evicted_values:
            self.reinit_vec = self.create_param(param_name="reinit_vec", shape=inner_shape,
                                                initializer=self.weight_init, optimizer=model.NoOptim)
        self.scale_bias_init = ("ConstantFill", {"value": 0.0})
        self.scale_bias = self.create_param(param_name="scale_bias", shape=[], initializer=self.scale_bias_init,
                                            optimizer=model.NoOptim)
        self.output_schema = float_rows(inner_shape, self.get_next_blob_reference("output"))

    def _check_reducer(self) -> None:
        needs_scores = self.use_external_weights or self.reducer in ("PositionWeighted", "RecencyWeighted")
        if needs_scores:
            why = "use_external_weights" if self.use_external_weights else f"the reducer {self.reducer}"
            require(self, self._scored,
                    f"{why} needs ids with scores, Map(np.int64, np.float32), but the input record is "
                    f"{describe(self.input_record)}; the layer PositionWeighted gives ids scores")
            self.external_weights = self.input_record.values()
        if self.use_external_weights:
            require(self, self.reducer in ("Sum", "WeightedSum"),
                    f"use_external_weights goes with the reducers Sum and WeightedSum, not with {self.reducer}")
        known = self._id_score_list_supported_reducers if self._scored else self._id_list_supported_reducers
        require(self, self.reducer in known,
                f"the reducer is one of {', '.join(known)} for such ids, not {self.reducer!r}")

    def _check_half_precision(self, regularizer: Any) -> None:
        require(self, self.reducer in self._fp16_compatible_reducers or self.use_external_weights,
                f"a table that is updated in half precision has one of the reducers "
                f"{', '.join(self._fp16_compatible_reducers)}, not {self.reducer}")
        if self.weight_init[0] == "UniformFill":
            self.weight_init = ("Float16UniformFill", self.weight_init[1])
        require(self, self.weight_init[0] in self._fp16_compatible_init_op_types,
                f"a table that is updated in half precision is filled by "
                f"{' or '.join(self._fp16_compatible_init_op_types)}, not by {self.weight_init[0]}")
        require(self, regularizer is None, "a table that is updated in half precision has no regularizer")

    def get_memory_usage(self) -> int:
        return math.prod(self.shape) * 4

    def get_fp16_compatible_parameters(self) -> list[Any]:
        return [self.w]

    def support_8bit(self) -> bool:
        """Whether quantizing by rows pays: rows are vectors of 8 or more."""
        return len(self.shape) == 2 and self.shape[1] >= 8

    def get_8bits_compatible_parameters(self, fused: bool = True) -> list[Any]:
        if not self.support_8bit():
            return []
        return [QuantizedTable(self.w) if fused else QuantizedTableAndScale(self.w, self.scale_bias)]

    # operators

    def add_train_ops(self, net: Any) -> None:
        if self.evicted_values:
            net.CopyRowsToTensor([self.w, self.evicted_values.get(), self.reinit_vec], [self.w])
        self._add_ops(net, self.trainer_version)

    def add_ops(self, net: Any) -> None:
        asked = get_current_scope().get(get_sparse_lookup_predictor_version.__name__, {"version": "fp32"})
        version = get_sparse_lookup_predictor_version(
            asked["version"], blob_size=math.prod(self.shape), min_blob_size_4bits=asked.get("min_blob_size_4bits"),
            embedding_dim=math.prod(self.shape[1:]), sparse_feature_name=self.sparse_key,
        )
        self._add_ops(net, version if self.support_8bit() or version == "fp32" else "fp16")

    def _add_ops(self, net: Any, version: str) -> None:
        ids = self.input_record.keys() if self._scored else self.input_record.items()
        output = self.output_schema.field_blobs()
        reducer = self.reducer if self._scored else self.reducer.removeprefix("Weighted")
        if reducer == "None":
            self._gather(net, version, ids, output)
        elif reducer in ("PositionWeighted", "RecencyWeighted") or self.use_external_weights:
            self._pool(net, version, ids, "WeightedSum", self.external_weights, grad_on_weights=1)
        elif reducer == "WeightedSum":
            self._pool(net, version, ids, reducer, self.input_record.values(), grad_on_weights=0)
        elif reducer in ("Sum", "Mean"):
            self._pool(net, version, ids, reducer)
        elif reducer == "Sqrt":
            weights = net.LengthsToWeights([self.input_record.lengths()], [net.NextScopedBlob("lengths_sqrt")],
                                           power=0.5)
            self._pool(net, version, ids, "WeightedSum", weights, grad_on_weights=0)
        else:
            lengths = self.input_record.lengths()
            rows = self._gather(net, version, ids, "table_rows")
            segments = net.LengthsToSegmentIds(lengths, net.NextScopedBlob(lengths + "_sid"))
            getattr(net, f"SortedSegmentRange{reducer}")([rows, segments], output)

    def _pool(self, net: Any, version: str, ids: Any, reducer: str, weights: Any = None, **arguments: Any) -> None:
        """Writes the operator that looks up and joins; half precision is read as it is, and joined in single."""
        inputs = [self.w, *([] if weights is None else [weights]), ids, self.input_record.lengths()]
        if version == "uint8rowwise":
            inputs.append(self.scale_bias)
        if version in _POOLING_SUFFIX:
            arguments = {}
        elif reducer == "WeightedSum" and version == "fp16":
            arguments["engine"] = "FP16"  # the gradient is of half precision, too
        getattr(net, f"SparseLengths{reducer}{_POOLING_SUFFIX.get(version, '')}")(
            inputs, self.output_schema.field_blobs(), **arguments)

    def _gather(self, net: Any, version: str, ids: Any, out: Any) -> Any:
        """Writes the operators that make one float32 row per id."""
        if version == "fp32":
            return net.Gather([self.w, ids], out)
        rows = net.Gather([self.w, ids], "gathered_w")
        if version == "fp16":
            return net.HalfToFloat(rows, out)
        if version == "uint8rowwise":
            scales = net.Gather([self.scale_bias, ids], "gathered_scale_bias")
            return net.Rowwise8BitQuantizedToFloat([rows, scales], out)
        return getattr(net, _DEQUANTIZE[version])(rows, out)
