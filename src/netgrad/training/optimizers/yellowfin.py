"""YellowFin."""

from __future__ import annotations

from typing import Any

from netgrad.training.optimizers.base import BuildUniqueMutexIter, Optimizer, positive_rate, refuse_sparse
from netgrad.training.parameters import ParameterInfo

#: numbers that the operator YellowFin keeps between runs
_SCALARS = 5


class YellowFinOptimizer(Optimizer):
    """SGD with momentum that tunes rate and momentum by itself (https://arxiv.org/abs/1706.03471), dense only.

    Each parameter has a rate and a momentum of its own.

    Args:
        alpha: the rate it begins with, positive.
        mu: the momentum it begins with.
        beta: of the running means.
        curv_win_width: over how many runs the range of curvatures is taken.
        zero_debias: whether running means are corrected for their zero beginning.
    """

    def __init__(
        self,
        alpha: float = 0.1,
        mu: float = 0.0,
        beta: float = 0.999,
        curv_win_width: int = 20,
        zero_debias: bool = True,
        epsilon: float = 1e-6,
        policy: str = "fixed",
        sparse_dedup_aggregator: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.alpha = alpha
        self.mu = mu
        self.beta = beta
        self.curv_win_width = curv_win_width
        self.zero_debias = zero_debias
        self.epsilon = epsilon
        self.policy = policy
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.init_kwargs = kwargs

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        positive_rate(self, self.alpha)
        refuse_sparse(self, param_info)
        param = param_info.blob
        fill = param_init_net.ConstantFill
        moment = fill([param], param + "_moment", value=0.0)
        window = fill([], param + "_curv_win", shape=[self.curv_win_width], value=0.0)
        mean = fill([param], param + "_g_avg", value=0.0)
        mean_square = fill([param], param + "_g2_avg", value=0.0)
        rate = fill([], param + "_lr_avg", shape=[1], value=self.alpha)
        momentum = fill([], param + "_mu_avg", shape=[1], value=self.mu)
        scalars = fill([], param + "_scalars_memory", shape=[_SCALARS], value=0.0)
        iteration = BuildUniqueMutexIter(param_init_net, net, iter_val=0)
        self._aux_params.shared.append(iteration)
        state = [moment, rate, momentum, window, mean, mean_square, scalars]
        self._aux_params.local.extend(state)
        net.YellowFin(
            [param, *state, param_info.grad, iteration],
            [param, *state],
            beta=self.beta,
            epsilon=self.epsilon,
            curv_win_width=self.curv_win_width,
            zero_debias=self.zero_debias,
        )

    def scale_learning_rate(self, scale: float) -> None:
        self.alpha *= scale
