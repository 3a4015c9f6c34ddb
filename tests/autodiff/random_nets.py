"""Random runnable nets with in-place, rebound, shared, sliced and badly named blobs.

Operators are run while they are drawn, so that shapes are known and every net runs; what fails or is not finite is left
out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from netgrad.graph import registry
from netgrad.graph.device import DeviceOption
from netgrad.graph.operator import CreateOperator
from netgrad.proto import caffe2_pb2
from netgrad.runtime.workspace import Workspace

SAME_SHAPE = [
    "Relu",
    "Sigmoid",
    "Tanh",
    "Sqr",
    "Sin",
    "Cos",
    "Scale",
    "Negative",
    "Softsign",
    "Copy",
    "Sqrt",
    "Exp",
    "Log",
    "Softplus",
    "Elu",
    "LeakyRelu",
    "Cube",
    "Swish",
    "Alias",
    "NanCheck",
    "Abs",
    "Reciprocal",
    "Rsqrt",
    "Logit",
    "Clip",
    "Pow",
    "Softmax",
    "EnsureDense",
    "StopGradient",
    "ConstantFill",
    "Erf",
    "Cbrt",
    "Selu",
]
ARGUMENTS: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "Scale": lambda r: {"scale": r.choice([2.0, -0.5])},
    "Clip": lambda r: {"min": 0.1, "max": 1.2},
    "Pow": lambda r: {"exponent": r.choice([2.0, 3.0, 0.5, -1.0])},
    "ConstantFill": lambda r: {"value": 0.75},
}
REDUCING = [
    "ReduceSum",
    "ReduceMean",
    "SumElements",
    "AveragedLoss",
    "ReduceFrontSum",
    "ReduceBackMean",
    "ReduceBackSum",
    "RowwiseMax",
    "ReduceL2",
]
RESHAPING = ["Transpose", "Reshape", "Flatten", "ExpandDims", "Tile", "Slice", "FlattenToVec"]
BROADCASTING = ["Add", "Sub", "Mul", "Div"]
VARIADIC = ["Sum", "Mean", "Max", "Min", "WeightedSum"]
#: operators with a pole, or an infinite slope, at zero
STEEP = {"Pow", "Cbrt", "Sqrt", "Log", "Div", "Reciprocal", "Rsqrt", "ReduceL2"}
LIMIT = 1e3


@dataclass(frozen=True)
class Case:
    """A net to differentiate and how.

    Attributes:
        ops: forward operators.
        feeds: blob -> value: inputs, indices, given gradients.
        ys: as for AddGradientOperators: blob -> None, name, or (indices, values).
        cotangents: y -> the dense weight of each of its elements.
        skip: operators at the front that are left out.
        edits: (kind, position) of operators that are put in, renamed or taken out by hand after the net was built.
    """

    ops: list[Any]
    feeds: dict[str, np.ndarray]
    ys: dict[str, Any]
    cotangents: dict[str, np.ndarray]
    skip: int = 0
    edits: tuple[tuple[str, int], ...] = ()
    seed: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        from netgrad.tools.printing import format_operator

        lines = [f"{name}: {value.dtype} {value.shape}" for name, value in self.feeds.items()]
        return "\n".join(
            [
                f"seed {self.seed}",
                *lines,
                *map(format_operator, self.ops),
                f"ys = {self.ys}, skip = {self.skip}, edits = {self.edits}",
            ]
        )


class Maker:
    """Draws one net."""

    def __init__(self, r: random.Random, most: int = 12) -> None:
        self.r = r
        self.most = most
        self.ws = Workspace(backend="numpy")
        self.ops: list[Any] = []
        self.feeds: dict[str, np.ndarray] = {}
        self.live: list[str] = []
        self.count = 0
        self.index_type = r.choice([np.int32, np.int64])  # contributions to one table are concatenated
        self.in_place = r.choice([0, 0.3, 0.5])
        self.rebind = r.choice([0, 0, 0.2, 0.3])
        self.hostile = r.choice([0, 0, 0.3])
        self.devices = r.choice([0, 0, 0, 0, 0.4])
        self.spread = r.choice([2, 4, 8])

    # values

    def value(self, name: str) -> np.ndarray:
        return self.ws.fetch_blob(name)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.value(name).shape

    def numbers(self, shape: Sequence[int], low: float = 0.4, high: float = 1.6) -> np.ndarray:
        return np.array([self.r.uniform(low, high) for _ in range(int(np.prod(shape)))]).reshape(shape)

    def feed(self, name: str, value: np.ndarray) -> str:
        if name in self.feeds or any(name in (*op.input, *op.output) for op in self.ops):
            self.count += 1
            name = f"{name}{self.count}"
        self.feeds[name] = value
        self.ws.feed_blob(name, value)
        return name

    def pick(self) -> str:
        return self.r.choice(self.live[-self.spread :])

    def alike(self, name: str) -> str:
        """A blob of the same shape, the blob itself at worst."""
        return self.r.choice([b for b in self.live if self.shape(b) == self.shape(name)])

    def indices(self, rows: int, count: int | None = None) -> np.ndarray:
        count = self.r.randint(1, 4) if count is None else count
        return np.array([self.r.randrange(rows) for _ in range(count)], self.index_type)

    def output(self) -> str:
        r = self.r
        if r.random() < self.rebind and len(self.live) > 1:
            return r.choice(self.live)
        if r.random() < self.hostile:
            blob = r.choice(self.live)
            return r.choice(
                [
                    f"{blob}_grad",
                    f"_{blob}_grad_autosplit_0",
                    f"{blob}_autogen_grad",
                    f"{blob}_grad_values",
                    f"{blob}_grad_values_concat",
                    f"{blob}_saved",
                    f"_{blob}_grad_dims",
                    f"{blob}_grad_1",
                ]
            )
        self.count += 1
        return f"y{self.count}"

    # operators

    def add(self, type: str, inputs: Sequence[str], outputs: Sequence[str], **arguments: Any) -> bool:
        """Appends an operator if it runs, and yields finite numbers of moderate size."""
        if self.r.random() < self.devices:
            arguments["device_option"] = DeviceOption(caffe2_pb2.CUDA, self.r.choice([0, 0, 1]))
        if (type in STEEP and any(np.abs(self.value(name)).min(initial=1) < 0.05 for name in inputs)) or (
            type == "Pow" and self.value(inputs[0]).min(initial=1) < 0
        ):
            return False
        if type in ("Max", "Min") and self.tied(inputs):
            return False
        op = CreateOperator(type, list(inputs), list(outputs), **arguments)
        before = {name: self.value(name) for name in outputs if self.ws.has_blob(name)}
        try:
            self.ws.run_operator(op)
        except Exception:
            return False
        values = [self.value(name) for name in outputs]
        if any(v.dtype.kind == "f" and not (np.isfinite(v).all() and (np.abs(v) < LIMIT).all()) for v in values):
            for name, value in before.items():
                self.ws.feed_blob(name, value)
            for name in set(outputs) - set(before):
                self.ws.remove_blob(name)
                if name in self.feeds:
                    self.feeds.pop(name)
            return False
        self.ops.append(op)
        for name, value in zip(outputs, values):
            if name in self.live:
                self.live.remove(name)
            if value.dtype == np.float64 and value.size:
                self.live.append(name)
        return True

    def tied(self, names: Sequence[str]) -> bool:
        """Whether two blobs agree somewhere: there a chain of one-sided derivatives need not be the derivative."""
        values = [self.value(name) for name in dict.fromkeys(names)]
        return any(
            a.shape == b.shape and bool((np.abs(a - b) < 1e-6).any()) for k, a in enumerate(values) for b in values[:k]
        )

    def maybe_in_place(self, type: str, inputs: Sequence[str]) -> str:
        declaration = registry.find(type)
        allowed = [name for k, name in enumerate(inputs) if declaration.may_be_inplace(k, 0)]
        if allowed and self.r.random() < self.in_place:
            return self.r.choice(allowed)
        return self.output()

    def step(self) -> None:
        r = self.r
        kinds: list[tuple[int, Callable[[], Any]]] = [
            (12, self.same_shape),
            (10, self.broadcasting),
            (8, self.variadic),
            (4, self.split_concat),
            (3, self.product),
            (3, self.reducing),
            (3, self.reshaping),
            (6, self.table),
            (1, self.zero),
            (2, self.several_outputs),
        ]
        r.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]()

    def same_shape(self) -> None:
        type, a = self.r.choice(SAME_SHAPE), self.pick()
        arguments = ARGUMENTS[type](self.r) if type in ARGUMENTS else {}
        self.add(type, [a], [self.maybe_in_place(type, [a])], **arguments)

    def broadcasting(self) -> None:
        type, a = self.r.choice(BROADCASTING), self.pick()
        b = self.alike(a) if self.r.random() < 0.6 else self.r.choice(self.live)
        arguments = {"broadcast": 1} if self.r.random() < 0.2 else {}
        self.add(type, [a, b], [self.maybe_in_place(type, [a, b])], **arguments)

    def variadic(self) -> None:
        type, a = self.r.choice(VARIADIC), self.pick()
        inputs = [a, *(self.alike(a) for _ in range(self.r.randint(1, 2)))]
        arguments = {}
        if type == "WeightedSum":
            scalars = [b for b in self.live if self.shape(b) == (1,)]
            weights = [
                self.r.choice(scalars) if scalars and self.r.random() < 0.5 else self.feed("w", self.numbers((1,)))
                for _ in inputs
            ]
            inputs = [name for pair in zip(inputs, weights) for name in pair]
            arguments = {"grad_on_w": 1} if self.r.random() < 0.8 else {}
            if not arguments:  # then weights count as constants
                inputs[1::2] = [self.feed("held", np.array([0.7])) for _ in weights]
        self.add(type, inputs, [self.maybe_in_place(type, inputs)], **arguments)

    def split_concat(self) -> None:
        r, a = self.r, self.pick()
        if not self.shape(a):
            return
        axis = r.randrange(len(self.shape(a)))
        if r.random() < 0.6:
            self.count += 1
            parts = [f"s{self.count}_{k}" for k in range(self.shape(a)[axis])]
            if r.random() < 0.2:
                parts[0] = parts[-1]
            if r.random() < 0.2:
                parts[0] = self.output()
            if not self.add("Split", [a], parts, axis=axis):
                return
            if r.random() < 0.5:
                return
            picked = [r.choice(parts) for _ in parts] if r.random() < 0.5 else parts
        else:
            picked = [a, *(self.alike(a) for _ in range(r.randint(0, 2)))]
        self.count += 1
        self.add("Concat", picked, [self.output(), f"cs{self.count}"], axis=axis)

    def product(self) -> None:
        r = self.r
        a = self.pick()
        shape = self.shape(a)
        if len(shape) != 2:
            return
        if r.random() < 0.5:
            trans = r.random() < 0.5
            inner = shape[0] if trans else shape[1]
            fits = [b for b in self.live if len(self.shape(b)) == 2 and self.shape(b)[0] == inner]
            b = r.choice(fits) if fits else self.input((inner, r.randint(1, 3)))
            self.add("MatMul", [a, b], [self.output()], **({"trans_a": 1} if trans else {}))
        else:
            fits = [b for b in self.live if len(self.shape(b)) == 2 and self.shape(b)[1] == shape[1]]
            w = r.choice(fits) if fits and r.random() < 0.7 else self.input((r.randint(1, 3), shape[1]))
            biases = [b for b in self.live if self.shape(b) == self.shape(w)[:1]]
            bias = r.choice(biases) if biases else self.input(self.shape(w)[:1])
            self.add("FC", [a, w, bias], [self.output()])

    def reducing(self) -> None:
        type, a = self.r.choice(REDUCING), self.pick()
        rank = len(self.shape(a))
        arguments: dict[str, Any] = {}
        if type in ("ReduceSum", "ReduceMean", "ReduceL2"):
            if rank and self.r.random() < 0.7:
                arguments["axes"] = [self.r.randrange(rank)]
            arguments["keepdims"] = self.r.choice([0, 1])
        self.add(type, [a], [self.output()], **arguments)

    def reshaping(self) -> None:
        r, type, a = self.r, self.r.choice(RESHAPING), self.pick()
        shape = self.shape(a)
        if type == "Reshape":
            self.count += 1
            self.add(
                type,
                [a],
                [self.maybe_in_place(type, [a]), f"old{self.count}"],
                shape=r.choice([[-1], [1, -1], [-1, 1]]),
            )
        elif type == "ExpandDims":
            self.add(type, [a], [self.maybe_in_place(type, [a])], dims=[0])
        elif type == "Tile":
            if shape:
                self.add(type, [a], [self.output()], tiles=2, axis=r.randrange(len(shape)))
        elif type == "Slice":
            if shape and shape[0] > 1:
                self.add(type, [a], [self.output()], starts=[1] + [0] * (len(shape) - 1), ends=[-1] * len(shape))
        else:
            self.add(type, [a], [self.output()])

    def table(self) -> None:
        r, a = self.r, self.pick()
        if r.random() < 0.6:  # a parameter, preferably one that is used already
            a = r.choice([b for b in self.live if b in self.feeds] or [a])
        shape = self.shape(a)
        if not shape:
            return
        type = r.choice(
            [
                "Gather",
                "Gather",
                "SparseLengthsSum",
                "SparseLengthsMean",
                "SparseLengthsWeightedSum",
                "LengthsSum",
                "SparseSortedSegmentSum",
                "SparseUnsortedSegmentSum",
                "UnsortedSegmentSum",
                "BatchGather",
            ]
        )
        rows = self.indices(shape[0])
        known = [
            name
            for name, value in self.feeds.items()
            if value.dtype.kind == "i" and value.max(initial=0) < shape[0] and name.startswith("index")
        ]
        index = r.choice(known) if known and r.random() < 0.5 else self.feed("index", rows)
        rows = self.feeds[index]
        count = len(rows)
        first = r.randint(0, count)
        lengths = self.feed("lengths", np.array([first, count - first], np.int32))
        segments = self.feed("segments", np.array([0] * first + [int(first > 0)] * (count - first), np.int32))
        out = [self.output()]
        if type == "Gather":
            self.add(type, [a, index], out, **({"dense_gradient": 1} if r.random() < 0.2 else {}))
        elif type in ("SparseLengthsSum", "SparseLengthsMean"):
            self.add(type, [a, index, lengths], out)
        elif type == "SparseLengthsWeightedSum":
            fits = [b for b in self.live if self.shape(b) == (count,)]
            if fits and r.random() < 0.6:
                self.add(type, [a, r.choice(fits), index, lengths], out, grad_on_weights=1)
            else:
                self.add(type, [a, self.feed("held", self.numbers((count,))), index, lengths], out)
        elif type in ("SparseSortedSegmentSum", "SparseUnsortedSegmentSum"):
            self.add(type, [a, index, segments], out)
        elif type in ("LengthsSum", "UnsortedSegmentSum"):
            first = r.randint(0, shape[0])
            if type == "LengthsSum":
                self.add(type, [a, self.feed("lengths", np.array([first, shape[0] - first], np.int32))], out)
            else:
                self.add(type, [a, self.feed("segments", self.indices(3, shape[0]))], out)
        elif len(shape) > 1:
            self.add(type, [a, self.feed("index", self.indices(shape[1]))], out)

    def zero(self) -> None:
        self.add("ZeroGradient", [self.pick()], [])

    def several_outputs(self) -> None:
        r, a = self.r, self.pick()
        shape = self.shape(a)
        self.count += 1
        if r.random() < 0.4 and len(shape) == 2 and shape[1] > 1:
            self.add("LayerNorm", [a], [self.output(), f"mean{self.count}", f"std{self.count}"])
            for name in (f"mean{self.count}", f"std{self.count}"):
                self.hold(name)
        elif r.random() < 0.5 and shape:
            self.add(r.choice(["SquaredL2Distance", "DotProduct"]), [a, self.alike(a)], [self.output()])
        else:
            self.add("Pow", [a, self.alike(a)], [self.maybe_in_place("Pow", [a])])

    def hold(self, name: str) -> None:
        """Takes a blob out of play."""
        if name in self.live:
            self.live.remove(name)

    def input(self, shape: tuple[int, ...]) -> str:
        self.count += 1
        name = self.feed(f"x{self.count}", self.numbers(shape))
        self.live.append(name)
        return name

    # the whole

    def case(self) -> Case:
        r = self.r
        shapes = [(2, 3), (2, 3), (2, 3), (3,), (1,), (3, 2), (2, 2), (4, 3)]
        for _ in range(r.randint(1, 3)):
            self.input(r.choice(shapes[:3] if r.random() < 0.5 else shapes))
        for _ in range(r.randint(2, self.most)):
            self.step()
        for op in [op for op in self.ops if op.type == "StopGradient"]:  # one that nobody reads is refused
            if not any(op.output[0] in other.input for other in self.ops):
                self.add("Copy", [op.output[0]], [f"read_{op.output[0]}"])
        written = list(dict.fromkeys(n for op in self.ops for n in op.output if n in self.live))
        if not written:
            return Case(self.ops, self.feeds, {}, {})
        read = [n for n in self.feeds if n in self.live and any(n in op.input for op in self.ops)]
        pool = written + (read if r.random() < 0.1 else [])
        if r.random() < 0.5:
            pool = written[-3:]
        ys = r.sample(pool, min(len(pool), r.choice([1, 1, 1, 2, 3])))
        given: dict[str, Any] = {}
        cotangents = {}
        every = r.random() < 0.5
        for y in ys:
            given[y], cotangents[y] = (
                (None, np.ones(self.shape(y))) if every or r.random() < 0.5 else self.given(y, given)
            )
        skip = r.randint(0, len(self.ops)) if r.random() < 0.1 else 0
        if skip and not all(any(y in (*op.input, *op.output) for op in self.ops[skip:]) for y in ys):
            skip = 0
        if skip and any(
            op.type == "StopGradient" and not any(op.output[0] in o.input for o in self.ops[skip:])
            for op in self.ops[skip:]
        ):
            skip = 0
        edits = (
            tuple(
                (r.choice(["insert", "rename", "delete"]), r.randrange(len(self.ops))) for _ in range(r.randint(1, 3))
            )
            if r.random() < 0.2
            else ()
        )
        return Case(self.ops, self.feeds, given, cotangents, skip, edits)

    def given(self, y: str, others: dict[str, Any]) -> tuple[Any, np.ndarray]:
        """A given gradient for a y, dense or a slice, under some name."""
        r, shape = self.r, self.shape(y)
        taken = {*self.feeds, *(n for op in self.ops for n in (*op.input, *op.output))}
        blob = r.choice(self.live)
        if r.random() < 0.2:
            alike = [
                b
                for b in (*self.live, *(g for g in others.values() if isinstance(g, str)))
                if b != y and self.ws.has_blob(b) and self.shape(b) == shape
            ]
            if alike:
                name = r.choice(alike)
                return name, self.value(name).copy()
        if shape and r.random() < 0.3:
            rows = self.indices(shape[0])
            values = self.numbers((len(rows), *shape[1:]))
            dense = np.zeros(shape)
            np.add.at(dense, rows, values)
            names = r.choice(
                [("gi", "gv"), (f"{y}_grad_indices", f"{y}_grad_values"), (f"{blob}_grad_indices", f"{blob}_grad")]
            )
            if not taken.isdisjoint(names):
                names = (f"gi_{y}", f"gv_{y}")
            for name, value in zip(names, (rows, values)):
                if name in taken:
                    return None, np.ones(shape)
                self.feeds[name] = value
                self.ws.feed_blob(name, value)
            return names, dense
        value = self.numbers(shape)
        name = r.choice([f"given_{y}", f"{y}_grad", f"{blob}_grad", f"{y}_autogen_grad", f"_{blob}_grad_autosplit_0"])
        if name in taken:
            name = f"given_{y}"
        if name in taken:
            return None, np.ones(shape)
        self.feeds[name] = value
        self.ws.feed_blob(name, value)
        return name, value


def draw(r: random.Random | int, most: int = 12) -> Case:
    """One case of at most so many steps, from a seed or a source of random choices."""
    if isinstance(r, int):
        return replace(Maker(random.Random(r), most).case(), seed=r)
    return Maker(r, most).case()
