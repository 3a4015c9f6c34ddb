"""Operators for these tests alone, and a fresh workspace on every backend."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from netgrad.graph import registry
from netgrad.graph.arguments import REQUIRED, Float, Int
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.rules import Rule, emits, no_gradient
from netgrad.graph.shapes import same_as
from netgrad.runtime import backends
from netgrad.runtime.workspace import Workspace


@pytest.fixture(params=backends.available())
def ws(request: pytest.FixtureRequest) -> Workspace:
    """A workspace of its own, per backend."""
    return Workspace(backend=request.param)


@pytest.fixture(params=backends.available())
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def test_operators() -> Iterator[None]:
    """Declares the operators whose names begin with ``T``, for one test."""
    before = set(registry._declared)

    class TAffine(Operator):
        """Y = scale X + shift."""

        inputs = [In("X"), In("shift", optional=True)]
        outputs = [Out("Y"), Out("doubled", optional=True)]
        arguments = [Float("scale", 1.0)]
        inplace = {(0, 0)}
        shape = same_as(0)
        gradient = emits("TAffineGradient", "GO0", "GI0")

        def kernel(xp, X, shift, *, scale):
            Y = X * scale if shift is None else X * scale + shift
            return Y, Y * 2

    class TAffineGradient(Operator):
        """dX = scale dY."""

        inputs = [In("dY")]
        outputs = [Out("dX")]
        inplace = {(0, 0)}
        arguments = [Float("scale", 1.0)]

        def kernel(xp, dY, *, scale):
            return dY * scale

    class TWrongRule(Operator):
        """Y = X X, with a gradient that forgets the factor 2."""

        inputs = [In("X")]
        outputs = [Out("Y")]

        def kernel(xp, X):
            return X * X

        def gradient(rule: Rule) -> None:
            rule.emit("TAffine", [rule.GO(0)], [rule.GI(0)])

    class TNoFlow(Operator):
        """Y = 2 X, with a rule that says nothing flows back."""

        inputs = [In("X")]
        outputs = [Out("Y")]
        gradient = no_gradient

        def kernel(xp, X):
            return X * 2

    class TFirst(Operator):
        """The first entry: changes the shape, also in place."""

        inputs = [In("X")]
        outputs = [Out("Y")]
        inplace = {(0, 0)}
        inplace_keeps_shape = True

        def kernel(xp, X):
            return X[:1]

    class TDraw(Operator):
        """Random numbers."""

        outputs = [Out("Y")]
        arguments = [Int("n", 4)]
        effects = {"random"}

        def kernel(xp, *, n, op):
            return xp.from_numpy(op.rng.uniform((n,)))

    class TCount(Operator):
        """How often this operator of this net has run."""

        outputs = [Out("Y")]
        effects = {"state"}

        def kernel(xp, *, op):
            op.state["count"] = op.state.get("count", 0) + 1
            return xp.asarray(op.state["count"])

    class TUpper(Operator):
        """Strings in capitals, and how many there are."""

        inputs = [In("S")]
        outputs = [Out("T"), Out("count", optional=True)]
        host = True

        def kernel(xp, S):
            return np.array([s.upper() for s in S.ravel()], dtype=object).reshape(S.shape), np.array(S.size)

    class TRows(Operator):
        """Rows by index, of numbers or strings."""

        inputs = [In("X"), In("index")]
        outputs = [Out("Y")]
        strings = True

        def kernel(xp, X, index):
            return X[index]

    class TFails(Operator):
        """Fails in foreseen (0) and unforeseen (1) ways, by breaking its contract (2, 3), by an interrupt (4)."""

        inputs = [In("X")]
        outputs = [Out("Y")]
        arguments = [Int("how", REQUIRED)]

        def kernel(xp, X, *, how):
            if how == 0:
                raise ValueError("X has 3 entries, expected 4; pad it")
            if how == 1:
                return {}["nothing"]
            if how == 4:
                raise KeyboardInterrupt
            return None if how == 2 else 3.5

    class TNoKernel(Operator):
        inputs = [In("X")]
        outputs = [Out("Y")]

    yield
    for name in set(registry._declared) - before - set(registry.family_index()):
        registry.unregister(name)
