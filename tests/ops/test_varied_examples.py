"""The example of every declaration, varied: other dtypes, batches, sizes, axes, NaN (see `varied_examples`).

NumPy and torch agree; what is computed has the inferred shapes and dtypes, shares storage as declared, and writes
into no input; and where Caffe2 computes, ours is equal (`data/make_answers.py` asked it) or one clear error. A dtype
that Caffe2 takes is never refused.
"""

from __future__ import annotations

import functools
import gzip
import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from varied_examples import arguments_with_negative_axes, declarations, of_random_shapes, variations

from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example
from netgrad.graph.operator import CreateOperator
from netgrad.graph.rules import Forbidden, NoGradient
from netgrad.graph.shapes import TensorType, same_as
from netgrad.runtime import contract, examples, random
from netgrad.runtime.errors import KernelError, NetError, OperatorError
from netgrad.runtime.numeric import check_gradient
from netgrad.runtime.workspace import Workspace

BACKENDS = ["numpy", "torch"]
DECLARED = declarations()

#: what Caffe2 writes there is memory that it never set or read beyond the end
STRAY = {
    "Accumulate", "Iter", "LastNWindowCollector", "MergeMultiListFeatureTensors",
    "MergeMultiListFeatureTensorsGradient", "MergeMultiMapFeatureTensors", "MergeMultiMapFeatureTensorsGradient",
    "MergeMultiScalarFeatureTensorsGradient", "MergeSingleListFeatureTensors", "MergeSingleListFeatureTensorsGradient",
    "MergeSingleMapFeatureTensorsGradient", "RowWiseCounter", "SparseLpRegularizer", "CopyRowsToTensorGradient",
}
#: where Caffe2 does otherwise: operator -> variations and why
OTHERWISE = {
    "Adagrad": "NaN: a parameter does not enter the moment without weight_decay",
    "AveragePool2DGradient": "mismatched sizes: nothing is read from Y",
    "AveragePool3DGradient": "mismatched sizes: nothing is read from Y",
    "AveragePoolGradient": "mismatched sizes: nothing is read from Y",
    "BatchBucketize": "NaN lies in no bucket; in Caffe2 in one that depends on the search",
    "CTCBeamSearchDecoder": "no time steps: the empty sequence has probability 1; a NaN has no best beam",
    "CollectAndDistributeFpnRpnProposals": "NaN: order of scores",
    "CollectRpnProposals": "NaN: order of scores",
    "DenseVectorToIdList": "NaN is not 0, and no id",
    "FCTransposedGradient": "no columns: the bias has a gradient all the same",
    "FlexibleTopK": "NaN counts as greatest",
    "FloatToFused2BitRowwiseQuantized": "NaN has no code",
    "FloatToFused4BitRowwiseQuantized": "NaN has no code",
    "FloatToFused2BitFakeRowwiseQuantized": "NaN has no code",
    "FloatToFused4BitFakeRowwiseQuantized": "NaN has no code",
    "FloatToFused8BitRowwiseQuantized": "NaN has no code",
    "FloatToFused8BitRowwiseQuantizedHalfScaleBias": "NaN has no code",
    "HSoftmaxSearch": "NaN: names of the words are given all the same",
    "HalfFloatToFused8BitRowwiseQuantized": "NaN has no code",
    "HalfFloatToFused8BitRowwiseQuantizedHalfScaleBias": "NaN has no code",
    "HalfToFused2BitFakeRowwiseQuantized": "NaN has no code",
    "HalfToFused2BitRowwiseQuantized": "NaN has no code",
    "HalfToFused4BitFakeRowwiseQuantized": "NaN has no code",
    "HalfToFused4BitRowwiseQuantized": "NaN has no code",
    "LRNGradient": "NaN in Y: Y is not read",
    "LeakyReluGradient": "NaN in Y lets dY through",
    "LengthsTopK": "NaN counts as greatest",
    "MaxPool1DGradient": "NaN in dY stays where the maximum was",
    "MaxPool2DGradient": "NaN in dY stays where the maximum was",
    "MaxPool3DGradient": "NaN in dY stays where the maximum was",
    "MaxPoolGradient": "NaN in dY stays where the maximum was",
    "MultiClassAccuracy": "NaN is no right answer",
    "PReluGradient": "an empty Y: it is not read",
    "PairWiseLoss": "no rows: one session all the same; a NaN label is above none",
    "PairWiseLossGradient": "a NaN label is above none",
    "RMACRegions": "no channels: the regions are the same",
    "ReluGradient": "NaN in Y lets dY through",
    "RoIPool": "NaN is the maximum",
    "StringJoin": "8-bit numbers are written as numbers, not as characters",
    "TT": "a batch of several rows: Caffe2 mixes the rows",
    "ThresholdedReluGradient": "NaN in Y lets dY through, and in dY does not pass where Y is 0",
    "TopK": "NaN counts as greatest",
    "VariableLengthSequencePadding": "no columns: the rank stays",
    "WallClockTime": "the time",
}
#: dtypes that Caffe2 takes without looking at them
TAKEN_BLINDLY = {"Iter", "RowWiseCounter"}


#: they take other ranks or more rows than they read, as Caffe2 does, and then have no derivative of that shape
NO_DERIVATIVE_THERE = {"DotProductGradient", "MergeMultiMapFeatureTensors", "SeluGradient", "TTSparseLengthsSum",
                       "UnpackRNNSequence", "UnpackSegments"}


@functools.cache
def answers() -> dict[str, dict[str, Any]]:
    path = Path(__file__).parent / "data" / "caffe2_answers.json.gz"
    found: dict[str, dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def every(found: Any) -> Any:
    return pytest.mark.parametrize("declaration", list(found), ids=[d.type for d in found])


def outcome(op: Any, feeds: dict[str, Any], backend: str) -> tuple[str, Any]:
    """Computed (with the outputs), refused or unclear (with the words)."""
    workspace = Workspace(backend=backend)
    for name, value in feeds.items():
        workspace.feed_blob(name, value)
    try:
        with random.seeded(0):
            workspace.run_operator(op)
    except KernelError as error:
        return ("unclear" if error.__cause__ is not None else "refused"), str(error)
    except NetError as error:
        return "refused", str(error)
    values = [workspace.fetch_blob(name) if name else None for name in op.output]
    return "computed", [np.array(v, dtype=object) if isinstance(v, bytes) and b"C++ native class" not in v else v
                        for v in values]


def is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def alike(a: Any, b: Any, keeps_nan: bool = False) -> bool:
    """Whether two outputs agree; with ``keeps_nan`` the first may be NaN where the second is not."""
    if not is_array(a) or not is_array(b):
        return is_array(a) == is_array(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind != "f":
        return a.tolist() == b.tolist()
    rtol, atol = {2: (2e-2, 2e-3), 4: (1e-3, 1e-5), 8: (1e-6, 1e-8)}[a.dtype.itemsize]
    x, y = a.astype(np.float64), b.astype(np.float64)
    return bool(np.all(np.isclose(x, y, rtol, atol, equal_nan=True) | (keeps_nan & np.isnan(x))))


def told(entry: Any) -> Any:
    """One output as Caffe2 gave it; None where it was no tensor."""
    if entry is None or (entry[0] == "string" and any("C++ native class" in x for x in entry[2])):
        return None
    dtype, shape, values = entry
    if dtype == "string":
        return np.array([x.encode("latin-1") for x in values], dtype=object).reshape(shape)
    return np.array(values, dtype=dtype).reshape(shape)


def faults(declaration: type[Operator]) -> Iterator[str]:
    """In which ways the variations of an example fall short."""
    known = answers().get(declaration.type, {})
    drawn = "random" in declaration.effects
    for name, op, feeds in variations(declaration):
        numpy, torch = (outcome(op, feeds, backend) for backend in BACKENDS)
        yield from (f"{name}: {words}" for kind, words in (numpy, torch) if kind == "unclear")
        if numpy[0] == torch[0] == "computed":
            if not drawn and declaration.type != "WallClockTime" and not all(map(alike, numpy[1], torch[1])):
                yield f"{name}: NumPy gives {numpy[1]}, torch {torch[1]}"
        elif numpy[0] != torch[0] and "uint16" not in name:  # for which torch has few kernels
            yield f"{name}: one backend computes, the other refuses: {numpy}, {torch}"
        if "uint16" not in name:
            for kind, backend in ((numpy[0], "numpy"), (torch[0], "torch")):
                if kind == "computed" and not name.endswith(" nan"):
                    yield from (f"{name} on {backend}: {x}" for x in contract.violations(op, feeds, backend))
        expected = known.get(name)
        if not isinstance(expected, list):
            continue
        dtype = name.split()[-1]
        if numpy[0] != "computed":
            if dtype in ("float64", "float16", "int32", "int64", "int8", "uint8", "int16", "bool", "is", "end") and \
                    declaration.type not in TAKEN_BLINDLY:
                yield f"{name}: Caffe2 computes, here it is refused: {numpy[1]}"
        elif declaration.type not in STRAY and declaration.type not in OTHERWISE:
            pairs = [(value, want) for value, want in zip(numpy[1], map(told, expected)) if want is not None]
            if drawn:
                pairs = [(np.zeros_like(value), np.zeros_like(want)) for value, want in pairs]
            if not all(alike(value, want, keeps_nan=name.endswith(" nan")) for value, want in pairs):
                yield f"{name}: {[value for value, _ in pairs]}, Caffe2 gives {[want for _, want in pairs]}"


@pytest.mark.filterwarnings("ignore")
@every(DECLARED.values())
def test_variations(declaration: type[Operator], capfd: pytest.CaptureFixture[str], tmp_path: Path,
                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # Print and its like may write
    with np.errstate(all="ignore"):
        assert list(faults(declaration)) == []


def test_the_exceptions_are_needed() -> None:
    assert not STRAY & set(OTHERWISE)
    assert (STRAY | set(OTHERWISE)) <= set(DECLARED)
    assert len(answers()) > 600
    accepted = [n for cases in answers().values() for n, found in cases.items() if isinstance(found, list)]
    assert sum(name == "floats float64" for name in accepted) > 100
    assert sum(name == "floats float16" for name in accepted) > 30


# ---- derivatives


def smooth(feeds: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Values moved a little, so that none are equal to one another."""
    draw = np.random.default_rng(seed)
    return {name: value * (1 + 0.03 * draw.random(value.shape)) if value.dtype.kind == "f" else value
            for name, value in feeds.items()}


def of_other_sizes(declaration: type[Operator]) -> Iterator[tuple[str, Any, dict[str, np.ndarray]]]:
    """Variations with numbers in them, which compute."""
    feeds = examples.feeds(declaration.example)
    plain = {name: value for name, value in feeds.items() if value.dtype != object}
    op = examples.operator(declaration)
    found = [(name, op, {**feeds, **changed}) for name, changed in of_random_shapes(declaration.type, plain)]
    for name, arguments in arguments_with_negative_axes(declaration):
        found.append((name, CreateOperator(declaration.type, list(declaration.example.input_names),
                                           list(declaration.example.outputs), **arguments), feeds))
    for k, (name, op, changed) in enumerate(found):
        changed = smooth(changed, k)
        if all(v.size for v in changed.values()) and sum(v.size for v in changed.values()) < 60 and \
                any(v.shape != feeds[n].shape for n, v in changed.items()) and \
                outcome(op, changed, "numpy")[0] == "computed":
            yield name, op, changed


def differentiable() -> list[type[Operator]]:
    return [d for d in DECLARED.values() if d.gradient is not None and d.example.wrt != ()
            and d.type not in NO_DERIVATIVE_THERE
            and not isinstance(d.gradient, (Forbidden, NoGradient))
            and any(examples.array(v).dtype.kind == "f" for v in d.example.feeds.values())
            and not any(isinstance(v, TensorType) for v in d.example.outputs.values())
            and any(v is not None and examples.array(v).dtype.kind == "f" for v in d.example.outputs.values())]


def check_gradients(declaration: type[Operator], most: int) -> None:
    example = declaration.example
    for _, (name, op, feeds) in zip(range(most), of_other_sizes(declaration)):
        try:
            check_gradient(op, feeds, ys=example.ys, wrt=example.wrt, rtol=1e-4, subgradient=True)
        except OperatorError as error:
            raise AssertionError(f"{name}: its gradient is refused where it computes") from error


@pytest.mark.filterwarnings("ignore")
@every(differentiable())
def test_gradients_at_other_sizes(declaration: type[Operator]) -> None:
    check_gradients(declaration, 1)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
@every(differentiable())
def test_gradients_at_many_other_sizes(declaration: type[Operator]) -> None:
    check_gradients(declaration, 99)


# ---- the test of the tests


class _Wrong(Operator, abstract=True):
    """Y = X, and it breaks its promises in one way."""

    inputs = [In("X", "float")]
    outputs = [Out("Y", "like X")]
    shape = same_as(0)
    example = Example({"X": [[1.0, 2.0]]}, {"Y": [[1.0, 2.0]]})


def test_a_broken_declaration_is_seen() -> None:
    from netgrad.graph import registry

    def shares(xp: Any, X: Any) -> Any:
        return X

    def float32_alone(xp: Any, X: Any) -> Any:
        return xp.astype(X, xp.float32)

    def other_shape(xp: Any, X: Any) -> Any:
        return X[:1, ...] + 0

    def by_backend(xp: Any, X: Any) -> Any:
        return X + (1 if "torch" in repr(xp) else 0)

    def unclear(xp: Any, X: Any) -> Any:
        return X + {}[X.shape] if X.shape[0] > 1 else X + 0

    def writes(xp: Any, X: Any) -> Any:
        X[...] = 0
        return X + 0

    for kernel, words in ((shares, "storage"), (float32_alone, "dtype|says"), (other_shape, "says"),
                          (by_backend, "torch"), (unclear, "cannot compute"), (writes, "writes")):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = type("_BrokenOnPurpose", (_Wrong,), {"kernel": kernel}, replace=True)
                found = list(faults(made))
        finally:
            registry.unregister("_BrokenOnPurpose")
        assert any(re.search(words, fault) for fault in found), (kernel.__name__, found)
