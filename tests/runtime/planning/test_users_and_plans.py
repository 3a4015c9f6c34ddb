"""Random users: what they do with blobs between runs leaves the same on a planned and a plain workspace.

They feed, fetch, remove, hold and write into what they were given (arrays, tensors of torch, DLPack, data of handles),
run several nets on the same parameters, in workspaces inside, edited, failing, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from runtime_nets import op

from netgrad.graph.net import Net
from netgrad.runtime import backends
from netgrad.runtime.errors import NetError
from netgrad.runtime.planning import planner
from netgrad.runtime.workspace import Workspace

WIDTH = 4
SHARED = ("w0", "w1", "b0", "filter", "filter1", "x", "images")


def feeds(r: np.random.Generator) -> dict[str, np.ndarray]:
    shapes = {"x": (3, WIDTH), "images": (2, 3, 2, 2), "filter": (WIDTH, 3, 3, 3), "bias": (WIDTH,),
              "filter1": (WIDTH, WIDTH, 1, 1), "bias1": (WIDTH,), **{f"w{k}": (WIDTH, WIDTH) for k in range(3)},
              **{f"b{k}": (WIDTH,) for k in range(3)}}
    made = {name: (r.standard_normal(shape) * 0.5).astype(np.float32) for name, shape in shapes.items()}
    moments = {f"{name}_{m}": np.full(shape, 0.1, np.float32) for name, shape in shapes.items() for m in "mv"}
    return {**made, **moments, "lr": np.array([-0.05], np.float32), "one": np.ones(1, np.float32), "it": np.array([2]),
            "bad": np.zeros((7, 7), np.float32)}


def a_net(r: np.random.Generator, k: int) -> Any:
    """Layers on shared parameters, their derivative, updates of some of them; some fail in the middle."""
    net, names = Net(f"net{k}"), ["x"]
    if r.random() < 0.35:
        h = net.Conv(["images", "filter", "bias"], f"c{k}", kernel=3, pad=1)
        if r.random() < 0.5:
            h = net.Conv([net.Relu(h, h), "filter1", "bias1"], f"d{k}", kernel=1)
        names.append(net.Reshape(h, [f"rows{k}", f"old{k}"], shape=(-1, WIDTH))[0])
    for j in range(r.integers(1, 5)):
        before = names[-1] if r.random() < 0.8 else names[r.integers(len(names))]
        kind, out = r.choice(["FC", "FC", "FC", "Relu", "Tanh", "Alias", "Copy", "Negative"]), f"y{k}_{j}"
        if kind == "FC":
            which = r.integers(3)
            names.append(net.FC([before, f"w{which}", f"b{which}"], out))
        else:
            into = before if kind == "Tanh" and before != "x" and r.random() < 0.5 else out
            names.append(getattr(net, kind)(before, into))
    net.AveragedLoss(names[-1], f"loss{k}")
    if r.random() < 0.85:
        gradients = net.AddGradientOperators([f"loss{k}"], overwritten="save")
        how = r.choice(["WeightedSum", "WeightedSum", "Adam", "Adagrad", "MomentumSGDUpdate"])
        for name in feeds(r):
            if name in gradients and r.random() < (0.3 if name in ("x", "images") else 0.85):
                update(net, how, name, gradients[name])
                if r.random() < 0.2:
                    net.WeightedSum([name, "one", gradients[name], "lr"], name)
                if r.random() < 0.15:
                    getattr(net, r.choice(["Alias", "Copy"]))(name, f"{name}_then")
    definition = net.Proto()
    if r.random() < 0.15:
        rest = list(definition.op)
        rest.insert(int(r.integers(len(rest) + 1)), op("MatMul", "x bad", "never"))
        del definition.op[:]
        definition.op.extend(rest)
    return definition


def update(net: Net, how: str, name: str, gradient: Any) -> None:
    m, v = f"{name}_m", f"{name}_v"
    if how == "WeightedSum":
        net.WeightedSum([name, "one", gradient, "lr"], name)
    elif how == "Adam":
        net.Adam([name, m, v, gradient, "lr", "it"], [name, m, v], epsilon=0.01)
    elif how == "Adagrad":
        net.Adagrad([name, v, gradient, "lr"], [name, v], epsilon=0.1)
    else:
        net.MomentumSGDUpdate([gradient, m, "lr", name], [gradient, m, name], momentum=0.9)


class User:
    """One who acts on a workspace; what is returned is what was seen."""

    def __init__(self, backend: str, passes: str, given: dict[str, np.ndarray]) -> None:
        self.ws, self.passes = Workspace(backend=backend), passes
        self.arrays = {name: value.copy() for name, value in given.items()}
        self.held: list[Any] = []
        self.inside: list[tuple[Workspace, str]] = []
        for name, value in self.arrays.items():
            self.ws.feed_blob(name, value)

    def act(self, what: str, *arguments: Any) -> Any:
        try:
            with planner.passes(self.passes):
                return getattr(self, what)(*arguments)
        except NetError as error:
            return type(error), str(error).split("\n")[0]

    def create(self, net: Any) -> None:
        self.ws.create_net(net, overwrite=True)

    def run(self, name: str, times: int) -> None:
        self.ws.run_net(name, times)

    def once(self, net: Any) -> None:
        self.ws.run_net_once(net)

    def edited(self, net: Any) -> None:
        shorter = type(net).FromString(net.SerializeToString())
        del shorter.op[-1]
        self.ws.run_net(shorter)

    def feed(self, name: str, value: np.ndarray) -> None:
        self.ws.feed_blob(name, value.copy())

    def feed_and_change(self, name: str) -> None:
        self.ws.feed_blob(name, self.arrays[name])
        self.arrays[name] += 1

    def feed_tensor(self, name: str, value: np.ndarray) -> None:
        self.held.append(pytest.importorskip("torch").from_numpy(value.copy()))
        self.ws.feed_blob(name, self.held[-1])

    def fetch(self, name: str) -> Any:
        return self.ws.fetch_blob(name)

    def fetch_tensor(self, name: str) -> Any:
        self.held.append(self.ws.blobs[name].to_torch())

    def fetch_dlpack(self, name: str) -> Any:
        self.held.append(pytest.importorskip("torch").from_dlpack(self.ws.blobs[name]))

    def fetch_data(self, name: str) -> None:
        self.held.append(self.ws.blobs[name].tensor().data)

    def write(self, which: int) -> None:
        if self.held:
            self.held[which % len(self.held)][...] *= 0.5

    def look(self) -> list[np.ndarray]:
        return [np.asarray(held).copy() for held in self.held]

    def forget(self) -> None:
        self.held.clear()

    def remove(self, name: str) -> Any:
        return self.ws.remove_blob(name)

    def operator(self, definition: Any) -> None:
        self.ws.run_operator(definition)

    def run_inside(self, net: Any, name: str, own: bool) -> Any:
        inside = Workspace(self.ws)
        if own:
            inside.values.bind_here(name, self.ws.values[name])  # type: ignore[attr-defined]
        inside.create_net(net)
        self.inside.append((inside, net.name))
        inside.run_net(net.name, 2)
        return inside.fetch_blob(name)

    def run_inside_again(self) -> Any:
        for inside, name in self.inside:
            inside.run_net(name)
        return [inside.fetch_blob(name) for inside, _ in self.inside for name in SHARED]


def a_script(r: np.random.Generator) -> list[tuple[Any, ...]]:
    nets = [a_net(r, k) for k in range(r.integers(1, 4))]
    script: list[tuple[Any, ...]] = [("create", net) for net in nets]
    blobs = [*SHARED, *(name for net in nets for each in net.op for name in each.output)]
    gradients = [name for name in blobs if "_grad" in name] or ["x"]
    shapes = {name: value.shape for name, value in feeds(r).items()}

    def value(name: str) -> np.ndarray:
        return (r.standard_normal(shapes[name]) * 0.3).astype(np.float32)

    def another_batch() -> list[tuple[Any, ...]]:
        shape = (int(r.integers(0, 5)), WIDTH)
        return [("feed", name, np.full(shape, 0.5, np.float32)) for name in ("x", "x_m", "x_v")]

    for _ in range(r.integers(3, 16)):
        net, name = nets[r.integers(len(nets))], str(r.choice(SHARED))
        choices: list[Callable[[], list[tuple[Any, ...]]]] = [
            *[lambda: [("run", net.name, int(r.integers(1, 4)))]] * 6,  # noqa: B023 (called at once)
            *[lambda: [("fetch", str(r.choice(blobs)))]] * 2,
            lambda: [("create", net)], lambda: [("once", net)], lambda: [("edited", net)],  # noqa: B023
            lambda: [("feed", name, value(name))], lambda: [("feed_tensor", name, value(name))],  # noqa: B023
            lambda: [("feed_and_change", name)], lambda: [("fetch_tensor", name)],  # noqa: B023
            lambda: [("fetch_dlpack", name)], lambda: [("fetch_data", name)],  # noqa: B023
            *[lambda: [("write", int(r.integers(5)))]] * 2, lambda: [("look",)], lambda: [("forget",)],
            lambda: [("remove", str(r.choice(gradients)))], another_batch,
            lambda: [("operator", op(str(r.choice(["Alias", "Copy"])), str(r.choice(blobs)), "other"))],
            lambda: [("run_inside", net, name, bool(r.random() < 0.5))], lambda: [("run_inside_again",)],  # noqa: B023
        ]
        script += choices[r.integers(len(choices))]()
    return script


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if not isinstance(a, np.ndarray) or a.dtype.kind != "f":
        return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else bool(a == b)
    size = max(1.0, float(np.abs(a).max(initial=0)))
    return a.shape == b.shape and a.dtype == b.dtype and (
        np.allclose(b, a, rtol=2e-3, atol=2e-3 * size, equal_nan=True) or not np.isfinite(size))


def check(seed: int, backend: str) -> None:
    r = np.random.default_rng(seed)
    given = feeds(r)
    plain, fast = (User(backend, passes, given) for passes in ("none", "all"))
    for what, *arguments in a_script(r):
        expected, found = plain.act(what, *arguments), fast.act(what, *arguments)
        assert same(expected, found), (seed, what, arguments, expected, found)
    assert plain.ws.names() == fast.ws.names()
    for name in plain.ws.names():
        assert same(plain.ws.fetch_blob(name), fast.ws.fetch_blob(name)), (seed, name)


@pytest.mark.parametrize("backend", backends.available())
def test_random_users_see_the_same(backend: str) -> None:
    for seed in range(40):
        check(seed, backend)


@pytest.mark.soak
@pytest.mark.parametrize("backend", backends.available())
def test_soak_of_random_users(backend: str) -> None:
    for seed in range(40, 4000):
        check(seed, backend)
