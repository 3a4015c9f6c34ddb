"""Quantized rows: what is lost by packing, bags over packed tables, the format of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.graph.operator import CreateOperator as operator
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import check_gradient, evaluate
from netgrad.runtime.workspace import Workspace

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "torch"])
X = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
X[4] = 3.0  # a row without any range
STEP = (X.max(1) - X.min(1))[:, None]


@BACKENDS
@pytest.mark.parametrize(("there", "back", "bits", "slack"), [
    ("FloatToFused8BitRowwiseQuantized", "Fused8BitRowwiseQuantizedToFloat", 8, 1e-5),
    ("FloatToFused8BitRowwiseQuantizedHalfScaleBias", "Fused8BitRowwiseQuantizedHalfScaleBiasToFloat", 8, 3e-3),
    ("FloatToFused4BitRowwiseQuantized", "Fused4BitRowwiseQuantizedToFloat", 4, 3e-3),
    ("FloatToFused2BitRowwiseQuantized", "Fused2BitRowwiseQuantizedToHalf", 2, 3e-3),
    ("FloatToFusedRandRowwiseQuantized", "FusedRandRowwiseQuantizedToFloat", 4, 1e-5),
])
def test_a_row_comes_back_within_half_a_step(there: str, back: str, bits: int, slack: float, backend: str) -> None:
    rand = {"bitwidth": bits, "random": False} if "Rand" in there else {}
    ops = [operator(there, ["x"], ["packed"], **rand), operator(back, ["packed"], ["y"])]
    found = evaluate(ops, {"x": X}, backend=backend)
    half_step = STEP / (2 ** bits - 1) / 2
    assert (np.abs(found["y"] - X) <= half_step + slack).all()
    width = X.shape[1] * bits // 8
    assert found["packed"].dtype == np.uint8 and width < found["packed"].shape[1] <= width + 10


def test_random_rounding_is_right_on_average() -> None:
    x = np.tile(np.array([[0.0, 0.3, 1.0]], np.float32), (4000, 1))
    ops = [operator("FloatToFusedRandRowwiseQuantized", ["x"], ["packed"], bitwidth=1, random=True),
           operator("FusedRandRowwiseQuantizedToFloat", ["packed"], ["y"])]
    found = evaluate(ops, {"x": x}, backend="numpy")["y"]
    assert set(found[:, 1].round(3)) == {0, 1} and abs(found[:, 1].mean() - 0.3) < 0.03


def test_the_bytes_of_a_row() -> None:
    """Numbers from the lowest bits up, then scale and bias: 1.0 and -1.0, as float32 and as float16."""
    x = np.array([[-1.0, 0.0, 1.0, 2.0]], np.float32)
    found = evaluate([operator("FloatToFused2BitRowwiseQuantized", ["x"], ["two"]),
                      operator("FloatToFused2BitFakeRowwiseQuantized", ["x"], ["fake"])], {"x": x}, backend="numpy")
    assert found["two"].tobytes() == bytes([0b11100100]) + np.array([1, -1], np.float16).tobytes()
    assert found["fake"].tobytes() == bytes([0, 1, 2, 3]) + np.array([1, -1], np.float32).tobytes()


@BACKENDS
@pytest.mark.parametrize("bits", [8, 4, 2])
def test_bags_over_packed_tables_equal_bags_over_floats(bits: int, backend: str) -> None:
    feeds = {"x": X, "i": np.array([5, 0, 0, 2]), "l": np.array([3, 0, 1], np.int32),
             "w": np.array([1, -2, 0.5, 3], np.float32), "old": np.array([7, 1, 1, 3]),
             "map": np.array([-1, 0, -1, 2, -1, -1, -1, 5], np.int32)}
    pack, unpack = f"FloatToFused{bits}BitRowwiseQuantized", f"Fused{bits}BitRowwiseQuantizedToFloat"
    ops = [operator(pack, ["x"], ["t"]), operator(unpack, ["t"], ["f"])]
    for kind, weights in (("Sum", []), ("Mean", []), ("WeightedSum", ["w"])):
        ops += [operator(f"SparseLengths{kind}", ["f", *weights, "i", "l"], [f"{kind}_plain"]),
                operator(f"SparseLengths{kind}Fused{bits}BitRowwise", ["t", *weights, "i", "l"], [f"{kind}_fused"]),
                operator(f"SparseLengths{kind}{bits}BitRowwiseSparse", ["t", *weights, "old", "l", "map"],
                         [f"{kind}_pruned"])]
    found = evaluate(ops, feeds, backend=backend)
    for kind in ("Sum", "Mean", "WeightedSum"):
        for other in ("fused", "pruned"):
            np.testing.assert_allclose(found[f"{kind}_{other}"], found[f"{kind}_plain"], rtol=1e-5, atol=1e-6)


@BACKENDS
def test_pruned_rows_add_nothing(backend: str) -> None:
    feeds = {"i": np.array([0, 2, 1]), "l": np.array([2, 1], np.int32), "map": np.array([0, -1, 1], np.int32),
             "w": np.array([1, 2, 3], np.float32)}
    op = operator("SparseLengthsSumSparseLookup", ["i", "l", "map", "w"], ["j", "m", "v"])
    found = evaluate(op, feeds, backend=backend)
    assert [found[name].tolist() for name in "jmv"] == [[0, 1], [2, 0], [1, 2]]


@pytest.mark.parametrize(("type", "inputs"), [
    ("Fused8BitRowwiseQuantizedToFloat", [X]), ("Fused4BitRowwiseQuantizedToFloat", [np.zeros((2, 3), np.uint8)]),
    ("FloatToFused2BitRowwiseQuantized", [X[:, :3]]),
    ("FusedRandRowwiseQuantizedToFloat", [np.zeros((1, 12), np.uint8)]),
    ("Rowwise8BitQuantizedToFloat", [np.zeros((2, 3), np.uint8), X[:3, :2]]),
    ("SparseLengthsSumFused8BitRowwise", [np.zeros((2, 9), np.uint8), np.array([2]), np.array([1], np.int32)]),
])
def test_malformed_rows_are_refused(type: str, inputs: list[np.ndarray]) -> None:
    feeds = {f"x{k}": value for k, value in enumerate(inputs)}
    with pytest.raises(OperatorError):
        evaluate(operator(type, list(feeds), ["y"]), feeds, backend="numpy")


def test_codebook_has_a_derivative() -> None:
    feeds = {"book": np.array([0.5, -1.0, 2.0]), "a": np.array([[0, 2], [2, 2]], np.uint8),
             "b": np.array([2], np.uint8)}
    check_gradient(operator("QuantDecode", list(feeds), ["x", "y"]), feeds, ["x", "y"], ["book"])


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize(("layer", "arguments"), [
    ("Conv", {"kernel": 2, "pad": 1, "order": "NHWC"}), ("AveragePool", {"kernel": 2, "order": "NHWC"}),
    ("MaxPool", {"kernel": 2, "stride": 2, "order": "NHWC"}), ("Sigmoid", {}),
])
def test_8_bits_come_close_to_floats(layer: str, arguments: dict[str, Any], backend: str) -> None:
    rng = np.random.default_rng(0)
    feeds = {n: rng.normal(size=shape).astype(np.float32) for n, shape in (("x", (1, 4, 5, 3)), ("w", (2, 2, 2, 3)))}
    names = ["x", "w"] if layer == "Conv" else ["x"]
    expected = evaluate(operator(layer, names, ["y"], **arguments), feeds, backend=backend)["y"]
    scale, zero = (1 / 256, 0) if layer == "Sigmoid" else (0.05, 128)
    like = {"Y_scale": scale, "Y_zero_point": zero}
    ops = [operator("Int8Quantize", [n], [f"{n}8"], Y_scale=0.03, Y_zero_point=128) for n in names]
    ops += [operator(f"Int8{layer}", [f"{n}8" for n in names], ["y8"], **arguments, **like),
            operator("Int8Dequantize", ["y8"], ["y"])]
    found = evaluate(ops, feeds, ["y"], backend=backend)["y"]
    assert found.shape == expected.shape
    step = scale if layer != "Conv" else scale + 12 * 3 * 0.03  # each of 12 products is off by up to 3 half steps
    assert np.abs(found - np.clip(expected, -zero * scale, (255 - zero) * scale)).max() <= step + 0.03


def test_floats_are_no_8_bit_tensors() -> None:
    with pytest.raises(OperatorError, match="no 8-bit tensor; make one with Int8Quantize"):
        evaluate(operator("Int8Relu", ["x"], ["y"]), {"x": np.ones(2, np.float32)})


VALUES = {"one sign": np.abs(X), "both signs": X, "an outlier": np.append(X, np.float32(60)),
          "nothing but zeros": np.zeros(3, np.float32), "nothing": np.zeros(0, np.float32)}


def coded(x: np.ndarray, kind: str, preserve_sparsity: bool, backend: str) -> dict[str, Any]:
    """x by way of the bytes that the scheme chooses for it, and those bytes."""
    ops = [operator("Int8QuantSchemeBlobFill", [], ["scheme"], quantization_kind=kind,
                    preserve_sparsity=preserve_sparsity),
           operator("Int8GenQuantParams", ["x", "scheme"], ["parameters"]),
           operator("Int8Quantize", ["x", "parameters"], ["bytes"]), operator("Int8Dequantize", ["bytes"], ["y"])]
    workspace = Workspace(backend=backend)
    workspace.feed_blob("x", x)
    for op in ops:
        workspace.run_operator(op)
    return {"y": workspace.fetch_blob("y"), "bytes": workspace.fetch_int8_blob("bytes")}


@BACKENDS
@pytest.mark.parametrize("preserve_sparsity", [False, True])
@pytest.mark.parametrize("values", VALUES)
def test_the_smallest_and_largest_value_lose_half_a_step(values: str, preserve_sparsity: bool, backend: str) -> None:
    x = VALUES[values]
    found = coded(x, "MIN_MAX_QUANTIZATION", preserve_sparsity, backend)
    assert (np.abs(found["y"] - x) <= found["bytes"].scale * (0.5 + 1e-5)).all()
    if preserve_sparsity and values in ("both signs", "an outlier"):
        assert found["bytes"].zero_point == 128


@pytest.mark.parametrize("preserve_sparsity", [False, True])
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("kind", ["L2_MIN_QUANTIZATION", "L2_MIN_QUANTIZATION_APPROX"])
def test_the_least_squared_error_is_not_above_that_of_the_whole_range(
        kind: str, values: str, preserve_sparsity: bool) -> None:
    x = VALUES[values]
    error, whole = (((coded(x, k, preserve_sparsity, "numpy")["y"] - x) ** 2).sum()
                    for k in (kind, "MIN_MAX_QUANTIZATION"))
    assert error <= whole * 1.05


@pytest.mark.parametrize("preserve_sparsity", [False, True])
def test_99_of_100_values_are_kept_and_outliers_are_not(preserve_sparsity: bool) -> None:
    x = np.append(np.random.default_rng(1).uniform(-1, 2, 5000), [-50, 90, 91]).astype(np.float32)
    found = coded(x, "P99_QUANTIZATION", preserve_sparsity, "numpy")
    step = found["bytes"].scale
    assert 0.985 < (np.abs(found["y"] - x) <= step * 0.51).mean() < 1 and step < 0.02


@BACKENDS
def test_schemes_and_parameters_that_are_none_are_refused(backend: str) -> None:
    with pytest.raises(OperatorError, match="quantization_kind is 'BEST'"):
        evaluate(operator("Int8QuantSchemeBlobFill", [], ["s"], quantization_kind="BEST"), {}, backend=backend)
    with pytest.raises(OperatorError, match="Int8QuantSchemeBlobFill"):
        evaluate(operator("Int8GenQuantParams", ["x", "x"], ["q"]), {"x": X}, backend=backend)
    with pytest.raises(OperatorError, match="Int8GenQuantParams"):
        evaluate(operator("Int8Quantize", ["x", "x"], ["q"]), {"x": X}, backend=backend)
    with pytest.raises(OperatorError, match="not finite"):
        coded(np.array([1, np.inf], np.float32), "P99_QUANTIZATION", False, backend)
