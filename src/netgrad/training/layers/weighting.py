"""Weighted sums of blobs: constant, learned, or changing while training."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netgrad.graph.records import Scalar
from netgrad.proto.caffe2_pb2 import TensorProto
from netgrad.training.layers.base import ModelLayer
from netgrad.training.layers.checks import require


class ConstantWeight(ModelLayer):
    """The sum of the columns of a record, numbers such as losses, times constants; 1 / number of them unless given."""

    def __init__(
        self, model: Any, input_record: Any, weights: Any = None, name: str = "constant_weight", **kwargs: Any
    ) -> None:
        super().__init__(model, name, input_record, **kwargs)
        self.output_schema = Scalar(np.float32, self.get_next_blob_reference("constant_weight"))
        self.data = input_record.field_blobs()
        self.num = len(self.data)
        given = _weights(self, weights)
        self.weights = [
            model.add_global_constant(f"{self.name}_weight_{k}", float(weight)) for k, weight in enumerate(given)
        ]

    def add_ops(self, net: Any) -> None:
        net.WeightedSum(_alternating(self.data, self.weights), self.output_schema())


class BlobWeightedSum(ModelLayer):
    """The sum of the columns of a record, all of one shape, times learned numbers, 1 at first unless given."""

    def __init__(
        self, model: Any, input_record: Any, init_weights: Any = None, weight_optim: Any = None,
        name: str = "blob_weighted_sum", **kwargs: Any,
    ) -> None:
        super().__init__(model, name, input_record, **kwargs)
        self.blobs = input_record.field_blobs()
        self.num_weights = len(self.blobs)
        require(self, self.num_weights > 1, f"the input record must have several columns, but has {self.num_weights}")
        types = input_record.field_types()
        require(self, types[0].shape, "the columns of the input record must say the shape of a row")
        shapes = dict(zip(input_record.field_names(), (dtype.shape for dtype in types), strict=True))
        require(self, len(set(shapes.values())) == 1, f"the columns must have rows of one shape, but have {shapes}")
        init_weights = init_weights or [1.0] * self.num_weights
        require(self, len(init_weights) == self.num_weights,
                f"init_weights has {len(init_weights)} numbers for {self.num_weights} columns")
        self.weights = [
            self.create_param(param_name=f"w_{k}", shape=[1], initializer=("ConstantFill", {"value": float(value)}),
                              optimizer=weight_optim)
            for k, value in enumerate(init_weights)
        ]
        self.output_schema = Scalar(types[0], self.get_next_blob_reference("blob_weighted_sum_out"))

    def add_ops(self, net: Any) -> None:
        net.WeightedSum(_alternating(self.blobs, self.weights), self.output_schema(), grad_on_w=True)


class HomotopyWeight(ModelLayer):
    """alpha x + beta y, where alpha falls from ``max_weight`` towards ``min_weight`` while beta rises the same way.

    Training starts with an easy problem, x, and ends with the one meant, y. After ``half_life`` steps alpha has lost
    half of the difference, after ``quad_life`` three quarters.

    Attributes:
        gamma, power: alpha is (1 + gamma step)^-power between the bounds.
    """

    def __init__(
        self, model: Any, input_record: Any, name: str = "homotopy_weight", min_weight: float = 0.0,
        max_weight: float = 1.0, half_life: float = 1e6, quad_life: float = 3e6, atomic_iter: Any = None,
        **kwargs: Any,
    ) -> None:
        """Makes the layer.

        Args:
            input_record: of two columns, x and y.
            atomic_iter: the blob of a counter that somebody else advances; None: a counter of its own.
        """
        super().__init__(model, name, input_record, **kwargs)
        self.output_schema = Scalar(np.float32, self.get_next_blob_reference("homotopy_weight"))
        data = input_record.field_blobs()
        require(self, len(data) == 2, f"the input record must have two columns, but has {len(data)}")
        self.x, self.y = data
        self.use_external_iter = atomic_iter is not None
        self.atomic_iter = atomic_iter if self.use_external_iter else self._create_counter()
        require(self, max_weight > min_weight, f"max_weight {max_weight} must be above min_weight {min_weight}")
        self.scale = float(max_weight - min_weight)
        self.offset = model.add_global_constant(f"{self.name}_offset_1dfloat", float(min_weight))
        self.gamma, self.power = self.solve_inv_lr_params(half_life, quad_life)

    def solve_inv_lr_params(self, half_life: float, quad_life: float) -> tuple[float, float]:
        """Gamma and power with (1 + gamma half_life)^-power = 1/2 and (1 + gamma quad_life)^-power = 1/4."""
        require(self, half_life > 0, f"half_life must be positive, but is {half_life}")
        require(self, quad_life > 2 * half_life,
                f"quad_life {quad_life} must be more than twice half_life {half_life}, as the fall slows down")
        # 1 + gamma quad_life is the square of 1 + gamma half_life
        ratio = float(quad_life) / float(half_life)
        return (ratio - 2.0) / float(half_life), math.log(2.0) / math.log(ratio - 1.0)

    def _create_counter(self) -> Any:
        self.mutex = self.create_param(param_name=f"{self.name}_mutex", shape=None, initializer=("CreateMutex",),
                                       optimizer=self.model.NoOptim)
        return self.create_param(
            param_name=f"{self.name}_atomic_iter", shape=[1],
            initializer=("ConstantFill", {"value": 0, "dtype": TensorProto.INT64}), optimizer=self.model.NoOptim,
        )

    def add_ops(self, net: Any) -> None:
        names = ("alpha", "beta", "lr", "complementary_lr", "scaled_lr", "scaled_complementary_lr")
        alpha, beta, falling, rising, scaled_falling, scaled_rising = (net.NextScopedBlob(name) for name in names)
        if not self.use_external_iter:
            net.AtomicIter([self.mutex, self.atomic_iter], [self.atomic_iter])
        net.LearningRate([self.atomic_iter], [falling], policy="inv", gamma=self.gamma, power=self.power, base_lr=1.0)
        net.Sub([self.model.global_constants["ONE"], falling], [rising])
        net.Scale([falling], [scaled_falling], scale=self.scale)
        net.Scale([rising], [scaled_rising], scale=self.scale)
        net.Add([scaled_falling, self.offset], [alpha])
        net.Add([scaled_rising, self.offset], [beta])
        net.WeightedSum([self.x, alpha, self.y, beta], self.output_schema())


def _weights(layer: Any, weights: Any) -> list[Any]:
    """One weight per column; equal ones with the sum 1 unless given."""
    given = [1.0 / layer.num] * layer.num if weights is None else list(weights)
    require(layer, len(given) == layer.num, f"there are {len(given)} weights for {layer.num} columns")
    return given


def _alternating(data: list[Any], weights: list[Any]) -> list[Any]:
    return [blob for pair in zip(data, weights, strict=True) for blob in pair]
