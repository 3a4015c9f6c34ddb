"""The nets that are measured, through `caffe2.python`: what runs here runs in Caffe2 itself, whose Python is 3.8.

Each function gives a model, the blobs that are fed, and how many runs are measured at a time.
"""

import numpy as np

from caffe2.python import brew, core, model_helper, optimizer, workspace
from caffe2.python.modeling.initializers import Initializer

_rng = np.random.RandomState(0)


def _floats(*shape):
    return _rng.standard_normal(shape).astype(np.float32)


def _classes(count, classes):
    return _rng.randint(0, classes, count).astype(np.int32)


def _train(model, scores, build=optimizer.build_sgd, rate=0.01):
    model.net.SoftmaxWithLoss([scores, "label"], ["softmax", "loss"])
    model.AddGradientOperators(["loss"])
    build(model, base_learning_rate=rate)


def _parameter(model, name, shape, spread):
    return model.create_param(name, shape=shape, initializer=Initializer("UniformFill", min=-spread, max=spread))


def mlp(batch=64):
    model = model_helper.ModelHelper("mlp")
    h = brew.relu(model, brew.fc(model, "data", "a", 784, 512), "a")
    h = brew.relu(model, brew.fc(model, h, "b", 512, 512), "b")
    _train(model, brew.fc(model, h, "scores", 512, 10))
    return model, {"data": _floats(batch, 784), "label": _classes(batch, 10)}, 50


def lenet(batch=64):
    model = model_helper.ModelHelper("lenet")
    h = brew.max_pool(model, brew.conv(model, "data", "a", 1, 20, 5), "pa", kernel=2, stride=2)
    h = brew.max_pool(model, brew.conv(model, h, "b", 20, 50, 5), "pb", kernel=2, stride=2)
    h = brew.relu(model, brew.fc(model, h, "c", 800, 500), "c")
    _train(model, brew.fc(model, h, "scores", 500, 10))
    return model, {"data": _floats(batch, 1, 28, 28), "label": _classes(batch, 10)}, 10


def resnet50(batch=8):
    from caffe2.python.models import resnet

    model = model_helper.ModelHelper("resnet50", arg_scope={"order": "NCHW", "use_cudnn": False})
    _train(model, resnet.create_resnet50(model, "data", 3, 1000, no_loss=True, no_bias=1))
    return model, {"data": _floats(batch, 3, 224, 224), "label": _classes(batch, 1000)}, 1


def lstm(batch=32, length=32, width=128):
    from caffe2.python import rnn_cell

    model = model_helper.ModelHelper("lstm")
    rows, _, _, _ = rnn_cell.LSTM(model, "data", "lengths", ["h", "c"], width, width, "lstm", forward_only=False)
    flat = model.net.Reshape(rows, ["flat", "flat_shape"], shape=[-1, width])[0]
    _train(model, brew.fc(model, flat, "scores", width, 64), optimizer.build_adam)
    state = np.zeros((1, batch, width), np.float32)
    return model, {"data": _floats(length, batch, width), "lengths": np.full(batch, length, np.int32), "h": state,
                   "c": state, "label": _classes(batch * length, 64)}, 5


def dlrm(batch=128, tables=8, rows=100000, width=32, bag=10):
    """Bags of embeddings, products of pairs, layers; sparse Adagrad."""
    model = model_helper.ModelHelper("dlrm")
    feeds = {"dense": _floats(batch, 13), "label": _classes(batch, 2)}
    h = brew.relu(model, brew.fc(model, "dense", "a", 13, 64), "ra")
    vectors = [brew.relu(model, brew.fc(model, h, "b", 64, width), "rb")]
    for k in range(tables):
        table = _parameter(model, f"table{k}", [rows, width], 0.05)
        feeds[f"ids{k}"] = _rng.randint(0, rows, batch * bag).astype(np.int64)
        feeds[f"sizes{k}"] = np.full(batch, bag, np.int32)
        vectors.append(model.net.SparseLengthsSum([table, f"ids{k}", f"sizes{k}"], f"bag{k}"))
    together = model.net.Concat(vectors, ["together", "_together"], axis=1, add_axis=1)[0]
    pairs = model.net.Flatten(model.net.BatchMatMul([together, together], "pairs", trans_b=1), "flat_pairs")
    top = model.net.Concat([vectors[0], pairs], ["top", "_top"], axis=1)[0]
    h = brew.relu(model, brew.fc(model, top, "c", width + (tables + 1) ** 2, 128), "rc")
    _train(model, brew.fc(model, h, "scores", 128, 2), optimizer.build_adagrad)
    return model, feeds, 10


def transformer(batch=4, length=64, width=256, heads=8, layers=12):
    """A stack of blocks: attention and two layers, each normalized first and added to what it read."""
    model = model_helper.ModelHelper("transformer")
    net, part = model.net, width // heads

    def normalized(x, name):
        scale = model.create_param(name + "_s", shape=[width], initializer=Initializer("ConstantFill", value=1.0))
        shift = model.create_param(name + "_t", shape=[width], initializer=Initializer("ConstantFill", value=0.0))
        return net.LayerNorm([x, scale, shift], [name, name + "_mean", name + "_std"], axis=1, epsilon=1e-5,
                             elementwise_affine=True)[0]

    def split(x, name, axes):
        rows = net.Reshape(brew.fc(model, x, name, width, width), [name + "_4", name + "_old"],
                           shape=[batch, length, heads, part])[0]
        return net.Transpose(rows, name + "_heads", axes=axes)

    x = "data"
    for k in range(layers):
        at = f"layer{k}_"
        h = normalized(x, at + "n")
        q, key, v = (split(h, at + name, [0, 2, 1, 3]) for name in "qkv")
        weights = net.Softmax(net.Scale(net.BatchMatMul([q, key], at + "qk", trans_b=1), at + "scaled",
                                        scale=part ** -0.5), at + "weights", axis=3)
        mixed = net.Transpose(net.BatchMatMul([weights, v], at + "mixed"), at + "back", axes=[0, 2, 1, 3])
        rows = net.Reshape(mixed, [at + "rows", at + "rows_old"], shape=[batch * length, width])[0]
        x = net.Sum([x, brew.fc(model, rows, at + "o", width, width)], at + "attended")
        h = brew.relu(model, brew.fc(model, normalized(x, at + "m"), at + "up", width, 4 * width), at + "up_r")
        x = net.Sum([x, brew.fc(model, h, at + "down", 4 * width, width)], at + "out")
    _train(model, brew.fc(model, x, "scores", width, 64), optimizer.build_adam, 1e-4)
    return model, {"data": _floats(batch * length, width), "label": _classes(batch * length, 64)}, 2


def video(batch=2, frames=8, side=32):
    """Convolutions over space and time."""
    model = model_helper.ModelHelper("video")
    x, channels = "data", 3
    for k, count in enumerate((16, 32, 64)):
        w = _parameter(model, f"w{k}", [count, channels, 3, 3, 3], 0.1)
        b = _parameter(model, f"b{k}", [count], 0.1)
        x = model.net.Relu(model.net.Conv([x, w, b], f"y{k}", kernels=[3, 3, 3], pads=[1] * 6), f"r{k}")
        x = model.net.MaxPool(x, f"p{k}", kernels=[2, 2, 2], strides=[2, 2, 2])
        channels = count
    _train(model, brew.fc(model, x, "scores", 64 * (frames // 8) * (side // 8) ** 2, 10))
    return model, {"data": _floats(batch, 3, frames, side, side), "label": _classes(batch, 10)}, 3


def wide(batch=256, tables=16, rows=200000, bag=20):
    """A wide linear model: a number for each of many features, sparse Adagrad."""
    model = model_helper.ModelHelper("wide")
    feeds, sums = {"label": _classes(batch, 2)}, []
    for k in range(tables):
        table = _parameter(model, f"table{k}", [rows, 2], 0.05)
        feeds[f"ids{k}"] = _rng.randint(0, rows, batch * bag).astype(np.int64)
        feeds[f"sizes{k}"] = np.full(batch, bag, np.int32)
        sums.append(model.net.SparseLengthsSum([table, f"ids{k}", f"sizes{k}"], f"sum{k}"))
    _train(model, model.net.Sum(sums, "scores"), optimizer.build_adagrad)
    return model, feeds, 10


def tiny(count=1000):
    """Relu, a thousand times, on four numbers."""
    model = model_helper.ModelHelper("tiny")
    x = "data"
    for k in range(count):
        x = model.net.Relu(x, f"r{k}")
    return model, {"data": _floats(4)}, 20


NETS = {net.__name__: net for net in (mlp, lenet, resnet50, lstm, dlrm, transformer, video, wide, tiny)}


def prepare(name):
    """Creates a net; returns a function that runs it some times, how often that is, and seconds that creation took."""
    import time

    core.GlobalInit(["benchmarks", "--caffe2_log_level=2"])
    model, feeds, times = NETS[name]()
    for blob, value in feeds.items():
        workspace.FeedBlob(blob, value)
    workspace.RunNetOnce(model.param_init_net)
    began = time.perf_counter()
    workspace.CreateNet(model.net)
    seconds = time.perf_counter() - began
    seen = ["loss", str(model.GetParams()[-1])] if model.GetParams() else ["r999"]

    def run():
        workspace.RunNet(model.net.Name(), times)
        for blob in seen:
            assert np.isfinite(workspace.FetchBlob(blob)).all(), blob

    return run, times, seconds
