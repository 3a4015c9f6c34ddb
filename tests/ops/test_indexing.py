"""Rows by index, sparse and dense, one-hot codes: derivatives, repeated and wrong indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.autodiff.gradient_registry import GetBackwardPass
from netgrad.graph.operator import CreateOperator as operator
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import check_gradient, evaluate

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "torch"])
I32, I64 = np.int32, np.int64
X = np.arange(24.0).reshape(2, 3, 4) / 7 - 1


def ints(*values: Any) -> np.ndarray:
    return np.array(values, I64)


#: type, feeds in order, arguments
DERIVATIVES: list[tuple[str, list[np.ndarray], dict[str, Any]]] = [
    ("Gather", [X, ints(1, 0, 1)], {}), ("Gather", [X, np.array([[1], [1]], I32)], {"dense_gradient": 1}),
    ("Gather", [X, np.zeros((2, 0), I64)], {}), ("Gather", [X, ints(2, 2, 0)], {"axis": 1}),
    ("Gather", [X, ints(-1, 3, -1)], {"axis": -1, "wrap_indices": 1}),
    ("Gather", [X, ints([0, 2], [1, 1])], {"axis": 1, "match_outer": 1}), ("Gather", [X[:0], ints(1)], {"axis": 1}),
    ("BatchGather", [X, ints(2, 2)], {}), ("BatchGather", [X, ints([2, 0], [1, 1])], {"match_outer": 1}),
    ("BatchGather", [X[:0], ints(1)], {}),
    ("SparseToDense", [ints(2, 0, 2), X[0]], {}), ("SparseToDense", [ints(1, 1), X[:, 0], np.zeros((4, 1))], {}),
    ("SparseToDense", [np.zeros(0, I32), X[:0]], {"output_first_dim": 3}),
    ("SparseToDenseMask", [ints(5, 7, 5, 8), X[0, :2].repeat(2, 0), X[1, 0]], {"mask": [7, 5, 1]}),
    ("SparseToDenseMask", [ints(5, 7, 5), np.ones(3), np.array(2.0), np.array([2, 0, 1], I32)], {"mask": [5, 6]}),
    ("BatchDenseToSparse", [ints(2, 0, 1), ints(1, 1, 0), X[0]], {}),
    ("BatchSparseToDense", [ints(1, 0, 2), ints(1, 1, 0), np.ones(3)], {"dense_last_dim": 3, "default_value": 2.0}),
    ("BatchSparseToDense", [ints(1, 1), ints(1, 0), np.ones(2), np.zeros((2, 3))], {}),
    ("GatherByKey", [ints(3, 4, -1, 6), X[0, :2], X[1, :2]], {}),
    ("BatchPermutation", [X, np.array([1, 0], I32)], {}),
]


@pytest.mark.parametrize(("type", "inputs", "arguments"), DERIVATIVES)
def test_derivative(type: str, inputs: list[np.ndarray], arguments: dict[str, Any]) -> None:
    feeds = {f"x{k}": value for k, value in enumerate(inputs)}
    constant = {"SparseToDense": 2, "SparseToDenseMask": 2, "BatchSparseToDense": 3}.get(type)
    wrt = [name for k, (name, value) in enumerate(feeds.items()) if value.dtype == np.float64 and k != constant]
    check_gradient(operator(type, list(feeds), ["y"], **arguments), feeds, ["y"], wrt)


@BACKENDS
@pytest.mark.parametrize(("type", "groups", "outputs", "arguments"), [
    ("MergeSingleScalarFeatureTensors",
     [[X[0, 0, :3], np.array([True, False, True])], [X[1, 0, :3], np.array([True] * 3)]], 3, {"feature_ids": [4, 9]}),
    ("MergeSingleListFeatureTensors", [[np.array([2, 1], I32), X[0, 0, :3], np.array([True, True])],
                                       [np.array([0, 2], I32), X[1, 0, :2], np.array([False, True])]], 4,
     {"feature_ids": [4, 9]}),
    ("MergeSingleMapFeatureTensors", [[np.array([2, 1], I32), ints(5, 6, 7), X[0, 0, :3], np.array([True, True])]], 5,
     {"feature_ids": [4]}),
    ("MergeMultiScalarFeatureTensors", [[np.array([1, 2], I32), ints(5, 6, 7), X[0, 0, :3]],
                                        [np.array([1, 0], I32), ints(8), X[1, 0, :1]]], 3, {}),
    ("MergeMultiListFeatureTensors",
     [[np.array([1, 1], I32), ints(5, 6), np.array([2, 1], I32), X[0, 0, :3]]] * 2, 4, {}),
    ("MergeMultiMapFeatureTensors",
     [[np.array([1, 1], I32), ints(5, 6), np.array([2, 1], I32), ints(1, 2, 3), X[0, 0, :3]]] * 2, 5, {}),
])
def test_merged_features_have_the_derivative_of_their_parts(type: str, groups: Any, outputs: int, arguments: Any,
                                                            backend: str) -> None:
    feeds = {f"x{k}": value for k, value in enumerate(v for group in groups for v in group)}
    values = f"y{outputs - 1}"
    check_gradient(operator(type, list(feeds), [f"y{k}" for k in range(outputs)], **arguments), feeds, [values],
                   backend=backend)


@BACKENDS
def test_gather_and_dense_uses_of_one_table_add_up(backend: str) -> None:
    ops = [operator("EnsureDense", ["w"], ["w"]), operator("Gather", ["w", "i"], ["a"]),
           operator("Scale", ["w"], ["b"], scale=2.0)]
    backward, gradients = GetBackwardPass(ops, ["a", "b"])
    found = evaluate([*ops, *backward], {"w": np.ones((3, 1), np.float32), "i": ints(2, 2)}, backend=backend)
    assert found[str(gradients["w"])].tolist() == [[2], [2], [4]]


#: type, inputs, arguments, expected outputs
VALUES: list[tuple[str, list[np.ndarray], dict[str, Any], list[np.ndarray]]] = [
    ("Gather", [X, ints(-1)], {}, [X[1:]]), ("Gather", [X[:0], ints(7)], {}, [X[:0]]),
    ("Unique", [np.array([3, 1, 3], I32)], {}, [np.array([1, 3], I32), np.array([1, 0, 1], I32)]),
    ("Unique", [ints()], {}, [ints(), np.zeros(0, I32)]),
    ("ScatterAssign", [np.zeros((3, 1)), ints(1, 1), np.array([[4.0], [5.0]])], {}, [np.array([[0.0], [5.0], [0.0]])]),
    ("ScatterWeightedSum", [np.ones((3, 1)), np.array([2.0]), ints(1, 1, 0), np.ones((3, 1)), np.array([10.0])], {},
     [np.array([[12.0], [24.0], [1.0]])]),
    ("ScatterWeightedSum", [np.ones((3, 1)), np.ones(1), ints([1, 1]), np.array([[[1.0], [2.0]]]), np.array([-10.0])],
     {}, [np.array([[1.0], [-29.0], [1.0]])]),
    ("Scatter", [np.zeros((2, 3)), ints([2, 0], [1, 1]), np.array([[1.0, 2], [3, 4]])], {},
     [np.array([[2.0, 0, 1], [0, 4, 0]])]),
    ("OneHot", [ints(2, 0), ints(3)], {}, [np.float32([[0, 0, 1], [1, 0, 0]])]),
    ("SegmentOneHot", [np.array([2, 0], I32), ints(0, 2), ints(3)], {}, [np.float32([[1, 0, 1], [0, 0, 0]])]),
    ("BatchOneHot", [ints([1, 2], [3, 4]), np.array([2, 1], I32), ints(1, 3, 4)], {}, [ints([1, 0, 0], [0, 1, 1])]),
    ("BatchBucketOneHot", [np.float32([[1], [3]]), np.array([2], I32), np.float32([1, 3])], {},
     [np.float32([[1, 0, 0], [0, 1, 0]])]),
    ("GatherRanges", [np.arange(6.0), np.array([[[0, 2], [5, 1]], [[1, 0], [1, 1]]], I32)], {},
     [np.array([0.0, 1, 5, 1]), np.array([3, 1], I32)]),
    ("GatherRangesToDense", [np.arange(6.0), ints([[0, 2]], [[4, 1]]), ints(9, 8, 7, 6, 5, 4)], {"lengths": [2]},
     [np.array([[1.0, 0], [0, 0]])]),
    ("Partition", [ints(-3, 4, 5), np.arange(3.0)], {"pack_first_input": 1},
     [ints(2), np.array([1.0]), ints(-2, 2), np.array([0.0, 2])]),
    ("LengthsPartition", [np.array([1, 2], I32), ints(3, 4, 5)], {},
     [np.array([0, 1], I32), ints(4), np.array([1, 1], I32), ints(3, 5)]),
    ("Find", [ints(1, 2, 1), ints([1, 3])], {"missing_value": -7}, [ints([2, -7])]),
    ("FindDuplicateElements", [np.array([b"a", b"b", b"a"], object)], {}, [ints(2)]),
    ("KeySplit", [ints(1, 0, 1)], {"categorical_limit": 2}, [np.array([1], I32), np.array([0, 2], I32)]),
    ("SparseToDenseMask", [ints(5, -1), np.float32([1, 2]), np.float32(9)], {"mask": [7, 5], "return_presence_mask": 1},
     [np.float32([9, 1]), np.array([False, True])]),
    ("SparseNormalize", [np.array([[3.0, 4], [0.3, 0.4]]), ints(0, 0, 1)], {}, [np.array([[0.6, 0.8], [0.3, 0.4]])]),
    ("SparseLpRegularizer", [np.array([[1.0, -1, 0.1]]), ints(0, 0)], {"p": 1.0, "reg_lambda": 0.25},
     [np.array([[0.5, -0.5, 0]])]),
    ("EnsureClipped", [np.array([[3.0], [4.0]]), ints(1), np.zeros((1, 1))], {"max": 2.0}, [np.array([[3.0], [2.0]])]),
    ("SparseDropoutWithReplacement", [ints(1, 2, 3), np.array([1, 0, 2], I32)], {"ratio": 1.0, "replacement_value": 9},
     [ints(9, 9, 9), np.array([1, 1, 1], I32)]),
    ("IndexHash", [np.array([3, -4], I32)], {"seed": 7, "modulo": 1000}, [np.array([780, 906], I32)]),
]


@BACKENDS
@pytest.mark.parametrize(("type", "inputs", "arguments", "expected"), VALUES)
def test_values(type: str, inputs: Any, arguments: dict[str, Any], expected: Any, backend: str) -> None:
    feeds = {f"x{k}": value for k, value in enumerate(inputs)}
    outputs = [f"y{k}" for k in range(len(expected))]
    in_place = {"ScatterAssign", "ScatterWeightedSum", "SparseNormalize", "SparseLpRegularizer", "EnsureClipped"}
    if type in in_place:
        outputs[0] = "x0"
    found = evaluate(operator(type, list(feeds), outputs, **arguments), feeds, outputs, backend)
    for name, want in zip(outputs, expected):
        assert found[name].dtype == want.dtype and found[name].shape == want.shape
        np.testing.assert_allclose(found[name], want, rtol=1e-6)


@BACKENDS
@pytest.mark.parametrize(("type", "inputs", "arguments", "message"), [
    ("Gather", [X, ints(2)], {}, "indices hold 2"), ("Gather", [X, ints(-3)], {}, "hold -3"),
    ("Gather", [X, ints(-1)], {"axis": 1}, "hold -1"), ("Gather", [X, X[0, 0]], {}, "int32 or int64"),
    ("Gather", [X, ints(0)], {"axis": 3}, "axis 3"), ("BatchGather", [X, ints(-1)], {}, "hold -1"),
    ("BatchGather", [X, ints(0)], {"match_outer": 1}, "must begin"),
    ("SparseToDense", [ints(0, -1), X[:, 0]], {}, "hold -1"),
    ("SparseToDense", [ints(4), X[:1]], {"output_first_dim": 3}, "hold 4"),
    ("BatchSparseToDense", [ints(1), ints(3), np.ones(1)], {"dense_last_dim": 3}, "hold 3"),
    ("BatchDenseToSparse", [ints(2), ints(1), np.ones((1, 2))], {}, "as many indices"),
    ("ScatterAssign", [np.zeros((3, 1)), ints(3), np.ones((1, 1))], {}, "hold 3"),
    ("ScatterWeightedSum", [np.ones((3, 1)), np.ones(1), ints(300_000_000), np.ones((1, 1)), np.ones(1)], {},
     "300000000"),
    ("OneHot", [ints(3), ints(3)], {}, "hold 3"),
    ("GatherRangesToDense", [np.ones(3), ints([[2, 2]])], {"lengths": [2]}, "outside"),
    ("SparseToDenseMask", [ints(1), np.ones(1), np.array(0.0)], {"mask": [1, 1]}, "distinct"),
    ("SparseToDenseMask", [ints(-1), np.ones(1), np.array(0.0)], {"mask": [1], "max_skipped_indices": 1}, "negative"),
    ("BatchPermutation", [X, np.array([1, 1], I32)], {}, "no permutation"),
    ("GatherByKey", [ints(0, 2), np.ones((1, 1)), np.ones((1, 1))], {}, "has 2 keys"),
])
def test_refusals(type: str, inputs: Any, arguments: dict[str, Any], message: str, backend: str) -> None:
    feeds = {f"x{k}": value for k, value in enumerate(inputs)}
    output = "x0" if type.startswith("Scatter") else "y"
    with pytest.raises(OperatorError, match=message):
        evaluate(operator(type, list(feeds), [output], **arguments), feeds, [output], backend)
