"""Updates in place: they are right, they do not copy, and nobody can see that they write."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_nets import net, op

from netgrad.graph import registry
from netgrad.runtime import backends, examples
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.planning import planner, updates
from netgrad.runtime.workspace import Workspace

TYPES = sorted({*updates._DENSE, *updates._ROWS, *updates._SCATTERS})
rng = np.random.default_rng(5)


def f(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def address(ws, name):
    value = ws.values[name]
    return value.ctypes.data if isinstance(value, np.ndarray) else value.data_ptr()


def equal(ws, other, tolerance=1e-6):
    assert ws.names() == other.names()
    for name in ws.names():
        ours, theirs = ws.fetch_blob(name), other.fetch_blob(name)
        if ours.dtype.kind == "f":
            np.testing.assert_allclose(ours, theirs, rtol=10 * tolerance, atol=tolerance, err_msg=name)
        else:
            np.testing.assert_array_equal(ours, theirs, err_msg=name)


def both(name, feeds, *ops, runs=4):
    """The same net run plainly and planned, in two workspaces."""
    made = []
    for passes in ("none", "updates"):
        ws = Workspace(backend=name)
        for blob, value in feeds.items():
            ws.feed_blob(blob, value)
        with planner.passes(passes):
            ws.create_net(net("n", *ops))
        ws.run_net("n", runs)
        made.append(ws)
    equal(*made)
    return made[1]


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", backends.available())
def test_every_update_is_as_the_plain_plan_makes_it_and_keeps_its_storage(type, name):
    declaration = registry.find(type)
    pairs = updates._DENSE.get(type) or updates._ROWS.get(type) or updates._SCATTERS[type]
    made = []
    for passes in ("none", "updates"):
        ws = examples.prepared(declaration, name)
        definition = examples.operator(declaration)
        for i, o in pairs:
            definition.output[o] = definition.input[i]
        with planner.passes(passes):
            created = ws.create_net(net("n", definition))
        ws.run_net("n", 3)
        before = [address(ws, definition.input[i]) for i, _ in pairs]
        ws.run_net("n")
        after = [address(ws, definition.input[i]) for i, _ in pairs]
        assert not created.plan.notes or after == before
        made.append(ws)
    equal(*made)
    assert created.plan.notes or (name == "numpy" and type in ("Adam", "Adagrad", "MomentumSGDUpdate"))


SPARSE = {
    "SparseAdagrad": "p h i g lr", "RowWiseSparseAdagrad": "p r i g lr", "SparseMomentumSGDUpdate": "g h lr p i",
    "SparseAdam": "p h k i g lr it", "RowWiseSparseAdam": "p h r i g lr it", "ScatterWeightedSum": "p one i g lr"}
WRITES = {"SparseAdagrad": "p h", "RowWiseSparseAdagrad": "p r", "SparseMomentumSGDUpdate": "g h p",
          "SparseAdam": "p h k", "RowWiseSparseAdam": "p h r", "ScatterWeightedSum": "p"}


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(SPARSE)), st.lists(st.integers(0, 5), max_size=12), st.sampled_from(["int32", "int64"]),
       st.sampled_from(backends.available()))
def test_rows_named_several_times_are_updated_in_turn(type, rows, dtype, name):
    feeds = {"p": f(6, 3), "h": abs(f(6, 3)), "k": abs(f(6, 3)), "r": abs(f(6)), "i": np.array(rows, dtype),
             "g": f(len(rows), 3), "lr": f(1), "one": np.ones(1, np.float32), "it": np.array([2])}
    if type == "ScatterWeightedSum" and not rows:
        return
    both(name, feeds, op(type, SPARSE[type], WRITES[type]))


@pytest.mark.parametrize("name", backends.available())
def test_dense_updates_side_by_side(name):
    feeds = {"lr": np.array([-0.1], np.float32), "one": np.ones(1, np.float32), "it": np.array([0])}
    ops = []
    for k in range(3):
        feeds |= {f"{b}{k}": abs(f(4, k + 1)) for b in ("p", "g", "m", "v")}
        ops += [op("WeightedSum", f"p{k} one g{k} lr", f"p{k}")]
    for k in range(3):
        ops += [op("Adam", f"p{k} m{k} v{k} g{k} lr it", f"p{k} m{k} v{k}")]
    for k in range(3):
        ops += [op("Adagrad", f"p{k} v{k} g{k} lr", f"p{k} v{k}")]
    for k in range(3):
        ops += [op("TAffine", f"g{k}", f"d{k}"), op("Sigmoid", f"d{k}", f"d{k}")]
    for nesterov in (0, 1):
        for k in range(3):
            ops += [op("MomentumSGDUpdate", f"d{k} m{k} lr p{k}", f"d{k} m{k} p{k}", momentum=0.9, nesterov=nesterov)]
    both(name, feeds, *ops)


def updating(ws, **more):
    """A net that updates p, run often enough to write in place."""
    for name, value in {"p": f(5, 2), "g": f(5, 2), "lr": np.array([-0.1], np.float32),
                        "one": np.ones(1, np.float32), **more}.items():
        ws.feed_blob(name, value)
    ws.create_net(net("n", op("WeightedSum", "p one g lr", "p")))
    ws.run_net("n", 2)


def runs_in_place(ws, name="p"):
    before = address(ws, name)
    ws.run_net("n")
    return address(ws, name) == before


def test_the_storage_stays_and_fetched_arrays_do_not_change(ws):
    updating(ws)
    fetched = ws.fetch_blob("p")
    copy = fetched.copy()
    assert runs_in_place(ws)
    assert np.array_equal(fetched, copy) and not np.array_equal(ws.fetch_blob("p"), copy)


def asarray(ws, held):
    return held if isinstance(held, np.ndarray) else ws.backend.to_numpy(held)


def holders(ws):
    """Ways to hold what is in a blob."""
    yield lambda: ws.values["p"]
    yield lambda: ws.values["p"][1:]
    yield lambda: ws.backend.to_numpy(ws.values["p"])
    yield lambda: Workspace(ws, backend=ws.backend.name).values["p"]
    if ws.backend.name == "torch":
        import torch

        yield lambda: torch.utils.dlpack.from_dlpack(ws.values["p"].__dlpack__())
        yield lambda: ws.values["p"].detach()


def test_what_somebody_holds_is_not_written(ws):
    updating(ws)
    for k, hold in enumerate(holders(ws)):
        assert runs_in_place(ws), k
        held = hold()
        before = np.array(asarray(ws, held))
        ws.run_net("n", 2)
        assert np.array_equal(asarray(ws, held), before), k
        del held
        ws.run_net("n")


@pytest.mark.parametrize("share", [op("Alias", "p", "q"), op("Reshape", "p", "q old"), op("Squeeze", "p", "q")])
def test_a_blob_that_shares_the_storage_keeps_its_value(ws, share):
    if share.type == "Reshape":
        share.arg.add(name="shape", ints=[10])
    if share.type == "Squeeze":
        share.arg.add(name="dims", ints=[0])
    updating(ws, p=f(1, 5), g=f(1, 5)) if share.type == "Squeeze" else updating(ws)
    if share.type == "Reshape":
        ws.feed_blob("p", f(5, 2))
        ws.run_net("n", 2)
    ws.run(share)
    before = ws.fetch_blob("q")
    ws.run_net("n", 3)
    assert np.array_equal(ws.fetch_blob("q"), before)
    assert not np.array_equal(ws.fetch_blob("p").ravel(), before.ravel())


def test_what_was_fed_or_made_elsewhere_is_not_written(ws):
    updating(ws)
    fed = f(5, 2)
    ws.feed_blob("p", fed)
    copy = fed.copy()
    kept = ws.values["p"]
    ws.run_net("n", 2)
    assert np.array_equal(fed, copy) and np.array_equal(ws.backend.to_numpy(kept), copy)
    # an initial value that its operator keeps must come again
    fill = op("GivenTensorFill", "", "p")
    fill.arg.add(name="shape", ints=[5, 2])
    fill.arg.add(name="values", floats=range(10))
    ws.create_net(net("init", fill))
    for _ in range(2):
        ws.run_net("init")
        assert ws.fetch_blob("p").ravel().tolist() == list(range(10))
        ws.run_net("n", 3)


def test_tensors_that_users_share_follow_and_are_never_another_blobs(ws):
    pytest.importorskip("torch")
    updating(ws)
    shared = ws.blobs["p"].to_torch()
    for _ in range(3):
        ws.run_net("n")
        assert np.array_equal(shared.numpy(), ws.fetch_blob("p"))


def test_two_nets_may_update_one_parameter(ws):
    updating(ws)
    ws.create_net(net("m", op("WeightedSum", "p one g lr", "p")))
    expected = ws.fetch_blob("p")
    step = ws.fetch_blob("g") * ws.fetch_blob("lr")
    for name in "mnnmmnm":
        ws.run_net(name)
        expected = expected + step
        np.testing.assert_allclose(ws.fetch_blob("p"), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bad", [[0, 9], [-1, 2]])
@pytest.mark.parametrize("type", sorted(SPARSE))
def test_an_update_that_fails_changes_nothing_and_says_where(ws, type, bad):
    feeds = {"p": f(6, 3), "h": abs(f(6, 3)), "k": abs(f(6, 3)), "r": abs(f(6)), "i": np.array([1, 1]), "g": f(2, 3),
             "lr": f(1), "one": np.ones(1, np.float32), "it": np.array([2]), "w": f(2, 2), "dw": f(2, 2)}
    for name, value in feeds.items():
        ws.feed_blob(name, value)
    ws.create_net(net("n", op("WeightedSum", "w one dw lr", "w"), op(type, SPARSE[type], WRITES[type])))
    ws.run_net("n", 3)
    ws.feed_blob("i", np.array(bad))
    before = {name: ws.fetch_blob(name) for name in (*WRITES[type].split(), "w")}
    with pytest.raises(OperatorError, match=type):
        ws.run_net("n")
    assert ws.last_failed == 1
    assert not np.array_equal(ws.fetch_blob("w"), before.pop("w"))
    for name, value in before.items():
        assert np.array_equal(ws.fetch_blob(name), value)
    ws.feed_blob("i", np.array([0, 5]))
    ws.run_net("n")


def test_an_error_within_a_group_is_blamed_on_its_operator(ws):
    updating(ws, a=f(2), da=f(2), b=f(2), db=f(3))
    ws.create_net(net("m", op("WeightedSum", "a one da lr", "a"), op("WeightedSum", "b one db lr", "b"),
                      op("WeightedSum", "p one g lr", "p")))
    before = {name: ws.fetch_blob(name) for name in "abp"}
    with pytest.raises(OperatorError, match="WeightedSum"):
        ws.run_net("m")
    assert ws.last_failed == 1
    assert not np.array_equal(ws.fetch_blob("a"), before["a"])
    assert np.array_equal(ws.fetch_blob("b"), before["b"]) and np.array_equal(ws.fetch_blob("p"), before["p"])


def test_shapes_and_types_may_change_between_runs(ws):
    updating(ws)
    for dtype, shape in (("float64", (3,)), ("float16", (2, 2)), ("float32", (0, 4)), ("float32", (5, 2))):
        ws.feed_blob("p", f(*shape).astype(dtype))
        ws.feed_blob("g", f(*shape).astype(dtype))
        ws.feed_blob("lr", np.array([-0.5], dtype))
        ws.feed_blob("one", np.ones(1, dtype))
        expected = ws.fetch_blob("p")
        for _ in range(3):
            ws.run_net("n")
            expected = expected + ws.fetch_blob("g") * ws.fetch_blob("lr")
        np.testing.assert_allclose(ws.fetch_blob("p").astype("float64"), expected.astype("float64"), rtol=1e-2)


@pytest.mark.parametrize("ops", [
    [op("WeightedSum", "p one g lr", "p"), op("WeightedSum", "p one g lr", "p")],
    [op("WeightedSum", "p one g lr", "p"), op("WeightedSum", "g one p lr", "g")],
    [op("WeightedSum", "g one p lr", "g"), op("WeightedSum", "p one g lr", "p")],
    [op("WeightedSum", "lr one half half", "lr"), op("WeightedSum", "p one g lr", "p")],
], ids=range(4))
@pytest.mark.parametrize("name", backends.available())
def test_updates_that_see_each_other_keep_their_order(name, ops):
    feeds = {"p": f(5, 2), "g": f(5, 2), "lr": np.array([-0.1], np.float32), "one": np.ones(1, np.float32),
             "half": np.array([0.5], np.float32)}
    made = []
    for passes in ("none", "updates"):
        ws = Workspace(backend=name)
        for blob, value in feeds.items():
            ws.feed_blob(blob, value)
        with planner.passes(passes):
            ws.create_net(net("n", *ops))
        ws.run_net("n", 4)
        made.append(ws)
    equal(*made)


def test_nothing_is_copied_for_what_is_not_served(ws, monkeypatch):
    updating(ws)
    (step,) = ws.nets["n"].plan.steps
    copies = []
    copied = step.writers.copied
    monkeypatch.setattr(step.writers, "copied", lambda *given: copies.append(given) or copied(*given))
    for name in ("p", "g", "lr", "one"):
        ws.feed_blob(name, ws.fetch_blob(name).astype("float16"))
    ws.run_net("n", 4)
    assert len(copies) == 1
    for name in ("p", "g", "lr", "one"):
        ws.feed_blob(name, ws.fetch_blob(name).astype("float32"))
    ws.run_net("n", 4)
    assert len(copies) == 2 and runs_in_place(ws)
