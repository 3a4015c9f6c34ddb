"""What a model knows of each of its parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from netgrad.graph.blob import BlobReference


class ParameterTags:
    """What a parameter is for; helpers tag what they create, and optimizers can be chosen by tag."""

    BIAS = "BIAS"
    WEIGHT = "WEIGHT"
    #: computed from data, not by gradient descent: running means and variances
    COMPUTED_PARAM = "COMPUTED_PARAM"


class ParameterInfo:
    """A parameter: its blob, shape, gradient, and how it is to be optimized.

    Attributes:
        blob: the parameter itself.
        shape: its shape, or None where nobody said.
        size: number of elements, or None.
        grad: its gradient, a `BlobReference` or a `GradientSlice`; None before `AddGradientOperators`.
        blob_copy: copies in other precisions: `TensorProto.DataType` -> blob.
        regularizer: the regularizers that were active where it was created.
    """

    def __init__(
        self,
        param_id: int | None,
        param: BlobReference,
        key: Any = None,
        shape: Sequence[int] | None = None,
        length: int | None = None,
        grad: Any = None,
        blob_copy: Mapping[int, BlobReference] | None = None,
    ) -> None:
        if not isinstance(param, BlobReference):
            raise AssertionError(f"a parameter is a BlobReference, not {param!r}, a {type(param).__name__}")
        self.param_id = param_id
        self.name = str(param)
        self.blob = param
        self.key = key
        self.shape = shape
        self.size = None if shape is None else math.prod(shape)
        self.length = max(1, length or 1)
        self.grad = grad
        self.blob_copy = blob_copy
        self.regularizer: Any = None
        self._optimizer: Any = None

    @property
    def parameter(self) -> BlobReference:
        return self.blob

    @property
    def optimizer(self) -> Any:
        """The optimizer that this parameter asked for (see `UseOptimizer`), or None; it is set once."""
        return self._optimizer

    @optimizer.setter
    def optimizer(self, value: Any) -> None:
        if self._optimizer is not None:
            raise AssertionError(f"parameter {self.name!r} has an optimizer already, {type(self._optimizer).__name__}")
        self._optimizer = value

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"ParameterInfo({self.name!r}, shape={self.shape}, grad={self.grad!r})"
