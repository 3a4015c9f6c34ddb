"""Rules of gradient operators: broadcasting, missing gradients, and whole nets differentiated twice.

Every rule is also checked on its operator's example, in `test_declarations.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.autodiff.gradient_registry import GetBackwardPass
from netgrad.graph.operator import CreateOperator as operator
from netgrad.runtime.numeric import check_gradient


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Away from zero, both signs."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0.5, 2.0, shape) * rng.choice([-1.0, 1.0], shape)


PAIRS: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3), (2, 3), (2, 3), {}), ((2, 3), (3,), (2, 3), {}), ((3,), (2, 3), (2, 3), {}), ((2, 1), (1, 3), (2, 3), {}),
    ((2, 3, 2), (3,), (2, 3, 2), {"broadcast": 1, "axis": 1}), ((2, 3), (1,), (2, 3), {"broadcast": 1}),
]


@pytest.mark.parametrize("ys", [None, ["dA"], ["dB"]])
@pytest.mark.parametrize(("a", "b", "c", "arguments"), PAIRS)
@pytest.mark.parametrize("type", ["Add", "Sub", "Mul", "Div"])
def test_arithmetic(type: str, a: Any, b: Any, c: Any, arguments: dict[str, Any], ys: list[str] | None) -> None:
    feeds = {"dC": numbers(*c), "A": numbers(*a, seed=1), "B": numbers(*b, seed=2)}
    if type == "Div":
        feeds["C"] = numbers(*c, seed=3)
    wrt = ["dC"] if type in ("Add", "Sub") else list(feeds)
    check_gradient(operator(f"{type}Gradient", list(feeds), ["dA", "dB"], **arguments), feeds, ys=ys, wrt=wrt)


@pytest.mark.parametrize("ys", [None, ["dW"], ["db"], ["dX"]])
def test_layers(ys: list[str] | None) -> None:
    check_gradient(operator("FCGradient", ["X", "W", "dY"], ["dW", "db", "dX"]),
                   {"X": numbers(2, 3), "W": numbers(4, 3, seed=1), "dY": numbers(2, 4, seed=2)}, ys=ys)
    square = {name: numbers(*shape, seed=k) for k, (name, shape) in enumerate(
        {"X": (1, 2, 2, 2), "W": (2, 2, 2, 2), "dY": (1, 2, 2, 2)}.items())}
    check_gradient(operator("ConvGradient", list(square), ["dW", "db", "dX"], kernel=2, pad=1, stride=2), square, ys=ys)


def test_convolution_without_bias() -> None:
    check_gradient(operator("ConvGradient", ["X", "W", "dY"], ["dW", "dX"], kernel=2, no_bias=1),
                   {"X": numbers(1, 2, 3, 2), "W": numbers(2, 2, 2, 2, seed=1), "dY": numbers(1, 2, 2, 1, seed=2)})


@pytest.mark.parametrize("op", [
    operator("SoftmaxGradient", ["Y", "dY"], ["dX"], axis=0), operator("SoftmaxGradient", ["Y", "dY"], ["dX"], axis=2),
    operator("DivGradient", ["Y", "dY", "dZ"], ["dX", "dW"]),
    *(operator("SigmoidCrossEntropyWithLogitsGradient", ["row", "Y", "dY"], ["dX"], **{form: 1})
      for form in ("log_D_trick", "unjoined_lr_loss"))], ids=lambda op: f"{op.type}-{len(op.arg)}")
def test_forms_without_a_rule_go_through_the_kernel(op: Any) -> None:
    feeds = {"Y": numbers(2, 3, 2), "dY": numbers(2, 3, 2, seed=1), "dZ": numbers(2, 3, 2, seed=2),
             "row": numbers(2, 3, seed=3)}
    check_gradient(op, {name: feeds[name] for name in op.input}, order=2)


def classifier(loss: list[Any]) -> list[Any]:
    return [operator("FC", ["x", "w", "b"], ["h"]), operator("Tanh", ["h"], ["t"]),
            operator("FC", ["t", "v", "c"], ["o"]), *loss, operator("AveragedLoss", ["e"], ["loss"])]


LOSSES = {
    "squared": [operator("SquaredL2Distance", ["o", "target"], ["e"])],
    "sigmoid": [operator("SigmoidCrossEntropyWithLogits", ["o", "target"], ["e"])],
    "softmax": [operator("Softmax", ["o"], ["p"]), operator("LabelCrossEntropy", ["p", "label"], ["e"])],
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_a_net_twice(loss: list[Any]) -> None:
    ops = classifier(loss)
    feeds = {"x": numbers(2, 3), "w": numbers(4, 3, seed=1), "b": numbers(4, seed=2), "v": numbers(2, 4, seed=3),
             "c": numbers(2, seed=4), "target": np.array([[0.25, 0.75], [1.0, 0.0]]),
             "label": np.array([1, 0], np.int32)}
    backward, gradients = GetBackwardPass(ops, ["loss"])
    for blob in ("x", "w", "c"):
        check_gradient([*ops, *backward], feeds, ys=[str(gradients[blob])], wrt=["x", "w", "v"])
