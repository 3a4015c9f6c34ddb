"""The nets of the convolution benchmarks, with their loss: AlexNet, OverFeat, VGG A, Inception; and a dense net.

Each function returns the model, which reads ``data`` and ``label`` (int32) and computes ``loss``, and the height and
width of its images (for `MLP` the number of features). They have Caffe2's blobs and sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from netgrad.training import brew
from netgrad.training.model_helper import ModelHelper

_XAVIER: tuple[str, dict[str, Any]] = ("XavierFill", {})
_ZERO: tuple[str, dict[str, Any]] = ("ConstantFill", {})


class Conv(NamedTuple):
    """A convolution with a rectifier."""

    name: str
    channels: int
    kernel: int
    arguments: dict[str, int]


class Pool(NamedTuple):
    """Maximum pooling."""

    name: str
    kernel: int
    stride: int


def AlexNet(order: str, cudnn_ws: int | None = None) -> tuple[ModelHelper, int]:
    """Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014 (arXiv:1404.5997)."""
    return _chain("alexnet", 224, order, cudnn_ws, [
        Conv("conv1", 64, 11, {"stride": 4, "pad": 2}), Pool("pool1", 3, 2),
        Conv("conv2", 192, 5, {"pad": 2}), Pool("pool2", 3, 2),
        Conv("conv3", 384, 3, {"pad": 1}), Conv("conv4", 256, 3, {"pad": 1}), Conv("conv5", 256, 3, {"pad": 1}),
        Pool("pool5", 3, 2),
    ], 6, [("fc6", 4096), ("fc7", 4096), ("fc8", 1000)])


def OverFeat(order: str, cudnn_ws: int | None = None) -> tuple[ModelHelper, int]:
    """The fast model of Sermanet et al., "OverFeat", 2013 (arXiv:1312.6229)."""
    return _chain("overfeat", 231, order, cudnn_ws, [
        Conv("conv1", 96, 11, {"stride": 4}), Pool("pool1", 2, 2), Conv("conv2", 256, 5, {}), Pool("pool2", 2, 2),
        Conv("conv3", 512, 3, {"pad": 1}), Conv("conv4", 1024, 3, {"pad": 1}), Conv("conv5", 1024, 3, {"pad": 1}),
        Pool("pool5", 2, 2),
    ], 6, [("fc6", 3072), ("fc7", 4096), ("fc8", 1000)])


def VGGA(order: str, cudnn_ws: int | None = None) -> tuple[ModelHelper, int]:
    """Configuration A of Simonyan, Zisserman, "Very Deep Convolutional Networks", 2014 (arXiv:1409.1556)."""
    same = {"pad": 1}
    return _chain("vgga", 231, order, cudnn_ws, [
        Conv("conv1", 64, 3, same), Pool("pool1", 2, 2), Conv("conv2", 128, 3, same), Pool("pool2", 2, 2),
        Conv("conv3", 256, 3, same), Conv("conv4", 256, 3, same), Pool("pool4", 2, 2),
        Conv("conv5", 512, 3, same), Conv("conv6", 512, 3, same), Pool("pool6", 2, 2),
        Conv("conv7", 512, 3, same), Conv("conv8", 512, 3, same), Pool("pool8", 2, 2),
    ], 7, [("fcix", 4096), ("fcx", 4096), ("fcxi", 1000)])


#: name, channels: of the 1x1 path, of the 3x3 path (reduced, then), of the 5x5 path, of the pooled path
_INCEPTION: list[Any] = [
    ("inc3", 64, (96, 128), (16, 32), 32),
    ("inc4", 128, (128, 192), (32, 96), 64),
    "pool5",
    ("inc5", 192, (96, 208), (16, 48), 64),
    ("inc6", 160, (112, 224), (24, 64), 64),
    ("inc7", 128, (128, 256), (24, 64), 64),
    ("inc8", 112, (144, 288), (32, 64), 64),
    ("inc9", 256, (160, 320), (32, 128), 128),
    "pool9",
    ("inc10", 256, (160, 320), (32, 128), 128),
    ("inc11", 384, (192, 384), (48, 128), 128),
]


def Inception(order: str, cudnn_ws: int | None = None) -> tuple[ModelHelper, int]:
    """GoogLeNet without its side losses: Szegedy et al., "Going deeper with convolutions", 2014 (arXiv:1409.4842)."""
    model = _model("inception", order, cudnn_ws)
    blob = _conv(model, "data", "conv1", 3, 64, 7, stride=2, pad=3)
    blob = brew.max_pool(model, blob, "pool1", kernel=3, stride=2, pad=1)
    blob = _conv(model, blob, "conv2a", 64, 64, 1)
    blob = _conv(model, blob, "conv2", 64, 192, 3, pad=1)
    blob = brew.max_pool(model, blob, "pool2", kernel=3, stride=2, pad=1)
    channels = 192
    for block in _INCEPTION:
        if isinstance(block, str):
            blob = brew.max_pool(model, blob, block, kernel=3, stride=2, pad=1)
        else:
            blob, channels = _inception_block(model, blob, channels, *block)
    blob = brew.average_pool(model, blob, "pool11", kernel=7, stride=1)
    _loss(model, brew.fc(model, blob, "fc", channels, 1000, _XAVIER, _ZERO))
    return model, 224


def MLP(order: str, cudnn_ws: int | None = None) -> tuple[ModelHelper, int]:
    """Three chains of 20 dense layers of 256, summed: many small products that could run at once."""
    size, depth, width = 256, 20, 3
    model = ModelHelper(name="MLP")
    for layer in range(depth):
        for chain in range(width):
            given = f"fc_{layer}_{chain}" if layer else "data"
            brew.fc(model, given, f"fc_{layer + 1}_{chain}", dim_in=size, dim_out=size, weight_init=_XAVIER,
                    bias_init=_XAVIER)
    brew.sum(model, [f"fc_{depth}_{chain}" for chain in range(width)], ["sum"])
    brew.fc(model, "sum", "last", dim_in=size, dim_out=1000, weight_init=_XAVIER, bias_init=_XAVIER)
    _cross_entropy(model, "last")
    return model, size


MODELS = {"AlexNet": AlexNet, "OverFeat": OverFeat, "VGGA": VGGA, "Inception": Inception, "MLP": MLP}


def _model(name: str, order: str, cudnn_ws: int | None) -> ModelHelper:
    arguments: dict[str, Any] = {"order": order, "use_cudnn": True, "cudnn_exhaustive_search": True}
    if cudnn_ws:
        arguments["ws_nbytes_limit"] = cudnn_ws
    return ModelHelper(name=name, arg_scope=arguments)


def _chain(
    name: str, size: int, order: str, cudnn_ws: int | None, layers: Sequence[Conv | Pool], left: int,
    dense: Sequence[tuple[str, int]],
) -> tuple[ModelHelper, int]:
    """Convolutions and pooling one after the other, then dense layers on the ``left`` x ``left`` pixels that remain."""
    model = _model(name, order, cudnn_ws)
    blob: Any = "data"
    channels = 3
    for layer in layers:
        if isinstance(layer, Pool):
            blob = brew.max_pool(model, blob, layer.name, kernel=layer.kernel, stride=layer.stride)
        else:
            blob = _conv(model, blob, layer.name, channels, layer.channels, layer.kernel, **layer.arguments)
            channels = layer.channels
    inputs = channels * left * left
    for k, (output, outputs) in enumerate(dense):
        blob = brew.fc(model, blob, output, inputs, outputs, _XAVIER, _ZERO)
        if k < len(dense) - 1:
            blob = brew.relu(model, blob, output)
        inputs = outputs
    _loss(model, blob)
    return model, size


def _conv(model: ModelHelper, blob: Any, name: str, dim_in: int, dim_out: int, kernel: int, **arguments: Any) -> Any:
    output = brew.conv(model, blob, name, dim_in, dim_out, kernel, _XAVIER, _ZERO, **arguments)
    return brew.relu(model, output, output)


def _inception_block(
    model: ModelHelper, blob: Any, dim_in: int, name: str, conv1: int, conv3: tuple[int, int], conv5: tuple[int, int],
    pooled: int,
) -> tuple[Any, int]:
    """Four paths side by side, and the channels they have together."""
    one = _conv(model, blob, f"{name}:conv1", dim_in, conv1, 1)
    three = _conv(model, blob, f"{name}:conv3_reduce", dim_in, conv3[0], 1)
    three = _conv(model, three, f"{name}:conv3", conv3[0], conv3[1], 3, pad=1)
    five = _conv(model, blob, f"{name}:conv5_reduce", dim_in, conv5[0], 1)
    five = _conv(model, five, f"{name}:conv5", conv5[0], conv5[1], 5, pad=2)
    pool = brew.max_pool(model, blob, f"{name}:pool", kernel=3, stride=1, pad=1)
    pool = _conv(model, pool, f"{name}:pool_proj", dim_in, pooled, 1)
    return brew.concat(model, [one, three, five, pool], name), conv1 + conv3[1] + conv5[1] + pooled


def _loss(model: ModelHelper, scores: Any) -> None:
    _cross_entropy(model, brew.softmax(model, scores, "pred"))


def _cross_entropy(model: ModelHelper, probabilities: Any) -> None:
    model.net.AveragedLoss(model.net.LabelCrossEntropy([probabilities, "label"], "xent"), "loss")
