"""Random convolution nets, planned and plain, torch and NumPy: odd sizes, one channel, groups, reshaped images."""

from __future__ import annotations

import numpy as np
import pytest

from netgrad.graph.net import Net
from netgrad.runtime.planning import planner
from netgrad.runtime.workspace import Workspace

pytest.importorskip("torch")


class Images:
    """A net on images, its derivative, and updates of some parameters, perhaps of the images."""

    def __init__(self, seed: int) -> None:
        self.r = np.random.default_rng(seed)
        n = int(self.r.choice([0, 1, 2, 3], p=[0.1, 0.3, 0.4, 0.2]))
        sizes = [int(self.r.choice(s)) for s in ([1, 2, 4], [1, 2, 3, 6], [1, 2, 5])]
        self.net, self.channels, self.now = Net("images"), sizes[0], "x"
        self.feeds = {"x": self.f(n, *sizes), "one": np.ones(1, np.float32), "it": np.array([1]),
                      "lr": np.array([-0.05], np.float32)}
        self.weights: list[str] = []
        for k in range(self.r.integers(1, 6)):
            getattr(self, self.r.choice(["conv", "conv", "conv", "relu", "reshape", "transpose", "same", "twice",
                                         "normalize"]))(f"y{k}")
        pick = self.r.integers(3)
        if pick == 0:
            self.net.AveragedLoss(self.net.FlattenToVec(self.now, "flat"), "loss")
        elif pick == 1:
            self.net.AveragedLoss(self.net.AveragePool(self.now, "pooled", global_pooling=1), "loss")
        else:
            self.net.SumElements(self.now, "loss")
        gradients = self.net.AddGradientOperators(["loss"], overwritten="save")
        how = self.r.choice(["WeightedSum", "Adam", "MomentumSGDUpdate", "Adagrad"])
        for name in [*self.weights, *(["x"] if self.r.random() < 0.3 else [])]:
            if name in gradients and self.r.random() < 0.85:
                self.update(how, name, gradients[name])

    def f(self, *shape: int) -> np.ndarray:
        return (self.r.standard_normal(shape) * 0.4).astype(np.float32)

    def conv(self, out: str) -> None:
        filters, kernel = int(self.r.choice([1, 2, 4])), int(self.r.choice([1, 3]))
        group = 2 if self.channels % 2 == filters % 2 == 0 and self.r.random() < 0.3 else 1
        inputs, bias = [self.now, f"{out}_w"], self.r.random() < 0.7
        self.feeds[f"{out}_w"] = self.f(filters, self.channels // group, kernel, kernel)
        if bias:
            inputs.append(f"{out}_b")
            self.feeds[f"{out}_b"] = self.f(filters)
        self.weights += inputs[1:]
        self.net.Conv(inputs, out, kernel=kernel, pad=kernel // 2, group=group, stride=int(self.r.choice([1, 1, 2])),
                      **({} if bias else {"no_bias": 1}))
        self.channels, self.now = filters, out

    def relu(self, out: str) -> None:
        self.now = str(self.net.Relu(self.now, self.now if self.now != "x" and self.r.random() < 0.5 else out))

    def reshape(self, out: str) -> None:
        self.net.Reshape(self.now, [f"{out}_flat", f"{out}_shape"], shape=(0, 0, -1))
        self.net.Reshape([f"{out}_flat", f"{out}_shape"], [out, f"{out}_old"])
        self.now = out

    def transpose(self, out: str) -> None:
        self.net.Transpose(self.net.Transpose(self.now, f"{out}_nhwc", axes=(0, 2, 3, 1)), out, axes=(0, 3, 1, 2))
        self.now = out

    def same(self, out: str) -> None:
        self.now = str(getattr(self.net, self.r.choice(["Alias", "Copy", "Negative"]))(self.now, out))

    def twice(self, out: str) -> None:
        self.net.Concat([self.now, self.now], [out, f"{out}_split"], order="NCHW")
        self.channels, self.now = 2 * self.channels, out

    def normalize(self, out: str) -> None:
        if self.feeds["x"].size:
            names = [f"{out}_{kind}" for kind in "stmv"]
            self.feeds |= dict(zip(names, (self.f(self.channels), self.f(self.channels), np.zeros(
                self.channels, np.float32), np.ones(self.channels, np.float32))))
            self.net.SpatialBN([self.now, *names], [out, *names[2:], f"{out}_mean", f"{out}_var"], epsilon=0.01,
                               is_test=0)
            self.now = out

    def update(self, how: str, name: str, gradient: str) -> None:
        m, v, net = f"{name}_m", f"{name}_v", self.net
        self.feeds |= {m: np.zeros_like(self.feeds[name]), v: np.full_like(self.feeds[name], 0.1)}
        if how == "WeightedSum":
            net.WeightedSum([name, "one", gradient, "lr"], name)
        elif how == "Adam":
            net.Adam([name, m, v, gradient, "lr", "it"], [name, m, v], epsilon=0.1)
        elif how == "Adagrad":
            net.Adagrad([name, v, gradient, "lr"], [name, v], epsilon=0.1)
        else:
            net.MomentumSGDUpdate([gradient, m, "lr", name], [gradient, m, name], momentum=0.9)


def blobs(images: Images, backend: str, passes: str, runs: int) -> dict[str, np.ndarray]:
    ws = Workspace(backend=backend)
    for name, value in images.feeds.items():
        ws.feed_blob(name, value)
    with planner.passes(passes):
        created = ws.create_net(images.net.Proto())
    for _ in range(runs):
        created.run()
    return {name: ws.fetch_blob(name) for name in ws.names()}


def check(seed: int) -> None:
    images = Images(seed)
    for runs, rival in ((1, "numpy"), (3, "torch")):
        expected, found = blobs(images, rival, "none", runs), blobs(images, "torch", "all", runs)
        assert expected.keys() == found.keys()
        for name, value in expected.items():
            assert found[name].shape == value.shape and found[name].dtype == value.dtype, (seed, name)
            size = max(1.0, float(np.abs(value).max(initial=0)))
            np.testing.assert_allclose(found[name], value, rtol=2e-3, atol=2e-3 * size, err_msg=f"{seed} {name}")


def test_random_nets_on_images_are_the_same() -> None:
    for seed in range(100):
        check(seed)


@pytest.mark.soak
def test_soak_of_random_nets_on_images() -> None:
    for seed in range(100, 5000):
        check(seed)
