"""Gradients that are computed when somebody looks: the same values, whoever looks, whenever."""

from __future__ import annotations

import numpy as np
import pytest
from runtime_nets import op

from netgrad.graph.net import Net
from netgrad.runtime import backends
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.planning import planner
from netgrad.runtime.workspace import Workspace

rng = np.random.default_rng(7)
SIZES = (5, 6, 4, 3)


def f(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def layers(update=True):
    """Fully connected layers, their derivative, and updates."""
    net = Net("n")
    x = "x"
    for k in range(3):
        x = net.FC([x, f"w{k}", f"b{k}"], f"y{k}")
        x = net.Relu(x, f"y{k}")
    net.AveragedLoss(x, "loss")
    gradients = net.AddGradientOperators(["loss"])
    for name in [f"{kind}{k}" for k in range(3) for kind in "wb"] if update else ():
        net.WeightedSum([name, "one", gradients[name], "lr"], name)
    return net


def images():
    net = Net("n")
    net.Conv(["x", "w0", "b0"], "y0", kernel=3)
    net.Relu("y0", "y0")
    net.Conv(["y0", "w1"], "y1", kernel=2, no_bias=1)
    net.AveragedLoss("y1", "loss")
    gradients = net.AddGradientOperators(["loss"])
    for name in ("w0", "b0", "w1"):
        net.WeightedSum([name, "one", gradients[name], "lr"], name)
    return net


LAYERS = {"x": f(7, 5), "lr": np.array([-0.1], np.float32), "one": np.ones(1, np.float32),
          **{f"w{k}": f(SIZES[k + 1], SIZES[k]) for k in range(3)}, **{f"b{k}": f(SIZES[k + 1]) for k in range(3)}}
IMAGES = {"x": f(2, 3, 6, 6), "w0": f(4, 3, 3, 3), "b0": f(4), "w1": f(2, 4, 2, 2),
          "lr": np.array([-0.1], np.float32), "one": np.ones(1, np.float32)}


def created(name, feeds, net, passes="all"):
    ws = Workspace(backend=name)
    for blob, value in feeds.items():
        ws.feed_blob(blob, value)
    net.Proto().name = "n"
    with planner.passes(passes):
        bound = ws.create_net(net.Proto())
    return ws, bound


def pair(name, feeds, net):
    return created(name, feeds, net, "none")[0], created(name, feeds, net)[0]


def equal(plain, fast, names=None):
    for name in names or plain.names():
        np.testing.assert_allclose(fast.fetch_blob(name), plain.fetch_blob(name), rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", backends.available())
@pytest.mark.parametrize("feeds,make", [(LAYERS, layers), (IMAGES, images)], ids=["layers", "images"])
def test_every_blob_is_there_after_every_run(name, feeds, make):
    plain, fast = pair(name, feeds, make())
    for _ in range(4):
        assert plain.run_net("n") and fast.run_net("n")
        equal(plain, fast)
    for shape in ((3, *feeds["x"].shape[1:]), (1, *feeds["x"].shape[1:])):
        x = f(*shape)
        for ws in (plain, fast):
            ws.feed_blob("x", x)
            ws.run_net("n", 3)
        equal(plain, fast)


@pytest.mark.parametrize("name", backends.available())
def test_what_is_left_out_is_left_out(name):
    ws, bound = created(name, LAYERS, layers())
    ws.run_net("n")
    left = {blob for blob in ws.names() if ws.values.is_pending(blob)}
    assert left == ({"w0_grad", "w1_grad", "w2_grad", "x_grad"} if name == "torch" else {"x_grad"})
    assert {note.by for note in bound.plan.notes} == {"updates", "deferred"}
    assert left <= set(ws.names()) and ws.has_blob("x_grad")
    before = ws.fetch_blob("x_grad")
    ws.run_net("n")
    assert ws.values.is_pending("x_grad") and not np.array_equal(ws.fetch_blob("x_grad"), before)


LOOKS = {
    "another net": lambda ws: ws.run(op("Copy", "w1_grad", "seen")),
    "a workspace inside": lambda ws: ws.feed_blob("seen", Workspace(ws).fetch_blob("w1_grad")),
    "saving": lambda ws: ws.deserialize_blob("seen", ws.serialize_blob("w1_grad")),
    "a handle": lambda ws: ws.feed_blob("seen", ws.blobs["w1_grad"].tensor().fetch()),
    "all of them": lambda ws: ws.feed_blob("seen", ws.backend.to_numpy(dict(ws.values)["w1_grad"])),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", backends.available())
def test_all_who_look_see_it(name, look):
    plain, fast = pair(name, LAYERS, layers())
    for ws in (plain, fast):
        ws.run_net("n", 3)
        LOOKS[look](ws)
    equal(plain, fast, ["seen"])


@pytest.mark.parametrize("name", backends.available())
def test_a_gradient_is_that_of_its_run_whatever_is_fed_or_updated_later(name):
    plain, fast = pair(name, LAYERS, layers())
    for ws in (plain, fast):
        ws.run_net("n", 2)
        ws.feed_blob("x", np.zeros((7, 5), np.float32))
        ws.run(op("WeightedSum", "w0 one w0_grad lr", "w0"))
        ws.feed_blob("w1", np.zeros((4, 6), np.float32))
    equal(plain, fast)
    value = f(6, 5)
    for ws in (plain, fast):
        ws.run_net("n")
        ws.feed_blob("w0_grad", value)
        ws.remove_blob("x_grad")
    assert np.array_equal(fast.fetch_blob("w0_grad"), value)
    assert not fast.has_blob("x_grad") and fast.names() == plain.names()


@pytest.mark.parametrize("name", backends.available())
def test_a_gradient_that_is_read_is_computed_where_it_is_read(name):
    net = layers()
    at = next(k for k, each in enumerate(net.Proto().op) if each.type == "WeightedSum")
    later = list(net.Proto().op)[at:]
    del net.Proto().op[at:]
    net.Clip("w1_grad", "w1_grad", min=-0.01, max=0.01)
    net.Scale("x_grad", "half", scale=0.5)
    net.Proto().op.extend(later)
    plain, fast = pair(name, LAYERS, net)
    for ws in (plain, fast):
        ws.run_net("n", 3)
    equal(plain, fast)


@pytest.mark.parametrize("name", backends.available())
def test_weights_that_somebody_holds_do_not_change(name):
    ws, _ = created(name, LAYERS, layers())
    ws.run_net("n", 3)
    held = [ws.values[f"w{k}"] for k in range(3)]
    before = [ws.fetch_blob(f"w{k}") for k in range(3)]
    ws.run_net("n", 3)
    for k in range(3):
        assert np.array_equal(ws.backend.to_numpy(held[k]), before[k])


@pytest.mark.parametrize("name", backends.available())
@pytest.mark.parametrize("blob,value", [("b0", f(3)), ("w2", f(3, 5)), ("one", f(2)), ("lr", f(3))])
def test_a_run_that_fails_leaves_what_the_plain_plan_leaves(name, blob, value):
    plain, fast = pair(name, LAYERS, layers())
    for ws in (plain, fast):
        ws.run_net("n", 2)
        ws.feed_blob(blob, value)
        with pytest.raises(OperatorError):
            ws.run_net("n")
    assert fast.last_failed == plain.last_failed
    equal(plain, fast)


@pytest.mark.parametrize("name", backends.available())
def test_without_updates_the_gradients_of_weights_wait_as_well(name):
    plain, fast = pair(name, LAYERS, layers(update=False))
    for ws in (plain, fast):
        ws.run_net("n", 2)
    assert fast.values.is_pending("w1_grad") == (name == "torch")
    equal(plain, fast)


def test_other_axes_types_and_shapes_run_plainly():
    for name in backends.available():
        feeds = {**LAYERS, "x": f(7, 1, 5)}
        plain, fast = pair(name, feeds, layers())
        for ws in (plain, fast):
            ws.run_net("n", 2)
        equal(plain, fast)


def _module(ws):
    share = pytest.importorskip("netgrad.bridge").share
    tensor = pytest.importorskip("torch").from_numpy(LAYERS["x"].copy())
    share(ws, {"x": tensor})
    return tensor


WRITERS = {
    "a tensor that was shared": _module,
    "a tensor that was fed": lambda ws: ws.feed_blob("x", value := pytest.importorskip("torch").from_numpy(
        LAYERS["x"].copy())) and value,
    "a tensor that was fetched": lambda ws: ws.blobs["x"].to_torch(),
    "the data of a handle": lambda ws: ws.blobs["x"].tensor().data,
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("name", backends.available())
def test_what_a_user_writes_into_an_input_later_does_not_change_the_gradient(name, writer):
    """Whether it was handed out before the run or after it."""
    if name == "numpy" and "shared" in writer:
        pytest.skip("modules share with torch workspaces")
    for late in (False, True):
        plain, fast = pair(name, LAYERS, layers())
        for ws in (plain, fast):
            handed = None if late else WRITERS[writer](ws)
            ws.run_net("n")
            if late and ("fetched" in writer or "handle" in writer):
                handed = WRITERS[writer](ws)
            if handed is not None:
                handed[:] = 100
            assert handed is None or ws.fetch_blob("x").min() == 100
        equal(plain, fast)
        for ws in (plain, fast):
            ws.run_net("n", 2)
        equal(plain, fast)


def test_an_image_that_a_user_writes_into_is_laid_out_anew_after_a_run_that_failed():
    pytest.importorskip("torch")
    results = []
    for passes in ("none", "all"):
        net = Net("n")
        net.Conv(["x", "w", "b"], "y", kernel=3)
        net.MatMul(["left", "right"], "product")
        net.AddGradientOperators({"y": "dy"})
        generator = np.random.default_rng(0)
        feeds = {name: generator.standard_normal(shape).astype(np.float32) for name, shape in (
            ("x", (2, 3, 4, 4)), ("w", (4, 3, 3, 3)), ("b", (4,)), ("dy", (2, 4, 2, 2)), ("left", (7, 7)),
            ("right", (3, 3)))}
        ws, _ = created("torch", feeds, net, passes)
        data = ws.blobs["x"].tensor().data
        with pytest.raises(OperatorError):
            ws.run_net("n")
        data *= 2
        ws.feed_blob("right", feeds["left"])
        ws.run_net("n")
        results.append(ws)
    equal(*results)


def test_a_gradient_that_waits_may_be_any_input_of_another_nets_update():
    pytest.importorskip("torch")
    results = []
    for passes in ("none", "all"):
        layer, update = Net("n"), Net("update")
        layer.FC(["x", "w", "b"], "y")
        layer.AddGradientOperators({"y": "dy"})
        update.WeightedSum(["p", "w_grad", "p", "w_grad"], "q")
        update.WeightedSum(["w", "one", "p1", "w_grad"], "w")
        feeds = {"x": LAYERS["x"][:, :1], "w": f(1, 1) * 0 + 1, "b": np.zeros(1, np.float32), "dy": LAYERS["x"][:, :1],
                 "p": np.ones((2, 2), np.float32), "p1": np.ones((1, 1), np.float32), "one": np.ones(1, np.float32)}
        ws, _ = created("torch", feeds, layer, passes)
        ws.run_net("n")
        with planner.passes(passes):
            second = ws.create_net(update.Proto())
        for _ in range(2):
            ws.run_net("n")
            second.run()
        results.append(ws)
    equal(*results)


@pytest.mark.parametrize("one", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("rate", [0.0, -0.1])
@pytest.mark.parametrize("blob", ["x", "w", "dy"])
@pytest.mark.parametrize("name", backends.available())
def test_nothing_times_nan_or_an_infinity_is_nan_within_the_update_too(name, blob, rate, one):
    for bad in (np.nan, np.inf):
        net = Net("n")
        net.FC(["x", "w", "b"], "y")
        gradients = net.AddGradientOperators({"y": "dy"})
        net.WeightedSum(["w", "one", gradients["w"], "rate"], "w")
        feeds = {"x": f(3, 4), "w": f(2, 4), "b": f(2), "dy": f(3, 2), "one": np.array([one], np.float32),
                 "rate": np.array([rate], np.float32)}
        feeds[blob][0, 0] = bad
        plain, fast = pair(name, feeds, net)
        for ws in (plain, fast):
            ws.run_net("n", 2)
        equal(plain, fast)
