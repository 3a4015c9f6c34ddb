"""Channels side by side: the same values, in arrays that look as ever to those who fetch them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_nets import op

from netgrad.graph.net import Net
from netgrad.runtime.planning import planner
from netgrad.runtime.workspace import Workspace

torch = pytest.importorskip("torch")
rng = np.random.default_rng(3)


def f(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def created(net, feeds, passes):
    ws = Workspace(backend="torch")
    for name, value in feeds.items():
        ws.feed_blob(name, value)
    definition = net.Proto()
    definition.name = "n"
    with planner.passes(passes):
        ws.create_net(definition)
    return ws


def same(net, feeds, runs=3, tolerance=1e-4):
    plain, fast = created(net, feeds, "none"), created(net, feeds, "all")
    for _ in range(runs):
        plain.run_net("n")
        fast.run_net("n")
    assert plain.names() == fast.names()
    for name in plain.names():
        expected, found = plain.fetch_blob(name), fast.fetch_blob(name)
        assert found.flags.c_contiguous and found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=name)
    return fast


def conv_net(channels=3, update="WeightedSum", order="NCHW", group=1, pool="MaxPool", **conv):
    """Convolution, normalization, pooling, a residual and a fully connected layer, their derivative, updates."""
    net = Net("n")
    c = {"kernel": 3, "pad": 1, "order": order, "group": group, **conv}
    net.Conv(["x", "w0", "b0"], "y0", **c)
    net.SpatialBN(["y0", "s", "t", "m", "v"], ["z0", "m", "v", "bm", "bv"], order=order, is_test=0, epsilon=1e-3)
    net.Relu("z0", "z0")
    net.Conv(["z0", "w1"], "y1", no_bias=1, **{**c, "group": 1})
    net.Sum(["y1", "z0"], "z1")
    getattr(net, pool)("z1", "p1", kernel=2, stride=2, order=order)
    net.FC(["p1", "w2", "b2"], "y2")
    net.AveragedLoss("y2", "loss")
    gradients = net.AddGradientOperators(["loss"])
    for k, name in enumerate(("w0", "b0", "w1", "w2", "b2", "s", "t")):
        if update == "WeightedSum":
            net.WeightedSum([name, "one", gradients[name], "lr"], name)
        elif update == "Adam":
            net.Adam([name, f"{k}m", f"{k}v", gradients[name], "lr", "it"], [name, f"{k}m", f"{k}v"])
        else:
            g = gradients[name]
            net.MomentumSGDUpdate([g, f"{k}m", "lr", name], [g, f"{k}m", name], momentum=0.9)
    return net


def feeds(channels=3, group=1, order="NCHW"):
    x = f(2, channels, 6, 8)
    parameters = {"w0": f(4, channels // group, 3, 3), "b0": f(4), "w1": f(4, 4, 3, 3), "w2": f(3, 48), "b2": f(3),
                  "s": f(4), "t": f(4)}
    if order == "NHWC":
        x = x.transpose(0, 2, 3, 1)
        parameters["w0"], parameters["w1"] = (parameters[w].transpose(0, 2, 3, 1) for w in ("w0", "w1"))
    moments = {f"{k}{m}": np.zeros_like(value) for k, value in enumerate(parameters.values()) for m in "mv"}
    names = ("w0", "b0", "w1", "w2", "b2", "s", "t")
    moments = {f"{k}{m}": np.zeros_like(parameters[name]) for k, name in enumerate(names) for m in "mv"}
    return {"x": x, **parameters, **moments, "m": np.zeros(4, np.float32), "v": np.ones(4, np.float32),
            "lr": np.array([-0.01], np.float32), "one": np.ones(1, np.float32), "it": np.array([0])}


@pytest.mark.parametrize("update", ["WeightedSum", "Adam", "MomentumSGDUpdate"])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_net_of_every_kind_of_layer_is_the_same(update, channels):
    if update == "MomentumSGDUpdate":
        tolerance = 1e-3
    else:
        tolerance = 2e-4
    fast = same(conv_net(channels, update), feeds(channels), tolerance=tolerance)
    assert fast.values["z1"].is_contiguous(memory_format=torch.channels_last)
    assert fast.values["w1"].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("group,order", [(2, "NCHW"), (1, "NHWC")])
def test_other_orders_and_groups_are_the_same(group, order):
    same(conv_net(4, group=group, order=order), feeds(4, group, order), tolerance=2e-4)


def test_average_pooling_and_dilation_are_the_same():
    same(conv_net(pool="AveragePool", dilation=1), feeds(), tolerance=2e-4)
    same(conv_net(pad=2, dilation=2), feeds(), tolerance=2e-4)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.tuples(st.integers(4, 9), st.integers(4, 9)), st.integers(1, 3),
       st.integers(1, 3), st.integers(0, 1), st.booleans())
def test_pooling_passes_gradients_to_all_largest_elements_in_either_layout(n, c, sizes, kernel, stride, pad, legacy):
    pad = min(pad, kernel - 1)
    net = Net("n")
    arguments = {"kernel": kernel, "stride": stride, "pad": pad} | ({"legacy_pad": 3} if legacy and not pad else {})
    if legacy and not pad:
        del arguments["pad"]
    net.MaxPool("x", "y", **arguments)
    net.Proto().op.extend([op("MaxPoolGradient", "x y y", "dx", **arguments)])
    x = rng.integers(0, 3, (n, c, *sizes)).astype(np.float32)
    results = []
    for lay_out in (lambda t: t, lambda t: t.contiguous(memory_format=torch.channels_last)):
        ws = created(net, {"x": x}, "none")
        ws.values["x"] = lay_out(ws.values["x"])
        ws.run_net("n")
        results.append([ws.fetch_blob(name) for name in ("y", "dx")])
    for first, second in zip(*results):
        np.testing.assert_array_equal(first, second)


def test_images_may_change_their_shape_and_weights_their_owner():
    net = conv_net()
    fast, plain = created(net, feeds(), "all"), created(net, feeds(), "none")
    plain_feeds = feeds()
    for ws in (fast, plain):
        for name, value in plain_feeds.items():
            ws.feed_blob(name, value)
        ws.run_net("n", 2)
    x, w1 = f(5, 3, 6, 8), f(4, 4, 3, 3)
    for ws in (fast, plain):
        ws.feed_blob("x", x)
        ws.feed_blob("w1", w1)
        ws.run_net("n", 2)
    for name in plain.names():
        np.testing.assert_allclose(fast.fetch_blob(name), plain.fetch_blob(name), rtol=2e-4, atol=2e-4, err_msg=name)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_net_of_moving_images_is_the_same(channels):
    net = Net("n")
    c = {"kernels": [3] * 3, "pads": [1] * 6}
    net.Conv(["x", "w0", "b0"], "y0", **c)
    net.Relu("y0", "y0")
    net.MaxPool("y0", "p0", kernels=[2] * 3, strides=[2] * 3)
    net.Conv(["p0", "w1", "b1"], "y1", **c)
    net.FC(["y1", "w2", "b2"], "scores")
    net.AveragedLoss("scores", "loss")
    gradients = net.AddGradientOperators(["loss"])
    shapes = {"w0": (4, channels, 3, 3, 3), "b0": (4,), "w1": (5, 4, 3, 3, 3), "b1": (5,), "w2": (3, 60), "b2": (3,)}
    for name in shapes:
        net.WeightedSum([name, "one", gradients[name], "lr"], name)
    fast = same(net, {"x": f(2, channels, 4, 6, 4), **{name: f(*shape) for name, shape in shapes.items()},
                      "one": np.ones(1, np.float32), "lr": np.array([-0.01], np.float32)}, tolerance=2e-4)
    assert fast.values["y1"].is_contiguous(memory_format=torch.channels_last_3d)
    assert fast.values["w1"].is_contiguous(memory_format=torch.channels_last_3d)
