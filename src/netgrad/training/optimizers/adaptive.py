"""Optimizers that adapt the rate by running means of gradients: Adadelta, RMSProp, WNGrad, STORM."""

from __future__ import annotations

from typing import Any

from netgrad.graph.operator import GradientSlice
from netgrad.training.optimizers.base import Optimizer, current_device, positive_rate, refuse_sparse
from netgrad.training.parameters import ParameterInfo


class AdadeltaOptimizer(Optimizer):
    """Adadelta (https://arxiv.org/abs/1212.5701), dense and sparse.

    Args:
        alpha: what the step is multiplied by; 0 or less writes nothing.
        epsilon: keeps the quotient of root mean squares finite.
        decay: of both running means of squares.
        policy: of the operator LearningRate; further arguments go there too.
        sparse_dedup_aggregator: "sum" or "mean" joins repeated indices of a sparse gradient before the update.
    """

    def __init__(
        self,
        alpha: float = 0.01,
        epsilon: float = 1e-4,
        decay: float = 0.95,
        policy: str = "fixed",
        sparse_dedup_aggregator: str | None = None,
        engine: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.alpha = alpha
        self.epsilon = epsilon
        self.decay = decay
        self.policy = policy
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.engine = engine
        self.init_kwargs = kwargs

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        lr, _ = self.build_lr(
            net, param_init_net, base_learning_rate=self.alpha, policy=self.policy, **self.init_kwargs
        )
        squares = param_init_net.ConstantFill([param], f"{param}_squared_moment", value=0.0)
        updates = param_init_net.ConstantFill([param], f"{param}_squared_moment_update", value=0.0)
        self._aux_params.local.extend([squares, updates])
        state = [param, squares, updates]
        options = {"epsilon": self.epsilon, "decay": self.decay, "engine": self.engine}
        if isinstance(grad, GradientSlice):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            net.SparseAdadelta([*state, grad.indices, grad.values, lr], state, **options)
        else:
            net.Adadelta([*state, grad, lr], state, **options)

    def scale_learning_rate(self, scale: float) -> None:
        self.alpha *= scale


class RmsPropOptimizer(Optimizer):
    """RMSProp (Tieleman and Hinton 2012, lecture 6.5), for dense gradients.

    Args:
        alpha: base learning rate, positive.
        decay: of the running mean of squares.
        momentum: of the scaled gradient.
        policy: of the operator LearningRate; further arguments go there too.
    """

    def __init__(
        self,
        alpha: float = 0.01,
        decay: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-5,
        policy: str = "fixed",
        engine: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.alpha = alpha
        self.decay = decay
        self.momentum = momentum
        self.epsilon = epsilon
        self.policy = policy
        self.engine = engine
        self.init_kwargs = kwargs

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param = param_info.blob
        positive_rate(self, self.alpha)
        refuse_sparse(self, param_info)
        device = current_device()
        one = param_init_net.ConstantFill([], f"ONE_{device.device_type}_{device.device_id}", shape=[1], value=1.0)
        lr, _ = self.build_lr(
            net, param_init_net, base_learning_rate=-self.alpha, policy=self.policy, **self.init_kwargs
        )
        step, squares, momentum = (
            param_init_net.ConstantFill([param], f"{param}{suffix}", value=0.0)
            for suffix in ("_grad_o", "_mean_squares", "_momentum")
        )
        self._aux_params.local.extend([squares, momentum])
        net.RmsProp(
            [param_info.grad, squares, momentum, one],
            [step, squares, momentum],
            decay=self.decay,
            momentum=self.momentum,
            epsilon=self.epsilon,
            engine=self.engine,
        )
        net.MomentumSGDUpdate([step, momentum, lr, param], [step, momentum, param])

    def scale_learning_rate(self, scale: float) -> None:
        self.alpha *= scale


class WngradOptimizer(Optimizer):
    """WNGrad (https://arxiv.org/abs/1803.02865), dense and sparse: one denominator per parameter.

    Args:
        alpha: base learning rate; 0 or less writes nothing.
        moment_init: what the denominator begins with.
        policy: of the operator LearningRate; further arguments go there too.
        sparse_dedup_aggregator: "sum" or "mean" joins repeated indices of a sparse gradient before the update.
        lars: the offset of layer-wise rate scaling, for dense gradients; None: none.
        output_effective_lr, output_effective_lr_and_update: leave ``*_effective_lr`` (and ``*_update``) to look at.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        epsilon: float = 1e-9,
        policy: str = "fixed",
        sparse_dedup_aggregator: str | None = None,
        engine: str = "",
        moment_init: float = 100.0,
        lars: float | None = None,
        output_effective_lr: bool = False,
        output_effective_lr_and_update: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.alpha = alpha
        self.epsilon = epsilon
        self.policy = policy
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.engine = engine
        self.moment_init = moment_init
        self.lars = lars
        self.output_effective_lr = output_effective_lr
        self.output_effective_lr_and_update = output_effective_lr_and_update
        self.init_kwargs = kwargs

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        lr = self._build_own_lr(net, param_init_net, param_info, self.alpha, self.policy, self.lars, self.init_kwargs)
        moment = param_init_net.ConstantFill([], f"{param}_moment", shape=[1], value=self.moment_init)
        self._aux_params.local.append(moment)
        options = {"epsilon": self.epsilon, "engine": self.engine}
        outputs = [param, moment]
        if isinstance(grad, GradientSlice):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            net.SparseWngrad([param, moment, grad.indices, grad.values, lr], outputs, **options)
            return
        if self.output_effective_lr or self.output_effective_lr_and_update:
            outputs.append(f"{param}_effective_lr")
        if self.output_effective_lr_and_update:
            outputs.append(f"{param}_update")
        net.Wngrad([param, moment, grad, lr], outputs, **options)

    def scale_learning_rate(self, scale: float) -> None:
        self.alpha *= scale


class StormOptimizer(Optimizer):
    """STORM (https://arxiv.org/abs/1905.10018), dense and sparse: momentum whose weight falls with the rate.

    Args:
        lr: base learning rate, k in the paper; 0 or less writes nothing.
        momentum: scales the weight of the new gradient, c in the paper.
        beta: what the denominator of the rate begins with, w in the paper.
        grad_sq_init: what the sum of squared gradients begins with.
        policy: of the operator LearningRate; further arguments go there too.
        sparse_dedup_aggregator: "sum" or "mean" joins repeated indices of a sparse gradient before the update.
        lars: the offset of layer-wise rate scaling, for dense gradients; None: none.
    """

    def __init__(
        self,
        lr: float = 0.1,
        momentum: float = 10.0,
        beta: float = 0.1,
        grad_sq_init: float = 0.01,
        policy: str = "fixed",
        sparse_dedup_aggregator: str | None = None,
        lars: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.lr = lr
        self.momentum = momentum
        self.beta = beta
        self.grad_sq_init = grad_sq_init
        self.policy = policy
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.lars = lars
        self.init_kwargs = kwargs

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.lr <= 0:
            return
        lr = self._build_own_lr(net, param_init_net, param_info, self.lr, self.policy, self.lars, self.init_kwargs)
        moment = param_init_net.ConstantFill(param, f"{param}_moment", value=0.0)
        squares = param_init_net.ConstantFill([], f"{param}_grad_sq_sum", shape=[1], value=self.grad_sq_init)
        self._aux_params.local.extend([moment, squares])
        state = [param, moment, squares]
        options = {"momentum": self.momentum, "beta": self.beta}
        if isinstance(grad, GradientSlice):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            net.SparseStorm([*state, grad.values, grad.indices, lr], state, **options)
        else:
            net.Storm([*state, grad, lr], state, **options)

    def scale_learning_rate(self, scale: float) -> None:
        self.lr *= scale
