"""Fully connected layers, and a net of nothing but tiny operators."""

from __future__ import annotations

from benchmarks.training import Net, classes, floats, train
from caffe2.python import brew, model_helper


def mlp(batch, inputs, width, kinds):
    model = model_helper.ModelHelper("mlp")
    h = brew.fc(model, "data", "a", inputs, width)
    h = brew.fc(model, brew.relu(model, h, h), "b", width, width)
    train(model, brew.fc(model, brew.relu(model, h, h), "scores", width, kinds))
    return model, {"data": floats(batch, inputs), "label": classes(batch, kinds)}


def tiny(count, numbers):
    """Relu, many times, on few numbers."""
    model = model_helper.ModelHelper("tiny")
    x = "data"
    for k in range(count):
        x = model.net.Relu(x, "loss" if k + 1 == count else f"r{k}")
    return model, {"data": floats(numbers)}


NETS = [Net(mlp, 50, {"batch": 8, "width": 16}, batch=64, inputs=784, width=512, kinds=10),
        Net(tiny, 20, {"count": 20}, seen=["loss"], count=1000, numbers=4)]
