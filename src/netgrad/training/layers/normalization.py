"""Batch and layer normalization."""

from __future__ import annotations

from typing import Any

from netgrad.training.layers.base import ModelLayer, float_rows
from netgrad.training.layers.checks import refuse, require, row_shape


class BatchNormalization(ModelLayer):
    """Normalizes every channel over the batch, then scales and shifts it (arXiv:1502.03167).

    Rows are vectors (channels,) or images, (channels, height, width) or (height, width, channels) by ``order``.
    Evaluation and prediction use the running mean and variance, ``running_mean`` and ``running_inv_var``.
    """

    def __init__(
        self, model: Any, input_record: Any, name: str = "batch_normalization", scale_optim: Any = None,
        bias_optim: Any = None, momentum: float = 0.9, order: str = "NCHW", scale_init_value: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(model, name, input_record, **kwargs)
        shape = row_shape(self, input_record)
        require(self, len(shape) in (1, 3), f"rows must be vectors or images of 3 dimensions, but have shape {shape}")
        if order not in ("NCHW", "NHWC"):
            raise ValueError(f"layer {self.name!r}: order is NCHW or NHWC, not {order!r}")
        channels = shape[2] if order == "NHWC" and len(shape) == 3 else shape[0]
        self.input_shape = shape
        self.momentum = momentum
        self.order = order
        self.output_schema = float_rows(shape, self.get_next_blob_reference("output"))

        def parameter(param_name: str, value: float, optimizer: Any) -> Any:
            return self.create_param(param_name=param_name, shape=[channels],
                                     initializer=("ConstantFill", {"value": value}), optimizer=optimizer)

        self.scale = parameter("scale", scale_init_value, scale_optim)
        self.bias = parameter("bias", 0.0, bias_optim)
        self.rm = parameter("running_mean", 0.0, model.NoOptim)
        self.riv = parameter("running_inv_var", 1.0, model.NoOptim)

    def _add_ops(self, net: Any, is_test: bool) -> None:
        vectors = len(self.input_shape) == 1
        given, output = self.input_record.field_blobs(), self.output_schema.field_blobs()
        if vectors:  # the operator takes images: of one pixel, channels where `order` has them
            given = [net.ExpandDims(given, dims=self._pixel)]
        statistics = [] if is_test else [
            self.rm, self.riv, net.NextScopedBlob("bn_saved_mean"), net.NextScopedBlob("bn_saved_iv")
        ]
        net.SpatialBN([given[0], self.scale, self.bias, self.rm, self.riv], [*output, *statistics],
                      momentum=self.momentum, is_test=is_test, order=self.order)
        if vectors:
            net.Squeeze(output, output, dims=self._pixel)

    @property
    def _pixel(self) -> list[int]:
        return [2, 3] if self.order == "NCHW" else [1, 2]

    def add_train_ops(self, net: Any) -> None:
        self._add_ops(net, is_test=False)

    def add_eval_ops(self, net: Any) -> None:
        self._add_ops(net, is_test=True)

    def add_ops(self, net: Any) -> None:
        self.add_eval_ops(net)


class LayerNormalization(ModelLayer):
    """Normalizes every row, then scales and shifts it (arXiv:1607.06450).

    Dimensions from ``axis`` on (the batch is 0) are normalized together, and there is one scale and shift for each
    position along ``axis``. With ``use_layer_norm_op=False`` it is written with elementary operators, for rows that are
    vectors.
    """

    def __init__(
        self, model: Any, input_record: Any, name: str = "layer_normalization", scale_optim: Any = None,
        bias_optim: Any = None, epsilon: float = 1e-4, axis: int = 1, use_layer_norm_op: bool = True,
        scale_init_value: float = 1.0, **kwargs: Any,
    ) -> None:
        super().__init__(model, name, input_record, **kwargs)
        shape = row_shape(self, input_record)
        self.input_shape = shape
        self.axis = axis
        self.use_layer_norm_op = use_layer_norm_op
        self.output_schema = float_rows(shape, self.get_next_blob_reference("output"))
        require(self, 1 <= axis <= len(shape), f"axis must be between 1 and {len(shape)}, but is {axis}")
        size = shape[axis - 1]
        self.scale = self.create_param(param_name="scale", shape=[size],
                                       initializer=("ConstantFill", {"value": scale_init_value}),
                                       optimizer=scale_optim)
        self.bias = self.create_param(param_name="bias", shape=[size],
                                      initializer=("ConstantFill", {"value": 0.0}), optimizer=bias_optim)
        self.epsilon: Any = epsilon
        if not use_layer_norm_op:
            if len(shape) != 1:
                refuse(self, f"without the operator LayerNorm, rows must be vectors, but have shape {shape}")
            self.epsilon = model.maybe_add_global_constant(f"{self.name}_epsilon", float(epsilon))

    def add_ops(self, net: Any) -> None:
        if self.use_layer_norm_op:
            self._add_layer_norm(net)
        else:
            self._add_elementary(net)

    def _add_layer_norm(self, net: Any) -> None:
        outputs = [net.NextScopedBlob(name) for name in ("ln_output", "ln_mean", "ln_stdev")]
        normalized, _, _ = net.LayerNorm(self.input_record.field_blobs(), outputs, axis=self.axis,
                                         epsilon=self.epsilon)
        scaled = net.Mul([normalized, self.scale], [net.NextScopedBlob("ln_scaled")], broadcast=1, axis=self.axis)
        net.Add([scaled, self.bias], self.output_schema.field_blobs(), broadcast=1, axis=self.axis)

    def _add_elementary(self, net: Any) -> None:
        names = ("output", "mean", "stdev", "mean_arr", "centered", "sqr", "sqr_mean", "var", "std_arr", "scaled")
        blob = {name: net.NextScopedBlob(f"ln_{name}") for name in names}
        given = self.input_record.field_blobs()
        net.ReduceBackMean(given, [blob["mean_arr"]])
        net.ExpandDims([blob["mean_arr"]], [blob["mean"]], dims=[1])
        net.Sub([*given, blob["mean"]], [blob["centered"]])
        net.Sqr([blob["centered"]], [blob["sqr"]])
        net.ReduceBackMean([blob["sqr"]], [blob["sqr_mean"]])
        net.Add([blob["sqr_mean"], self.epsilon], blob["var"])
        net.Pow([blob["var"]], [blob["std_arr"]], exponent=0.5)
        net.ExpandDims([blob["std_arr"]], [blob["stdev"]], dims=[1])
        net.Div([blob["centered"], blob["stdev"]], [blob["output"]])
        net.Mul([blob["output"], self.scale], [blob["scaled"]])
        net.Add([blob["scaled"], self.bias], self.output_schema.field_blobs())
