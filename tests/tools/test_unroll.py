"""Unrolling nets with control flow."""

from __future__ import annotations

import numpy as np
import pytest

from netgrad.control.operators import add_if_op, add_while_op
from netgrad.graph.net import Net
from netgrad.runtime.workspace import Workspace
from netgrad.tools.unroll import unroll


def program() -> Net:
    """While i < n: h = 2 p; if p < limit: p = p + h, else: p = p - 1."""
    grow, shrink, body, test = Net("grow"), Net("shrink"), Net("body"), Net("test")
    grow.Add(["p", "h"], "p")
    shrink.Sub(["p", "unit"], "p")
    body.Scale("p", "h", scale=2.0)
    body.LT(["p", "limit"], "small")
    add_if_op(body, "small", {"p", "h", "small", "unit", "limit"}, grow, shrink)
    body.Add(["i", "one"], "i")
    test.LT(["i", "n"], "go")
    net = Net("program")
    add_while_op(net, "go", {"p", "i", "n", "one", "unit", "limit"}, body, test)
    net.Copy("p", "out")
    return net


def feeds(n: int) -> dict[str, np.ndarray]:
    whole = {"i": np.array([0]), "n": np.array([n]), "one": np.array([1])}
    return {**whole, "p": np.array([1.0]), "unit": np.array([1.0]), "limit": np.array([5.0])}


def value(net: object, values: dict[str, np.ndarray], backend: str) -> float:
    workspace = Workspace(backend=backend)
    for name, array in values.items():
        workspace.feed_blob(name, array)
    workspace.run_net_once(net)
    return float(workspace.fetch_blob("out")[0])


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize(("n", "types", "expected"), [
    (0, "LT Copy", 1.0), (1, "LT Scale LT Add Add LT Copy", 3.0),
    (3, "LT Scale LT Add Add LT Scale LT Add Add LT Scale LT Sub Add LT Copy", 8.0)])
def test_the_unrolled_net_does_what_was_done(backend, n, types, expected):
    flat = unroll(program(), feeds(n), backend=backend)
    assert [op.type for op in flat.op if op.type != "ConstantFill"] == types.split()
    assert value(flat, feeds(n), backend) == expected == value(program(), feeds(n), backend)


def test_local_blobs_of_each_round_have_names_of_their_own():
    flat = unroll(program(), feeds(3), backend="numpy")
    local = [op.output[0] for op in flat.op if op.type == "Scale"]
    assert len(set(local)) == 3 and all(name.startswith("h_unrolled_") for name in local)


def test_a_loop_that_does_not_end_is_given_up():
    with pytest.raises(ValueError, match="ran 4 rounds"):
        unroll(program(), feeds(100), backend="numpy", most=4)
