"""A recurrent net and a stack of transformer blocks."""

from __future__ import annotations

import numpy as np

from benchmarks.training import ADAM_EPSILON, Net, classes, constant, floats, train
from caffe2.python import brew, model_helper, optimizer


def lstm(batch, length, width, kinds):
    """A label for each word; Adam."""
    from caffe2.python import rnn_cell

    model = model_helper.ModelHelper("lstm")
    rows, _, _, _ = rnn_cell.LSTM(model, "data", "lengths", ["h", "c"], width, width, "lstm", forward_only=False)
    flat = model.net.Reshape(rows, ["flat", "flat_shape"], shape=[-1, width])[0]
    train(model, brew.fc(model, flat, "scores", width, kinds), optimizer.build_adam, epsilon=ADAM_EPSILON)
    state = np.zeros((1, batch, width), np.float32)
    return model, {"data": floats(length, batch, width), "label": classes(batch * length, kinds),
                   "lengths": np.full(batch, length, np.int32), "h": state, "c": state}


def transformer(batch, length, width, heads, layers, kinds):
    """Blocks of attention and two layers, each normalized first and added to what it read; Adam."""
    model = model_helper.ModelHelper("transformer")
    net, part = model.net, width // heads

    def normalized(x, name):
        scale, shift = constant(model, name + "_s", width, 1.0), constant(model, name + "_t", width, 0.0)
        return net.LayerNorm([x, scale, shift], [name, name + "_mean", name + "_std"], axis=1, epsilon=1e-5,
                             elementwise_affine=True)[0]

    def split(x, name):
        rows = net.Reshape(brew.fc(model, x, name, width, width), [name + "_4", name + "_old"],
                           shape=[batch, length, heads, part])[0]
        return net.Transpose(rows, name + "_heads", axes=[0, 2, 1, 3])

    x = "data"
    for k in range(layers):
        at = f"layer{k}_"
        h = normalized(x, at + "n")
        q, key, v = (split(h, at + name) for name in "qkv")
        weights = net.Softmax(net.Scale(net.BatchMatMul([q, key], at + "qk", trans_b=1), at + "scaled",
                                        scale=part ** -0.5), at + "weights", axis=3)
        mixed = net.Transpose(net.BatchMatMul([weights, v], at + "mixed"), at + "back", axes=[0, 2, 1, 3])
        rows = net.Reshape(mixed, [at + "rows", at + "rows_old"], shape=[batch * length, width])[0]
        x = net.Add([x, brew.fc(model, rows, at + "o", width, width)], at + "attended")
        h = net.Gelu(brew.fc(model, normalized(x, at + "m"), at + "up", width, 4 * width), at + "gelu")
        x = net.Add([x, brew.fc(model, h, at + "down", 4 * width, width)], at + "out")
    train(model, brew.fc(model, x, "scores", width, kinds), optimizer.build_adam, 1e-4, epsilon=ADAM_EPSILON)
    return model, {"data": floats(batch * length, width), "label": classes(batch * length, kinds)}


NETS = [Net(lstm, 5, {"batch": 4, "length": 5, "width": 8}, batch=32, length=32, width=128, kinds=64),
        Net(transformer, 2, {"batch": 2, "length": 8, "width": 16, "heads": 2, "layers": 2}, batch=4, length=128,
            width=256, heads=8, layers=12, kinds=64)]
