"""Adagrad."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netgrad.graph.operator import GradientSlice
from netgrad.proto.caffe2_pb2 import TensorProto
from netgrad.training.optimizers.base import Optimizer, known_shape, row_fill
from netgrad.training.parameters import ParameterInfo

#: options of averages -> arguments of the operators
_SWA_ARGUMENTS = {
    "swa_avg_start_it": "avg_start",
    "swa_avg_end_it": "avg_end",
    "swa_feedback_start_it": "feedback_start",
    "swa_feedback_step": "feedback_step",
    "swa_feedback_end_it": "feedback_end",
}
_EMA_ARGUMENTS = {name: name for name in ("ema_start", "ema_end", "ema_step", "ema_alpha")}


def _arguments(what: str, options: Mapping[str, Any] | None, names: Mapping[str, str]) -> dict[str, Any] | None:
    """Options of an average as arguments of its operator; None: there is no average."""
    if not options:
        return None
    unknown = sorted(set(options) - set(names))
    if unknown:
        raise ValueError(f"Adagrad: {what} has no {', '.join(unknown)}; it may have {', '.join(names)}")
    return {names[name]: value for name, value in options.items() if value is not None}


class AdagradOptimizer(Optimizer):
    """Adagrad (https://jmlr.org/papers/v12/duchi11a.html), dense and sparse.

    Args:
        alpha: base learning rate; 0 or less writes nothing.
        decay: of the sum of squares; dense gradients only.
        weight_decay: for parameters of two and more dimensions.
        policy: of the operator LearningRate; further arguments go there too.
        sparse_dedup_aggregator: "sum" or "mean" joins repeated indices of a sparse gradient before the update. Without
            it the rows of an index are applied one after the other, which takes long where one occurs often.
        rowWise: one sum of squares per row; sparse gradients only.
        lars: the offset of layer-wise rate scaling, for dense gradients; None: none.
        output_effective_lr, output_effective_lr_and_update: leave ``*_effective_lr`` (and ``*_update``) to look at.
        weight_scale: an object with ``stepsize``, ``upper_bound_iter``, ``scale``, ``to_aux`` (operator WeightScale).
        swa_options: for dense gradients: a dictionary of ``swa_avg_start_it``, ``swa_avg_end_it``,
            ``swa_feedback_start_it``, ``swa_feedback_step``, ``swa_feedback_end_it``, all optional (operator SWA); the
            average of a parameter is in ``*_swa``.
        ema_options: a dictionary of ``ema_start``, ``ema_end``, ``ema_step``, ``ema_alpha``, all optional (operator
            EMA); the moving average of a parameter is in ``*_ema``.
        counter_halflife: if positive, counts how often rows are updated, for sparse gradients, with that half-life.
    """

    def __init__(
        self,
        alpha: float = 0.01,
        epsilon: float = 1e-4,
        decay: float = 1,
        weight_decay: float = 0.0,
        policy: str = "fixed",
        sparse_dedup_aggregator: str | None = None,
        rowWise: bool = False,
        engine: str = "",
        lars: float | None = None,
        output_effective_lr: bool = False,
        output_effective_lr_and_update: bool = False,
        pruning_options: Mapping[str, Any] | None = None,
        swa_options: Mapping[str, int] | None = None,
        ema_options: Mapping[str, float] | None = None,
        weight_scale: Any = None,
        counter_halflife: int = -1,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if pruning_options:
            raise ValueError(
                "Adagrad: pruning_options needs operator MaskedAdagrad, which no release of Caffe2 had; leave it out"
            )
        self.alpha = alpha
        self.epsilon = epsilon
        self.decay = decay
        self.weight_decay = float(weight_decay)
        self.policy = policy
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.rowWise = rowWise
        self.engine = engine
        self.lars = lars
        self.output_effective_lr = output_effective_lr
        self.output_effective_lr_and_update = output_effective_lr_and_update
        self.swa_arguments = _arguments("swa_options", swa_options, _SWA_ARGUMENTS)
        self.ema_arguments = _arguments("ema_options", ema_options, _EMA_ARGUMENTS)
        self.weight_scale = weight_scale
        self.counter_halflife = counter_halflife
        self.init_kwargs = kwargs

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        sparse = isinstance(grad, GradientSlice)
        if self.alpha <= 0:
            return
        self._check(param_info, sparse)
        self._clear_local_lr_multiplier()
        if self.lars is not None and not sparse:
            self._add_lars(net, param_init_net, param_info, self.lars)
        lr, iteration = self.build_lr(
            net, param_init_net, base_learning_rate=self.alpha, policy=self.policy, **self.init_kwargs
        )
        if self.counter_halflife > 0:
            self._aux_params.shared.append(iteration)
        if self.rowWise:
            squares = row_fill(param_init_net, param_info, "_avg_squared_sum")
        else:
            squares = param_init_net.ConstantFill([param], f"{param}_squared_sum", value=0.0)
        self._aux_params.local.append(squares)

        options: dict[str, Any] = {"epsilon": self.epsilon}
        if not sparse:
            options["decay"] = float(self.decay)
        shape = known_shape(param_init_net, param_info)
        if self.weight_decay > 0 and (shape is None or len(shape) > 1):
            options["weight_decay"] = self.weight_decay
        options["engine"] = self.engine
        if sparse:
            counters = self._counters(param_init_net, param_info)
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            update = net.RowWiseSparseAdagrad if self.rowWise else net.SparseAdagrad
            update([param, squares, grad.indices, grad.values, lr], [param, squares], **options)
            if counters:
                net.RowWiseCounter(
                    [*counters, grad.indices, iteration], counters, counter_halflife=self.counter_halflife
                )
        else:
            outputs = [param, squares]
            if self.output_effective_lr or self.output_effective_lr_and_update:
                outputs.append(f"{param}_effective_lr")
            if self.output_effective_lr_and_update:
                outputs.append(f"{param}_update")
            net.Adagrad([param, squares, grad, lr], outputs, **options)
            if self.swa_arguments is not None:
                self._average(net.SWA, param_init_net, param, "_swa", iteration, self.swa_arguments)
        if self.ema_arguments is not None:
            self._average(net.EMA, param_init_net, param, "_ema", iteration, self.ema_arguments)
        if self.weight_scale:
            self._scale(net, [param, squares] if self.weight_scale.to_aux else [param], iteration)

    def _check(self, param_info: ParameterInfo, sparse: bool) -> None:
        name = param_info.name
        if sparse and self.decay != 1:
            raise AssertionError(
                f"Adagrad with decay={self.decay}: the gradient of {name!r} is sparse; decay is for dense ones"
            )
        if self.rowWise and not sparse:
            raise AssertionError(
                f"Adagrad with rowWise=True: the gradient of {name!r} is dense; use rowWise=False for it"
            )
        if self.lars is not None and self.weight_decay:
            raise AssertionError("Adagrad: lars does not work with weight_decay")

    def _counters(self, param_init_net: Any, param_info: ParameterInfo) -> list[Any]:
        """When each row was updated last, and how often; nothing without a half-life."""
        if self.counter_halflife <= 0:
            return []
        count = row_fill(param_init_net, param_info, "_update_counter", dtype=TensorProto.DOUBLE)
        last = row_fill(param_init_net, param_info, "_prev_update_iter", value=0, dtype=TensorProto.INT64)
        self._aux_params.local.extend([count, last])
        return [last, count]

    def _average(
        self, operator: Any, param_init_net: Any, param: Any, suffix: str, iteration: Any, arguments: Mapping[str, Any]
    ) -> None:
        name = f"{param}{suffix}"
        if not param_init_net.BlobIsDefined(name):
            param_init_net.ConstantFill([param], name, value=0.0)
            self._aux_params.local.append(name)
        operator([param, name, iteration], [param, name], **arguments)

    def _scale(self, net: Any, blobs: list[Any], iteration: Any) -> None:
        scale = self.weight_scale
        for blob in blobs:
            net.WeightScale(
                [blob, iteration],
                [blob],
                stepsize=scale.stepsize,
                upper_bound_iter=scale.upper_bound_iter,
                scale=float(scale.scale),
            )

    def scale_learning_rate(self, scale: float) -> None:
        self.alpha *= scale
