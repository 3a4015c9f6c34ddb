"""Convolutions: derivatives in every geometry, the shapes that are inferred, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.graph import registry
from netgrad.graph.operator import CreateOperator as operator
from netgrad.graph.shapes import TensorType
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import check_gradient, evaluate

BACKENDS = ["numpy", "torch"]


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


# X, filter with channels first, arguments
GEOMETRIES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 5, 4), (2, 3, 3, 3), {"kernel": 3}),
    ((2, 3, 5, 4), (2, 3, 3, 2), {"kernel_h": 3, "kernel_w": 2, "pad_t": 1, "pad_r": 2, "stride_h": 2}),
    ((1, 4, 5, 5), (6, 2, 3, 3), {"kernel": 3, "group": 2, "pad": 1}),
    ((1, 3, 4, 4), (3, 1, 3, 3), {"kernel": 3, "group": 3, "pad": 1}),
    ((1, 2, 7, 7), (2, 2, 2, 2), {"kernel": 2, "dilation": 3, "stride": 2}),
    ((1, 2, 5, 6), (3, 2, 3, 3), {"kernel": 3, "stride": 2, "legacy_pad": 2}),
    ((1, 2, 5, 5), (2, 2, 2, 2), {"kernel": 2, "stride": 3, "legacy_pad": 3}),
    ((1, 5, 4, 2), (3, 2, 2, 2), {"kernel": 2, "order": "NHWC"}),
    ((1, 5, 4, 4), (2, 2, 2, 3), {"kernels": [2, 3], "order": "NHWC", "group": 2, "pads": [1, 0, 0, 1]}),
    ((2, 3, 6), (4, 3, 3), {"kernels": [3], "strides": [2], "pads": [1, 1]}),
    ((1, 2, 3, 4, 3), (2, 2, 2, 2, 2), {"kernels": [2, 2, 2], "pads": [1, 0, 0, 0, 1, 0]}),
    ((0, 2, 4, 4), (2, 2, 3, 3), {"kernel": 3}),
]




@pytest.mark.parametrize(("X", "filter", "arguments"), GEOMETRIES)
@pytest.mark.parametrize("bias", [True, False])
def test_derivative(X: Any, filter: Any, arguments: dict[str, Any], bias: bool) -> None:
    if arguments.get("order") == "NHWC":
        filter = (filter[0], *filter[2:], filter[1])
    feeds = {"X": numbers(*X), "w": numbers(*filter, seed=1)}
    if bias:
        feeds["b"] = numbers(filter[0], seed=2)
    check_gradient(operator("Conv", list(feeds), ["Y"], **arguments), feeds)


@pytest.mark.parametrize(("X", "filter", "arguments"), [
    ((2, 3, 3, 4), (3, 2, 3, 2), {"kernels": [3, 2], "strides": [2, 3], "adjs": [1, 2], "pads": [1, 0, 0, 1]}),
    ((1, 4, 3, 3), (4, 1, 2, 2), {"kernel": 2, "group": 2, "stride": 2}),
    ((1, 3, 3, 2), (2, 2, 2, 3), {"kernel": 2, "order": "NHWC"}),
    ((0, 2, 3, 3), (2, 2, 2, 2), {"kernel": 2}),
])
@pytest.mark.parametrize("bias", [True, False])
def test_derivative_of_the_transpose(X: Any, filter: Any, arguments: dict[str, Any], bias: bool) -> None:
    feeds = {"X": numbers(*X), "w": numbers(*filter, seed=1)}
    if bias:
        filters = filter[-1] if arguments.get("order") == "NHWC" else filter[1] * arguments.get("group", 1)
        feeds["b"] = numbers(filters, seed=2)
    check_gradient(operator("ConvTranspose", list(feeds), ["Y"], **arguments), feeds)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_transpose_is_the_adjoint(backend: str) -> None:
    arguments = {"kernels": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "group": 2}
    x, w, y = numbers(2, 4, 5, 5), numbers(6, 2, 3, 2, seed=1), numbers(2, 6, 3, 5, seed=2)
    Y = evaluate(operator("Conv", ["x", "w"], ["Y"], **arguments), {"x": x, "w": w}, backend=backend)["Y"]
    X = evaluate(operator("ConvTranspose", ["y", "w"], ["X"], **arguments), {"y": y, "w": w}, backend=backend)["X"]
    assert Y.shape == y.shape and X.shape == x.shape
    assert np.isclose(np.sum(Y * y), np.sum(X * x))


@pytest.mark.parametrize(("type", "X", "filter", "arguments"), [
    ("LC", (2, 2, 4, 3), (3, 2, 3, 2, 2, 2), {"kernel": 2}),
    ("LC", (1, 4, 3, 4), (2, 3, 4, 2, 2, 2), {"kernel": 2, "group": 2}),
    ("LC", (1, 3, 3, 2), (2, 2, 3, 2, 2, 2), {"kernel": 2, "order": "NHWC"}),
    ("LC1D", (2, 2, 5), (2, 3, 2, 3), {"kernels": [3], "strides": [2]}),
])
@pytest.mark.parametrize("bias", [True, False])
def test_derivative_of_local_connections(type: str, X: Any, filter: Any, arguments: Any, bias: bool) -> None:
    feeds = {"X": numbers(*X), "w": numbers(*filter, seed=1)}
    if bias:
        feeds["b"] = numbers(*filter[:len(X) - 1], seed=2)
    check_gradient(operator(type, list(feeds), ["Y"], **arguments), feeds)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_derivative_of_unfolding(order: str) -> None:
    arguments = {"kernel": 2, "stride": 2, "pad": 1, "order": order}
    check_gradient(operator("Im2Col", ["X"], ["Y"], **arguments), {"X": numbers(2, 3, 5, 3)})
    columns = evaluate(operator("Im2Col", ["X"], ["Y"], **arguments), {"X": numbers(2, 3, 5, 3)})["Y"]
    check_gradient(operator("Col2Im", ["columns", "X"], ["Y"], **arguments),
                   {"columns": columns, "X": numbers(2, 3, 5, 3)}, wrt=["columns"])


@pytest.mark.parametrize(("X", "filter", "arguments"), GEOMETRIES)
def test_inferred_shape(X: Any, filter: Any, arguments: dict[str, Any]) -> None:
    if arguments.get("order") == "NHWC":
        filter = (filter[0], *filter[2:], filter[1])
    Y = evaluate(operator("Conv", ["X", "w"], ["Y"], **arguments), {"X": numbers(*X), "w": numbers(*filter)})["Y"]
    shape = registry.find("Conv").shape  # type: ignore[union-attr]
    assert shape(TensorType("float32", X), TensorType("float32", filter), **arguments).dims == Y.shape
    batches = shape(TensorType("float32", (None, *X[1:])), TensorType("float32", filter), **arguments)
    assert batches.dims == (None, *Y.shape[1:])


@pytest.mark.parametrize(("feeds", "arguments", "message"), [
    ({"X": (1, 3, 4, 4), "w": (2, 4, 3, 3)}, {"kernel": 3}, "filter"),
    ({"X": (1, 3, 2, 2), "w": (2, 3, 3, 3)}, {"kernel": 3}, "does not fit"),
    ({"X": (1, 3, 4, 4), "w": (2, 3, 3, 3), "b": (3,)}, {"kernel": 3}, "bias"),
    ({"X": (1, 3, 4, 4), "w": (2, 3, 3, 3)}, {"kernels": [3, 3, 3]}, "kernels"),
    ({"X": (1, 3, 4, 4), "w": (2, 3, 3, 3)}, {"kernel": 3, "pad": 1, "legacy_pad": 2}, "legacy_pad"),
    ({"X": (1, 3, 4, 4), "w": (2, 3, 3, 3)}, {"kernel": 3, "order": "NCWH"}, "order"),
])
@pytest.mark.parametrize("backend", BACKENDS)
def test_refusal(feeds: dict[str, tuple[int, ...]], arguments: Any, message: str, backend: str) -> None:
    with pytest.raises(OperatorError, match=message):
        evaluate(operator("Conv", list(feeds), ["Y"], **arguments), {k: numbers(*v) for k, v in feeds.items()},
                 backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gradient_of_another_shape_is_refused(backend: str) -> None:
    feeds = {"X": numbers(1, 2, 4, 4), "w": numbers(2, 2, 3, 3), "dY": numbers(1, 2, 3, 3)}
    with pytest.raises(OperatorError, match="gradient"):
        evaluate(operator("ConvGradient", list(feeds), ["dw", "dX"], kernel=3, no_bias=1), feeds, backend=backend)
