"""Whole nets, planned and plain: random ones, those of the zoo, every optimizer. The same blobs after every run."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caffe2.python import brew, model_helper, optimizer
from caffe2.python.models import resnet, shufflenet
from netgrad.graph.net import Net
from netgrad.runtime import backends, random
from netgrad.runtime.planning import planner
from netgrad.runtime.workspace import Workspace

rng = np.random.default_rng(2)


def f(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def compare(name, init, net, feeds, runs=3, tolerance=1e-4, passes="all"):
    """Runs a net plainly and planned, and compares all blobs after each run."""
    pair = []
    for each in ("none", passes):
        ws = Workspace(backend=name)
        for blob, value in feeds.items():
            ws.feed_blob(blob, value)
        with random.seeded(0), planner.passes(each):
            if init is not None:
                ws.run_net_once(init)
            created = ws.create_net(net)
        pair.append((ws, created))
    (plain, _), (fast, created) = pair
    for _ in range(runs):
        for _, bound in pair:
            with random.seeded(1):
                bound.run()
        assert plain.names() == fast.names()
        for blob in plain.names():
            expected, found = plain.fetch_blob(blob), fast.fetch_blob(blob)
            if getattr(expected, "dtype", np.dtype(object)).kind == "f":
                size = max(1.0, float(np.abs(expected).max(initial=0)))
                np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * size, err_msg=blob)
            elif isinstance(expected, np.ndarray):
                np.testing.assert_array_equal(found, expected, err_msg=blob)
    return created


WIDTH = 4
UNARY = ("Relu", "Sigmoid", "Tanh", "Negative", "Copy", "Softsign")
BINARY = ("Add", "Sub", "Mul", "Sum")


@st.composite
def trainings(draw):
    """A net of layers, some shared, some in place, its derivative, and updates of some parameters by any optimizer."""
    net, names, weights = Net("random"), ["x"], []
    feeds = {"x": f(3, WIDTH), "lr": np.array([-0.05], np.float32), "one": np.ones(1, np.float32), "it": np.array([0])}
    for k in range(draw(st.integers(2, 7))):
        first, kind = draw(st.sampled_from(names[-3:])), draw(st.sampled_from(("layer", "layer", "unary", "binary")))
        if kind == "layer":
            w = draw(st.sampled_from([*weights[-1:], f"w{k}"]))
            if w not in weights:
                weights.append(w)
                feeds |= {w: f(WIDTH, WIDTH), w.replace("w", "b"): f(WIDTH)}
            net.FC([first, w, w.replace("w", "b")], f"y{k}")
            names.append(f"y{k}")
        elif kind == "unary":
            type = draw(st.sampled_from(UNARY))
            into = first if type in ("Relu", "Tanh", "Sigmoid") and first != "x" and draw(st.booleans()) else f"y{k}"
            getattr(net, type)(first, into)
            names.append(into)
        else:
            getattr(net, draw(st.sampled_from(BINARY)))([first, draw(st.sampled_from(names))], f"y{k}")
            names.append(f"y{k}")
    net.AveragedLoss(names[-1], "loss")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gradients = net.AddGradientOperators(["loss"], overwritten="save")
    how = draw(st.sampled_from(("WeightedSum", "Adam", "Adagrad", "MomentumSGDUpdate")))
    for name in [name for w in weights for name in (w, w.replace("w", "b"))]:
        if str(name) not in gradients or draw(st.integers(0, 5)) == 0:
            continue
        g, m, v = gradients[name], name + "_m", name + "_v"
        feeds |= {m: np.zeros_like(feeds[name]), v: np.zeros_like(feeds[name])}
        if how == "WeightedSum":
            net.WeightedSum([name, "one", g, "lr"], name)
        elif how == "Adam":
            net.Adam([name, m, v, g, "lr", "it"], [name, m, v], epsilon=1e-2)
        elif how == "Adagrad":
            net.Adagrad([name, m, g, "lr"], [name, m], epsilon=1e-1)
        else:
            net.MomentumSGDUpdate([g, m, "lr", name], [g, m, name], momentum=0.9, nesterov=draw(st.integers(0, 1)))
    return net, feeds


@settings(max_examples=60, deadline=None)
@given(trainings(), st.sampled_from(backends.available()))
def test_random_trainings_leave_the_same_blobs(training, name):
    net, feeds = training
    compare(name, None, net.Proto(), feeds)


@settings(max_examples=30, deadline=None)
@given(trainings(), st.sampled_from(backends.available()),
       st.sampled_from([each.name for each in planner.PASSES if each.default]))
def test_each_pass_alone_leaves_the_same_blobs(training, name, alone):
    net, feeds = training
    compare(name, None, net.Proto(), feeds, passes=alone)


OPTIMIZERS = {
    "sgd": lambda m: optimizer.build_sgd(m, 0.05), "momentum": lambda m: optimizer.build_sgd(m, 0.05, momentum=0.9),
    "multi": lambda m: optimizer.build_multi_precision_sgd(m, 0.05, momentum=0.9),
    "adam": lambda m: optimizer.build_adam(m, 0.01, epsilon=1e-2), "ftrl": lambda m: optimizer.build_ftrl(m),
    "adagrad": lambda m: optimizer.build_adagrad(m, 0.05),
    "rms": lambda m: optimizer.build_rms_prop(m, 0.05), "adadelta": lambda m: optimizer.build_adadelta(m, 0.05),
    "wngrad": lambda m: optimizer.build_wngrad(m, 0.05), "storm": lambda m: optimizer.build_storm(m, 0.05),
    "yellowfin": lambda m: optimizer.build_yellowfin(m, 0.05),
}


@pytest.mark.parametrize("build", OPTIMIZERS)
@pytest.mark.parametrize("name", backends.available())
def test_every_optimizer_trains_tables_and_layers_alike(build, name):
    model = model_helper.ModelHelper(f"train_{build}_{name}")
    table = model.create_param("table", shape=[9, 4], initializer=_uniform())
    bag = model.net.SparseLengthsSum([table, "ids", "lengths"], "bag") if build not in ("multi", "yellowfin", "rms") \
        else model.net.FC(["dense", table, "zeros"], "bag4")
    y = brew.fc(model, bag, "y", 4 if bag != "bag4" else 9, 3)
    model.net.SoftmaxWithLoss([y, "label"], ["softmax", "loss"])
    model.AddGradientOperators(["loss"])
    OPTIMIZERS[build](model)
    feeds = {"ids": np.array([1, 3, 3, 8, 1, 0]), "lengths": np.array([2, 3, 1], np.int32), "dense": f(3, 4),
             "zeros": np.zeros(9, np.float32), "label": np.array([0, 2, 1], np.int32)}
    compare(name, model.param_init_net.Proto(), model.net.Proto(), feeds, runs=4, tolerance=1e-3)


def _uniform():
    from caffe2.python.modeling.initializers import Initializer

    return Initializer("UniformFill", min=-0.5, max=0.5)


def _resnet(model):
    return resnet.create_resnext(model, "data", 3, 4, 18, 1, 4, no_loss=True)


def _shufflenet(model):
    return shufflenet.create_shufflenet(model, "data", 3, 4, no_loss=True)


def _lenet(model):
    h = brew.max_pool(model, brew.conv(model, "data", "c1", 3, 5, 5), "p1", kernel=2, stride=2)
    h = brew.max_pool(model, brew.conv(model, h, "c2", 5, 6, 5), "p2", kernel=2, stride=2)
    h = brew.relu(model, brew.fc(model, h, "f3", 6 * 25, 10), "f3")
    return brew.fc(model, h, "f4", 10, 4)


@pytest.mark.parametrize("make,side", [(_resnet, 64), (_shufflenet, 224), (_lenet, 32)])
@pytest.mark.parametrize("name", backends.available())
def test_nets_of_the_zoo_train_alike(make, side, name):
    if name == "numpy" and make is not _lenet:
        pytest.skip("seconds on NumPy, where the passes that matter here do nothing")
    model = model_helper.ModelHelper(f"zoo{make.__name__}{name}", arg_scope={"order": "NCHW"})
    scores = make(model)
    model.net.SoftmaxWithLoss([scores, "label"], ["softmax", "loss"])
    model.AddGradientOperators(["loss"])
    optimizer.build_sgd(model, 0.001)
    data = np.random.default_rng(5).standard_normal((2, 3, side, side)).astype(np.float32)
    made = []
    for passes in ("none", "all"):
        ws = Workspace(backend=name)
        ws.feed_blob("data", data)
        ws.feed_blob("label", np.array([1, 3], np.int32))
        with random.seeded(0), planner.passes(passes):
            ws.run_net_once(model.param_init_net.Proto())
            created = ws.create_net(model.net.Proto())
        ws.run_net(created.name)
        made.append(ws)
    operators = list(model.net.Proto().op)
    first = next(k for k, op in enumerate(operators) if op.is_gradient_op)
    forward = {blob for op in operators[:first] for blob in op.output}
    for blob in made[0].names():
        plain, fast = (ws.fetch_blob(blob) for ws in made)
        if getattr(plain, "dtype", np.dtype(object)).kind == "f":
            # gradients jump where a last bit decides on which side of a Relu's kink a value lies, or which is largest
            allowed = (1e-4 if blob in forward else 0.05) * np.linalg.norm(plain) + 1e-5 * plain.size**0.5
            assert fast.shape == plain.shape and np.linalg.norm(fast - plain) <= allowed, blob
    assert {note.by for note in created.plan.notes} >= {"updates", "deferred"} | (
        {"layout"} if name == "torch" else set())
