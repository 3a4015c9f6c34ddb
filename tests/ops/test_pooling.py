"""Pooling: derivatives in every geometry, ties, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.graph.operator import CreateOperator as operator
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import check_gradient, evaluate

BACKENDS = ["numpy", "torch"]

GEOMETRIES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 2, 4, 5), {"kernel": 2, "stride": 2}), ((1, 2, 5, 5), {"kernel": 3, "stride": 2, "pad": 1}),
    ((1, 1, 5, 5), {"kernels": [3, 2], "pads": [0, 1, 2, 0]}),
    ((1, 2, 6, 5), {"kernel": 3, "stride": 2, "legacy_pad": 3}),
    ((1, 2, 5, 5), {"kernel": 3, "stride": 2, "legacy_pad": 2}), ((2, 3, 3, 2), {"global_pooling": 1}),
    ((1, 4, 4, 2), {"kernel": 2, "order": "NHWC"}), ((1, 2, 6), {"kernels": [3], "strides": [2], "pads": [1, 1]}),
    ((1, 1, 3, 4, 3), {"kernels": [2, 2, 2]}), ((1, 1, 3, 3, 4), {"kernels": [4, 4, 4], "pads": [2] * 6}),
    ((0, 2, 4, 4), {"kernel": 2}),
]


def distinct(*shape: int) -> np.ndarray:
    """No two numbers are close, and none is near 0, so that finite differences see no kink."""
    size = int(np.prod(shape))
    values = np.random.default_rng(0).permutation(size) + 1.0
    return (values * np.where(np.arange(size) % 3, 1, -1)).reshape(shape) / 4


@pytest.mark.parametrize("type", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(("X", "arguments"), GEOMETRIES)
def test_derivative(type: str, X: tuple[int, ...], arguments: dict[str, Any]) -> None:
    check_gradient(operator(type, ["X"], ["Y"], **arguments), {"X": distinct(*X)})


def test_derivative_when_padding_counts() -> None:
    pool = operator("AveragePool", ["X"], ["Y"], kernel=3, pad=1, count_include_pad=1)
    check_gradient(pool, {"X": distinct(1, 2, 4, 4)})


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_of_a_tie_receive_the_gradient(backend: str) -> None:
    X = np.array([[[[1, 1], [0, 1]]]], np.float32)
    feeds = {"X": X, "Y": X[..., :1, :1], "dY": np.full((1, 1, 1, 1), 2, np.float32)}
    dX = evaluate(operator("MaxPoolGradient", ["X", "Y", "dY"], ["dX"], kernel=2), feeds, backend=backend)["dX"]
    assert dX.tolist() == [[[[2, 2], [0, 2]]]]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("arguments", "message"), [
    ({"kernel": 2, "pad": 2}, "smaller than the window"), ({"kernel": 2, "dilation": 2}, "no dilation"),
    ({}, "no size"), ({"kernel": 9}, "does not fit"), ({"global_pooling": 1, "pad": 1}, "global_pooling"),
])
def test_refusal(arguments: dict[str, Any], message: str, backend: str) -> None:
    with pytest.raises(OperatorError, match=message):
        evaluate(operator("MaxPool", ["X"], ["Y"], **arguments), {"X": distinct(1, 1, 4, 4)}, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("type", ["MaxPoolGradient", "AveragePoolGradient", "LpPoolGradient"])
def test_a_gradient_of_another_shape_is_refused(type: str, backend: str) -> None:
    feeds = {"X": distinct(1, 1, 4, 4), "Y": distinct(1, 1, 2, 2), "dY": distinct(1, 1, 3, 2)}
    with pytest.raises(OperatorError, match="gradient"):
        evaluate(operator(type, list(feeds), ["dX"], kernel=2, stride=2), feeds, backend=backend)
