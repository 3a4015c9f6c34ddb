"""Reductions and their derivatives: axes, lengths, ties, nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.graph.operator import CreateOperator as operator
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import check_gradient, evaluate

BACKENDS = ["numpy", "torch"]


def numbers(*shape: int) -> np.ndarray:
    """Away from zero, both signs, no two alike."""
    count = int(np.prod(shape))
    values = np.linspace(0.4, 2.3, count) * np.where(np.arange(count) % 3 == 0, -1, 1)
    return np.random.default_rng(0).permutation(values).reshape(shape)


AXES: list[dict[str, Any]] = [{}, {"axes": [1]}, {"axes": [-1, 0], "keepdims": 0}, {"axes": [0], "keepdims": 0}]


@pytest.mark.parametrize("type", [*(f"Reduce{kind}" for kind in ("Sum", "Mean", "Max", "Min", "L1", "L2")), "Moments"])
@pytest.mark.parametrize("arguments", AXES)
def test_derivative(type: str, arguments: dict[str, Any]) -> None:
    outputs = ["Y", "Z"] if type == "Moments" else ["Y"]
    check_gradient(operator(type, ["X"], outputs, **arguments), {"X": numbers(2, 3, 4)})


@pytest.mark.parametrize("type", ["ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceMax"])
@pytest.mark.parametrize("shape", [(0, 3), ()])
def test_nothing_and_a_scalar_have_gradients(type: str, shape: tuple[int, ...]) -> None:
    gradient = check_gradient(operator(type, ["X"], ["Y"]), {"X": numbers(*shape)})["X"]
    assert gradient.shape == shape


@pytest.mark.parametrize("edge", ["Front", "Back"])
@pytest.mark.parametrize("kind", ["Sum", "Mean", "Max"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_derivative_over_edges(edge: str, kind: str, count: int) -> None:
    check_gradient(operator(f"Reduce{edge}{kind}", ["X"], ["Y"], num_reduce_dim=count), {"X": numbers(2, 3, 4)})


@pytest.mark.parametrize("edge", ["Front", "Back"])
@pytest.mark.parametrize("kind", ["Sum", "Mean", "Max"])
def test_derivative_with_lengths_one_of_them_zero(edge: str, kind: str) -> None:
    X = numbers(3, 2) if edge == "Front" else numbers(2, 3)
    feeds = {"X": X, "lengths": np.array([2, 0], np.int32)}
    check_gradient(operator(f"Reduce{edge}{kind}", ["X", "lengths"], ["Y"]), feeds)
    assert evaluate(operator(f"Reduce{edge}{kind}", ["X", "lengths"], ["Y"]), feeds)["Y"][1] == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("lengths", [[4, 1], [-1, 1], [1]])
def test_lengths_beyond_the_rows_are_refused(lengths: list[int], backend: str) -> None:
    feeds = {"X": numbers(3, 2), "lengths": np.array(lengths, np.int32)}
    with pytest.raises(OperatorError, match="length"):
        evaluate(operator("ReduceFrontSum", ["X", "lengths"], ["Y"]), feeds, backend=backend)


@pytest.mark.parametrize("arguments", [{}, {"average": 1}])
@pytest.mark.parametrize("type", ["SumElements", "LpNorm"])
def test_derivative_over_all(type: str, arguments: dict[str, Any]) -> None:
    for p in ({"p": 1}, {"p": 2}) if type == "LpNorm" else ({},):
        check_gradient(operator(type, ["X"], ["Y"], **arguments, **p), {"X": numbers(2, 3)})


@pytest.mark.parametrize("type", ["RowwiseMax", "ColwiseMax"])
def test_derivative_of_the_maxima_of_matrices(type: str) -> None:
    check_gradient(operator(type, ["X"], ["Y"]), {"X": numbers(2, 3, 4)})


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_that_tie_for_the_maximum_receive_the_gradient(backend: str) -> None:
    feeds = {"X": np.array([[1.0, 2.0, 2.0]]), "Y": np.array([[2.0]]), "dY": np.array([[5.0]])}
    found = evaluate(operator("ReduceMaxGradient", ["dY", "X", "Y"], ["dX"], axes=[1]), feeds, backend=backend)
    assert found["dX"].tolist() == [[0, 5, 5]]


def test_derivative_of_rows_scaled_and_shifted() -> None:
    rng = np.random.default_rng(0)
    check_gradient(operator("RowMul", ["X", "w"], ["Y"]), {"X": numbers(3, 2), "w": rng.normal(size=3)})
    check_gradient(operator("ReduceFrontWeightedSum", ["X", "w"], ["Y"]), {"X": numbers(3, 2), "w": rng.normal(size=3)},
                   wrt=["X"])
    feeds = {"X": numbers(2, 3, 2), "w": rng.normal(size=6), "b": rng.normal(size=6)}
    check_gradient(operator("ElementwiseLinear", ["X", "w", "b"], ["Y"]), feeds)
    for order, shape in (("NCHW", (2, 3, 4)), ("NHWC", (2, 4, 3))):
        feeds = {"X": numbers(*shape), "w": rng.normal(size=3), "b": rng.normal(size=3)}
        check_gradient(operator("AffineChannel", ["X", "w", "b"], ["Y"], order=order, is_learnable=1), feeds)


@pytest.mark.parametrize(("type", "inputs"), [
    ("ReduceSumGradient", ["dY", "X", "Y"]), ("ReduceMaxGradient", ["dY", "X", "Y"]),
    ("ReduceFrontMeanGradient", ["dY", "X"]), ("SumElementsGradient", ["X", "dY"]),
])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gradient_of_another_shape_is_refused(type: str, inputs: list[str], backend: str) -> None:
    feeds = {"dY": np.ones(7), "X": numbers(2, 3), "Y": np.ones(())}
    with pytest.raises(OperatorError, match=r"dY.*\(7,\)"):
        evaluate(operator(type, inputs, ["dX"]), feeds, backend=backend)
