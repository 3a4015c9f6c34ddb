"""Normalizers: what a layer model does to a parameter or an output before it is used."""

from __future__ import annotations

from typing import Any


class Normalizer:
    """Base of normalizers. A class has one method of its own, `_run`, which adds layers to a layer model."""

    def __call__(self, net: Any, param: Any) -> Any:
        """Normalizes a blob or record by layers of the model ``net``; returns the normalized one."""
        return self._run(net, param)

    def _run(self, net: Any, param: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no _run(layer_model, param)")


class BatchNormalizer(Normalizer):
    """Normalization by the mean and variance over the batch.

    Args:
        momentum: of the running mean and variance.
        scale_init_value: what the scale begins with.
    """

    def __init__(self, momentum: float, scale_init_value: float = 1.0) -> None:
        self._momentum = float(momentum)
        self._scale_init_value = float(scale_init_value)

    def _run(self, net: Any, param: Any) -> Any:
        return net.BatchNormalization(param, momentum=self._momentum, scale_init_value=self._scale_init_value)


class LayerNormalizer(Normalizer):
    """Normalization of each example by its own mean and variance.

    Args:
        epsilon: is added to the variance.
        use_layer_norm_op: whether one operator does it, or several.
        scale_init_value: what the scale begins with.
    """

    def __init__(self, epsilon: float, use_layer_norm_op: bool = True, scale_init_value: float = 1.0) -> None:
        self._epsilon = float(epsilon)
        self._use_layer_norm_op = use_layer_norm_op
        self._scale_init_value = float(scale_init_value)

    def _run(self, net: Any, param: Any) -> Any:
        return net.LayerNormalization(
            param,
            epsilon=self._epsilon,
            use_layer_norm_op=self._use_layer_norm_op,
            scale_init_value=self._scale_init_value,
        )
