"""An example of an operator, as its declaration shows it: what goes in, what comes out. Every one is run as a test.

Values are plain Python, so that declarations need no array library: nested lists of floats (float32), integers (int32),
truth values, strings; `Tensor` where the dtype is another one, `Quantized` for 8-bit tensors with a scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from netgrad.graph.shapes import TensorType


@dataclass(frozen=True)
class Tensor:
    """Values of a dtype that plain lists do not have; ``shape`` where nested lists cannot say it (empty tensors)."""

    values: Any
    dtype: str = "float32"
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Quantized:
    """An 8-bit tensor: real value = scale (value - zero_point). A bias holds int32."""

    values: Any
    scale: float
    zero_point: int = 0
    dtype: str = "uint8"


@dataclass(frozen=True)
class Step:
    """An operator that runs first, to make what cannot be fed (counters, maps, scopes)."""

    type: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Example:
    """One use of an operator.

    Attributes:
        feeds: blob -> value, for every input, in the order of the inputs.
        outputs: blob -> expected value, in the order of the outputs. A `TensorType` where values are random; None where
            the blob is no tensor.
        arguments: the operator's arguments.
        before: operators that run first; what they write is an input where it stands in ``inputs``.
        inputs: names of the inputs, where they are not just the feeds.
        wrt: the feeds by which the gradient is checked; all of floating point unless given. Empty: it is not checked.
        ys: the outputs whose gradient is checked; all differentiable ones unless given.
    """

    feeds: Mapping[str, Any]
    outputs: Mapping[str, Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    before: tuple[Step, ...] = ()
    inputs: tuple[str, ...] | None = None
    wrt: tuple[str, ...] | None = None
    ys: tuple[str, ...] | None = None

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(self.feeds) if self.inputs is None else self.inputs


__all__ = ["Example", "Quantized", "Step", "Tensor", "TensorType"]
