"""The same nets as somebody who writes PyTorch would have them, with its fused optimizers.

Their parameters come in the order in which the nets create theirs, so that both can begin with the same values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

Feeds = Mapping[str, np.ndarray]
Build = Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer]


@dataclass(frozen=True)
class Rival:
    """A net of PyTorch.

    Attributes:
        model: computes scores from ``inputs``; without labels, what is seen.
        optimizer: makes the optimizer of its parameters; None where nothing is learnt.
        parameters: those of the net, turned into those of the model, where they are laid out otherwise.
    """

    model: nn.Module
    inputs: Sequence[Tensor]
    optimizer: Build | None
    parameters: Callable[[list[Tensor]], list[Tensor]] = list


def _sgd(rate: float = 0.01) -> Build:
    return lambda parameters: torch.optim.SGD(parameters, lr=rate, fused=True)


def _adam(rate: float) -> Build:
    def build(parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        mine = list(parameters)
        optimizer = torch.optim.Adam(mine, lr=rate, eps=1e-12, fused=True)
        for p in mine:  # Caffe2 counts a first step before its first update
            optimizer.state[p] = {"step": torch.tensor(1.0), "exp_avg": torch.zeros_like(p),
                                  "exp_avg_sq": torch.zeros_like(p)}
        return optimizer

    return build


def _adagrad(rate: float = 0.01) -> Build:
    # the fused one refuses sparse gradients
    return lambda parameters: torch.optim.Adagrad(parameters, lr=rate, eps=1e-4)


def _inputs(feeds: Feeds, *names: str) -> list[Tensor]:
    return [torch.from_numpy(feeds[name]) for name in names]


# ---- layers


def mlp(feeds: Feeds, batch: int, inputs: int, width: int, kinds: int) -> Rival:
    model = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(True), nn.Linear(width, width), nn.ReLU(True),
                          nn.Linear(width, kinds))
    return Rival(model, _inputs(feeds, "data"), _sgd())


class Relus(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.count):
            x = torch.relu(x)
        return x


def tiny(feeds: Feeds, count: int, numbers: int) -> Rival:
    return Rival(Relus(count), _inputs(feeds, "data"), None)


# ---- images


def lenet(feeds: Feeds, batch: int) -> Rival:
    model = nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(800, 500), nn.ReLU(True), nn.Linear(500, 10))
    return Rival(model, _inputs(feeds, "data"), _sgd())


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


def resnet50(feeds: Feeds, batch: int, side: int, kinds: int) -> Rival:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True),
                               nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(count):
            layers.append(Bottleneck(inside, width, 4 * width, 1 if k else stride))
            inside = 4 * width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, kinds))
    return Rival(model, _inputs(feeds, "data"), _sgd(1e-6))


def video(feeds: Feeds, batch: int, frames: int, side: int, widths: Sequence[int], kinds: int) -> Rival:
    layers: list[nn.Module] = []
    inside = 3
    for width in widths:
        layers += [nn.Conv3d(inside, width, 3, padding=1), nn.ReLU(True), nn.MaxPool3d(2)]
        inside = width
    halvings = 2 ** len(widths)
    last = inside * (frames // halvings) * (side // halvings) ** 2
    return Rival(nn.Sequential(*layers, nn.Flatten(), nn.Linear(last, kinds)), _inputs(feeds, "data"), _sgd())


# ---- sequences


class Tagger(nn.Module):
    def __init__(self, width: int, kinds: int) -> None:
        super().__init__()
        self.rnn, self.out = nn.LSTM(width, width), nn.Linear(width, kinds)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.rnn(x)[0].flatten(0, 1))


def lstm(feeds: Feeds, batch: int, length: int, width: int, kinds: int) -> Rival:
    def parameters(given: list[Tensor]) -> list[Tensor]:
        def gates(rows: Tensor) -> Tensor:  # the output's before the cell's there, after it here
            i, f, o, g = rows.chunk(4)
            return torch.cat([i, f, g, o])

        w_input, b_input, w_state, b_state, *rest = given
        return [gates(w_input), gates(w_state), gates(b_input), gates(b_state), *rest]

    return Rival(Tagger(width, kinds), _inputs(feeds, "data"), _adam(0.01), parameters)


class Block(nn.Module):
    def __init__(self, batch: int, width: int, heads: int) -> None:
        super().__init__()
        self.batch, self.heads = batch, heads
        self.first = nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.second = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        q, k, v = (layer(h).view(self.batch, -1, self.heads, x.shape[1] // self.heads).transpose(1, 2)
                   for layer in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.second(x))))


def transformer(feeds: Feeds, batch: int, length: int, width: int, heads: int, layers: int, kinds: int) -> Rival:
    model = nn.Sequential(*(Block(batch, width, heads) for _ in range(layers)), nn.Linear(width, kinds))
    return Rival(model, _inputs(feeds, "data"), _adam(1e-4))


# ---- tables


def _bags(tables: int, rows: int, width: int) -> nn.ModuleList:
    # uninitialized: the values come from the net
    return nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum", sparse=True, _weight=torch.empty(rows, width))
                         for _ in range(tables))


class Dlrm(nn.Module):
    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        self.below = nn.Sequential(nn.Linear(13, 64), nn.ReLU(True), nn.Linear(64, width), nn.ReLU(True))
        self.bags = _bags(tables, rows, width)
        self.above = nn.Sequential(nn.Linear(width + (tables + 1) ** 2, 128), nn.ReLU(True), nn.Linear(128, 2))

    def forward(self, dense: Tensor, offsets: Tensor, *ids: Tensor) -> Tensor:
        b = self.below(dense)
        together = torch.stack([b, *(bag(i, offsets) for bag, i in zip(self.bags, ids))], 1)
        return self.above(torch.cat([b, torch.bmm(together, together.transpose(1, 2)).flatten(1)], 1))


class Wide(nn.Module):
    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        self.bags, self.layer = _bags(tables, rows, width), nn.Linear(tables * width, 2)

    def forward(self, offsets: Tensor, *ids: Tensor) -> Tensor:
        return self.layer(torch.cat([bag(i, offsets) for bag, i in zip(self.bags, ids)], 1))


def dlrm(feeds: Feeds, batch: int, tables: int, rows: int, width: int, bag: int) -> Rival:
    ids = _inputs(feeds, *(f"ids{k}" for k in range(tables)))
    return Rival(Dlrm(tables, rows, width), [*_inputs(feeds, "dense"), torch.arange(0, batch * bag, bag), *ids],
                 _adagrad())


def wide(feeds: Feeds, batch: int, tables: int, rows: int, width: int, bag: int) -> Rival:
    ids = _inputs(feeds, *(f"ids{k}" for k in range(tables)))
    return Rival(Wide(tables, rows, width), [torch.arange(0, batch * bag, bag), *ids], _adagrad(1e-3))


RIVALS: dict[str, Callable[..., Rival]] = {rival.__name__: rival for rival in (
    mlp, lenet, resnet50, lstm, dlrm, transformer, video, wide, tiny)}
_LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}


def has_layouts(name: str) -> bool:
    """Whether a net is of images, which PyTorch can lay out in two ways."""
    return name in ("lenet", "resnet50", "video")


def prepare(name: str, sizes: Mapping[str, Any], feeds: Feeds, parameters: Sequence[np.ndarray], *, last: bool = False,
            compiled: bool = False, bfloat16: bool = False) -> tuple[Callable[[], float], float]:
    """A function that trains a net one step, looks at its last parameter and returns its loss; and the seconds that
    making it took.

    Args:
        last: images and filters with their channels side by side.
        compiled: by torch.compile.
        bfloat16: products and convolutions in that precision, by autocast.
    """
    began = time.perf_counter()
    rival = RIVALS[name](feeds, **sizes)
    model, inputs = rival.model, list(rival.inputs)
    with torch.no_grad():
        for own, given in zip(model.parameters(), rival.parameters([torch.from_numpy(p) for p in parameters]),
                              strict=True):
            if own.shape != given.shape:
                raise ValueError(f"{name}: a parameter has shape {tuple(own.shape)} here, {tuple(given.shape)} there")
            own.copy_(given)
    if last:
        layout = _LAYOUTS[inputs[0].ndim]
        model.to(memory_format=layout)  # type: ignore[call-overload]
        inputs[0] = inputs[0].contiguous(memory_format=layout)
    forward: Any = torch.compile(model) if compiled else model
    if rival.optimizer is None:
        def look() -> float:
            with torch.no_grad():
                return float(forward(*inputs).numpy().copy().sum())

        return look, time.perf_counter() - began
    optimizer = rival.optimizer(model.parameters())
    labels = torch.from_numpy(feeds["label"]).long()
    seen = list(model.parameters())[-1]

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            loss = F.cross_entropy(forward(*inputs), labels)
        loss.backward()
        optimizer.step()
        seen.detach().numpy().copy()
        return loss.item()

    return step, time.perf_counter() - began
