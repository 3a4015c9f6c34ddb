"""Kernels keep their contract, on every backend; what breaks it is found."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from runtime_nets import op

from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.shapes import same_as
from netgrad.proto import caffe2_pb2
from netgrad.runtime import backends
from netgrad.runtime.contract import violations
from netgrad.runtime.errors import NoKernel

#: operators with inputs, as the original ran them; lies beside the repository where its checks run
CASES = Path(__file__).parents[3] / "shared" / "oracle" / "operator_cases.zip"


@pytest.fixture(autouse=True)
def breakers(test_operators):
    class TWrites(Operator):
        """Writes into its input."""

        inputs = [In("X")]
        outputs = [Out("Y")]

        def kernel(xp, X):
            X[...] = 0
            return X + 1

    class TView(Operator):
        """Returns a view of its input."""

        inputs = [In("X")]
        outputs = [Out("Y")]

        def kernel(xp, X):
            return X[1:]

    class TViewSaid(TView):
        shares = {(0, 0)}

    class TOtherShape(Operator):
        """Makes another shape and dtype than it says."""

        inputs = [In("X")]
        outputs = [Out("Y")]
        shape = same_as(0)

        def kernel(xp, X):
            return xp.astype(X[:1], xp.float64)


X = np.array([1, 2, 3], np.float32)


def test_each_violation_is_told_apart(backend):
    assert violations(op("TAffine", "x", "y"), {"x": X}, backend) == []
    assert violations(op("TViewSaid", "x", "y"), {"x": X}, backend) == []
    (writes,) = violations(op("TWrites", "x", "y"), {"x": X}, backend)
    assert "writes into its input 'x'" in writes
    (view,) = violations(op("TView", "x", "y"), {"x": X}, backend)
    assert "returns storage of input 0" in view
    (shape,) = violations(op("TOtherShape", "x", "y"), {"x": X}, backend)
    assert "output 0 is y: float64 (1,); its `shape` says float32 (3,)" in shape


@pytest.mark.skipif(not CASES.exists(), reason="the original's cases are not beside the repository")
@pytest.mark.parametrize("name", backends.available())
def test_every_kernel_keeps_its_contract_on_the_originals_cases(name):
    with zipfile.ZipFile(CASES) as archive:
        cases = json.loads(archive.read("index.json"))
        with np.load(io.BytesIO(archive.read("arrays.npz")), allow_pickle=False) as arrays:
            data = {key: arrays[key] for key in arrays.files}

    def value(entry):
        if "array" in entry:
            return data[entry["array"]]
        strings = np.array([bytes.fromhex(s) for s in entry["strings"]] + [None], dtype=object)[:-1]
        return strings.reshape(entry["shape"])

    found, without_kernel, checked = Counter(), set(), 0
    for case in cases:
        if case["raises"]:
            continue
        definition = caffe2_pb2.OperatorDef.FromString(bytes.fromhex(case["op"]))
        try:
            found.update(violations(definition, {e["name"]: value(e) for e in case["inputs"]}, name))
            checked += 1
        except NoKernel:
            without_kernel.add(case["type"])
    assert not found, "\n".join(found)
    assert checked > 2000 and len(without_kernel) < 40
