"""What a kernel of torch makes of an image does not depend on how the image lies in memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from netgrad.graph.net import Net
from netgrad.runtime.workspace import Workspace

torch = pytest.importorskip("torch")
rng = np.random.default_rng(5)


def f(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def layouts(images: Any) -> Iterator[Any]:
    """The same images with the channels first and last, with every odd stride along sides of length 1."""
    for order in ((0, 1, 2, 3), (0, 2, 3, 1), (1, 0, 2, 3)):
        strides, step = [0] * 4, 1
        for k in reversed(order):
            strides[k], step = step, step * images.shape[k]
        ones = [k for k in range(4) if images.shape[k] == 1]
        for odd in itertools.product((1, 2, 12), repeat=len(ones)):
            for k, stride in zip(ones, odd):
                strides[k] = stride
            yield torch.empty_strided(images.shape, strides).copy_(images)


def conv(net: Net, group: int = 1) -> list[str]:
    net.Conv(["x", "w", "b"], "y", kernel=1, group=group)
    return ["w", "b"]


def normalize(net: Net, is_test: int = 0) -> list[str]:
    if is_test:
        net.SpatialBN(["x", "b", "t", "m", "v"], "y", is_test=1, epsilon=0.01)
    else:
        net.SpatialBN(["x", "b", "t", "m", "v"], ["y", "m", "v", "bm", "bv"], is_test=0, epsilon=0.01)
    return ["b", "t"]


def plain(type: str, outputs: str = "y", **arguments: Any) -> Any:
    def make(net: Net) -> list[str]:
        getattr(net, type)("x", outputs.split(), **arguments)
        return []

    return make


LAYERS = {
    "Conv": conv, "Conv in groups": lambda net: conv(net, 2), "SpatialBN": normalize,
    "SpatialBN in test": lambda net: normalize(net, 1),
    "ConvTranspose": lambda net: net.ConvTranspose(["x", "w", "b"], "y", kernel=1) and ["w", "b"],
    "MaxPool": plain("MaxPool", kernel=1), "AveragePool": plain("AveragePool", kernel=1),
    "global pooling": plain("AveragePool", global_pooling=1),
    "LRN": plain("LRN", "y scale", size=3, alpha=0.1, beta=0.5, bias=1.0),
    "InstanceNorm": lambda net: net.InstanceNorm(["x", "b", "t"], "y") and ["b", "t"],
    "GroupNorm": lambda net: net.GroupNorm(["x", "b", "t"], ["y", "mu", "sd"], group=2) and ["b", "t"],
    "LayerNorm": plain("LayerNorm", "y mu sd"),
    "ResizeNearest": plain("ResizeNearest", width_scale=2.0, height_scale=2.0),
    "UpsampleBilinear": plain("UpsampleBilinear", width_scale=2.0, height_scale=2.0),
    "Softmax": plain("Softmax"), "Relu": plain("Relu"), "Sigmoid": plain("Sigmoid"),
    "PRelu": lambda net: net.PRelu(["x", "b"], "y") and ["b"], "Flatten": plain("Flatten"),
    "ChannelShuffle": plain("ChannelShuffle", group=2), "PadImage": plain("PadImage", pad=1),
    "FC": lambda net: net.FC([net.Flatten("x", "flat"), "fc", "b"], "y") and ["fc", "b"],
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("shape", [(1, 2, 6, 1), (1, 2, 1, 3), (2, 2, 1, 1), (1, 2, 3, 2), (3, 2, 2, 1)], ids=str)
def test_odd_strides_change_nothing(layer: str, shape: tuple[int, ...]) -> None:
    net = Net("n")
    names = LAYERS[layer](net)
    images = f(*shape)
    feeds = {"x": images, "w": f(2, 1 if "groups" in layer else 2, 1, 1), "b": f(2), "t": f(2), "m": f(2),
             "v": np.abs(f(2)) + 1, "fc": f(2, int(np.prod(shape[1:])))}

    def run(definition: Any, more: dict[str, Any]) -> Workspace:
        ws = Workspace(backend="torch")
        for name, value in feeds.items():
            ws.feed_blob(name, value)
        ws.values.update(more)
        ws.run_net_once(definition)
        return ws

    y = run(net.Proto(), {}).fetch_blob("y")
    feeds["dy"] = f(*y.shape)
    gradients = net.AddGradientOperators({"y": "dy"})
    wanted = ["y", *(str(gradients[name]) for name in ("x", *names) if name in gradients)]
    expected = run(net.Proto(), {})
    for x in layouts(torch.from_numpy(images)):
        dys = list(layouts(torch.from_numpy(feeds["dy"]))) if y.ndim == 4 else [torch.from_numpy(feeds["dy"])]
        for dy in dys[:: max(1, len(dys) // 6)]:
            found = run(net.Proto(), {"x": x, "dy": dy})
            for name in wanted:
                np.testing.assert_allclose(found.fetch_blob(name), expected.fetch_blob(name), rtol=1e-4, atol=1e-4,
                                           err_msg=f"{name} {x.stride()} {dy.stride()}")
