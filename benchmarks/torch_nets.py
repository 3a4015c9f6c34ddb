"""The same nets as somebody who writes PyTorch would have them, with its fused optimizers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

torch.manual_seed(0)


def _sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01, fused=True)


class Bottleneck(nn.Module):
    def __init__(self, inside: int, width: int, outside: int, stride: int) -> None:
        super().__init__()
        def unit(i: int, o: int, kernel: int, step: int = 1) -> nn.Sequential:
            return nn.Sequential(nn.Conv2d(i, o, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(o))

        self.path = nn.Sequential(unit(inside, width, 1), nn.ReLU(True), unit(width, width, 3, stride), nn.ReLU(True),
                                  unit(width, outside, 1))
        self.short = nn.Identity() if stride == 1 and inside == outside else unit(inside, outside, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.path(x) + self.short(x), True)


class Block(nn.Module):
    def __init__(self, batch: int, width: int, heads: int) -> None:
        super().__init__()
        self.batch, self.heads = batch, heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        q, k, v = (layer(h).view(self.batch, -1, self.heads, x.shape[1] // self.heads).transpose(1, 2)
                   for layer in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))
        return x + self.down(F.relu(self.up(self.second(x)), True))


class Tagger(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.rnn, self.out = nn.LSTM(width, width), nn.Linear(width, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.rnn(x)[0].flatten(0, 1))


class Dlrm(nn.Module):
    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum", sparse=True) for _ in range(tables))
        self.below = nn.Sequential(nn.Linear(13, 64), nn.ReLU(True), nn.Linear(64, width), nn.ReLU(True))
        self.above = nn.Sequential(nn.Linear(width + (tables + 1) ** 2, 128), nn.ReLU(True), nn.Linear(128, 2))

    def forward(self, dense: Tensor, offsets: Tensor, *ids: Tensor) -> Tensor:
        b = self.below(dense)
        together = torch.stack([b, *(bag(i, offsets) for bag, i in zip(self.bags, ids))], 1)
        return self.above(torch.cat([b, torch.bmm(together, together.transpose(1, 2)).flatten(1)], 1))


class Wide(nn.Module):
    def __init__(self, tables: int, rows: int) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, 2, mode="sum", sparse=True) for _ in range(tables))

    def forward(self, offsets: Tensor, *ids: Tensor) -> Tensor:
        return torch.stack([bag(i, offsets) for bag, i in zip(self.bags, ids)]).sum(0)


class Relus(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for _ in range(1000):
            x = F.relu(x)
        return x


Parts = tuple[nn.Module, Sequence[Tensor], "Tensor | None", "torch.optim.Optimizer | None", int]


def mlp() -> Parts:
    m = nn.Sequential(nn.Linear(784, 512), nn.ReLU(True), nn.Linear(512, 512), nn.ReLU(True), nn.Linear(512, 10))
    return m, [torch.randn(64, 784)], torch.randint(0, 10, (64,)), _sgd(m), 50


def lenet() -> Parts:
    m = nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.Flatten(),
                      nn.Linear(800, 500), nn.ReLU(True), nn.Linear(500, 10))
    return m, [torch.randn(64, 1, 28, 28)], torch.randint(0, 10, (64,)), _sgd(m), 10


def resnet50() -> Parts:
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(count):
            layers.append(Bottleneck(inside, width, 4 * width, 1 if k else stride))
            inside = 4 * width
    m = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
    return m, [torch.randn(8, 3, 224, 224)], torch.randint(0, 1000, (8,)), _sgd(m), 1


def lstm() -> Parts:
    m = Tagger(128)
    return (m, [torch.randn(32, 32, 128)], torch.randint(0, 64, (1024,)),
            torch.optim.Adam(m.parameters(), lr=0.01, fused=True), 5)


def dlrm() -> Parts:
    m = Dlrm(8, 100000, 32)
    ids = [torch.randint(0, 100000, (1280,)) for _ in range(8)]
    return (m, [torch.randn(128, 13), torch.arange(0, 1280, 10), *ids], torch.randint(0, 2, (128,)),
            torch.optim.Adagrad(m.parameters(), lr=0.01), 10)


def transformer() -> Parts:
    m = nn.Sequential(*(Block(4, 256, 8) for _ in range(12)), nn.Linear(256, 64))
    return (m, [torch.randn(256, 256)], torch.randint(0, 64, (256,)),
            torch.optim.Adam(m.parameters(), lr=1e-4, fused=True), 2)


def video() -> Parts:
    layers: list[nn.Module] = []
    for i, o in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv3d(i, o, 3, padding=1), nn.ReLU(True), nn.MaxPool3d(2)]
    m = nn.Sequential(*layers, nn.Flatten(), nn.Linear(1024, 10))
    return m, [torch.randn(2, 3, 8, 32, 32)], torch.randint(0, 10, (2,)), _sgd(m), 3


def wide() -> Parts:
    m = Wide(16, 200000)
    ids = [torch.randint(0, 200000, (5120,)) for _ in range(16)]
    return (m, [torch.arange(0, 5120, 20), *ids], torch.randint(0, 2, (256,)),
            torch.optim.Adagrad(m.parameters(), lr=0.01), 10)


def tiny() -> Parts:
    return Relus(), [torch.randn(4)], None, None, 20


NETS = {net.__name__: net for net in (mlp, lenet, resnet50, lstm, dlrm, transformer, video, wide, tiny)}


def prepare(name: str, channels_last: bool = False, compiled: bool = False) -> tuple[Callable[[], None], int, float]:
    """A function that trains a net some steps, how many these are, and seconds that making it took."""
    began = time.perf_counter()
    model, inputs, label, optimizer, times = NETS[name]()
    if channels_last:
        if inputs[0].ndim != 4:
            raise SystemExit("no images")
        model = model.to(memory_format=torch.channels_last)
        inputs = [inputs[0].contiguous(memory_format=torch.channels_last)]
    forward = torch.compile(model) if compiled else model
    if optimizer is None or label is None:
        def step() -> Tensor:
            with torch.no_grad():
                return forward(*inputs)
    else:
        def step() -> Tensor:
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(forward(*inputs), label)
            loss.backward()
            optimizer.step()
            return loss
    step()

    def run() -> None:
        for _ in range(times):
            loss = step()
        assert loss.isfinite().all()

    return run, times, time.perf_counter() - began
