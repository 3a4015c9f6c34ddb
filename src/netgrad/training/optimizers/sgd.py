"""Stochastic gradient descent, with momentum, and weight decay."""

from __future__ import annotations

from typing import Any

from netgrad.graph.operator import GradientSlice
from netgrad.training.optimizers.base import Optimizer, check_rate, current_device
from netgrad.training.parameters import ParameterInfo


class SgdOptimizer(Optimizer):
    """w -= lr (g + ...): plain, with momentum, or with Nesterov's.

    Args:
        base_learning_rate: the rate that the policy starts from; 0 writes nothing.
        policy: of the operator LearningRate; further arguments go there too.
        momentum: 0 for none.
        sparse_dedup_aggregator: "sum" or "mean" joins repeated indices of a sparse gradient before the update.
        lars: the offset of layer-wise rate scaling, for dense gradients; None: none.
    """

    def __init__(
        self,
        base_learning_rate: float = 0.01,
        policy: str = "fixed",
        momentum: float = 0.0,
        nesterov: bool = True,
        sparse_dedup_aggregator: str | None = None,
        lars: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.base_learning_rate = base_learning_rate
        self.policy = policy
        self.momentum = momentum
        self.nesterov = nesterov
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.lars = lars
        self.init_kwargs = kwargs

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        sparse = isinstance(grad, GradientSlice)
        if self.base_learning_rate == 0:
            return
        check_rate(self, self.base_learning_rate)
        self._clear_local_lr_multiplier()
        if self.lars is not None and not sparse:
            self._add_lars(net, param_init_net, param_info, self.lars)
        # MomentumSGDUpdate subtracts; WeightedSum adds.
        sign = -1 if self.momentum else 1
        lr, _ = self.build_lr(
            net,
            param_init_net,
            base_learning_rate=self.base_learning_rate * sign,
            policy=self.policy,
            **self.init_kwargs,
        )
        device = current_device()
        one = param_init_net.ConstantFill(
            [], f"ONE_{device.device_type}_{device.device_id}{device.node_name}", shape=[1], value=1.0
        )
        self._aux_params.shared.append(one)
        momentum: Any = None
        if self.momentum > 0:
            momentum = param_init_net.ConstantFill(param, f"{param}_momentum", value=0.0)
            self._aux_params.local.append(momentum)
        if sparse:
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
        if momentum is None:
            if sparse:
                net.ScatterWeightedSum([param, one, grad.indices, grad.values, lr], param)
            else:
                net.WeightedSum([param, one, grad, lr], param)
        elif sparse:
            net.SparseMomentumSGDUpdate(
                [grad.values, momentum, lr, param, grad.indices],
                [grad.values, momentum, param],
                momentum=self.momentum,
                nesterov=self.nesterov,
            )
        else:
            net.MomentumSGDUpdate(
                [grad, momentum, lr, param], [grad, momentum, param], momentum=self.momentum, nesterov=self.nesterov
            )

    def scale_learning_rate(self, scale: float) -> None:
        self.base_learning_rate *= scale


class WeightDecayBuilder(Optimizer):
    """Adds a multiple of each parameter to its gradient."""

    def __init__(self, weight_decay: float) -> None:
        super().__init__()
        self.weight_decay = weight_decay

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        if isinstance(param_info.grad, GradientSlice):
            raise ValueError(
                f"weight decay of {param_info.name!r}: its gradient is sparse, and decay would change every row; "
                "make the decay part of the loss, or leave this parameter out"
            )
        device = current_device()
        place = f"{device.device_type}_{device.device_id}"
        one = param_init_net.ConstantFill([], f"ONE_{place}", shape=[1], value=1.0)
        decay = param_init_net.ConstantFill([], f"wd_{place}", shape=[1], value=self.weight_decay)
        net.WeightedSum([param_info.grad, one, param_info.blob, decay], param_info.grad)
