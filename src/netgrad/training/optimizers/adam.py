"""Adam."""

from __future__ import annotations

from typing import Any

from netgrad.graph.operator import GradientSlice
from netgrad.training.optimizers.base import Optimizer, row_fill
from netgrad.training.parameters import ParameterInfo


class AdamOptimizer(Optimizer):
    """Adam (https://arxiv.org/abs/1412.6980), dense and sparse.

    Args:
        alpha: base learning rate; 0 or less writes nothing.
        policy: of the operator LearningRate; further arguments go there too.
        use_lr_adaption: adapts the rate itself by the gradient's direction (LearningRateAdaption).
        sparse_dedup_aggregator: "sum" or "mean" joins repeated indices of a sparse gradient before the update. Without
            it the rows of an index are applied one after the other, which takes long where one occurs often.
        rowWise: one second moment per row; sparse gradients only.
        enableRAdam: rectified Adam; sparse gradients only.
    """

    def __init__(
        self,
        alpha: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        policy: str = "fixed",
        use_lr_adaption: bool = False,
        lr_alpha: float = 0.01,
        normalized_lr_adaption: bool = True,
        sparse_dedup_aggregator: str | None = None,
        rowWise: bool = False,
        engine: str = "",
        enableRAdam: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.alpha = alpha
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.policy = policy
        self.use_lr_adaption = use_lr_adaption
        self.lr_alpha = lr_alpha
        self.normalized_lr_adaption = normalized_lr_adaption
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.rowWise = rowWise
        self.engine = engine
        self.enableRAdam = enableRAdam
        self.init_kwargs = kwargs

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        sparse = isinstance(grad, GradientSlice)
        if self.alpha <= 0:
            return
        if self.rowWise and not sparse:
            raise AssertionError(
                f"Adam with rowWise=True: the gradient of {param_info.name!r} is dense; use rowWise=False for it"
            )
        if self.rowWise and self.enableRAdam:
            raise AssertionError("Adam: enableRAdam=True does not work with rowWise=True")
        lr, iteration = self.build_lr(
            net, param_init_net, base_learning_rate=self.alpha, policy=self.policy, **self.init_kwargs
        )
        first = param_init_net.ConstantFill([param], param + "_first_moment", value=0.0)
        if self.rowWise:
            second = row_fill(param_init_net, param_info, "_avg_second_moment")
        else:
            second = param_init_net.ConstantFill([param], param + "_second_moment", value=0.0)
        self._aux_params.shared.append(iteration)
        self._aux_params.local.extend([first, second])

        outputs = [param, first, second]
        if self.use_lr_adaption:
            outputs.append(f"{param}_effective_grad")
        coefficients = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}
        if sparse:
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            inputs = [param, first, second, grad.indices, grad.values, lr, iteration]
            if self.rowWise:
                net.RowWiseSparseAdam(inputs, outputs, **coefficients)
            else:
                net.SparseAdam(inputs, outputs, **coefficients, enableRAdam=self.enableRAdam)
        else:
            net.Adam([param, first, second, grad, lr, iteration], outputs, **coefficients)
        if self.use_lr_adaption:
            net.LearningRateAdaption(
                [lr, grad.values if sparse else grad, outputs[-1]],
                [lr],
                lr_alpha=self.lr_alpha,
                normalized_lr_adaption=self.normalized_lr_adaption,
            )

    def scale_learning_rate(self, scale: float) -> None:
        self.alpha *= scale
