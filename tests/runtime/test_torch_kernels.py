"""Torch's own kernels compute what the reference kernels do, corners included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.graph.operator import CreateOperator as operator
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import evaluate

pytest.importorskip("torch")


def agree(op: Any, feeds: dict[str, Any], rtol: float = 1e-5, atol: float = 1e-6) -> dict[str, Any]:
    names = [name for name in op.output if name]
    expected = evaluate(op, feeds, names, backend="numpy")
    found = evaluate(op, feeds, names, backend="torch")
    for name in names:
        assert found[name].dtype == expected[name].dtype
        np.testing.assert_allclose(found[name], expected[name], rtol=rtol, atol=atol, err_msg=name)
    return found


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "arguments"), [
    ((3, 2, 8, 6), {"kernel": 2, "stride": 2}), ((2, 3, 9, 7), {"kernel": 3, "stride": 2, "pad": 1}),
    ((2, 3, 7, 7), {"kernel": 3, "stride": 1}), ((2, 2, 6, 5), {"kernels": [3, 2], "pads": [0, 1, 2, 0]}),
    ((2, 6, 7, 3), {"kernel": 3, "stride": 2, "order": "NHWC"}), ((2, 2, 9), {"kernels": [3], "strides": [2]}),
    ((1, 2, 4, 4, 4), {"kernels": [2, 2, 2], "strides": [2, 2, 2]}), ((2, 3, 4, 4), {"global_pooling": 1}),
    ((1, 2, 6, 5), {"kernel": 3, "stride": 2, "legacy_pad": 3}), ((40, 2, 64, 64), {"kernel": 2, "stride": 2}),
    ((2, 4, 6, 1), {"kernel": 2, "stride": 2, "order": "NHWC"}), ((0, 2, 4, 4), {"kernel": 2, "stride": 2}),
])
def test_max_pool_and_its_gradient_where_half_of_the_image_is_tied(
        shape: tuple[int, ...], arguments: dict[str, Any], dtype: str, rng: np.random.Generator) -> None:
    X = np.maximum(rng.standard_normal(shape), 0).astype(dtype)
    Y = evaluate(operator("MaxPool", ["X"], ["Y"], **arguments), {"X": X}, backend="numpy")["Y"]
    dY = rng.standard_normal(Y.shape).astype(dtype)
    agree(operator("MaxPool", ["X"], ["Y"], **arguments), {"X": X})
    agree(operator("MaxPoolGradient", ["X", "Y", "dY"], ["dX"], **arguments), {"X": X, "Y": Y, "dY": dY})


@pytest.mark.parametrize("wrong", [np.inf, np.nan])
def test_max_pool_gradient_does_not_spread_what_is_not_finite(wrong: float) -> None:
    X = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    dY = np.ones((1, 1, 2, 2), np.float32)
    dY[0, 0, 0, 1] = wrong
    found = agree(operator("MaxPoolGradient", ["X", "Y", "dY"], ["dX"], kernel=2, stride=2),
                  {"X": X, "Y": X[:, :, 1::2, 1::2], "dY": dY})
    assert np.isfinite(found["dX"]).sum() == 15


@pytest.mark.parametrize("no_bias", [0, 1])
@pytest.mark.parametrize("arguments", [
    {"kernel": 5}, {"kernel": 3, "stride": 2, "pad": 1}, {"kernel": 3, "dilation": 2, "pad": 2},
    {"kernels": [3, 2], "pads": [0, 1, 2, 0]}, {"kernel": 3, "order": "NHWC", "pad": 1},
])
def test_gradient_of_a_convolution_of_gray_images(
        arguments: dict[str, Any], no_bias: int, rng: np.random.Generator) -> None:
    shape, filters = (2, 1, 9, 8), (4, 1, *arguments.get("kernels", [arguments.get("kernel", 0)] * 2))
    if "order" in arguments:
        shape, filters = (2, 9, 8, 1), (*filters[:1], *filters[2:], 1)
    feeds = {"X": rng.standard_normal(shape), "w": rng.standard_normal(filters), "b": rng.standard_normal(4)}
    Y = evaluate(operator("Conv", list(feeds), ["Y"], **arguments), feeds, backend="numpy")["Y"]
    feeds["dY"] = rng.standard_normal(Y.shape)
    outputs = ["dw", "dX"] if no_bias else ["dw", "db", "dX"]
    agree(operator("ConvGradient", ["X", "w", "dY"], outputs, no_bias=no_bias, **arguments), feeds, rtol=1e-9)
    agree(operator("ConvGradient", ["X", "w", "dY"], outputs[:-1], no_bias=no_bias, **arguments), feeds, rtol=1e-9)


@pytest.mark.parametrize("arguments", [
    {}, {"scale": 2.5}, {"average_by_batch_size": 1}, {"axis": 2}, {"axis": -1}, {"label_prob": 1}])
@pytest.mark.parametrize("weighted", [False, True])
def test_softmax_loss_and_its_gradient(
        weighted: bool, arguments: dict[str, Any], rng: np.random.Generator) -> None:
    logits = rng.standard_normal((4, 3, 5)).astype(np.float32) * 20
    rows, classes = (12, 5) if arguments.get("axis", 1) in (2, -1) else (4, 15)
    labels = rng.integers(0, classes, rows).astype(np.int32)
    feeds = {"logits": logits, "labels": labels}
    if "label_prob" in arguments:
        feeds["labels"] = rng.dirichlet(np.ones(15), 4).astype(np.float32).reshape(logits.shape)
    if weighted:
        feeds["weights"] = rng.random(rows).astype(np.float32)
    found = agree(operator("SoftmaxWithLoss", list(feeds), ["softmax", "loss"], **arguments), feeds)
    feeds |= {"softmax": found["softmax"], "dloss": np.float32(0.7)}
    agree(operator("SoftmaxWithLossGradient", list(feeds), ["dlogits"], **arguments), feeds)


@pytest.mark.parametrize("label", [-1, 3])
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_softmax_loss_refuses_labels_that_are_no_classes(backend: str, label: int) -> None:
    feeds = {"X": np.zeros((2, 3), np.float32), "label": np.array([0, label], np.int32)}
    with pytest.raises(OperatorError, match=f"label {label} is out of range: expected 0 to 2"):
        evaluate(operator("SoftmaxWithLoss", list(feeds), ["softmax", "loss"]), feeds, backend=backend)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((6, 5), 1), ((2, 3, 4), -1), ((2, 3, 4), 1), ((3, 4), 0), ((4, 1), 1),
                                             ((0, 3), 1)])
def test_layer_normalization_and_its_gradient(
        shape: tuple[int, ...], axis: int, affine: bool, dtype: str, rng: np.random.Generator) -> None:
    X, dY = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    X[:1] = 2.0  # a row without variance, but for epsilon
    gamma, beta = (rng.standard_normal(shape[axis:]).astype(dtype) for _ in range(2))
    arguments = {"axis": axis, "epsilon": 1e-3, "elementwise_affine": int(affine)}
    rows = {"gamma": gamma, "beta": beta} if affine else {}
    found = agree(operator("LayerNorm", ["X", *rows], ["Y", "mean", "stddev"], **arguments), {"X": X, **rows}, 1e-4,
                  1e-5)
    scale = {"gamma": gamma} if affine else {}
    agree(operator("LayerNormGradient", ["dY", "Y", "mean", "stddev", "X", *scale],
                   ["dX", "dgamma", "dbeta"] if affine else ["dX"], **arguments),
          {"dY": dY, "X": X, **found, **scale}, 1e-4, 1e-4)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_layer_normalization_refuses_rows_of_another_length(backend: str) -> None:
    X = np.ones((2, 3), np.float32)
    one, two = np.ones(3, np.float32), np.ones(2, np.float32)
    with pytest.raises(OperatorError, match="those of a row"):
        evaluate(operator("LayerNorm", ["X", "gamma", "beta"], ["Y", "mean", "stddev"], elementwise_affine=1),
                 {"X": X, "gamma": one, "beta": two}, ["Y"], backend=backend)


@pytest.mark.parametrize(("shape", "arguments"), [
    ((2, 3, 4, 6, 8), {"kernels": [2] * 3, "strides": [2] * 3}),
    ((1, 1, 4, 4, 4), {"kernels": [2] * 3, "strides": [2] * 3}),
    ((2, 5, 2, 6, 2), {"kernels": [2] * 3, "strides": [2] * 3}),
    ((2, 3, 4, 6, 8), {"kernels": [3] * 3, "strides": [2] * 3}),
    ((2, 3, 4, 6, 8), {"kernels": [3, 2, 1], "strides": [1, 2, 1], "pads": [1, 0, 0] * 2})])
def test_pools_of_moving_images_whose_channels_lie_side_by_side(
        shape: tuple[int, ...], arguments: dict[str, Any], rng: np.random.Generator) -> None:
    import torch

    from netgrad.runtime.backends.torch.layouts import channels_last
    from netgrad.runtime.workspace import Workspace

    X = np.maximum(rng.standard_normal(shape), 0).astype(np.float32)
    found = []
    for lay_out in (torch.Tensor.clone, channels_last):
        ws = Workspace(backend="torch")
        ws.feed_blob("X", X)
        ws.values["X"] = lay_out(ws.values["X"])
        ws.run_operator(operator("MaxPool", ["X"], ["Y"], **arguments))
        ws.feed_blob("dY", np.random.default_rng(1).standard_normal(ws.fetch_blob("Y").shape).astype(np.float32))
        ws.run_operator(operator("MaxPoolGradient", ["X", "Y", "dY"], ["dX"], **arguments))
        found.append([ws.fetch_blob(name) for name in ("Y", "dX")])
    for expected, got in zip(*found):
        np.testing.assert_array_equal(got, expected)
