"""Derivatives of functions of one number, on every backend, at the points where they are hard."""

from __future__ import annotations

import numpy as np
import pytest

from netgrad.autodiff.errors import OverwrittenError
from netgrad.graph import registry
from netgrad.graph.operator import CreateOperator as operator
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import check_gradient, evaluate

SMOOTH = np.array([[-1.3, -0.4, 0.2], [0.7, 1.1, 2.4]])
POSITIVE = np.abs(SMOOTH)
UNIT = SMOOTH / 3

EVERYWHERE = ["Abs", "Cbrt", "Cos", "Cosh", "Cube", "Elu", "Erf", "Exp", "Gelu", "LeakyRelu", "Mish", "Negative",
              "Relu", "Scale", "Selu", "Sigmoid", "Sin", "Sinh", "Softmax", "Softplus", "Softsign", "Swish",
              "Tan", "Tanh", "Atan", "Reciprocal", "Clip", "HardSigmoid", "ReluN"]


@pytest.mark.parametrize("type", EVERYWHERE)
def test_derivative(type: str) -> None:
    check_gradient(operator(type, ["X"], ["Y"]), {"X": SMOOTH})


@pytest.mark.parametrize("type", ["Log", "Sqrt", "Rsqrt"])
def test_derivative_of_positive_numbers(type: str) -> None:
    check_gradient(operator(type, ["X"], ["Y"]), {"X": POSITIVE})


@pytest.mark.parametrize("type", ["Asin", "Acos"])
def test_derivative_inside_the_unit_interval(type: str) -> None:
    check_gradient(operator(type, ["X"], ["Y"]), {"X": UNIT})


@pytest.mark.parametrize(("type", "arguments"), [
    ("Scale", {"scale": -2.5}), ("Elu", {"alpha": 0.3}), ("Gelu", {"fast_gelu": 1}), ("LeakyRelu", {"alpha": 0.3}),
    ("Selu", {"alpha": 1.2, "scale": 1.1}), ("ThresholdedRelu", {"alpha": 0.5}), ("ThresholdedRelu", {"alpha": -1.0}),
    ("ReluN", {"n": 1.0}), ("Clip", {"min": -1.0, "max": 1.0}), ("HardSigmoid", {"alpha": 0.5, "beta": 0.25}),
    ("Softmax", {"axis": 0}), ("Softmax", {"axis": -1}), ("Pow", {"exponent": 3.0}),
])
def test_derivative_with_arguments(type: str, arguments: dict[str, float]) -> None:
    check_gradient(operator(type, ["X"], ["Y"], **arguments), {"X": SMOOTH})


@pytest.mark.parametrize("shape", [(2, 3), (0, 3)])
def test_derivative_of_a_square_in_the_midst_of_a_net(shape: tuple[int, ...]) -> None:
    ops = [operator("Sqr", ["X"], ["Y"]), operator("Scale", ["Y"], ["Z"], scale=1.5)]
    check_gradient(ops, {"X": SMOOTH if shape[0] else np.zeros(shape)})


def test_derivative_of_logit_inside_and_outside_of_eps() -> None:
    check_gradient(operator("Logit", ["X"], ["Y"], eps=0.1), {"X": np.array([0.02, 0.3, 0.8, 0.97])})


@pytest.mark.parametrize("type", ["Abs", "Relu", "LeakyRelu", "Elu", "Clip"])
def test_derivative_at_the_kink_lies_between_those_of_both_sides(type: str) -> None:
    arguments = {"min": 0.0, "max": 1.0} if type == "Clip" else {}
    check_gradient(operator(type, ["X"], ["Y"], **arguments), {"X": np.array([0.0, 0.5])}, subgradient=True)


@pytest.mark.parametrize("type", [*EVERYWHERE, "Log", "Sqrt", "Asin"])
def test_nothing_has_an_empty_gradient(type: str) -> None:
    gradient = check_gradient(operator(type, ["X"], ["Y"]), {"X": np.zeros((0, 3))})["X"]
    assert gradient.shape == (0, 3)


@pytest.mark.parametrize("type", ["Relu", "Sigmoid", "Tanh", "Elu", "Exp", "Rsqrt", "Sqrt", "Negative", "Softplus"])
def test_in_place_where_the_gradient_needs_no_input(type: str) -> None:
    ops = [operator("Scale", ["X"], ["Y"], scale=1.5), operator(type, ["Y"], ["Y"])]
    check_gradient(ops, {"X": POSITIVE})


@pytest.mark.parametrize("exponent", [0.5, 3.0, -1.0])
def test_a_power_in_place(exponent: float) -> None:
    ops = [operator("Scale", ["X"], ["Y"], scale=1.5), operator("Pow", ["Y"], ["Y"], exponent=exponent)]
    check_gradient(ops, {"X": POSITIVE})


@pytest.mark.parametrize("exponent", [2.0, 4.0, -2.0])
def test_an_even_power_in_place_is_refused_since_it_loses_the_sign(exponent: float) -> None:
    ops = [operator("Scale", ["X"], ["Y"], scale=1.5), operator("Pow", ["Y"], ["Y"], exponent=exponent)]
    with pytest.raises(OverwrittenError, match="version 0 of 'Y'"):
        check_gradient(ops, {"X": POSITIVE})


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("channels", [1, 3])
def test_prelu_with_one_slope_and_with_several(order: str, channels: int) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2, 3, 4) if order == "NCHW" else (2, 4, 3))
    check_gradient(operator("PRelu", ["X", "slope"], ["Y"], order=order), {"X": X, "slope": rng.normal(size=channels)})


@pytest.mark.parametrize("type", ["Softsign", "Log", "Logit"])
def test_in_place_is_refused_where_the_derivative_is_lost(type: str) -> None:
    with pytest.raises(RuntimeError, match=rf"(?s){type}.*another output name"):
        check_gradient([operator("Scale", ["X"], ["Y"]), operator(type, ["Y"], ["Y"])], {"X": POSITIVE / 3})


def test_extreme_numbers_do_not_overflow() -> None:
    X = np.array([-1000.0, 0.0, 1000.0], np.float32)
    expected = {"Sigmoid": [0, 0.5, 1], "Softplus": [0, np.log(2), 1000], "Swish": [0, 0, 1000], "Mish": [0, 0, 1000],
                "Tanh": [-1, 0, 1], "Softmax": [0, 0, 1]}
    for type, values in expected.items():
        for backend in ("numpy", "torch"):
            arguments = {"axis": 0} if type == "Softmax" else {}
            Y = evaluate(operator(type, ["X"], ["Y"], **arguments), {"X": X}, backend=backend)["Y"]
            np.testing.assert_allclose(Y, values, atol=1e-6, err_msg=f"{type} on {backend}")
            assert Y.dtype == np.float32


GRADIENTS = sorted(t for t, family in registry.family_index().items()
                   if t.endswith("Gradient") and family in ("elementwise", "trigonometry", "activations")
                   and t not in ("PReluGradient", "SeluGradient", "SwishGradient", "MishGradient"))


@pytest.mark.parametrize("type", GRADIENTS)
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_a_gradient_of_another_shape_is_refused(type: str, backend: str) -> None:
    names = [slot.name for slot in registry.find(type).inputs]
    feeds = {name: np.full((1,) if name == "dY" else (3, 2), 0.5, np.float32) for name in names}
    with pytest.raises(OperatorError, match=r"\(1,\).*\(3, 2\)"):
        evaluate(operator(type, names, ["dX"]), feeds, backend=backend)
