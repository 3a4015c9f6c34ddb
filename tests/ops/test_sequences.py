"""Lists, sequences and selections: derivatives at the hard points, values, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.graph.operator import CreateOperator as operator
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import check_gradient, evaluate

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "torch"])
I32 = np.int32
X = np.sin(np.arange(12.0)).reshape(6, 2)
SEQUENCES = np.array([2, 0, 3, 1], I32)
TIMES = np.cos(np.arange(12.0)).reshape(3, 2, 2)
NONE = np.zeros(0, I32)

#: type, feeds, positions of what has a derivative, number of outputs, arguments
DERIVATIVES: list[tuple[str, list[np.ndarray], list[int], int, dict[str, Any]]] = [
    ("LengthsTile", [X, np.array([2, 0, 1, 1, 0, 3], I32)], [0], 1, {}),
    ("LengthsTopK", [X[:, 0], SEQUENCES], [0], 2, {"k": 2}), ("LengthsTopK", [X[:0, 0], NONE], [0], 2, {"k": 2}),
    ("TopK", [X], [0], 2, {"k": 2}), ("TopK", [X], [0], 3, {"k": 4, "axis": 0}), ("TopK", [X], [0], 2, {"k": 5}),
    ("TopK", [X, np.array([3])], [0], 2, {"axis": 0}), ("FlexibleTopK", [X, np.array([1, 2, 1, 2, 2, 1])], [0], 2, {}),
    ("BooleanMask", [X, np.array([1, 0, 0, 1, 1, 0], bool)], [0], 2, {}),
    ("BooleanMask", [X, np.zeros(6, bool)], [0], 1, {}),
    ("AddPadding", [X], [0], 1, {"padding_width": 2}),
    ("AddPadding", [X, SEQUENCES], [0], 2, {"padding_width": 1, "end_padding_width": 2}),
    ("AddPadding", [X, SEQUENCES, X[0]], [0, 2], 2, {"padding_width": 1, "end_padding_width": 0}),
    ("AddPadding", [X, SEQUENCES, X[0], X[1]], [0, 2, 3], 2, {"padding_width": 1, "end_padding_width": 2}),
    ("RemovePadding", [X], [0], 1, {"padding_width": 2}),
    ("RemovePadding", [X, np.array([2, 4], I32)], [0], 2, {"padding_width": 1, "end_padding_width": 0}),
    ("PackSegments", [SEQUENCES, X], [1], 1, {}), ("PackSegments", [SEQUENCES, X], [1], 1, {"max_length": 5}),
    ("PackSegments", [SEQUENCES, X], [1], 1, {"max_length": 2}),
    ("PackSegments", [SEQUENCES, X], [1], 2, {"return_presence_mask": True}),
    ("PackSegments", [np.zeros(2, I32), X[:0]], [1], 1, {}),
    ("UnpackSegments", [np.array([2, 0, 1], I32), TIMES], [1], 1, {}),
    ("UnpackSegments", [np.array([2, 0, 1], I32), TIMES], [1], 1, {"max_length": 2}),
    ("PackRNNSequence", [X, SEQUENCES], [0], 1, {}), ("UnpackRNNSequence", [TIMES, np.array([1, 3], I32)], [0], 1, {}),
    ("ReversePackedSegs", [TIMES, np.array([1, 3], I32)], [0], 1, {}),
    ("SequenceMask", [X, np.array([0, 1, 2, 1, 0, 2], I32)], [0], 1, {"mode": "sequence", "fill_val": 2.0}),
    ("SequenceMask", [TIMES, np.array([0, 1], I32)], [0], 1,
     {"mode": "window", "radius": 0, "axis": 2, "batch": 0, "fill_val": -1.0}),
    *(("SequenceMask", [X], [0], 1, {"mode": mode, "fill_val": 0.5})
      for mode in ("upper", "lower", "upperdiag", "lowerdiag")),
]


@pytest.mark.parametrize(("type", "inputs", "wrt", "outputs", "arguments"), DERIVATIVES)
def test_derivative(type: str, inputs: list[np.ndarray], wrt: list[int], outputs: int, arguments: Any) -> None:
    feeds = {f"x{k}": value for k, value in enumerate(inputs)}
    op = operator(type, list(feeds), [f"y{k}" for k in range(outputs)], **arguments)
    check_gradient(op, feeds, ["y0"], [f"x{k}" for k in wrt])


@pytest.mark.parametrize(("type", "rows"), [("AddPadding", 3), ("RemovePadding", 7)])
def test_padding_has_a_gradient_without_the_new_lengths(type: str, rows: int) -> None:
    lengths = np.array([1, 2] if type == "AddPadding" else [3, 4], np.int32)
    check_gradient(operator(type, ["x", "l"], ["y"], padding_width=1), {"x": np.arange(1.0, rows + 1), "l": lengths})


#: type, feeds, number of outputs, arguments, expected outputs
VALUES: list[tuple[str, list[Any], int, dict[str, Any], list[Any]]] = [
    ("LengthsToRanges", [[2, 0, 1]], 1, {}, [[[0, 2], [2, 0], [2, 1]]]),
    ("LengthsToOffsets", [[2, 0, 1]], 1, {"include_last_offset": True}, [[0, 2, 2, 3]]),
    ("LengthsToSegmentIds", [[2, 0, 1]], 1, {}, [[0, 0, 2]]),
    ("LengthsToShape", [[3, 3]], 1, {}, [[2, 3]]),
    ("LengthsSplit", [[5, 0]], 1, {"n_split": 2}, [[3, 2, 0, 0]]),
    ("LengthsGather", [[1, 2, 3, 4], [1, 0, 3], [2, 0]], 1, {}, [[2, 3, 4, 1]]),
    ("LengthsPad", [[1, 2, 3], [1, 2]], 1, {"target_length": 3, "padding_value": 7.0}, [[1, 7, 7, 2, 3, 7]]),
    ("SegmentIdsToLengths", [[0, 0, 2], [1, 1, 1, 1]], 1, {}, [[2, 0, 1, 0]]),
    ("SegmentIdsToRanges", [[0, 0, 2], [1, 1, 1, 1]], 1, {}, [[[0, 2], [2, 0], [2, 1], [0, 0]]]),
    ("DenseVectorToIdList", [[[1.0, 0.0, 2.0], [0.0, -1.0, 0.0]]], 2, {}, [[2, 0], [0, 2]]),
    ("MergeIdLists", [[2, 1], [6, 6, 1], [1, 2], [3, 8, 7]], 2, {}, [[2, 3], [3, 6, 1, 7, 8]]),
    ("PadEmptySamples", [[1, 0, 1], [4, 5]], 2, {}, [[1, 1, 1], [4, 0, 5]]),
    ("RemoveDataBlocks", [[1, 2, 3, 4], [1, 3, 1]], 1, {}, [[1, 3]]),
    ("GatherPadding", [[1, 2, 3, 4, 5], [2, 3]], 2, {"padding_width": 1}, [4, 7]),
    ("NGramFromCategorical", [[[1.0, 5.0], [2.0, 7.0], [3.0, 6.0]]], 1,
     {"col_ids": [0, 1], "categorical_limits": [2, 2], "vals": [1, 2, 5, 6]}, [[0, 1, 2]]),
    ("SumRelu", [[1, -2], [1, 1]], 1, {}, [[2, 0]]),
]


@BACKENDS
@pytest.mark.parametrize(("type", "inputs", "outputs", "arguments", "expected"), VALUES)
def test_value(type: str, inputs: list[Any], outputs: int, arguments: Any, expected: list[Any], backend: str) -> None:
    feeds = {f"x{k}": np.array(value) for k, value in enumerate(inputs)}
    feeds = {name: value.astype(np.float32 if value.dtype.kind == "f" else I32) for name, value in feeds.items()}
    names = [f"y{k}" for k in range(outputs)]
    found = evaluate(operator(type, list(feeds), names, **arguments), feeds, backend=backend)
    assert [found[name].tolist() for name in names] == expected


@BACKENDS
def test_strings_are_padded_with_empty_ones(backend: str) -> None:
    feeds = {"l": np.array([1, 0, 2], I32), "x": np.array([b"a", b"b", b"c"], object)}
    found = evaluate([operator("PackSegments", ["l", "x"], ["packed"]),
                      operator("UnpackSegments", ["l", "packed"], ["y"]),
                      operator("PadEmptySamples", ["l", "x"], ["m", "z"])], feeds, backend=backend)
    assert found["packed"].tolist() == [[b"a", b""], [b"", b""], [b"b", b"c"]]
    assert found["y"].tolist() == [b"a", b"b", b"c"] and found["z"].tolist() == [b"a", b"", b"b", b"c"]


@BACKENDS
def test_window_collector_keeps_the_last_rows(backend: str) -> None:
    """Five batches into a window of three: it grows, wraps around, and begins anew when a batch is longer than it."""
    batches = [np.array(b, np.float32) for b in ([1, 2], [3], [4, 5], [], [6, 7, 8, 9])]
    feeds: dict[str, Any] = {"buffer": np.zeros(0, np.float32), "next": np.array(0, I32), "seen": np.array(0)}
    feeds |= {f"x{k}": batch for k, batch in enumerate(batches)}
    mutex = operator("CreateMutex", [], ["mutex"])
    ops = [operator("LastNWindowCollector", ["buffer", "next", f"x{k}", "mutex", "seen"], ["buffer", "next", "seen"],
                    num_to_collect=3) for k in range(len(batches))]
    found = evaluate([mutex, *ops[:4]], feeds, ["buffer", "next", "seen"], backend=backend)
    assert found["buffer"].tolist() == [4, 5, 3] and found["next"] == 2 and found["seen"] == 5
    found = evaluate([mutex, *ops], feeds, ["buffer", "next", "seen"], backend=backend)
    assert found["buffer"].tolist() == [7, 8, 9] and found["next"] == 0 and found["seen"] == 9


@BACKENDS
@pytest.mark.parametrize(("type", "inputs", "arguments", "words"), [
    ("TopK", [X], {}, "k must be at least 1"), ("TopK", [X], {"k": 1, "axis": 2}, "axis"),
    ("FlexibleTopK", [X, np.array([3, 1, 1, 1, 1, 1])], {}, "0..1"),
    ("LengthsToSegmentIds", [np.array([1, -1], I32)], {}, "negative"),
    ("LengthsToShape", [NONE], {}, "at least one"), ("LengthsToShape", [np.array([1, 2], I32)], {}, "equal"),
    ("LengthsPad", [X, SEQUENCES], {"target_length": 2}, "longest list, 3"),
    ("SegmentIdsToLengths", [np.array([1, 0], I32)], {}, "sorted"),
    ("RemovePadding", [X, np.array([1, 5], I32)], {"padding_width": 1}, "at least 2 rows"),
    ("PackSegments", [np.array([2, 2], I32), X], {}, "number of rows, 6"),
    ("UnpackSegments", [np.array([3, 0, 1], I32), TIMES], {}, "room for 2"),
    ("ReversePackedSegs", [TIMES, np.array([1, 4], I32)], {}, "3 time steps"),
    ("SequenceMask", [X], {"mode": "sequence"}, "second input"), ("SequenceMask", [X], {"mode": "odd"}, "mode must be"),
    ("BooleanMask", [X, np.ones(3, bool)], {}, "one entry per row"),
    ("BooleanUnmask", [np.array([True, False]), X[:1, 0]], {}, "no mask is true at place 1"),
])
def test_wrong_input_is_refused(type: str, inputs: list[np.ndarray], arguments: Any, words: str, backend: str) -> None:
    feeds = {f"x{k}": value for k, value in enumerate(inputs)}
    outputs = ["y", "z"] if type in ("TopK", "FlexibleTopK", "RemovePadding") else ["y"]
    with pytest.raises(OperatorError, match=words):
        evaluate(operator(type, list(feeds), outputs, **arguments), feeds, backend=backend)


@BACKENDS
@pytest.mark.parametrize("asked", [{}, {"return_presence_mask": 1}])
def test_presence_is_told_wherever_there_is_an_output_for_it(asked: dict[str, Any], backend: str) -> None:
    pack = operator("PackSegments", ["lengths", "X"], ["packed", "mask"], **asked)
    found = evaluate(pack, {"lengths": np.array([2, 1], I32), "X": X[:3]}, backend=backend)
    assert found["mask"].tolist() == [[True, True], [True, False]]
    mask = operator("SparseToDenseMask", ["ids", "values", "default"], ["dense", "mask"], mask=[4, 7], **asked)
    found = evaluate(mask, {"ids": np.array([7, 5]), "values": X[:2], "default": X[2]}, backend=backend)
    assert found["mask"].tolist() == [False, True]


@BACKENDS
def test_pieces_given_as_a_table(backend: str) -> None:
    bounds = np.array([[0.0, 0.5, 1.0], [0.0, 0.2, 1.0]])
    slopes, intercepts = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.0, 1.0], [2.0, 3.0]])
    transform = operator("PiecewiseLinearTransform", ["X", "bounds", "slopes", "intercepts"], ["Y"])
    feeds = {"X": np.array([[0.25, 0.1], [0.75, 0.6]]), "bounds": bounds, "slopes": slopes, "intercepts": intercepts}
    np.testing.assert_allclose(evaluate(transform, feeds, backend=backend)["Y"], [[0.25, 2.3], [2.5, 5.4]])
