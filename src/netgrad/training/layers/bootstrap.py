"""`FCWithBootstrap`: several fully connected layers, each trained on its own draw from the batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.graph import scope
from netgrad.graph.records import Struct
from netgrad.proto.caffe2_pb2 import TensorProto
from netgrad.training.helpers.arg_scope import get_current_scope
from netgrad.training.layers.base import ModelLayer
from netgrad.training.layers.checks import require
from netgrad.training.layers.dense import clip_arguments, clipped, rows_through_axis, uniform
from netgrad.training.layers.sampled import SamplingTrainableMixin


def get_fc_predictor_version(fc_version: str) -> str:
    """A handle for ``arg_scope``; these layers predict in single precision only.

    Raises:
        AssertionError: another version.
    """
    if fc_version != "fp32":
        raise AssertionError(f"bootstrapped fully connected layers predict in fp32, not in {fc_version!r}")
    return fc_version


class FCWithBootstrap(SamplingTrainableMixin, ModelLayer):
    """``num_bootstrap`` layers Y_k = X W_k' + b_k, each trained on as many rows as there are, drawn with replacement.

    Outputs, for each k, ``bootstrap_iteration_k/indices``, the rows drawn, int32 (batch,), and
    ``bootstrap_iteration_k/preds``. In evaluation and prediction every layer gets all rows in order; the indices are
    drawn there too, but mean nothing.

    Attributes:
        bootstrapped_FCs: the parameters, w_0, b_0, w_1, b_1, ...
    """

    def __init__(
        self, model: Any, input_record: Any, output_dims: int, num_bootstrap: int, weight_init: Any = None,
        bias_init: Any = None, weight_optim: Any = None, bias_optim: Any = None, name: str = "fc_with_bootstrap",
        weight_reg: Any = None, bias_reg: Any = None, clip_param: Any = None, axis: int = 1, **kwargs: Any,
    ) -> None:
        super().__init__(model, name, input_record, **kwargs)
        self.axis = axis
        self.input_dims, _ = rows_through_axis(self, input_record, axis)
        require(self, output_dims > 0, f"output_dims must be positive, but is {output_dims}")
        require(self, num_bootstrap > 0, f"num_bootstrap must be positive, but is {num_bootstrap}")
        self.clip_args = clip_arguments(self, clip_param)
        self.num_bootstrap = num_bootstrap
        self.output_dim_vec = None
        usual = uniform(self.input_dims)
        self.bootstrapped_FCs: list[Any] = []
        output = Struct()
        for k in range(num_bootstrap):
            prefix = f"bootstrap_iteration_{k}/"
            output += Struct(*[
                (prefix + what, self.get_next_blob_reference(prefix + what)) for what in ("indices", "preds")
            ])
            self.bootstrapped_FCs += [
                self.create_param(param_name=prefix + "w", shape=[output_dims, self.input_dims],
                                  initializer=weight_init or usual, optimizer=weight_optim, regularizer=weight_reg),
                self.create_param(param_name=prefix + "b", shape=[output_dims], initializer=bias_init or usual,
                                  optimizer=bias_optim, regularizer=bias_reg),
            ]
        self.output_schema = output

    @property
    def param_blobs(self) -> list[Any]:
        return self.bootstrapped_FCs

    def get_fp16_compatible_parameters(self) -> list[Any]:
        return self.bootstrapped_FCs[::2]

    def add_ops(self, net: Any) -> None:
        get_fc_predictor_version(
            get_current_scope().get(get_fc_predictor_version.__name__, {"fc_version": "fp32"})["fc_version"]
        )
        self._add_ops(net, self.param_blobs, resampled=False)

    def add_train_ops(self, net: Any) -> None:
        self._add_ops(net, self.train_param_blobs, resampled=True)

    def _add_ops(self, net: Any, param_blobs: list[Any], resampled: bool = False) -> None:
        rows = self.input_record.field_blobs()[0]
        outputs = self.output_schema.field_blobs()
        bounds: list[Any] = []
        for k in range(self.num_bootstrap):
            with scope.NameScope(f"bootstrap_iteration_{k}"):
                bounds = bounds or self._bounds(net, rows)
                indices = net.UniformIntFill(bounds, outputs[2 * k], input_as_shape=1)
            features = rows
            if resampled:
                features = net.Gather([rows, indices], net.NextScopedBlob(f"bootstrapped_features_{k}"))
            params = clipped(net, param_blobs[2 * k:2 * k + 2], self.clip_args)
            net.FC([features, *params], [outputs[2 * k + 1]], axis=self.axis, **self.kwargs)

    def _bounds(self, net: Any, rows: Any) -> list[Any]:
        """How many rows to draw, and the first and last that may be drawn."""
        shape = net.Shape(rows, "input_shape")
        size = net.Gather([shape, net.Const(np.array([0]), "batch_size_index")], "batch_size")
        first = net.Const(np.array([0]), "lower_bound", dtype=np.int32)
        one = net.Const(np.array([1]), "offset", dtype=np.int32)
        last = net.Sub([net.Cast([size], "int_batch_size", to=TensorProto.INT32), one], "upper_bound")
        return [size, first, last]
