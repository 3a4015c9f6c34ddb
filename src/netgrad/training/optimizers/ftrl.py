"""Follow the regularized leader, and its group lasso form."""

from __future__ import annotations

from typing import Any

from netgrad.graph.operator import GradientSlice
from netgrad.training.optimizers.base import Optimizer, refuse_sparse
from netgrad.training.parameters import ParameterInfo


class FtrlOptimizer(Optimizer):
    """FTRL-Proximal (McMahan et al. 2013, "Ad click prediction: a view from the trenches"), dense and sparse.

    Args:
        alpha: base learning rate; 0 or less writes nothing.
        beta: added to the root of the sum of squares.
        lambda1, lambda2: weights of the L1 and L2 regularization.
        sparse_dedup_aggregator: "sum" or "mean" joins repeated indices of a sparse gradient before the update.
    """

    #: the state of a parameter, z and n, is called like this
    _suffix = "_ftrl_nz"

    def __init__(
        self,
        alpha: float = 0.01,
        beta: float = 1e-4,
        lambda1: float = 0,
        lambda2: float = 0,
        sparse_dedup_aggregator: str | None = None,
        engine: str | None = "",
    ) -> None:
        super().__init__()
        self.alpha = alpha
        self.beta = beta
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.engine = engine

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        if self.alpha <= 0:
            return
        param = param_info.blob
        state = param_init_net.ConstantFill([param], f"{param}{self._suffix}", extra_shape=[2], value=0.0)
        self._aux_params.local.append(state)
        options = {
            "engine": self.engine,
            "alpha": self.alpha,
            "beta": self.beta,
            "lambda1": self.lambda1,
            "lambda2": self.lambda2,
        }
        self._update(net, param_info, state, options)

    def _update(self, net: Any, param_info: ParameterInfo, state: Any, options: dict[str, Any]) -> None:
        param, grad = param_info.blob, param_info.grad
        if isinstance(grad, GradientSlice):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            net.SparseFtrl([param, state, grad.indices, grad.values], [param, state], **options)
        else:
            net.Ftrl([param, state, grad], [param, state], **options)

    def scale_learning_rate(self, scale: float) -> None:
        self.alpha *= scale


class GFtrlOptimizer(FtrlOptimizer):
    """FTRL with group lasso: whole columns of a weight matrix go to zero. Dense gradients only."""

    _suffix = "_gftrl_nz"

    def _update(self, net: Any, param_info: ParameterInfo, state: Any, options: dict[str, Any]) -> None:
        refuse_sparse(self, param_info)
        net.GFtrl([param_info.blob, state, param_info.grad], [param_info.blob, state], **options)
