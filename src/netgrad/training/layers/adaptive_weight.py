"""`AdaptiveWeight`: a sum of losses whose weights are learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.graph.records import Scalar
from netgrad.proto.caffe2_pb2 import TensorProto
from netgrad.training.layers.base import ModelLayer
from netgrad.training.layers.checks import refuse, require


class AdaptiveWeight(ModelLayer):
    """The sum of losses X_i, each weighted by how certain its task is: Kendall, Gal, Cipolla, arXiv:1705.07115.

    With the parameter mu_i = 2 log sigma_i ("log_std"), the sum of (exp(-mu) X + mu) / 2; with k_i = 1 / sigma_i^2
    ("inv_var"), that of (k X - log k) / 2.
    """

    def __init__(
        self, model: Any, input_record: Any, name: str = "adaptive_weight", optimizer: Any = None, weights: Any = None,
        enable_diagnose: bool = False, estimation_method: str = "log_std", pos_optim_method: str = "log_barrier",
        reg_lambda: float = 0.1, **kwargs: Any,
    ) -> None:
        """Makes the layer.

        Args:
            input_record: its columns are the losses, numbers.
            optimizer: of the parameter.
            weights: what the losses are multiplied with at first, positive; 1 / their number unless given.
            enable_diagnose: report the weights among the metrics.
            estimation_method: "log_std" or "inv_var".
            pos_optim_method: how k is kept positive, "log_barrier" (a regularizer of the loss, with factor
                ``reg_lambda``) or "pos_grad_proj" (by clipping after updates).
        """
        super().__init__(model, name, input_record, **kwargs)
        self.output_schema = Scalar(np.float32, self.get_next_blob_reference("adaptive_weight"))
        self.data = input_record.field_blobs()
        self.num = len(self.data)
        self.optimizer = optimizer
        given = [1.0 / self.num] * self.num if weights is None else list(weights)
        require(self, len(given) == self.num, f"there are {len(given)} weights for {self.num} columns")
        require(self, given and min(given) > 0, f"the weights must be positive, but are {given}")
        self.weights = np.array(given).astype(np.float32)
        self.estimation_method = str(estimation_method).lower()
        self.pos_optim_method = str(pos_optim_method).lower()
        self.reg_lambda = float(reg_lambda)
        self.enable_diagnose = enable_diagnose
        if self.estimation_method == "log_std":
            self.mu = self._parameter("mu", np.log(1.0 / 2.0 / self.weights))
        elif self.estimation_method == "inv_var":
            self.k = self._parameter("k", 2.0 * self.weights, self._regularizer())
        else:
            refuse(self, f"estimation_method is log_std or inv_var, not {estimation_method!r}")
        if enable_diagnose:
            self.weight_i = [self.get_next_blob_reference(f"adaptive_weight_{k}") for k in range(self.num)]
            for blob in self.weight_i:
                model.add_ad_hoc_plot_blob(blob)

    def _parameter(self, param_name: str, values: Any, regularizer: Any = None) -> Any:
        return self.create_param(
            param_name=param_name, shape=[self.num],
            initializer=("GivenTensorFill", {"values": values, "dtype": TensorProto.FLOAT}),
            optimizer=self.optimizer, regularizer=regularizer,
        )

    def _regularizer(self) -> Any:
        from netgrad.training import regularizers

        if self.pos_optim_method == "log_barrier":
            return regularizers.LogBarrier(reg_lambda=self.reg_lambda)
        if self.pos_optim_method == "pos_grad_proj":
            return regularizers.BoundedGradientProjection(lb=0, left_open=True)
        raise TypeError(
            f"layer {self.name!r}: pos_optim_method is log_barrier or pos_grad_proj, not {self.pos_optim_method!r}"
        )

    def add_ops(self, net: Any) -> None:
        losses = self._losses(net)
        weight, reg, weighted, total = (
            net.NextScopedBlob(name) for name in ("weight", "reg", "weighted_x", "weighted_x_add_reg")
        )
        if self.estimation_method == "log_std":
            negative, precision = net.NextScopedBlob("mu_neg"), net.NextScopedBlob("mu_neg_exp")
            net.Negative(self.mu, negative)
            net.Exp(negative, precision)
            net.Scale(precision, weight, scale=0.5)
            net.Scale(self.mu, reg, scale=0.5)
        else:
            net.Scale(self.k, weight, scale=0.5)
            log_k = net.Log(self.k, net.NextScopedBlob("log_k"))
            net.Scale(log_k, reg, scale=-0.5)
        net.Mul([weight, losses], weighted)
        net.Add([weighted, reg], total)
        net.SumElements(total, self.output_schema())
        if self.enable_diagnose:
            for k, blob in enumerate(self.weight_i):
                net.Slice(weight, blob, starts=[k], ends=[k + 1])

    def _losses(self, net: Any) -> Any:
        """The losses as one vector; each may be a number or a vector of one."""
        vectors = [net.NextScopedBlob(f"reshaped_data_{k}") for k in range(self.num)]
        for k, (loss, vector) in enumerate(zip(self.data, vectors, strict=True)):
            net.Reshape([loss], [vector, net.NextScopedBlob(f"new_shape_{k}")], shape=[1])
        joined = net.NextScopedBlob("concated_data")
        net.Concat(vectors, [joined, net.NextScopedBlob("concated_new_shape")], axis=0)
        return joined
