"""Fully connected layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from netgrad.graph.records import Scalar
from netgrad.training.helpers.arg_scope import get_current_scope
from netgrad.training.layers.base import ModelLayer, float_rows
from netgrad.training.layers.checks import refuse, require, row_shape, vector_size
from netgrad.training.layers.sampled import SamplingTrainableMixin

_PRECISIONS = ("fp32", "fp16")


def get_fc_predictor_version(fc_version: str) -> str:
    """A handle for ``arg_scope``: with ``fc_version="fp16"``, prediction nets have packed half-precision layers.

    Raises:
        AssertionError: another version.
    """
    if fc_version not in _PRECISIONS:
        raise AssertionError(f"a fully connected layer predicts in {' or '.join(_PRECISIONS)}, not in {fc_version!r}")
    return fc_version


def predictor_precision() -> str:
    """The precision that the current ``arg_scope`` asks for."""
    return str(get_current_scope().get(get_fc_predictor_version.__name__, {"fc_version": "fp32"})["fc_version"])


def uniform(size: int, numerator: float = 1.0) -> tuple[str, dict[str, float]]:
    """The usual filling of weights: uniform up to sqrt(numerator / size) on either side of 0."""
    bound = math.sqrt(numerator / size)
    return "UniformFill", {"min": -bound, "max": bound}


def clip_arguments(layer: ModelLayer, clip_param: Any) -> dict[str, float] | None:
    """The arguments of Clip for a pair (min, max), of which one may be None; None if nothing is clipped."""
    if clip_param is None:
        return None
    if not isinstance(clip_param, (tuple, list)) or len(clip_param) != 2 or all(bound is None for bound in clip_param):
        refuse(layer, f"clip_param is a pair (min, max) of which at most one is None, not {clip_param!r}")
    low, high = clip_param
    require(layer, low is None or high is None or low < high,
            f"clip_param must have min < max, but is {clip_param!r}")
    return {key: value for key, value in (("min", low), ("max", high)) if value is not None}


def clipped(net: Any, params: Sequence[Any], arguments: dict[str, float] | None) -> list[Any]:
    """The parameters, clipped where there is something to clip by."""
    if arguments is None:
        return list(params)
    names = [net.NextScopedBlob(f"clipped_{param}") for param in params]
    for param, name in zip(params, names, strict=True):
        net.Clip([param], [name], **arguments)
    return names


def rows_through_axis(layer: ModelLayer, record: Any, axis: int) -> tuple[int, tuple[int, ...]]:
    """How many inputs each output has, and the dimensions of a row that stay, if dimensions from ``axis`` on (the batch
    is 0) are multiplied by the weights."""
    shape = row_shape(layer, record)
    require(layer, isinstance(axis, int) and 1 <= axis <= len(shape),
            f"axis must be between 1 and {len(shape)}, as rows have shape {shape}, but is {axis}")
    return math.prod(shape[axis - 1:]), shape[:axis - 1]


class FC(SamplingTrainableMixin, ModelLayer):
    """Y = X W' + b, W (output_dims, inputs): rows (..., inputs) to rows (..., output_dims).

    Attributes:
        w, b: the parameters, or ``w_vec``, ``b_vec`` where ``max_fc_size`` cuts the layer up.
    """

    w: Any
    b: Any

    def __init__(
        self, model: Any, input_record: Any, output_dims: int, weight_init: Any = None, bias_init: Any = None,
        weight_optim: Any = None, bias_optim: Any = None, name: str = "fc", weight_reg: Any = None,
        bias_reg: Any = None, clip_param: Any = None, max_fc_size: int | None = None, axis: int = 1,
        transposed: bool = False, uniform_weight_init_scale_numerator: float | None = 1.0, **kwargs: Any,
    ) -> None:
        """Makes the layer.

        Args:
            output_dims: outputs per row.
            weight_init, bias_init: initializers; uniform within 1/sqrt(inputs) unless given.
            clip_param: (min, max) to which parameters are clipped before use; one may be None.
            max_fc_size: the most elements that a weight may have; the layer becomes several, concatenated.
            axis: dimensions from here on are multiplied; the batch is dimension 0.
            transposed: W is (inputs, output_dims).
            uniform_weight_init_scale_numerator: the square of the bound of the usual filling, times inputs.
            **kwargs: arguments of the operator.
        """
        super().__init__(model, name, input_record, **kwargs)
        self.axis = axis
        input_dims, kept = rows_through_axis(self, input_record, axis)
        require(self, output_dims > 0, f"output_dims must be positive, but is {output_dims}")
        self.clip_args = clip_arguments(self, clip_param)
        usual = uniform(input_dims, uniform_weight_init_scale_numerator or 1.0)
        weight_init, bias_init = weight_init or usual, bias_init or usual
        self.transposed = transposed
        self.output_dim_vec = self.calculate_fc_output_dims(max_fc_size, input_dims, output_dims)

        def weight_shape(outputs: int) -> list[int]:
            return [input_dims, outputs] if transposed else [outputs, input_dims]

        if not self._parts:
            self.w = self.create_param(param_name="w", shape=weight_shape(output_dims), initializer=weight_init,
                                       optimizer=weight_optim, regularizer=weight_reg)
            self.b = self.create_param(param_name="b", shape=[output_dims], initializer=bias_init,
                                       optimizer=bias_optim, regularizer=bias_reg)
        else:
            self.w_vec, self.b_vec = [], []
            for k, outputs in enumerate(self._parts):
                self.w_vec.append(self.create_param(
                    param_name=f"w_sub_{k}", shape=weight_shape(outputs), initializer=weight_init,
                    optimizer=weight_optim, regularizer=weight_reg))
                self.b_vec.append(self.create_param(
                    param_name=f"b_sub_{k}", shape=[outputs], initializer=bias_init, optimizer=bias_optim,
                    regularizer=bias_reg))
        self.output_schema = float_rows((*kept, output_dims), self.get_next_blob_reference("output"))

    @staticmethod
    def calculate_fc_output_dims(max_fc_size: int | None, input_dim: int, output_dim: int) -> list[int] | None:
        """The outputs of each part, such that no weight has more than ``max_fc_size`` elements; None: not cut up.

        Raises:
            AssertionError: not even one output fits.
        """
        if not max_fc_size or max_fc_size < 0:
            return None
        fitting = max_fc_size // input_dim
        if not fitting:
            raise AssertionError(
                f"an output of the fully connected layer has {input_dim} weights, but max_fc_size allows {max_fc_size}"
            )
        whole, rest = divmod(output_dim - 1, fitting)
        return [fitting] * whole + [rest + 1]

    @property
    def _parts(self) -> list[int]:
        """The outputs of each part of a layer that is cut up."""
        return self.output_dim_vec if self.output_dim_vec and len(self.output_dim_vec) > 1 else []

    @property
    def param_blobs(self) -> list[Any]:
        return self.w_vec + self.b_vec if self._parts else [self.w, self.b]

    def get_fp16_compatible_parameters(self) -> list[Any]:
        return self.w_vec if self._parts else [self.w]

    def _add_ops(self, net: Any, param_blobs: list[Any], version: str = "fp32") -> None:
        params = clipped(net, param_blobs, self.clip_args)
        outputs = self.output_schema.field_blobs()
        if not self._parts:
            self._multiply(net, params, outputs, version)
            return
        half = len(params) // 2
        parts = [
            self._multiply(net, [w, b], [net.NextScopedBlob(f"output_sub_{k}")], version)
            for k, (w, b) in enumerate(zip(params[:half], params[half:], strict=True))
        ]
        # along the outputs, which are the last dimension
        axis = {} if self.axis == 1 else {"axis": self.axis}
        net.Concat(parts, [*outputs, outputs[0] + "_concat_dims"], **axis)

    def _multiply(self, net: Any, params: list[Any], outputs: list[Any], version: str) -> Any:
        if version == "fp16":
            write = net.FbFCPacked
        elif version == "fp32":
            write = net.FCTransposed if self.transposed else net.FC
        else:
            refuse(self, f"it predicts in {' or '.join(_PRECISIONS)}, not in {version!r}")
        return write(self.input_record.field_blobs() + params, outputs, axis=self.axis, **self.kwargs)

    def add_ops(self, net: Any) -> None:
        self._add_ops(net, self.param_blobs, predictor_precision())

    def add_train_ops(self, net: Any) -> None:
        self._add_ops(net, self.train_param_blobs)


class FCWithoutBias(SamplingTrainableMixin, ModelLayer):
    """Y = X W', W (output_dims, inputs): rows (inputs,) to rows (output_dims,)."""

    def __init__(
        self, model: Any, input_record: Any, output_dims: int, weight_init: Any = None, weight_optim: Any = None,
        name: str = "fc_without_bias", uniform_weight_init_scale_numerator: float = 1.0, **kwargs: Any,
    ) -> None:
        super().__init__(model, name, input_record, **kwargs)
        input_dims = vector_size(self, input_record)
        require(self, output_dims > 0, f"output_dims must be positive, but is {output_dims}")
        self.output_schema = float_rows((output_dims,), self.get_next_blob_reference("output"))
        self.w = self.create_param(
            param_name="w", shape=[output_dims, input_dims],
            initializer=weight_init or uniform(input_dims, uniform_weight_init_scale_numerator), optimizer=weight_optim,
        )

    @property
    def param_blobs(self) -> list[Any]:
        return [self.w]

    def _add_ops(self, net: Any, param_blobs: list[Any]) -> None:
        net.MatMul(self.input_record.field_blobs() + param_blobs, self.output_schema.field_blobs(), trans_b=1,
                   **self.kwargs)


class AddBias(ModelLayer):
    """Y = X + b, one b per position of a row (size,)."""

    def __init__(
        self, model: Any, input_record: Any, bias_init: Any = None, bias_optim: Any = None, name: str = "add_bias",
    ) -> None:
        super().__init__(model, name, input_record)
        size = vector_size(self, input_record)
        self.b = self.create_param(param_name="b", shape=[size], initializer=bias_init or uniform(size),
                                   optimizer=bias_optim)
        self.output_schema = Scalar((input_record.field_type().base, (size,)), self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        net.Add([*self.input_record.field_blobs(), self.b], self.output_schema.field_blobs(), broadcast=1)
