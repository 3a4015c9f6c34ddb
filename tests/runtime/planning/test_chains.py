"""Chains of tiny operators: the same values as one by one, whoever looks, and plainly where they do not fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_nets import net, op

from netgrad.runtime import backends
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.planning import chains, planner
from netgrad.runtime.workspace import Workspace

rng = np.random.default_rng(11)
UNARY = sorted(t for t, form in chains._FORMS.items() if "{1}" not in form)
BINARY = sorted(set(chains._FORMS) - set(UNARY))
#: rounded correctly everywhere: the same to the last bit
EXACT = {"Relu", "Negative", "Abs", "Sqr", *BINARY}
INPLACE = {"Relu", "Tanh", "Sqr", "Negative", "Add", "Sub", "Mul", "Sum", "Exp"}


def f(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def created(name, feeds, ops, passes):
    ws = Workspace(backend=name)
    for blob, value in feeds.items():
        ws.feed_blob(blob, value)
    with planner.passes(passes):
        bound = ws.create_net(net("n", *ops))
    return ws, bound


def both(name, feeds, ops, runs=2):
    (plain, _), (fast, bound) = (created(name, feeds, ops, passes) for passes in ("none", "chains"))
    for _ in range(runs):
        plain.run_net("n")
        fast.run_net("n")
    same(plain, fast)
    return plain, fast, bound


def same(plain, fast, rtol=1e-5, atol=1e-6):
    assert plain.names() == fast.names()
    for blob in plain.names():
        expected, found = plain.fetch_blob(blob), fast.fetch_blob(blob)
        assert expected.dtype == found.dtype
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol, err_msg=blob)


@st.composite
def programs(draw):
    """Elementwise operators, some in place, over a few blobs."""
    names, ops = ["a", "b"], []
    for k in range(draw(st.integers(8, 20))):
        first = draw(st.sampled_from(names[-4:]))
        if draw(st.booleans()):
            type, inputs = draw(st.sampled_from(sorted(EXACT.intersection(UNARY)))), first
        else:
            type, inputs = draw(st.sampled_from(BINARY)), f"{first} {draw(st.sampled_from(names))}"
        into = draw(st.sampled_from([first, f"y{k}"])) if type in INPLACE and inputs.split()[1:] != [first] else f"y{k}"
        ops.append(op(type, inputs, into))
        names.append(into)
    return ops


@settings(max_examples=40, deadline=None)
@given(programs(), st.sampled_from(backends.available()), st.sampled_from([(4,), (2, 3), (1,), (40, 40)]))
def test_random_chains_are_as_one_by_one(ops, name, shape):
    plain, fast, _ = both(name, {"a": f(*shape), "b": np.abs(f(*shape))}, ops)
    same(plain, fast, 0, 0)


def relus(n=10):
    return [op("Relu", f"r{k}" if k else "a", f"r{k + 1}") for k in range(n)]


@pytest.mark.parametrize("type", sorted(chains._FORMS))
@pytest.mark.parametrize("name", backends.available())
def test_values_at_the_borders(type, name):
    odd = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3e38, 1e-40], np.float32)
    second = " b" if type in BINARY else ""
    *_, bound = both(name, {"a": odd, "b": odd[::-1].copy()}, [op(type, f"a{second}", f"y{k}") for k in range(8)])
    assert [note.by for note in bound.plan.notes] == ["chains"]


@pytest.mark.parametrize("name", backends.available())
def test_what_nobody_looks_at_is_numpys_and_what_somebody_does_stays(name):
    plain, fast, bound = both(name, {"a": f(4)}, relus())
    (note,) = bound.plan.notes
    assert note.positions == tuple(range(10))
    fetched = fast.fetch_blob("r5")
    kept = fast.values["r7"]
    before = fast.backend.to_numpy(kept).copy()
    fast.feed_blob("r3", np.zeros(2, np.float32))
    assert fast.fetch_blob("r3").shape == (2,)
    x = f(6)
    for ws in (plain, fast):
        ws.feed_blob("a", x)
        ws.run_net("n")
    assert np.array_equal(fast.backend.to_numpy(kept), before) and fetched.shape == (4,)
    same(plain, fast)


@pytest.mark.parametrize("name", backends.available())
@pytest.mark.parametrize("value", [f(3, 1000), f(4).astype("float64"), np.float32(2.0), f(0, 3)], ids=str)
def test_other_sizes_and_types_run_plainly(name, value):
    both(name, {"a": value}, relus())


@pytest.mark.parametrize("name", backends.available())
def test_errors_are_those_of_the_operators(name):
    ops = [*relus(), op("Add", "r2 b", "s"), *relus()[:3]]
    plain, fast, _ = both(name, {"a": f(4), "b": f(4)}, ops)
    short = f(3)
    for ws in (plain, fast):
        ws.feed_blob("b", short)
        with pytest.raises(OperatorError, match="Add"):
            ws.run_net("n")
        assert ws.last_failed == 10
    same_names = [n for n in plain.names() if n != "s"]
    assert all(np.allclose(plain.fetch_blob(n), fast.fetch_blob(n)) for n in same_names)
    for ws in (plain, fast):
        ws.feed_blob("b", np.array([[1.0], [2.0]], np.float32))
    try:
        plain.run_net("n")
    except OperatorError:
        with pytest.raises(OperatorError):
            fast.run_net("n")
    else:
        fast.run_net("n")
    same(plain, fast)
    for ws in (plain, fast):
        ws.remove_blob("a")
        with pytest.raises(OperatorError, match="no blob 'a'"):
            ws.run_net("n")


@pytest.mark.parametrize("name", backends.available())
def test_operators_outside_see_what_a_chain_made(name):
    ops = [*relus(), op("TAffine", "r4", "t", scale=2.0), op("TAffine", "r10", "r10", scale=3.0), *relus()]
    both(name, {"a": f(4)}, ops, runs=3)
