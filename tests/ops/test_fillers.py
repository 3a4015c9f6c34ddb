"""Fillers: shapes, dtypes, the same random numbers everywhere, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.graph import registry
from netgrad.graph.operator import CreateOperator as operator
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import evaluate

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "torch"])
F32, I32 = np.float32, np.int32
TABLE = np.zeros((2, 3), F32)


def filled(type: str, inputs: list[Any], backend: str = "numpy", **arguments: Any) -> np.ndarray:
    feeds = {f"x{k}": value for k, value in enumerate(inputs)}
    return evaluate(operator(type, list(feeds), ["y"], **arguments), feeds, ["y"], backend)["y"]


@BACKENDS
@pytest.mark.parametrize(("type", "inputs", "arguments", "expected"), [
    ("ConstantFill", [], {"shape": [2], "value": 2.5}, np.full(2, 2.5, F32)),
    ("ConstantFill", [], {"shape": [2], "value": 2}, np.full(2, 2)),
    ("ConstantFill", [], {"shape": [2]}, np.zeros(2, F32)),
    ("ConstantFill", [], {"shape": [2], "dtype": 2, "value": -3}, np.full(2, -3, I32)),
    ("ConstantFill", [], {"shape": [2], "dtype": 5, "value": 1}, np.full(2, True)),
    ("ConstantFill", [], {"shape": [2], "dtype": 4, "value": "ab"}, np.array([b"ab", b"ab"], object)),
    ("ConstantFill", [], {"value": 1.0}, np.ones((), F32)),
    ("ConstantFill", [TABLE], {"extra_shape": [0]}, np.zeros((2, 3, 0), F32)),
    ("ConstantFill", [np.array([2, 0])], {"input_as_shape": 1, "extra_shape": [4]}, np.zeros((2, 0, 4), F32)),
    ("ConstantFill", [TABLE, np.array([7], F32)], {}, np.full((2, 3), 7, F32)),
    ("DiagonalFill", [], {"shape": [2, 3], "value": 2}, np.array([[2, 0, 0], [0, 2, 0]])),
    ("DiagonalFill", [], {"shape": [2, 2, 2], "value": 1.0}, F32([[[1, 0], [0, 0]], [[0, 0], [0, 1]]])),
    ("GivenTensorFill", [], {"shape": [2], "values": [1.5, 2.0]}, F32([1.5, 2])),
    ("GivenTensorFill", [TABLE[:1]], {"values": [1.0, 2.0, 3.0], "dtype": 13}, np.array([[1.0, 2, 3]])),
    ("GivenTensorInt16Fill", [], {"shape": [1], "values": [7]}, np.array([7], np.int16)),
    ("GivenTensorInt64Fill", [], {"shape": [0], "values": []}, np.zeros(0, np.int64)),
    ("GivenTensorBoolFill", [], {"shape": [2], "values": [True, False]}, np.array([True, False])),
    ("GivenTensorStringFill", [], {"shape": [2, 1], "values": ["a", "b"]}, np.array([[b"a"], [b"b"]], object)),
    ("GivenTensorByteStringToUInt8Fill", [], {"shape": [3], "values": ["abc"]}, np.array([97, 98, 99], np.uint8)),
    ("RangeFill", [], {"shape": [2, 2]}, F32([[0, 1], [2, 3]])),
    ("LengthsRangeFill", [np.array([2, 0, 3], I32)], {}, np.array([0, 1, 0, 1, 2], I32)),
    ("Range", [np.array(3, I32)], {}, np.arange(3, dtype=I32)), ("Range", [F32([4]), F32([5.5])], {}, F32([4, 5])),
    ("Range", [np.array(4), np.array(0), np.array(-3)], {}, np.array([4, 1])),
    ("Range", [F32(3), F32(1)], {}, np.zeros(0, F32)),
])
def test_values(type: str, inputs: Any, arguments: dict[str, Any], expected: np.ndarray, backend: str) -> None:
    found = filled(type, inputs, backend, **arguments)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(("type", "arguments", "low", "high", "mean", "deviation"), [
    ("UniformFill", {"min": -1.0, "max": 3.0}, -1, 3, 1, 4 / 12 ** 0.5), ("XavierFill", {}, -0.1732, 0.1732, 0, 0.1),
    ("GaussianFill", {"mean": 2.0, "std": 0.5}, -2, 6, 2, 0.5), ("MSRAFill", {}, -2, 2, 0, 0.02 ** 0.5),
    ("UniformIntFill", {"min": 3, "max": 5}, 3, 5, 4, (2 / 3) ** 0.5),
])
def test_distributions(type: str, arguments: dict[str, Any], low: float, high: float, mean: float,
                       deviation: float) -> None:
    numbers = filled(type, [], shape=[100, 100], **arguments)
    assert low <= numbers.min() and numbers.max() <= high
    assert abs(numbers.mean() - mean) < 0.05 * deviation and abs(numbers.std() / deviation - 1) < 0.05


@pytest.mark.parametrize("type", ["UniformFill", "GaussianFill", "XavierFill", "MSRAFill", "UniformIntFill"])
def test_backends_draw_the_same_numbers(type: str) -> None:
    assert filled(type, [], "numpy", shape=[3, 4]).tolist() == filled(type, [], "torch", shape=[3, 4]).tolist()


@BACKENDS
def test_bounds_from_blobs(backend: str) -> None:
    size = np.array([3, 2])
    assert filled("UniformFill", [size, F32([5]), F32([1])], backend, input_as_shape=1).shape == (0, 2)
    four = np.array(4, I32)
    assert set(filled("UniformIntFill", [size, four, four], backend, input_as_shape=1).flat) == {4}


@BACKENDS
@pytest.mark.parametrize("size", [2, 3])
def test_distinct_integers_avoid_some(size: int, backend: str) -> None:
    avoid = np.array([0, 2, 99], I32)
    found = filled("UniqueUniformFill", [np.array([size]), avoid], backend, input_as_shape=1, min=0, max=4)
    assert found.dtype == I32 and len(set(found.tolist())) == size and set(found.tolist()) <= {1, 3, 4}


@BACKENDS
def test_weighted_choices(backend: str) -> None:
    assert filled("WeightedSample", [F32([[0, 1, 0], [0, 0, 2]])], backend).tolist() == [[1], [2]]
    assert filled("WeightedMultiSampling", [F32([0, 0, 1, 1])], backend, num_samples=3).tolist() == [2, 2, 2]


@BACKENDS
def test_sinusoids(backend: str) -> None:
    found = filled("SinusoidPositionEncoding", [np.array([[3, 3]])], backend, embedding_size=2, alpha=4.0,
                   amplitude=2.0)
    np.testing.assert_allclose(found, np.broadcast_to(2 * np.array([np.sin(3), np.cos(1.5)]), (1, 2, 2)), rtol=1e-6)


@BACKENDS
@pytest.mark.parametrize(("type", "inputs", "arguments", "message"), [
    ("ConstantFill", [TABLE], {"shape": [2]}, "given twice"),
    ("ConstantFill", [], {"extra_shape": [2]}, "without an input"),
    ("ConstantFill", [], {"shape": 2}, "write a list"),
    ("ConstantFill", [], {"shape": [2], "value": "x"}, "expected a number"),
    ("ConstantFill", [], {"shape": [2], "value": 1.5, "dtype": 10}, "does not fit"),
    ("ConstantFill", [TABLE], {"input_as_shape": 1}, "one dimension"),
    ("DiagonalFill", [], {"shape": [3]}, "no diagonal"),
    ("GivenTensorFill", [], {"shape": [3], "values": [1.0]}, "1 values for the 3"),
    ("MSRAFill", [], {"shape": [2]}, "no axis 1"),
    ("UniformFill", [], {"shape": [2], "min": 1.0}, "must be the larger"),
    ("GaussianFill", [], {"shape": [1], "std": -1.0}, "std"),
    ("UniqueUniformFill", [], {"shape": [6], "min": 0, "max": 4}, "only 5"), ("Range", [np.ones(2)], {}, "one element"),
    ("Range", [np.array(1), np.array(2), np.array(0)], {}, "Step size cannot be 0"),
])
def test_refusals(type: str, inputs: Any, arguments: dict[str, Any], message: str, backend: str) -> None:
    with pytest.raises(OperatorError, match=message):
        filled(type, inputs, backend, **arguments)


def test_only_the_shape_of_the_input_is_read_unless_it_is_the_shape() -> None:
    only = registry.find("ConstantFill").shape_only
    assert only({"input_as_shape": False}, 1) == {0} and only({"input_as_shape": True}, 1) == set()


@pytest.mark.parametrize("type", ["ConstantFill", "DiagonalFill", "Float16ConstantFill", "Float16UniformFill",
                                  "GaussianFill", "UniformFill", "XavierFill"])
@BACKENDS
def test_negative_sizes_are_refused(type: str, backend: str) -> None:
    with pytest.raises(OperatorError, match="negative"):
        evaluate(operator(type, [], ["y"], shape=[2, -3]), {}, ["y"], backend)
