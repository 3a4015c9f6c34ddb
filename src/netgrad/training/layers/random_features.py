"""Feature maps with random weights that are not trained, or not all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.graph.records import Scalar, Struct
from netgrad.training.layers.base import ModelLayer, float_rows
from netgrad.training.layers.checks import require, vector_size


class RandomFourierFeatures(ModelLayer):
    """sqrt(2 / output_dims) cos(X W' + b), W normal with deviation 1 / ``sigma``, b uniform in [0, 2 pi).

    The products of these features approximate the Gaussian kernel of width ``sigma``: Rahimi, Recht, "Random Features
    for Large-Scale Kernel Machines", 2007.
    """

    def __init__(
        self, model: Any, input_record: Any, output_dims: int, sigma: float, w_init: Any = None, b_init: Any = None,
        name: str = "random_fourier_features", **kwargs: Any,
    ) -> None:
        super().__init__(model, name, input_record, **kwargs)
        input_dims = vector_size(self, input_record)
        require(self, output_dims >= 1, f"output_dims must be at least 1, but is {output_dims}")
        require(self, sigma > 0.0, f"sigma must be positive, but is {sigma}")
        self.output_dims = output_dims
        self.output_schema = float_rows((output_dims,), self.get_next_blob_reference("output"))
        self.w = self.create_param(
            param_name="w", shape=[output_dims, input_dims],
            initializer=w_init or ("GaussianFill", {"mean": 0.0, "std": 1.0 / sigma}), optimizer=model.NoOptim,
        )
        self.b = self.create_param(
            param_name="b", shape=[output_dims],
            initializer=b_init or ("UniformFill", {"min": 0.0, "max": 2 * np.pi}), optimizer=model.NoOptim,
        )

    def add_ops(self, net: Any) -> None:
        angles = net.FC([*self.input_record.field_blobs(), self.w, self.b], net.NextScopedBlob("cosine_arg"))
        cosines = net.Cos([angles], net.NextScopedBlob("new_feature_vec"))
        net.Scale([cosines], self.output_schema.field_blobs(), scale=np.sqrt(2.0 / self.output_dims))


class ArcCosineFeatureMap(ModelLayer):
    """H(z) z^s for z = X W' + b, H the step function; for s = 0 softsign(z) where z is positive.

    W is normal with deviation ``scale`` / sqrt(inputs), b uniform within half of that. The products approximate the
    arc-cosine kernel of degree s: Cho, Saul, "Kernel Methods for Deep Learning", 2009.
    """

    def __init__(
        self, model: Any, input_record: Any, output_dims: int, s: int = 1, scale: float = 1.0, weight_init: Any = None,
        bias_init: Any = None, weight_optim: Any = None, bias_optim: Any = None,
        set_weight_as_global_constant: bool = False, initialize_output_schema: bool = True,
        name: str = "arc_cosine_feature_map", **kwargs: Any,
    ) -> None:
        """Makes the layer.

        Args:
            weight_init, bias_init: initializers, if not those above.
            weight_optim, bias_optim: None: not trained.
            set_weight_as_global_constant: draw the weights now, so that all init nets fill the same ones.
            initialize_output_schema: False where a derived class sets the output record.
        """
        super().__init__(model, name, input_record, **kwargs)
        self.input_dims = vector_size(self, input_record)
        if initialize_output_schema:
            self.output_schema = float_rows((output_dims,), model.net.NextScopedBlob(name + "_output"))
        require(self, output_dims >= 1, f"output_dims must be at least 1, but is {output_dims}")
        require(self, isinstance(s, int) and s >= 0, f"the degree s must be an integer from 0 on, but is {s!r}")
        require(self, scale > 0.0, f"scale must be positive, but is {scale}")
        self.output_dims = output_dims
        self.s = s
        self.stddev = scale * np.sqrt(1.0 / self.input_dims)
        self.set_weight_as_global_constant = set_weight_as_global_constant
        if set_weight_as_global_constant:
            self.random_w = model.add_global_constant(
                f"{self.name}_fixed_rand_W",
                np.random.normal(scale=self.stddev, size=(output_dims, self.input_dims)),
            )
            self.random_b = model.add_global_constant(
                f"{self.name}_fixed_rand_b",
                np.random.uniform(-0.5 * self.stddev, 0.5 * self.stddev, size=output_dims),
            )
        else:
            self.random_w, self.random_b = self._initialize_params(
                "random_w", "random_b", weight_init, bias_init, weight_optim, bias_optim)

    def _initialize_params(
        self, w_name: str, b_name: str, w_init: Any = None, b_init: Any = None, w_optim: Any = None,
        b_optim: Any = None,
    ) -> tuple[Any, Any]:
        half = 0.5 * self.stddev
        w = self.create_param(
            param_name=w_name, shape=(self.output_dims, self.input_dims),
            initializer=w_init or ("GaussianFill", {"mean": 0.0, "std": self.stddev}),
            optimizer=w_optim or self.model.NoOptim,
        )
        b = self.create_param(
            param_name=b_name, shape=[self.output_dims],
            initializer=b_init or ("UniformFill", {"min": -half, "max": half}),
            optimizer=b_optim or self.model.NoOptim,
        )
        return w, b

    def _heaviside_with_power(self, net: Any, features: Any, output: Any) -> Any:
        if self.s == 0:
            return net.Relu([net.Softsign([features], net.NextScopedBlob("softsign"))], output)
        if self.s == 1:
            return net.Relu([features], output)
        positive = net.Relu([features], net.NextScopedBlob("relu_rand"))
        power = net.Pow([features], net.NextScopedBlob("pow_rand"), exponent=float(self.s - 1))
        return net.Mul([positive, power], output)

    def add_ops(self, net: Any) -> None:
        features = net.FC([*self.input_record.field_blobs(), self.random_w, self.random_b],
                          net.NextScopedBlob("random_features"))
        self._heaviside_with_power(net, features, self.output_schema.field_blobs())


class SemiRandomFeatures(ArcCosineFeatureMap):
    """The product of an `ArcCosineFeatureMap`, not trained, and a linear layer that is (arXiv:1702.08882).

    The input record is a Scalar, or a Struct of ``full``, for the linear layer, and ``random``, for the other, as the
    output record is: layers can be stacked.
    """

    def __init__(
        self, model: Any, input_record: Any, output_dims: int, s: int = 1, scale_random: float = 1.0,
        scale_learned: float = 1.0, weight_init_random: Any = None, bias_init_random: Any = None,
        weight_init_learned: Any = None, bias_init_learned: Any = None, weight_optim: Any = None,
        bias_optim: Any = None, set_weight_as_global_constant: bool = False, name: str = "semi_random_features",
        **kwargs: Any,
    ) -> None:
        """Makes the layer.

        Args:
            s: 0: the features are linear where they are not 0, 1: quadratic, and so on.
            weight_optim, bias_optim: of the linear layer; None: it is not trained either.
        """
        full = random = input_record
        if isinstance(input_record, Struct) and "full" in input_record and "random" in input_record:
            full, random = input_record.full, input_record.random
        self.input_record_full, self.input_record_random = full, random
        super().__init__(
            model, full, output_dims, s=s, scale=scale_random, weight_init=weight_init_random,
            bias_init=bias_init_random, set_weight_as_global_constant=set_weight_as_global_constant,
            initialize_output_schema=False, name=name, **kwargs,
        )
        require(self, vector_size(self, random, "the field random") == self.input_dims,
                "the fields full and random must be of one size")
        self.output_schema = Struct(*[
            (part, Scalar((np.float32, output_dims), model.net.NextScopedBlob(f"{name}_{part}_output")))
            for part in ("full", "random")
        ])
        require(self, scale_learned > 0.0, f"scale_learned must be positive, but is {scale_learned}")
        self.stddev = scale_learned * np.sqrt(1.0 / self.input_dims)
        self.learned_w, self.learned_b = self._initialize_params(
            "learned_w", "learned_b", weight_init_learned, bias_init_learned, weight_optim, bias_optim)

    def add_ops(self, net: Any) -> None:
        learned = net.FC([*self.input_record_full.field_blobs(), self.learned_w, self.learned_b],
                         net.NextScopedBlob("learned_features"))
        random = net.FC([*self.input_record_random.field_blobs(), self.random_w, self.random_b],
                        net.NextScopedBlob("random_features"))
        processed = self._heaviside_with_power(net, random, self.output_schema.random.field_blobs())
        net.Mul([processed, learned], self.output_schema.full.field_blobs())
