"""Arithmetic on several tensors: both rules of broadcasting, derivatives, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.autodiff.gradient_registry import GetBackwardPass
from netgrad.graph.operator import CreateOperator as operator
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import check_gradient, evaluate

BACKENDS = ["numpy", "torch"]


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Away from zero, both signs, no two alike."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0.5, 2.0, shape) * rng.choice([-1.0, 1.0], shape)


PAIRS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3), (2, 3), {}), ((2, 3), (3,), {}), ((3,), (2, 3), {}), ((2, 1), (1, 3), {}), ((2, 3), (), {}),
    ((0, 3), (3,), {}), ((2, 0), (2, 1), {}), ((1,), (2, 3), {}),
    ((2, 3, 4), (3,), {"broadcast": 1, "axis": 1}), ((2, 3, 4), (2, 3), {"broadcast": 1, "axis": 0}),
    ((2, 3, 4), (3, 4), {"broadcast": 1}), ((2, 3, 4), (1, 3, 1), {"broadcast": 1}), ((2, 3), (1,), {"broadcast": 1}),
    ((2, 3, 4), (3,), {"broadcast": 1, "axis_str": "C"}),
    ((2, 3, 4), (4,), {"broadcast": 1, "axis_str": "C", "order": "NHC"}),
]


@pytest.mark.parametrize("type", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize(("a", "b", "arguments"), PAIRS)
def test_derivative(type: str, a: tuple[int, ...], b: tuple[int, ...], arguments: dict[str, Any]) -> None:
    check_gradient(operator(type, ["A", "B"], ["C"], **arguments), {"A": numbers(*a), "B": numbers(*b, seed=1)})


@pytest.mark.parametrize(("a", "b", "arguments", "laid"), [
    ((2, 3), (2, 3), {}, (2, 3)), ((2, 3, 4), (3,), {"broadcast": 1, "axis": 1}, (3, 1)),
    ((2, 3, 4), (3, 4), {"broadcast": 1}, (3, 4)), ((2, 3, 4), (1, 3, 1), {"broadcast": 1}, (1, 3, 1)),
])
@pytest.mark.parametrize("backend", BACKENDS)
def test_derivative_of_a_power_by_both_operands(a: Any, b: Any, arguments: Any, laid: Any, backend: str) -> None:
    A, B, dC = (x.astype(np.float32) for x in (np.abs(numbers(*a)), numbers(*b, seed=1), numbers(*a, seed=2)))
    power = operator("Pow", ["A", "B"], ["C"], **arguments)
    ops, gradients = GetBackwardPass([power], {"C": "dC"})
    found = evaluate([power, *ops], {"A": A, "B": B, "dC": dC}, backend=backend)
    exponent = B.reshape(laid)
    over = tuple(k for k in range(A.ndim) if k < A.ndim - len(laid) or laid[k - A.ndim] == 1)
    expected = {"A": dC * exponent * A ** (exponent - 1),
                "B": (dC * np.log(A) * A**exponent).sum(axis=over, keepdims=True).reshape(b)}
    for name, values in expected.items():
        np.testing.assert_allclose(found[str(gradients[name])], values, rtol=1e-4)


@pytest.mark.parametrize("type", ["Add", "Sub", "Mul", "Div"])
def test_one_blob_as_both_operands(type: str) -> None:
    check_gradient(operator(type, ["A", "A"], ["C"]), {"A": numbers(2, 3)})


@pytest.mark.parametrize(("type", "place"), [("Add", "A"), ("Add", "B"), ("Sub", "A"), ("Sub", "B"), ("Div", "A")])
def test_in_place(type: str, place: str) -> None:
    ops = [operator("Scale", [f"x{n}"], [n], scale=1.5) for n in "AB"] + [operator(type, ["A", "B"], [place])]
    check_gradient(ops, {"xA": numbers(2, 3), "xB": numbers(2, 3, seed=1)})


@pytest.mark.parametrize("type", ["Sum", "Mean", "Max", "Min"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_derivative_of_many(type: str, count: int) -> None:
    names = [f"X{k}" for k in range(count)]
    check_gradient(operator(type, names, ["Y"]), {n: numbers(2, 3, seed=k) for k, n in enumerate(names)})


@pytest.mark.parametrize("type", ["Max", "Min"])
def test_of_inputs_that_tie_one_receives_the_gradient(type: str) -> None:
    check_gradient(operator(type, ["X", "X"], ["Y"]), {"X": np.array([1.0, 2.0])})
    check_gradient(operator(type, ["X", "Z"], ["Y"]), {"X": np.ones(2), "Z": np.ones(2)}, subgradient=True)


@pytest.mark.parametrize("grad_on_w", [0, 1])
def test_derivative_of_a_weighted_sum(grad_on_w: int) -> None:
    feeds = {"X": numbers(2, 3), "v": numbers(1, seed=1), "Z": numbers(2, 3, seed=2), "w": numbers(1, seed=3)}
    wrt = list(feeds) if grad_on_w else ["X", "Z"]
    check_gradient(operator("WeightedSum", ["X", "v", "Z", "w"], ["Y"], grad_on_w=grad_on_w), feeds, wrt=wrt)


def test_rows_divided_by_roots_keep_those_with_scale_zero() -> None:
    feeds = {"data": numbers(3, 2), "scale": np.array([4.0, 0.0, 9.0])}
    check_gradient(operator("SquareRootDivide", ["data", "scale"], ["Y"]), feeds, wrt=["data"])


@pytest.mark.parametrize(("a", "b", "expected"), [([7, -7, -6], [2, 2, 3], [3, -3, -2]), ([7, 6], [-2, -4], [-3, -1])])
def test_integers_are_divided_towards_zero(a: list[int], b: list[int], expected: list[int]) -> None:
    feeds = {"A": np.array(a, np.int32), "B": np.array(b, np.int32)}
    for backend in BACKENDS:
        C = evaluate(operator("Div", ["A", "B"], ["C"]), feeds, backend=backend)["C"]
        assert C.dtype == np.int32 and C.tolist() == expected


@pytest.mark.parametrize(("follow", "expected"), [(0, [-2, 2, -2, 2]), (1, [-2, -1, -2, -1])])
def test_the_sign_of_a_remainder(follow: int, expected: list[int]) -> None:
    mod = operator("Mod", ["X"], ["Y"], divisor=-3, sign_follow_divisor=follow)
    for backend in BACKENDS:
        assert evaluate(mod, {"X": np.array([-5, 5, -2, 2])}, backend=backend)["Y"].tolist() == expected


REFUSED: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("Add", (2,), (3,), {}), ("Add", (0,), (3,), {}), ("Mul", (3,), (2, 3), {"broadcast": 1}),
    ("Mul", (2, 3, 4), (2, 1, 4), {"broadcast": 1}), ("Sub", (2, 3), (2,), {"broadcast": 1}),
    ("Div", (2, 3), (3,), {"broadcast": 1, "axis": 2}), ("Sum", (2, 3), (3,), {}), ("Max", (2, 3), (6,), {}),
    ("WeightedSum", (2,), (2,), {}),
]


@pytest.mark.parametrize(("type", "a", "b", "arguments"), REFUSED)
@pytest.mark.parametrize("backend", BACKENDS)
def test_shapes_that_do_not_fit_are_refused(type: str, a: Any, b: Any, arguments: Any, backend: str) -> None:
    with pytest.raises(OperatorError):
        evaluate(operator(type, ["A", "B"], ["C"], **arguments), {"A": numbers(*a), "B": numbers(*b)}, backend=backend)


@pytest.mark.parametrize("type", ["AddGradient", "SubGradient", "MulGradient", "DivGradient"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gradient_of_another_shape_is_refused(type: str, backend: str) -> None:
    feeds = {"dC": np.ones(1), "A": numbers(4, 5), "B": numbers(5), "C": numbers(4, 5)}
    inputs = ["dC", "A", "B"] + ["C"] * (type == "DivGradient")
    with pytest.raises(OperatorError, match=r"dC.*\(1,\).*\(4, 5\)"):
        evaluate(operator(type, inputs, ["dA", "dB"]), feeds, backend=backend)


def test_two_dtypes_are_refused() -> None:
    feeds = {"A": np.ones(2, np.float32), "B": np.ones(2)}
    with pytest.raises(OperatorError, match=r"float64.*Cast"):
        evaluate(operator("Add", ["A", "B"], ["C"]), feeds, backend="numpy")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(5,), (4, 5)])
def test_the_short_form_of_the_gradient_of_a_quotient(shape: tuple[int, ...], backend: str) -> None:
    B, C, dC = numbers(*shape) + 9, numbers(4, 5), numbers(4, 5)
    found = evaluate(operator("DivGradient", ["B", "C", "dC"], ["dA", "dB"]), {"B": B, "C": C, "dC": dC},
                     backend=backend)
    dB = -dC * C / B
    np.testing.assert_allclose(found["dA"], dC / B, rtol=1e-6)
    np.testing.assert_allclose(found["dB"], dB.sum(0) if B.ndim == 1 else dB, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("grad_on_w", [0, 1])
def test_weighted_sums_take_arrays_of_one_size(backend: str, grad_on_w: int) -> None:
    feeds = {"X": numbers(3), "v": np.array([0.5]), "Z": numbers(3, 1, seed=1), "w": np.array(2.0)}
    op = operator("WeightedSum", ["X", "v", "Z", "w"], ["Y"], grad_on_w=grad_on_w)
    result = evaluate(op, feeds, backend=backend)["Y"]
    np.testing.assert_allclose(result, 0.5 * feeds["X"] + 2 * feeds["Z"][:, 0])
    check_gradient(op, feeds, wrt=("X", "Z", "v", "w") if grad_on_w else ("X", "Z"))


def test_weighted_sums_refuse_arrays_of_other_sizes() -> None:
    feeds = {"X": numbers(3), "v": np.array([0.5]), "Z": numbers(1), "w": np.array(2.0)}
    with pytest.raises(OperatorError, match="X_1"):
        evaluate(operator("WeightedSum", ["X", "v", "Z", "w"], ["Y"]), feeds)
