"""Nets whose parameters are mostly tables, of which a step touches few rows; sparse Adagrad."""

from __future__ import annotations

import numpy as np

from benchmarks.training import Net, classes, floats, parameter, places, train
from caffe2.python import brew, model_helper, optimizer


def _bags(model, feeds, tables, rows, width, batch, bag):
    """The sums of ``bag`` rows of each table, for each example."""
    feeds["sizes"] = np.full(batch, bag, np.int32)
    sums = []
    for k in range(tables):
        table = parameter(model, f"table{k}", [rows, width], 0.05)
        feeds[f"ids{k}"] = places(batch * bag, rows)
        sums.append(model.net.SparseLengthsSum([table, f"ids{k}", "sizes"], f"bag{k}"))
    return sums


def dlrm(batch, tables, rows, width, bag):
    """Bags of embeddings and dense features, the products of all pairs, layers."""
    model = model_helper.ModelHelper("dlrm")
    feeds = {"dense": floats(batch, 13), "label": classes(batch, 2)}
    h = brew.relu(model, brew.fc(model, "dense", "a", 13, 64), "ra")
    below = brew.relu(model, brew.fc(model, h, "b", 64, width), "rb")
    vectors = [below] + _bags(model, feeds, tables, rows, width, batch, bag)
    together = model.net.Concat(vectors, ["together", "_together"], axis=1, add_axis=1)[0]
    pairs = model.net.Flatten(model.net.BatchMatMul([together, together], "pairs", trans_b=1), "flat_pairs")
    top = model.net.Concat([below, pairs], ["top", "_top"], axis=1)[0]
    h = brew.relu(model, brew.fc(model, top, "c", width + (tables + 1) ** 2, 128), "rc")
    train(model, brew.fc(model, h, "scores", 128, 2), optimizer.build_adagrad)
    return model, feeds


def wide(batch, tables, rows, width, bag):
    """Many tables, whose bags lie side by side under one layer."""
    model = model_helper.ModelHelper("wide")
    feeds = {"label": classes(batch, 2)}
    bags = model.net.Concat(_bags(model, feeds, tables, rows, width, batch, bag), ["together", "_together"], axis=1)[0]
    # a low rate, since libraries treat rows that occur twice each in their own way
    train(model, brew.fc(model, bags, "scores", tables * width, 2), optimizer.build_adagrad, 1e-3)
    return model, feeds


NETS = [Net(dlrm, 10, {"batch": 8, "tables": 2, "rows": 20000}, batch=128, tables=8, rows=100000, width=32, bag=10),
        Net(wide, 5, {"batch": 8, "tables": 3, "rows": 20000}, batch=256, tables=40, rows=50000, width=16, bag=8)]
