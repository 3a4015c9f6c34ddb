"""Reductions of segments and bags: derivatives where segments are empty and rows repeat, values, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.autodiff.gradient_registry import GetBackwardPass
from netgrad.graph import registry
from netgrad.graph.operator import CreateOperator as operator
from netgrad.runtime import backends
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import check_gradient, evaluate

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "torch"])
X = np.sin(np.arange(10.0)).reshape(5, 2)
W = np.cos(np.arange(5.0))
LENGTHS = np.array([2, 0, 3, 0], np.int32)
NO_ROWS = np.array([0, 0], np.int32)
SORTED = np.array([0, 0, 1, 2, 2], np.int32)
UNSORTED = np.array([3, 0, 3, 0, 1], np.int64)
TABLE = np.sin(np.arange(8.0)).reshape(4, 2)
INDICES = np.array([1, 3, 1, 1, 0], np.int64)

PLAIN = [
    *((f"Lengths{kind}", [X, LENGTHS]) for kind in ("Sum", "Mean", "Max")),
    *((f"Lengths{kind}", [X[:0], NO_ROWS]) for kind in ("Sum", "Mean", "Max")),
    *((f"SortedSegment{kind}", [X, SORTED]) for kind in ("Sum", "Mean")),
    *((f"SortedSegmentRange{kind}", [3 * X, SORTED]) for kind in ("Sum", "Mean", "Max", "LogSumExp", "LogMeanExp")),
    *((f"UnsortedSegment{kind}", [X, UNSORTED]) for kind in ("Sum", "Mean")),
    ("SparseLengthsSum", [TABLE, INDICES, LENGTHS]), ("SparseLengthsMean", [TABLE, INDICES, LENGTHS]),
    ("SparseLengthsSum", [TABLE, INDICES[:0], NO_ROWS]),
    *((f"SparseSortedSegment{kind}", [TABLE, INDICES, SORTED]) for kind in ("Sum", "Mean")),
    *((f"SparseUnsortedSegment{kind}", [TABLE, INDICES, UNSORTED]) for kind in ("Sum", "Mean")),
]


@pytest.mark.parametrize(("type", "inputs"), PLAIN)
def test_derivative_by_the_rows(type: str, inputs: list[np.ndarray]) -> None:
    feeds = {f"x{k}": value for k, value in enumerate(inputs)}
    check_gradient(operator(type, list(feeds), ["y"]), feeds, ["y"], ["x0"])


#: where faster kernels exist; NumPy has none for rows in any order and for maxima
OVERRIDDEN = [
    *(case for case in PLAIN if "Exp" not in case[0] and not case[0].startswith(("SparseS", "SparseU"))),
    ("SparseLengthsWeightedSum", [TABLE, W, INDICES, LENGTHS]),
    ("SparseLengthsMean", [TABLE.reshape(2, 2, 2), INDICES % 2, LENGTHS]),
    ("SparseLengthsSum", [TABLE.astype(np.float16), INDICES, LENGTHS]),
    ("LengthsSum", [X[:4], np.array([2, 2], np.int32)]), ("LengthsMean", [X[:, 0], LENGTHS]),
    ("LengthsSum", [np.sin(np.arange(40.0)).reshape(20, 2), np.array([1] * 10 + [10], np.int32)]),
    ("LengthsSum", [np.sin(np.arange(60.0)).reshape(30, 2), np.array([1] * 9 + [0] * 5 + [21], np.int32)]),
]


@pytest.mark.parametrize(("name", "type", "inputs"), [
    (name, *case) for name in ("numpy", "torch") for case in OVERRIDDEN
    if name == "torch" or not (case[0].startswith("Unsorted") or case[0].endswith("Max"))
])
def test_overrides_agree_with_the_reference(name: str, type: str, inputs: list[np.ndarray]) -> None:
    backend = backends.get(name)
    faster, reference = backend.overrides.find(type), registry.find(type)
    assert faster is not None and reference is not None and reference.kernel is not None
    tensors = [backend.from_numpy(value) for value in inputs]
    arguments = {"num_segments": -1} if type.startswith("Unsorted") else {}
    mine, other = (kernel(backend.xp, *tensors, **arguments) for kernel in (faster, reference.kernel))
    assert mine.dtype == other.dtype
    np.testing.assert_allclose(mine, other, rtol=1e-12)


@pytest.mark.parametrize(("type", "inputs", "both"), [
    ("LengthsWeightedSum", [X, W, LENGTHS], True), ("LengthsWeightedSum", [X[:0], W[:0], NO_ROWS], True),
    ("SortedSegmentWeightedSum", [X, W, SORTED], False), ("UnsortedSegmentWeightedSum", [X, W, UNSORTED], False),
    ("SparseLengthsWeightedSum", [TABLE, W, INDICES, LENGTHS], True),
    ("SparseSortedSegmentWeightedSum", [TABLE, W, INDICES, SORTED], False),
    ("SparseUnsortedSegmentWeightedSum", [TABLE, W, INDICES, UNSORTED], False),
])
def test_derivative_of_weighted_sums(type: str, inputs: list[np.ndarray], both: bool) -> None:
    feeds = {f"x{k}": value for k, value in enumerate(inputs)}
    check_gradient(operator(type, list(feeds), ["y"]), feeds, ["y"], ["x0"])
    with_weights = operator(type, list(feeds), ["y"], grad_on_weights=1)
    if both:
        check_gradient(with_weights, feeds, ["y"], ["x0", "x1"])
    else:
        with pytest.raises(Exception, match="grad_on_weights"):
            GetBackwardPass([with_weights], ["y"])


def test_derivative_of_a_tensor_train_table() -> None:
    rng = np.random.default_rng(0)
    shapes = {"c0": (2, 1, 2, 3), "c1": (3, 3, 2, 2), "c2": (2, 2, 1, 1)}
    feeds = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    feeds |= {"i": np.array([0, 11, 5, 5, 7]), "l": LENGTHS}
    op = operator("TTSparseLengthsSum", list(feeds), ["y", "a", "b", "j"], factor_i=[2, 3, 2], factor_j=[2, 2, 1],
                  ranks=[1, 3, 2, 1], emb_size=4)
    check_gradient(op, feeds, ["y"], list(shapes))


@BACKENDS
def test_every_gradient_operator_agrees_with_its_family(backend: str) -> None:
    """The names without a rule of their own: the same derivative, asked for by other names or without the row count."""
    g = np.sin(np.arange(8.0)).reshape(4, 2)
    feeds = {"g": g, "l": LENGTHS, "w": W, "x": X, "s": SORTED, "u": UNSORTED, "t": TABLE, "i": INDICES}
    same = [
        ("LengthsSumGradient", "g l", "SparseLengthsSumGradient", "g l"),
        ("LengthsSumGradient", "g l", "LengthsIndicesInGradientSumGradient", "g l x"),
        ("LengthsMeanGradient", "g l", "SparseLengthsMeanGradient", "g l"),
        ("LengthsMeanGradient", "g l", "SparseLengthsIndicesInGradientMeanGradient", "g l i"),
        ("LengthsWeightedSumGradient", "w g l", "SparseLengthsWeightedSumGradient", "w g l"),
        ("LengthsWeightedSumGradient", "w g l", "SparseLengthsIndicesInGradientWeightedSumGradient", "w g l i"),
        ("LengthsWeightedSumGradient", "w g l", "LengthsWeightedSumWithMainInputGradient", "w g l x"),
        ("LengthsWeightedSumGradient", "w g l", "SparseLengthsWeightedSumWithMainInputGradient", "w g l t i"),
        ("SortedSegmentSumGradient", "g s", "SparseSortedSegmentSumGradient", "g s"),
        ("SortedSegmentMeanGradient", "g s", "SparseSortedSegmentMeanGradient", "g s"),
        ("SortedSegmentWeightedSumGradient", "w g s", "SparseSortedSegmentWeightedSumGradient", "w g s"),
        ("UnsortedSegmentSumGradient", "g u", "SparseUnsortedSegmentSumGradient", "g u"),
        ("UnsortedSegmentMeanGradient", "g u", "SparseUnsortedSegmentMeanGradient", "g u"),
        ("UnsortedSegmentWeightedSumGradient", "w g u", "SparseUnsortedSegmentWeightedSumGradient", "w g u"),
    ]
    for one, its_inputs, other, inputs in same:
        ops = [operator(one, its_inputs.split(), ["a"]), operator(other, inputs.split(), ["b"])]
        found = evaluate(ops, feeds, backend=backend)
        assert found["a"].shape == (5, 2), one
        np.testing.assert_array_equal(found["a"], found["b"], err_msg=other)


@BACKENDS
def test_empty_segments_are_zero_and_half_tables_add_up_in_single(backend: str) -> None:
    feeds = {"x": -np.ones((2, 1), np.float32), "l": np.array([0, 2], np.int32), "h": np.ones((3, 1), np.float16),
             "i": np.array([2, 0], np.int32), "u": np.array([2, 2])}
    found = evaluate([operator("LengthsMax", ["x", "l"], ["max"]),
                      operator("SparseLengthsSum", ["h", "i", "l"], ["sum"]),
                      operator("UnsortedSegmentMean", ["x", "u"], ["mean"], num_segments=4)], feeds, backend=backend)
    assert found["max"].tolist() == [[0], [-1]] and found["mean"].tolist() == [[0], [0], [-1], [0]]
    assert found["sum"].tolist() == [[0], [2]] and found["sum"].dtype == np.float32


@BACKENDS
@pytest.mark.parametrize("type", ["UnsortedSegmentSum", "UnsortedSegmentMean"])
@pytest.mark.parametrize("shape", [(2, 3), (3, 1, 2), (0, 4)])
def test_ids_of_several_dimensions_are_those_of_the_rows_in_order(
    type: str, shape: tuple[int, ...], backend: str,
) -> None:
    size = int(np.prod(shape))
    rows, ids = np.sin(np.arange(2.0 * size)).reshape(size, 2), np.arange(size, dtype=np.int32)[::-1] % 4
    feeds = {"x": rows, "u": ids, "xs": rows.reshape(*shape, 2), "us": ids.reshape(shape), "g": np.ones((4, 2))}
    found = evaluate([operator(type, ["x", "u"], ["y"], num_segments=4),
                      operator(type, ["xs", "us"], ["ys"], num_segments=4),
                      operator(type + "Gradient", ["g", "u"], ["dx"]),
                      operator(type + "Gradient", ["g", "us"], ["dxs"])], feeds, backend=backend)
    np.testing.assert_array_equal(found["ys"], found["y"])
    np.testing.assert_array_equal(found["dxs"], found["dx"].reshape(*shape, 2))


@BACKENDS
@pytest.mark.parametrize(("type", "inputs", "words"), [
    ("LengthsSum", [X, np.array([2, 2], np.int32)], "add up to the number of rows, 5; their sum is 4"),
    ("LengthsMean", [X, np.array([6, -1], np.int32)], "must not be negative"),
    ("SparseLengthsSum", [TABLE, np.array([0, 4, 0, 0, 0]), LENGTHS], "0..3"),
    ("SparseLengthsMean", [TABLE, np.array([0, -1, 0, 0, 0]), LENGTHS], "found -1"),
    ("SortedSegmentSum", [X, np.array([0, 0, 2, 2, 3])], "without gaps"),
    ("SortedSegmentMean", [X, np.array([1, 1, 2, 2, 3])], "begin at 0"),
    ("UnsortedSegmentSum", [X, np.array([0, 0, -1, 0, 0])], "found -1"),
    ("UnsortedSegmentSum", [X, np.array([0, 1])], "one entry per row, 5"),
    ("UnsortedSegmentSum", [X, np.zeros((5, 3), np.int32)], r"SEGMENT_IDS has shape \(5, 3\), expected \(5, 2\)"),
    ("LengthsWeightedSum", [X, W[:4], LENGTHS], "one weight per row"),
])
def test_wrong_segments_are_refused(type: str, inputs: list[np.ndarray], words: str, backend: str) -> None:
    feeds = {f"x{k}": value for k, value in enumerate(inputs)}
    with pytest.raises(OperatorError, match=words):
        evaluate(operator(type, list(feeds), ["y"]), feeds, backend=backend)


def test_rows_are_counted_by_shape_alone() -> None:
    """The forward data of a sum may have been overwritten: only its shape is read."""
    for type, k in (("LengthsIndicesInGradientSumGradient", 2),
                    ("SparseLengthsIndicesInGradientWeightedSumGradient", 3),
                    ("SortedSegmentRangeMeanGradient", 0), ("TopKGradient", 2)):
        declaration: Any = registry.find(type)
        assert [s.shape_only for s in declaration.inputs].index(True) == k


@BACKENDS
def test_the_greatest_of_bags_is_that_of_their_rows(backend: str) -> None:
    bags = operator("SparseLengthsMax", ["table", "indices", "lengths"], ["y"])
    rows = [operator("Gather", ["table", "indices"], ["rows"]), operator("LengthsMax", ["rows", "lengths"], ["y"])]
    feeds = {"table": TABLE, "indices": INDICES, "lengths": LENGTHS}
    np.testing.assert_array_equal(evaluate(bags, feeds, backend=backend)["y"],
                                  evaluate(rows, feeds, backend=backend)["y"])
    with pytest.raises(OperatorError, match=r"add up|sum"):
        evaluate(bags, {**feeds, "lengths": LENGTHS + 1}, backend=backend)
