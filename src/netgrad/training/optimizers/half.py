"""Stochastic gradient descent of parameters that are kept in half precision, in single precision, or in both."""

from __future__ import annotations

from typing import Any

from netgrad.proto.caffe2_pb2 import TensorProto
from netgrad.training.optimizers.base import check_rate, refuse_sparse
from netgrad.training.optimizers.sgd import SgdOptimizer
from netgrad.training.parameters import ParameterInfo

#: cuDNN's batch normalization reads single-precision parameters whatever the rest of the model does; Caffe2 knows such
#: parameters by this part of their name
_SINGLE_PRECISION_NAME = "spatbn"


class MultiPrecisionSgdOptimizer(SgdOptimizer):
    """`SgdOptimizer` that updates the float32 copy of a float16 parameter, and rounds it back.

    Small steps are not lost this way (https://arxiv.org/abs/1710.03740). The copy is made by `PseudoFP16Initializer`;
    parameters without one are updated as `SgdOptimizer` does it. With a copy, the gradient must be dense.
    """

    def __init__(
        self,
        base_learning_rate: float = 0.1,
        momentum: float = 0.0,
        policy: str = "fixed",
        nesterov: bool = True,
        sparse_dedup_aggregator: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            base_learning_rate=base_learning_rate,
            policy=policy,
            momentum=momentum,
            nesterov=nesterov,
            sparse_dedup_aggregator=sparse_dedup_aggregator,
            **kwargs,
        )

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        copy = (param_info.blob_copy or {}).get(TensorProto.FLOAT)
        if copy is None:
            super()._run(net, param_init_net, param_info)
            return
        if self.base_learning_rate == 0:
            return
        check_rate(self, self.base_learning_rate)
        refuse_sparse(self, param_info)
        param, grad = param_info.blob, param_info.grad
        lr, _ = self.build_lr(
            net, param_init_net, base_learning_rate=-self.base_learning_rate, policy=self.policy, **self.init_kwargs
        )
        momentum = param_init_net.ConstantFill(copy, f"{param}_momentum", value=0.0)
        self._aux_params.local.append(momentum)
        grad = net.HalfToFloat(grad, grad + "_fp32")
        net.MomentumSGDUpdate(
            [grad, momentum, lr, copy], [grad, momentum, copy], momentum=self.momentum, nesterov=self.nesterov
        )
        net.FloatToHalf(copy, param)


class FP16SgdOptimizer(SgdOptimizer):
    """SGD with momentum and weight decay in one operator, in half precision.

    A parameter without a copy in another precision is taken for a float32 one and updated in float32; so are those of
    batch normalization. A float16 parameter, or the float16 copy of a float32 one, is updated in float16. The gradient
    has the precision of what is updated, and is dense.
    """

    def __init__(
        self,
        base_learning_rate: float = 0.1,
        momentum: float = 0.0,
        policy: str = "fixed",
        nesterov: bool = True,
        weight_decay: float = 0.0001,
        sparse_dedup_aggregator: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            base_learning_rate=base_learning_rate,
            policy=policy,
            momentum=momentum,
            nesterov=nesterov,
            sparse_dedup_aggregator=sparse_dedup_aggregator,
            **kwargs,
        )
        self.weight_decay = weight_decay

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo, fp32_update: bool = False) -> None:
        if self.base_learning_rate == 0:
            return
        check_rate(self, self.base_learning_rate)
        refuse_sparse(self, param_info)
        copies = param_info.blob_copy
        in_single = fp32_update or copies is None or _SINGLE_PRECISION_NAME in str(param_info.blob)
        half, single = (param_info.blob, param_info.blob) if in_single else self._both(param_info)
        lr, _ = self.build_lr(
            net, param_init_net, base_learning_rate=-self.base_learning_rate, policy=self.policy, **self.init_kwargs
        )
        momentum_single = param_init_net.ConstantFill(single, f"{half}_momentum_fp32", value=0.0)
        momentum_half = param_init_net.FloatToHalf(momentum_single, f"{half}_momentum")
        self._aux_params.local.append(momentum_half)
        update = net.FP32MomentumSGDUpdate if in_single else net.FP16MomentumSGDUpdate
        momentum = momentum_single if in_single else momentum_half
        grad = param_info.grad
        update(
            [grad, momentum, lr, half],
            [grad, momentum, half],
            momentum=self.momentum,
            nesterov=self.nesterov,
            weight_decay=self.weight_decay,
        )

    @staticmethod
    def _both(param_info: ParameterInfo) -> tuple[Any, Any]:
        """The float16 and the float32 blob of a parameter."""
        copies = param_info.blob_copy or {}
        if TensorProto.FLOAT in copies:
            return param_info.blob, copies[TensorProto.FLOAT]
        if TensorProto.FLOAT16 in copies:
            return copies[TensorProto.FLOAT16], param_info.blob
        raise AssertionError(
            f"FP16SgdOptimizer: parameter {param_info.name!r} has copies of data types {sorted(copies)}, none of them "
            "float or float16; make it with PseudoFP16Initializer or ReversePseudoFP16Initializer"
        )
