"""Short forms for the tests of differentiation: operators, nets, and gradients as numbers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from laws import dense, run

from netgrad.graph.net import Net
from netgrad.graph.operator import CreateOperator
from netgrad.graph.schema import SchemaWarning
from netgrad.tools.printing import format_operator


def op(type: str, inputs: str, outputs: str, **arguments: Any) -> Any:
    """An operator; blobs are separated by spaces."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SchemaWarning)  # some are wrong on purpose
        return CreateOperator(type, inputs.split(), outputs.split(), **arguments)


def net(*ops: Any) -> Any:
    """A net of operators."""
    made = Net("net")
    made.Proto().op.extend(ops)
    return made


def arrays(**values: Any) -> dict[str, np.ndarray]:
    """Feeds: fractions as float64, whole numbers as int32."""
    found = {name: np.asarray(value) for name, value in values.items()}
    return {name: value.astype(np.float64 if value.dtype.kind == "f" else np.int32) for name, value in found.items()}


def gradients(forward: Any, ys: Any, feeds: Mapping[str, Any], backend: str, **options: Any) -> Numbers:
    """Differentiates a net, or a list of operators, runs everything, and returns all gradients, dense."""
    forward = net(*forward) if isinstance(forward, (list, tuple)) else forward
    found = forward.AddGradientOperators(ys, **options)
    values = run(list(forward.Proto().op), feeds, backend)
    return Numbers({str(blob): dense(g, values, values[str(blob)].shape) for blob, g in found.items()}, values)


class Numbers(dict[str, np.ndarray]):
    """Gradients by blob, and all blobs after the run."""

    def __init__(self, gradients: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> None:
        super().__init__(gradients)
        self.values_after = values


def text(ops: Any) -> list[str]:
    """Operators as lines."""
    return [format_operator(each) for each in (ops.Proto().op if hasattr(ops, "Proto") else ops)]
