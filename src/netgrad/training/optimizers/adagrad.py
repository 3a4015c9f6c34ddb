"""Adagrad."""

from __future__ import annotations

from typing import Any

from netgrad.graph.operator import GradientSlice
from netgrad.training.optimizers.base import Optimizer, known_shape, row_fill
from netgrad.training.parameters import ParameterInfo


class AdagradOptimizer(Optimizer):
    """Adagrad (https://jmlr.org/papers/v12/duchi11a.html), dense and sparse.

    Args:
        alpha: base learning rate; 0 or less writes nothing.
        decay: of the sum of squares; dense gradients only.
        weight_decay: for parameters of two and more dimensions.
        policy: of the operator LearningRate; further arguments go there too.
        sparse_dedup_aggregator: "sum" or "mean" joins repeated indices of a sparse gradient before the update.
        rowWise: one sum of squares per row; sparse gradients only.
        lars: the offset of layer-wise rate scaling, for dense gradients; None: none.
        output_effective_lr, output_effective_lr_and_update: leave ``*_effective_lr`` (and ``*_update``) for inspection.
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
        **kwargs: Any,
    ) -> None:
        super().__init__()
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
        self.init_kwargs = kwargs

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        sparse = isinstance(grad, GradientSlice)
        if self.alpha <= 0:
            return
        if sparse and self.decay != 1:
            raise AssertionError(
                f"Adagrad with decay={self.decay}: the gradient of {param_info.name!r} is sparse; decay is for "
                "dense ones"
            )
        if self.rowWise and not sparse:
            raise AssertionError(
                f"Adagrad with rowWise=True: the gradient of {param_info.name!r} is dense; use rowWise=False for it"
            )
        self._clear_local_lr_multiplier()
        if self.lars is not None and not sparse:
            if self.weight_decay:
                raise AssertionError("Adagrad: lars does not work with weight_decay")
            self._add_lars(net, param_init_net, param_info, self.lars)
        lr, _ = self.build_lr(
            net, param_init_net, base_learning_rate=self.alpha, policy=self.policy, **self.init_kwargs
        )
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
        outputs = [param, squares]
        if sparse:
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            write = net.RowWiseSparseAdagrad if self.rowWise else net.SparseAdagrad
            write([param, squares, grad.indices, grad.values, lr], outputs, **options)
            return
        if self.output_effective_lr or self.output_effective_lr_and_update:
            outputs.append(f"{param}_effective_lr")
        if self.output_effective_lr_and_update:
            outputs.append(f"{param}_update")
        net.Adagrad([param, squares, grad, lr], outputs, **options)

    def scale_learning_rate(self, scale: float) -> None:
        self.alpha *= scale
