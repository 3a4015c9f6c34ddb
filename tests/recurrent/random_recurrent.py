"""Random recurrent programs: cells and step nets of one's own, one after the other, with shared parameters."""

from __future__ import annotations

import random
import warnings

import numpy as np

from caffe2.python import core, gru_cell, recurrent, rnn_cell
from caffe2.python.model_helper import ModelHelper
from caffe2.python.modeling.parameter_sharing import ParameterSharing
from netgrad.runtime.workspace import Workspace

B = core.BlobReference
WIDTH = 3
CELLS = ("LSTM", "GRU", "BasicRNN", "MILSTM", "LayerNormLSTM", "step", "step", "nested")


class Program:
    """One random program.

    Attributes:
        net: the net.
        outputs: blobs that a loss may read.
        feeds: a value for each blob that the net does not make, float64.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.values = np.random.default_rng(seed)
        self.length = self.random.choice([0, 1, 1, 2, 3, 6])
        self.batch = self.random.choice([1, 2, 3])
        core.Net._net_names_used.clear()
        self.model = ModelHelper("program")
        self.net = self.model.net
        self.feeds: dict[str, np.ndarray] = {}
        self.outputs: list[str] = []
        self._kinds: list[str] = []
        self._floats("data", self.length, self.batch, WIDTH)
        self._floats("w", WIDTH, WIDTH)
        self._floats("b", WIDTH)
        x = "data"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for k in range(self.random.choice([1, 1, 2, 3])):
                source = x if self.random.random() < 0.7 else "data"
                x = self._cell(k, source)
        self._fill_parameters()
        self.outputs = self.random.sample(self.outputs, self.random.randint(1, min(4, len(self.outputs))))

    def _floats(self, name: str, *shape: int) -> str:
        self.feeds[name] = self.values.standard_normal(shape)
        if name not in map(str, self.net.external_inputs):
            self.net.AddExternalInput(B(name))
        return name

    def _lengths(self, k: int, most: int) -> str:
        name = f"lengths{k}"
        lengths = [self.random.randint(0, most) for _ in range(self.batch)]
        self.feeds[name] = np.array(lengths, dtype=np.int32)
        self.net.AddExternalInput(B(name))
        return name

    def _first(self, name: str) -> str:
        shape = self.random.choice([(1, self.batch, WIDTH), (self.batch, WIDTH), (WIDTH,)])
        return self._floats(name, *shape)

    def _cell(self, k: int, x: str) -> str:
        kind = self.random.choice(CELLS)
        alike = [j for j, other in enumerate(self._kinds) if other == kind]
        self._kinds.append(kind)
        if kind in ("step", "nested"):
            return self._step(k, x, kind == "nested")
        states = 1 if kind in ("GRU", "BasicRNN") else 2
        flip = self.random.random() < 0.2
        masked = flip or (kind != "BasicRNN" and self.random.random() < 0.6)
        lengths = self._lengths(k, self.length + (not flip)) if masked else None
        if flip:
            x = str(self.net.ReversePackedSegs([B(x), B(lengths)], f"reversed{k}"))
        options = {"outputs_with_grads": self.random.sample(range(2 * states), self.random.randint(1, 2 * states)),
                   "drop_states": self.random.random() < 0.3, "memory_optimization": self.random.random() < 0.3}
        if kind == "BasicRNN":
            options["activation"] = self.random.choice(["tanh", "relu"])
            lengths = None
        else:
            options["forget_bias"] = self.random.choice([0.0, 0.5])
        if kind == "GRU":
            options["linear_before_reset"] = self.random.random() < 0.5
        firsts = [B(self._first(f"first{k}_{i}")) for i in range(states)]
        sharing = {f"s{k}": f"s{self.random.choice(alike)}"} if alike and self.random.random() < 0.7 else {}
        with core.NameScope(f"s{k}"), ParameterSharing(sharing):
            results = getattr(gru_cell if kind == "GRU" else rnn_cell, kind)(
                self.model, B(x), None if lengths is None else B(lengths), firsts, WIDTH, WIDTH, "rnn", **options)
        self.outputs += map(str, results[:2 * states])
        return str(results[0])

    def _step(self, k: int, x: str, nested: bool) -> str:
        """A step net of random operators, in which everything is (1, N, WIDTH)."""
        draw = self.random
        names = [f"h{k}", f"c{k}"][:draw.choice([1, 2])]
        step = core.Net(f"step{k}")
        step.AddExternalInputs(*map(B, [f"x{k}", *(f"{name}_prev" for name in names), "w", "b"]))
        blobs = [f"x{k}", *(f"{name}_prev" for name in names)]
        made: list[str] = []
        if nested:
            made.append(self._inner(k, step, draw.choice(blobs[1:])))
            blobs.append(made[-1])
        for i in range(draw.randint(1, 6)):
            kind = draw.choice(["FC", "FC", "Sum", "Mul", "Tanh", "Sigmoid", "Copy"])
            own = draw.choice(made) if made and draw.random() < 0.3 else None
            name = f"{k}_{i}" if own is None else own
            inputs = [draw.choice(blobs) if own is None else own]
            other = draw.choice([blob for blob in blobs if blob != own])
            inputs += {"FC": ["w", "b"], "Sum": [other], "Mul": [other]}.get(kind, [])
            if kind in ("FC", "Mul", "Copy") and own is not None:  # these are not written in place
                name = f"{k}_{i}"
            getattr(step, kind)([*map(B, inputs)], B(name), **({"axis": 2} if kind == "FC" else {}))
            if name not in made:
                made.append(name)
                blobs.append(name)
        after = [draw.choice(blobs) for _ in names]
        given = {f"x{k}", *(f"{name}_prev" for name in names)}
        if len(set(after)) < len(after) or (given & set(after) and draw.random() < 0.7):
            after = [str(step.Sum([B(blob), B(f"x{k}")], B(f"{name}_next"))) for name, blob in zip(names, after)]
        step.AddExternalOutputs(*map(B, after))
        firsts = [self._first(f"first{k}_{i}") for i in range(len(names))]
        if draw.random() < 0.2:
            firsts = [firsts[0]] * len(names)
        results = recurrent.recurrent_net(
            self.net, step, [(B(f"x{k}"), B(x))], [(B(f"{name}_prev"), B(first)) for name, first in zip(names, firsts)],
            {B(f"{name}_prev"): B(blob) for name, blob in zip(names, after)}, scope=f"s{k}",
            timestep=B(f"time{k}"), outputs_with_grads=draw.sample(range(2 * len(names)), 1), overwritten="save")
        self.outputs += map(str, results)
        return str(results[0])

    def _inner(self, k: int, step: core.Net, first: str) -> str:
        """A recurrent network inside the step, over a sequence that all steps read."""
        sequence = self._floats(f"inner{k}", self.random.choice([1, 3]), self.batch, WIDTH)
        step.AddExternalInput(B(sequence))
        inner = core.Net(f"inner_step{k}")
        inner.AddExternalInputs(B(f"ix{k}"), B(f"ih{k}_prev"), B("w"), B("b"))
        linear = inner.FC([B(f"ih{k}_prev"), B("w"), B("b")], B(f"il{k}"), axis=2)
        inner.Tanh(inner.Sum([linear, B(f"ix{k}")], linear), B(f"ih{k}"))
        inner.AddExternalOutput(B(f"ih{k}"))
        _, last = recurrent.recurrent_net(
            step, inner, [(B(f"ix{k}"), B(sequence))], [(B(f"ih{k}_prev"), B(first))], {B(f"ih{k}_prev"): B(f"ih{k}")},
            scope=f"inner_s{k}", timestep=B(f"inner_time{k}"), outputs_with_grads=[1])
        return str(last)

    def _fill_parameters(self) -> None:
        start = Workspace(backend="numpy")
        start.run_net_once(self.model.param_init_net)
        read = {name for op in self.net.Proto().op for name in op.input}
        for name in start.names():
            value = start.fetch_blob(name)
            if name in read:
                self.feeds[name] = value if value.dtype.kind == "i" else self.values.standard_normal(value.shape)
