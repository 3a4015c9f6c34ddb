"""Convolution nets on images, and on images that move."""

from __future__ import annotations

from benchmarks.training import Net, classes, constant, floats, parameter, train
from caffe2.python import brew, model_helper


def lenet(batch):
    model = model_helper.ModelHelper("lenet")
    h = brew.max_pool(model, brew.conv(model, "data", "a", 1, 20, 5), "pa", kernel=2, stride=2)
    h = brew.max_pool(model, brew.conv(model, h, "b", 20, 50, 5), "pb", kernel=2, stride=2)
    h = brew.fc(model, h, "c", 800, 500)
    train(model, brew.fc(model, brew.relu(model, h, h), "scores", 500, 10))
    return model, {"data": floats(batch, 1, 28, 28), "label": classes(batch, 10)}


def resnet50(batch, side, kinds):
    from caffe2.python.models import resnet

    model = model_helper.ModelHelper("resnet50", arg_scope={"order": "NCHW", "use_cudnn": False})
    scores = resnet.create_resnet50(model, "data", 3, kinds, no_loss=True, no_bias=1,
                                    final_avg_kernel=side // 32)
    train(model, scores, rate=1e-6)  # with more, losses of different libraries part after one step
    return model, {"data": floats(batch, 3, side, side), "label": classes(batch, kinds)}


def video(batch, frames, side, widths, kinds):
    """Convolutions over time and space, each halved by a pool."""
    model = model_helper.ModelHelper("video")
    x, channels = "data", 3
    for k, width in enumerate(widths):
        spread = (6.0 / (27 * channels)) ** 0.5
        w = parameter(model, f"w{k}", [width, channels, 3, 3, 3], spread)
        b = constant(model, f"b{k}", width, 0.0)
        x = model.net.Relu(model.net.Conv([x, w, b], f"y{k}", kernels=[3, 3, 3], pads=[1] * 6), f"r{k}")
        x = model.net.MaxPool(x, f"p{k}", kernels=[2, 2, 2], strides=[2, 2, 2])
        channels = width
    halvings = 2 ** len(widths)
    train(model, brew.fc(model, x, "scores", channels * (frames // halvings) * (side // halvings) ** 2, kinds))
    return model, {"data": floats(batch, 3, frames, side, side), "label": classes(batch, kinds)}


NETS = [Net(lenet, 10, {"batch": 4}, batch=64),
        Net(resnet50, 1, {"batch": 8, "side": 64, "kinds": 10}, batch=8, side=224, kinds=1000),
        Net(video, 2, {"batch": 4, "side": 16, "widths": (4, 8)}, batch=4, frames=8, side=48, widths=(32, 64, 128),
            kinds=10)]
