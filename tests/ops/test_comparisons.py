"""Comparisons, logic, bits, buckets and half precision: values, dtypes and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.graph.operator import CreateOperator as operator
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import evaluate

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "torch"])
A, B = np.array([[1, 2, 3]], np.int32), np.array([[2], [3]], np.int32)
P, Q = np.array([True, True, False, False]), np.array([True, False, True, False])
X = np.array([-1.0, 0.0, 1.0, 3.0, np.nan], np.float32)


def half(*values: float) -> np.ndarray:
    return np.array(values, np.float16)


CASES: list[tuple[str, list[np.ndarray], dict[str, Any], np.ndarray]] = [
    ("EQ", [A, B], {}, A == B), ("NE", [A, B], {}, A != B), ("LT", [A, B], {}, A < B), ("LE", [A, B], {}, A <= B),
    ("GT", [A, B], {}, A > B), ("GE", [A, B], {}, A >= B),
    ("And", [P, Q], {}, P & Q), ("Or", [P, Q], {}, P | Q), ("Xor", [P, Q], {}, P ^ Q), ("Not", [P], {}, ~P),
    ("BitwiseAnd", [A, B], {}, A & B), ("BitwiseOr", [A, B], {}, A | B), ("BitwiseXor", [A, B], {}, A ^ B),
    ("Where", [P[:2], np.eye(2), -np.eye(2)], {"broadcast_on_rows": 1}, np.eye(2)),
    ("IsNaN", [X], {}, np.array([0, 0, 0, 0, 1], np.uint8)),
    ("ReplaceNaN", [X], {"value": 2.0}, np.array([-1, 0, 1, 3, 2], np.float32)),
    ("Sign", [X], {}, np.array([-1, 0, 1, 1, 0], np.float32)),
    ("IsMemberOf", [A], {"value": [1, 3]}, np.array([[True, False, True]])),
    ("IsMemberOf", [np.array([b"a", b"b"], object)], {"value": ["b"]}, np.array([False, True])),
    ("StumpFunc", [X[:4]], {"threshold": 0.0, "low_value": 5.0, "high_value": 7.0}, np.array([5, 5, 7, 7], np.float32)),
    ("Bucketize", [X[:4]], {"boundaries": [0.0, 1.0]}, np.array([0, 0, 1, 2], np.int32)),
    ("FloatToHalf", [np.array([1e6, -1e6, 1.0], np.float32)], {"clip": 1}, half(65504, -65504, 1)),
    ("FloatToHalf", [np.array([1e6, 0.1], np.float32)], {}, half(np.inf, 0.1)),
    ("HalfToFloat", [half(0.1)], {}, half(0.1).astype(np.float32)),
    ("Float16ConstantFill", [], {"shape": [2], "value": 1.5}, half(1.5, 1.5)),
    ("ArgMax", [np.array([[1, 3, 3]], np.float32)], {"keepdims": 0}, np.array([1])),
    ("ArgMin", [A], {"axis": 0}, np.array([[0, 0, 0]])),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "expected"), CASES)
@BACKENDS
def test_values_and_dtypes(type: str, inputs: Any, arguments: Any, expected: np.ndarray, backend: str) -> None:
    feeds = {f"x{k}": value for k, value in enumerate(inputs)}
    found = evaluate(operator(type, list(feeds), ["y"], **arguments), feeds, backend=backend)["y"]
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


@BACKENDS
def test_places_below_and_above_a_threshold(backend: str) -> None:
    found = evaluate(operator("StumpFuncIndex", ["x"], ["low", "high"], threshold=0.0), {"x": X[:4]}, backend=backend)
    assert found["low"].tolist() == [0, 1] and found["high"].tolist() == [2, 3]
    assert found["low"].dtype == np.int64


@BACKENDS
def test_halves_drawn_uniformly_stay_within_the_bounds(backend: str) -> None:
    fill = operator("Float16UniformFill", [], ["y"], shape=[50, 4], min=2.0, max=3.0)
    drawn = evaluate(fill, {}, backend=backend)["y"]
    assert drawn.dtype == np.float16 and drawn.min() >= 2 and drawn.max() <= 3 and np.unique(drawn).size > 50


@pytest.mark.parametrize(("type", "inputs", "arguments"), [
    ("Where", [P, np.eye(2), np.eye(2)], {}), ("EQ", [np.ones(2), np.ones(3)], {}), ("Mod", [A], {}),
    ("Bucketize", [X], {"boundaries": [2.0, 1.0]}), ("LpNorm", [X], {"p": 3}), ("ArgMax", [X], {"axis": 5}),
    ("BatchBoxCox", [np.ones((2, 3)), np.ones(2), np.ones(3)], {}),
])
@BACKENDS
def test_bad_input_is_refused(type: str, inputs: Any, arguments: Any, backend: str) -> None:
    feeds = {f"x{k}": value for k, value in enumerate(inputs)}
    with pytest.raises(OperatorError):
        evaluate(operator(type, list(feeds), ["y"], **arguments), feeds, backend=backend)
