"""Layout, joining and taking apart: derivatives, values at the edges, refusals, shapes known before the run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.autodiff.gradient_registry import GetBackwardPass
from netgrad.graph import registry
from netgrad.graph.operator import CreateOperator as operator
from netgrad.graph.shapes import TensorType
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.inference import infer_operator
from netgrad.runtime.numeric import check_gradient, evaluate

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "torch"])


def numbers(*shape: int) -> np.ndarray:
    return np.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape) / 7 - 1


X = numbers(2, 3, 4)
EMPTY = numbers(0, 3, 4)
I32, I64 = np.int32, np.int64

#: type, floating-point inputs, other inputs, number of outputs, arguments
DERIVATIVES: list[tuple[str, list[np.ndarray], list[np.ndarray], int, dict[str, Any]]] = [
    ("Reshape", [X], [], 2, {"shape": [0, -1]}), ("Reshape", [EMPTY], [], 2, {"shape": [4, -1, 3]}),
    ("Reshape", [X], [np.array([4, -1], I32)], 2, {}), ("Reshape", [X[:1, :1, :1]], [], 2, {"shape": []}),
    ("Flatten", [X], [], 1, {"axis": 2}), ("Flatten", [X], [], 1, {"axis": 0}), ("Flatten", [EMPTY], [], 1, {}),
    ("FlattenToVec", [X], [], 1, {}), ("FlattenToVec", [EMPTY], [], 1, {}),
    ("ExpandDims", [X], [], 1, {"dims": [0, 4]}), ("Squeeze", [X[:1]], [], 1, {"dims": [0]}),
    ("PrependDim", [X], [], 1, {"dim_size": 2}),
    ("Transpose", [X], [], 1, {}), ("Transpose", [X], [], 1, {"axes": [1, 2, 0]}), ("Transpose", [EMPTY], [], 1, {}),
    ("NCHW2NHWC", [X], [], 1, {}), ("NHWC2NCHW", [X], [], 1, {}), ("NHWC2NCHW", [EMPTY], [], 1, {}),
    ("ChannelShuffle", [numbers(1, 6, 2)], [], 1, {"group": 2}),
    ("ChannelShuffle", [numbers(1, 2, 6)], [], 1, {"group": 3, "order": "NHWC"}),
    ("SpaceToBatch", [numbers(1, 2, 3, 2)], [], 1, {"pad": 1, "block_size": 2, "pad_t": 2}),
    ("BatchToSpace", [numbers(4, 1, 2, 3)], [], 1, {"pad": 1}),
    ("Concat", [X, X[:, :1], X[:, :0]], [], 2, {"axis": 1}), ("Concat", [X, X + 1], [], 2, {"axis": -1, "add_axis": 1}),
    ("Concat", [X], [], 2, {"axis": 0}), ("Concat", [EMPTY, X], [], 2, {"axis": 0}),
    ("DepthConcat", [X, X[:, :1]], [], 2, {}),
    ("Split", [X], [], 2, {"axis": -1}), ("Split", [X], [], 3, {"split": [2, 0, 1]}),
    ("Split", [X], [np.array([1, 3], I32)], 2, {"axis": 2}), ("Split", [X], [], 2, {"axis": 0, "add_axis": 1}),
    ("DepthSplit", [X], [], 3, {}), ("SplitByLengths", [X], [np.array([1, 0, 1, 1], I32)], 2, {}),
    ("SplitByLengths", [X], [np.array([1, 1], I32)], 2, {"axis": 2, "use_scaling_lengths": 1}),
    ("Slice", [X], [], 1, {"starts": [0, 1], "ends": [-1, -2]}),
    ("Slice", [X], [], 1, {"starts": [1, 1], "ends": [2, 3]}), ("Slice", [X], [], 1, {"starts": [], "ends": []}),
    ("Slice", [X], [np.array([0, 2], I64), np.array([-1, 2], I64)], 1, {}),
    ("Slice", [EMPTY], [], 1, {"starts": [0, 1], "ends": [-1, 2]}),
    ("Tile", [X], [], 1, {"tiles": 3, "axis": -1}), ("Tile", [X], [np.array([2], I32)], 1, {"axis": 1}),
    ("Tile", [X], [np.array([2], I64), np.array([2], I32)], 1, {}), ("Tile", [EMPTY], [], 1, {"tiles": 2, "axis": 0}),
    ("Expand", [numbers(3, 1)], [np.array([2, 1, 4])], 1, {}), ("Expand", [X], [np.array([0, -1])], 1, {}),
    ("Expand", [numbers(1, 0)], [np.array([2, 0])], 1, {}),
    ("Cast", [X], [], 1, {"to": "double", "from_type": "double"}),
    ("Alias", [X], [], 1, {}), ("Copy", [X], [], 1, {}),
    ("CopyCPUToGPU", [X], [], 1, {}), ("CopyGPUToCPU", [X], [], 1, {}),
    ("EnsureDense", [X], [], 1, {}), ("NanCheck", [X], [], 1, {}),
]


@pytest.mark.parametrize(("type", "floats", "others", "outputs", "arguments"), DERIVATIVES)
def test_derivative(type: str, floats: Any, others: Any, outputs: int, arguments: dict[str, Any]) -> None:
    feeds = {f"x{k}": value for k, value in enumerate([*floats, *others])}
    op = operator(type, list(feeds), [f"y{k}" for k in range(outputs)], **arguments)
    ys = ["y0"] if type in ("Reshape", "Concat", "DepthConcat") else None
    check_gradient(op, feeds, ys)


@BACKENDS
@pytest.mark.parametrize("split", [
    operator("Split", ["x"], ["a", "b"], axis=1, split=[1, 2]), operator("DepthSplit", ["x"], ["a", "b"], split=[1, 2]),
    operator("SplitByLengths", ["x", "lengths"], ["a", "b"], axis=1),
])
def test_an_unused_part_counts_as_zero(split: Any, backend: str) -> None:
    x = numbers(2, 3)
    feeds = {"x": x, "lengths": np.array([1, 2], I32)}
    ops, gradients = GetBackwardPass([split, operator("Scale", ["b"], ["y"], scale=3.0)], {"y": None})
    whole = [split, operator("Scale", ["b"], ["y"], scale=3.0), *ops]
    feeds["x"] = x.astype(np.float32)
    found = evaluate(whole, feeds, [str(gradients["x"])], backend)
    np.testing.assert_array_equal(found[str(gradients["x"])], np.float32([[0, 3, 3]] * 2))


def test_stop_and_negate() -> None:
    stop = [operator("StopGradient", ["x"], ["s"]), operator("Mul", ["s", "x"], ["y"])]
    ops, gradients = GetBackwardPass(stop, ["y"])
    x = np.float32([2, 3])
    assert evaluate([*stop, *ops], {"x": x}, [str(gradients["x"])])[str(gradients["x"])].tolist() == [2, 3]
    negate = operator("NegateGradient", ["x"], ["y"])
    ops, gradients = GetBackwardPass([negate], ["y"])
    assert evaluate([negate, *ops], {"x": x}, [str(gradients["x"])])[str(gradients["x"])].tolist() == [-1, -1]


def test_zero_gradient_is_made_where_none_arrives() -> None:
    ops, gradients = GetBackwardPass([operator("Relu", ["x"], ["h"]), operator("ZeroGradient", ["h"], [])], [])
    assert [op.type for op in ops] == ["ConstantFill", "ReluGradient"]
    assert str(gradients["x"]) == "x_grad"


@BACKENDS
@pytest.mark.parametrize(("type", "value", "arguments", "expected"), [
    ("Cast", np.float32([1.7, -1.7]), {"to": "int32"}, np.array([1, -1], I32)),
    ("Cast", np.float32([0.5, 0, -2]), {"to": "bool"}, np.array([True, False, True])),
    ("Cast", np.array([3, -4]), {"to": "string"}, np.array([b"3", b"-4"], object)),
    ("Cast", np.float32([1.5]), {"to": 4}, np.array([b"1.500000"], object)),
    ("Shape", X, {"axes": [2, 0]}, np.array([4, 2])), ("Shape", np.float32(3), {}, np.zeros(0, I64)),
    ("Size", EMPTY, {}, np.array(0)), ("MergeDim", X, {}, X.reshape(6, 4)),
    ("Transpose", np.arange(6).reshape(2, 3), {}, np.arange(6).reshape(2, 3).T),
    ("ScaleBlobs", np.float32([1, 2]), {"scale": 2.0}, np.float32([2, 4])),
])
def test_values(type: str, value: Any, arguments: dict[str, Any], expected: np.ndarray, backend: str) -> None:
    found = evaluate(operator(type, ["x"], ["y"], **arguments), {"x": value}, backend=backend)["y"]
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.tolist() == expected.tolist()


@BACKENDS
def test_strings_pass_through_layout_operators(backend: str) -> None:
    words = np.array([[b"a", b"b"], [b"c", b"d"]], object)
    for op, expected in (
            (operator("Reshape", ["x"], ["y", "_"], shape=[-1]), [b"a", b"b", b"c", b"d"]),
            (operator("Slice", ["x"], ["y"], starts=[1], ends=[2]), [[b"c", b"d"]]),
            (operator("Concat", ["x", "x"], ["y", "_"], axis=1), [[b"a", b"b"] * 2, [b"c", b"d"] * 2]),
            (operator("Gather", ["x", "i"], ["y"]), [[b"c", b"d"]])):
        assert evaluate(op, {"x": words, "i": np.array([1])}, ["y"], backend)["y"].tolist() == expected


@BACKENDS
@pytest.mark.parametrize(("op", "message"), [
    (operator("Reshape", ["x"], ["y", "_"], shape=[5, -1]), "24 elements"),
    (operator("Reshape", ["x"], ["y", "_"], shape=[-1, -1]), "more than one"),
    (operator("Reshape", ["x"], ["y", "_"]), "missing"),
    (operator("Squeeze", ["x"], ["y"], dims=[1]), "not all 1"),
    (operator("ExpandDims", ["x"], ["y"], dims=[9]), "no such"),
    (operator("ExpandDims", ["x"], ["y"], dims=[-1]), "negative"),
    (operator("Flatten", ["x"], ["y"], axis=4), "axis is 4"),
    (operator("Transpose", ["x"], ["y"], axes=[0, 1, 1]), "permutation"),
    (operator("Concat", ["x", "i"], ["y", "_"], axis=0), "one dtype"),
    (operator("Concat", ["x", "z"], ["y", "_"], axis=0), "axis 0 only"),
    (operator("Split", ["x"], ["y", "_"], axis=1), "equal parts"),
    (operator("Split", ["x"], ["y", "_"], axis=1, split=[4, -1]), "do not add up"),
    (operator("Split", ["x"], ["y", "_"], axis=1, split=[3]), "1 sizes for 2"),
    (operator("Slice", ["x"], ["y"], starts=[2], ends=[1]), "leave nothing"),
    (operator("Tile", ["x"], ["y"], tiles=2), "axis is"),
    (operator("ResizeLike", ["x", "z"], ["y"]), "elements"),
    (operator("PrependDim", ["x"], ["y"], dim_size=3), "divisor"),
    (operator("NCHW2NHWC", ["z"], ["y"]), "expected a batch"), (operator("Shape", ["x"], ["y"], axes=[3]), "axis 3"),
])
def test_refusals(op: Any, message: str, backend: str) -> None:
    with pytest.raises(OperatorError, match=message):
        evaluate(op, {"x": X, "z": numbers(4, 3), "i": np.zeros((2, 3, 4), I64)}, ["y"], backend)


@pytest.mark.parametrize(("type", "floats", "others", "outputs", "arguments"), DERIVATIVES)
def test_shapes_known_before_the_run_are_right(type: str, floats: Any, others: Any, outputs: int,
                                               arguments: dict[str, Any]) -> None:
    if registry.find(type).shape is None:
        pytest.skip("its shape depends on values")
    feeds = {f"x{k}": value for k, value in enumerate([*floats, *others])}
    op = operator(type, list(feeds), [f"y{k}" for k in range(outputs)], **arguments)
    types = infer_operator(op, [TensorType(str(v.dtype), v.shape) for v in feeds.values()])
    for inferred, value in zip(types, evaluate(op, feeds).values()):
        assert inferred.dtype in (None, str(value.dtype))
        assert inferred.dims is None or len(inferred.dims) == value.ndim
        assert all(a in (None, b) for a, b in zip(inferred.dims or (), value.shape))
