"""Losses and distances: derivatives, weights, labels out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.graph.operator import CreateOperator as operator
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import check_gradient, evaluate

BACKENDS = ["numpy", "torch"]


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def shares(*shape: int, seed: int = 0) -> np.ndarray:
    """Rows of probabilities, none near 0."""
    p = np.random.default_rng(seed).uniform(0.5, 1.5, shape)
    return p / p.sum(-1, keepdims=True)


def labels(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


CASES: list[tuple[str, list[np.ndarray], dict[str, Any]]] = [
    ("AveragedLoss", [numbers(3, 2)], {}), ("AveragedLoss", [numbers(0)], {}),
    ("CrossEntropy", [shares(3, 4), shares(3, 4, seed=1)], {}), ("CrossEntropy", [shares(0, 4), shares(0, 4)], {}),
    ("LabelCrossEntropy", [shares(3, 4), labels(0, 3, 0)], {}), ("LabelCrossEntropy", [shares(0, 4), labels()], {}),
    ("MakeTwoClass", [numbers(3)], {}),
    ("SigmoidCrossEntropyWithLogits", [numbers(3, 4), shares(3, 4)], {}),
    ("SigmoidCrossEntropyWithLogits", [numbers(3, 4), shares(3, 4)], {"log_D_trick": 1}),
    ("SigmoidCrossEntropyWithLogits", [numbers(3, 4), shares(3, 4)], {"unjoined_lr_loss": 1}),
    ("WeightedSigmoidCrossEntropyWithLogits", [numbers(3, 4), shares(3, 4), shares(3, 4, seed=1)], {}),
    ("MarginRankingCriterion", [numbers(6), numbers(6, seed=1), labels(1, -1, 1, -1, 1, 1)], {"margin": 0.5}),
    ("CosineEmbeddingCriterion", [numbers(4), labels(1, -1, 1, -1)], {"margin": 0.1}),
    ("PairWiseLoss", [numbers(5), labels(1, 0, 0, 2, 1).astype(np.float32)], {}),
    ("PairWiseLoss", [numbers(5), labels(1, 0, 0, 2, 1).astype(np.float32), labels(2, 0, 3)], {}),
    ("BernoulliJSD", [shares(3, 4), shares(3, 4, seed=1)], {}),
    ("SquaredL2Distance", [numbers(3, 2, 2), numbers(3, 2, 2, seed=1)], {}),
    ("SquaredL2Distance", [numbers(3), numbers(3, seed=1)], {}),
    ("L1Distance", [numbers(3, 4), numbers(3, 4, seed=1)], {}), ("L1Distance", [numbers(0, 4), numbers(0, 4)], {}),
    ("DotProduct", [numbers(3, 4), numbers(3, 4, seed=1)], {}), ("DotProduct", [numbers(3), numbers(3, seed=1)], {}),
    ("CosineSimilarity", [numbers(3, 4), numbers(3, 4, seed=1)], {}),
    ("DotProductWithPadding", [numbers(3, 4), numbers(3, 2, seed=1)], {"pad_value": 0.5}),
    ("DotProductWithPadding", [numbers(3, 2), numbers(3, 6, seed=1)], {"replicate": 1}),
]
#: operands by which Caffe2 has no derivative
CONSTANT = {"CrossEntropy": 1, "SigmoidCrossEntropyWithLogits": 1, "WeightedSigmoidCrossEntropyWithLogits": 1,
            "PairWiseLoss": 1, "BernoulliJSD": 1}


@pytest.mark.parametrize(("type", "operands", "arguments"), CASES)
def test_derivative(type: str, operands: list[np.ndarray], arguments: dict[str, Any]) -> None:
    feeds = {f"X{k}": x for k, x in enumerate(operands)}
    count = CONSTANT.get(type, sum(x.dtype.kind == "f" for x in operands))
    check_gradient(operator(type, list(feeds), ["Y"], **arguments), feeds, wrt=list(feeds)[:count])


SOFTMAX: list[tuple[np.ndarray, np.ndarray, np.ndarray | None, dict[str, Any]]] = [
    (numbers(3, 4), labels(0, 3, 1), None, {}), (numbers(3, 4), labels(0, 3, 1), shares(3), {"scale": 2.5}),
    (numbers(3, 4), shares(3, 4), shares(3), {"label_prob": 1}),
    (numbers(2, 3, 4), labels(0, 3, 1, 2, 2, 0), None, {"axis": 2}),
    (numbers(3, 4), labels(0, 3, 1), shares(3), {"average_by_batch_size": 1}),
    (numbers(0, 4), labels(), None, {}), (numbers(2, 4), labels(0, 1), np.zeros(2), {}),
]


@pytest.mark.parametrize(("X", "label", "weights", "arguments"), SOFTMAX)
def test_derivative_of_softmax_with_loss(X: Any, label: Any, weights: Any, arguments: dict[str, Any]) -> None:
    feeds = {"X": X, "label": label, **({} if weights is None else {"weights": weights})}
    check_gradient(operator("SoftmaxWithLoss", list(feeds), ["P", "loss"], **arguments), feeds, ["loss"], ["X"])


@pytest.mark.parametrize("weighted", [True, False])
def test_derivative_of_spatial_softmax_with_loss(weighted: bool) -> None:
    feeds = {"X": numbers(2, 3, 2, 2), "label": np.array([[[0, -1], [2, 1]], [[1, 1], [-1, 0]]], np.int32)}
    if weighted:
        feeds["weights"] = shares(2, 2, 2)
    check_gradient(operator("SpatialSoftmaxWithLoss", list(feeds), ["P", "loss"], scale=2.0), feeds, ["loss"], ["X"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_large_logits_do_not_overflow(backend: str) -> None:
    feeds = {"X": np.array([[1e4, 0.0], [-1e4, 1e4]], np.float32), "label": labels(1, 1)}
    found = evaluate(operator("SoftmaxWithLoss", ["X", "label"], ["P", "loss"]), feeds, backend=backend)
    assert found["loss"] == 5000
    feeds = {"X": np.array([[1e4, -1e4]], np.float32), "t": np.array([[0, 1]], np.float32)}
    found = evaluate(operator("SigmoidCrossEntropyWithLogits", ["X", "t"], ["Y"]), feeds, backend=backend)
    assert found["Y"] == [1e4]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("label", [labels(0, 4), labels(-1, 0), labels(0), labels(0, 1, 2)])
@pytest.mark.parametrize("type", ["LabelCrossEntropy", "SoftmaxWithLoss"])
def test_labels_out_of_range_or_too_few_are_refused(type: str, label: np.ndarray, backend: str) -> None:
    outputs = ["P", "loss"] if type == "SoftmaxWithLoss" else ["Y"]
    with pytest.raises(OperatorError, match="label"):
        evaluate(operator(type, ["X", "label"], outputs), {"X": shares(2, 4), "label": label}, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("type", "operands"), [
    ("AveragedLossGradient", [numbers(3), numbers(2)]),
    ("CrossEntropyGradient", [shares(3, 4), shares(3, 4), numbers(2)]),
    ("LabelCrossEntropyGradient", [shares(2, 4), labels(0, 1), numbers(3)]),
    ("SoftmaxWithLossGradient", [numbers(2, 4), labels(0, 1), shares(2, 4), numbers(2)]),
    ("SigmoidCrossEntropyWithLogitsGradient", [numbers(3), numbers(2, 4), shares(2, 4)]),
    ("SquaredL2DistanceGradient", [numbers(2, 4), numbers(2, 4), numbers(3)]),
    ("DotProductGradient", [numbers(2, 4), numbers(2, 4), numbers(1)]),
    ("CosineSimilarityGradient", [numbers(2, 4), numbers(2, 4), numbers(2, 4)]),
])
def test_a_gradient_of_another_shape_is_refused(type: str, operands: list[np.ndarray], backend: str) -> None:
    feeds = {f"X{k}": x for k, x in enumerate(operands)}
    outputs = ["dX", "dY"] if "Distance" in type or "Product" in type or "Similarity" in type else ["dX"]
    with pytest.raises(OperatorError, match="gradient"):
        evaluate(operator(type, list(feeds), outputs), feeds, backend=backend)
