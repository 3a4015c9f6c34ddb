"""Normalization and dropout: derivatives, running statistics, several batches as one."""

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
    return np.random.default_rng(seed).normal(size=shape)


def batch_norm(**arguments: Any) -> Any:
    outputs = ["Y"] if arguments.get("is_test") else ["Y", "mean", "var", "saved_mean", "saved_inv_std"]
    return operator("SpatialBN", ["X", "scale", "bias", "mean", "var"], outputs, **arguments)


def batch_norm_feeds(*X: int, channels: int) -> dict[str, np.ndarray]:
    return {"X": numbers(*X), "scale": numbers(channels, seed=1), "bias": numbers(channels, seed=2),
            "mean": numbers(channels, seed=3), "var": np.abs(numbers(channels, seed=4)) + 0.5}


@pytest.mark.parametrize(("X", "arguments"), [
    ((3, 2, 2, 3), {}), ((3, 2), {}), ((3, 2, 3, 4), {"order": "NHWC", "epsilon": 0.1}), ((2, 2, 2, 3, 2), {}),
    ((0, 2, 3, 3), {}), ((3, 2, 2, 3), {"is_test": 1}), ((0, 2, 3, 3), {"is_test": 1}),
])
def test_derivative_of_batch_normalization(X: Any, arguments: dict[str, Any]) -> None:
    channels = X[-1] if arguments.get("order") == "NHWC" else X[1]
    check_gradient(batch_norm(**{"is_test": 0, **arguments}), batch_norm_feeds(*X, channels=channels), ["Y"],
                   ["X", "scale", "bias"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_running_statistics(backend: str) -> None:
    feeds = batch_norm_feeds(4, 2, 3, 3, channels=2)
    found = evaluate(batch_norm(is_test=0, momentum=0.75), feeds, backend=backend)
    assert np.allclose(found["mean"], 0.75 * feeds["mean"] + 0.25 * feeds["X"].mean((0, 2, 3)))
    assert np.allclose(found["var"], 0.75 * feeds["var"] + 0.25 * feeds["X"].var((0, 2, 3), ddof=1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_empty_batch_leaves_running_statistics_alone(backend: str) -> None:
    feeds = batch_norm_feeds(0, 2, 3, 3, channels=2)
    found = evaluate(batch_norm(is_test=0), feeds, backend=backend)
    assert np.array_equal(found["mean"], feeds["mean"]) and np.array_equal(found["var"], feeds["var"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_batches_normalize_as_one(backend: str) -> None:
    whole = batch_norm_feeds(4, 2, 3, 3, channels=2)
    dY = numbers(4, 2, 3, 3, seed=5)
    forward = batch_norm(is_test=0)
    back, _ = GetBackwardPass([forward], {"Y": "dY"})
    one = evaluate([forward, *back], {**whole, "dY": dY}, backend=backend)
    sums = evaluate(operator("ChannelStats", ["X"], ["sums", "sumsq"]), {"X": whole["X"]}, backend=backend)
    stats = evaluate(operator("ChannelBackpropStats", ["X", "mean", "inv_std", "dY"], ["dscale", "dbias"]),
                     {"X": whole["X"], "mean": one["saved_mean"], "inv_std": one["saved_inv_std"], "dY": dY},
                     backend=backend)
    half = operator("SpatialBN", ["X", "scale", "bias", "mean", "var", "sums", "sumsq"],
                    ["Y", "mean", "var", "sums", "sumsq"], is_test=0, num_batches=2)
    back, _ = GetBackwardPass([half], {"Y": "dY"})
    summed = dict(zip(back[0].input[5:], (stats["dscale"], stats["dbias"]), strict=True))
    for rows in (slice(0, 2), slice(2, 4)):
        found = evaluate([half, *back], {**whole, **sums, **summed, "X": whole["X"][rows], "dY": dY[rows]},
                         backend=backend)
        assert np.allclose(found["Y"], one["Y"][rows]) and np.allclose(found["X_grad"], one["X_grad"][rows])


NORMALIZATIONS: list[tuple[str, list[tuple[int, ...]], int, dict[str, Any]]] = [
    ("InstanceNorm", [(2, 3, 2, 4), (3,), (3,)], 1, {}), ("InstanceNorm", [(2, 3, 2, 4), (3,), (3,)], 3, {}),
    ("InstanceNorm", [(2, 3, 4, 2), (2,), (2,)], 1, {"order": "NHWC"}),
    ("InstanceNorm", [(0, 3, 2), (3,), (3,)], 1, {}),
    ("GroupNorm", [(2, 4, 3, 2), (4,), (4,)], 3, {"group": 2}),
    ("GroupNorm", [(2, 3, 2, 4), (4,), (4,)], 3, {"group": 2, "order": "NHWC"}),
    ("LayerNorm", [(3, 4)], 3, {}), ("LayerNorm", [(2, 3, 4), (12,), (12,)], 3, {"elementwise_affine": 1}),
    ("LayerNorm", [(2, 3, 4), (4,), (4,)], 3, {"elementwise_affine": 1, "axis": -1, "epsilon": 0.1}),
    ("LayerNorm", [(0, 4), (4,), (4,)], 3, {"elementwise_affine": 1}), ("LayerNorm", [(3, 2)], 3, {"axis": 0}),
    ("RMSNorm", [(3, 4), (4,), (4,)], 2, {"eps": 0.1}), ("RMSNorm", [(0, 4), (4,), (4,)], 2, {"eps": 0.1}),
    ("LRN", [(2, 5, 2, 2)], 1, {"size": 3, "alpha": 0.5, "beta": 0.75, "bias": 1.5}),
    ("LRN", [(2, 3, 2, 5)], 2, {"size": 5, "alpha": 0.5, "beta": 0.75, "bias": 1.5, "order": "NHWC"}),
    ("Normalize", [(2, 3, 4)], 1, {"axis": 1}), ("Normalize", [(2, 0)], 1, {}),
]


@pytest.mark.parametrize(("type", "shapes", "outputs", "arguments"), NORMALIZATIONS)
def test_derivative(type: str, shapes: list[tuple[int, ...]], outputs: int, arguments: dict[str, Any]) -> None:
    feeds = {f"X{k}": numbers(*shape, seed=k) for k, shape in enumerate(shapes)}
    check_gradient(operator(type, list(feeds), [f"Y{k}" for k in range(outputs)], **arguments), feeds, ["Y0"])


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_derivative_of_moments(order: str) -> None:
    check_gradient(operator("BatchMoments", ["X"], ["mu", "var"], order=order), {"X": numbers(2, 3, 2, 4)})


def test_derivative_of_dropout() -> None:
    check_gradient(operator("Dropout", ["X"], ["Y", "mask"], ratio=0.3, is_test=0), {"X": numbers(4, 5)}, ["Y"])
    check_gradient(operator("Dropout", ["X"], ["Y"], ratio=0.3, is_test=1), {"X": numbers(4, 5)}, ["Y"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_keeps_the_mean(backend: str) -> None:
    found = evaluate(operator("Dropout", ["X"], ["Y", "mask"], ratio=0.25, is_test=0), {"X": np.ones(40000)},
                     backend=backend)
    assert set(np.unique(found["Y"])) == {0, 1 / 0.75}
    assert abs(found["mask"].mean() - 0.75) < 0.02


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("op", "feeds", "message"), [
    (batch_norm(is_test=0), {**batch_norm_feeds(2, 3, 2, 2, channels=3), "scale": numbers(2)}, "scale"),
    (operator("Dropout", ["X"], ["Y", "mask"], ratio=1.0), {"X": numbers(2)}, "ratio"),
    (operator("DropoutGrad", ["dY", "m"], ["dX"]), {"dY": numbers(2), "m": np.ones(3, bool)}, "mask"),
    (operator("LRN", ["X"], ["Y"], size=2), {"X": numbers(1, 3, 2, 2)}, "odd"),
    (operator("GroupNorm", ["X", "g", "b"], ["Y"], group=2), {"X": numbers(1, 3, 2), "g": numbers(3), "b": numbers(3)},
     "groups"),
    (operator("NormalizeGradient", ["X", "dY"], ["dX"]), {"X": numbers(2, 3), "dY": numbers(1)}, "gradient"),
])
def test_refusal(op: Any, feeds: dict[str, np.ndarray], message: str, backend: str) -> None:
    with pytest.raises(OperatorError, match=message):
        evaluate(op, feeds, backend=backend)
