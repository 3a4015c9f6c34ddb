"""Long short-term memories and gated recurrent units as cuDNN has them: layers over each other, both directions, all
parameters in one blob.

The blob holds first, for each layer and direction, the weights of the input and of the hidden state, then for each the
two biases; gates lie one after another: input, forget, cell, output; or reset, update, candidate. PyTorch's ``nn.LSTM``
and ``nn.GRU`` compute the same. Hochreiter and Schmidhuber 1997; Cho et al. 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from netgrad.graph.arguments import Bool, Float, Int, Str
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import Rule
from netgrad.graph.shapes import TensorType, same_as
from netgrad.ops._arrays import require_rank, require_shape, require_size, zeros
from netgrad.ops._logistic import sigmoid

ARGUMENTS = (
    Int("hidden_size", 0), Str("rnn_mode", "", "lstm or gru"), Bool("bidirectional", False),
    Float("dropout", 1.0, "between layers; 1 and 0: none, which is all there is"),
    Str("input_mode", "", "linear"), Int("num_layers", 0), Int("seed", 0, "of dropout"),
)
_GATES = {"lstm": ("input_gate", "forget_gate", "cell", "output_gate"),
          "gru": ("reset_gate", "update_gate", "output_gate")}


@dataclass(frozen=True)
class _Layout:
    """Where parameters lie in the blob of all.

    Attributes:
        gates: their names, in their order.
        inputs: numbers of an input, D.
        hidden: numbers of a hidden state, H.
        layers: how many lie over each other.
        directions: 2 where sequences are also read backwards.
    """

    gates: tuple[str, ...]
    inputs: int
    hidden: int
    layers: int
    directions: int

    @classmethod
    def read(cls, X: Any, *, hidden_size: int, rnn_mode: str, bidirectional: bool, dropout: float, input_mode: str,
             num_layers: int, seed: int) -> _Layout:
        """By an operator's arguments; raises ValueError for those that make no network."""
        require_rank("input", X, 3)
        if rnn_mode not in _GATES or input_mode != "linear" or hidden_size < 1 or num_layers < 1:
            raise ValueError(f"rnn_mode is {rnn_mode!r}, input_mode {input_mode!r}, hidden_size {hidden_size}, "
                             f"num_layers {num_layers}: expected lstm or gru, linear, and positive sizes")
        if 0 < dropout < 1:
            raise ValueError(f"dropout is {dropout}: between the layers of a Recurrent there is none; use 1, or layers "
                             "of their own with Dropout between them")
        return cls(_GATES[rnn_mode], X.shape[2], hidden_size, num_layers, 1 + bidirectional)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of all parts, in their order: weights of input and state of every layer, and then biases."""
        rows = len(self.gates) * self.hidden
        found: list[tuple[int, ...]] = []
        for layer in range(self.layers):
            below = self.directions * self.hidden if layer else self.inputs
            found += [(rows, below), (rows, self.hidden)] * self.directions
        return found + [(rows,)] * len(found)

    def parts(self, xp: Any, weights: Any) -> list[Any]:
        """The parts of the blob."""
        sizes = [shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in self.shapes]
        require_size("weights", weights, sum(sizes), f", the parameters of {self.layers} layers")
        flat, found, start = xp.reshape(weights, (-1,)), [], 0
        for shape, size in zip(self.shapes, sizes):
            found.append(xp.reshape(flat[start:start + size], shape))
            start += size
        return found

    def of_layer(self, parts: Sequence[Any], k: int) -> list[Any]:
        """Weights of input and state, biases of input and state, of layer and direction ``k``."""
        half = len(parts) // 2
        return [parts[2 * k], parts[2 * k + 1], parts[half + 2 * k], parts[half + 2 * k + 1]]

    def place(self, layer: int, input_type: str, param_type: str) -> tuple[int, int]:
        """First and end number of one gate's weights or bias in the blob."""
        gate, _, kind = param_type.rpartition("_")
        count = self.layers * self.directions
        if gate not in self.gates or kind not in ("w", "b") or input_type not in ("input", "recurrent") \
                or not 0 <= layer < count:
            raise ValueError(f"layer {layer}, input_type {input_type!r}, param_type {param_type!r}: expected 0 to "
                             f"{count - 1}, input or recurrent, one of {', '.join(self.gates)} with _w or _b")
        sizes = [shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in self.shapes]
        k = 2 * layer + (input_type == "recurrent") + (2 * count if kind == "b" else 0)
        size = sizes[k] // len(self.gates)
        start = sum(sizes[:k]) + self.gates.index(gate) * size
        return start, start + size


def _step(xp: Any, n: int, a: Any, r: Any, h: Any, c: Any) -> tuple[Any, Any, Any]:
    """The next hidden state and cell, and what the derivative needs, from the gates' sums by input and by state."""
    if a.shape[1] == 4 * n:
        z = a + r
        i, f, g, o = sigmoid(xp, z[:, :n]), sigmoid(xp, z[:, n:2 * n]), xp.tanh(z[:, 2 * n:3 * n]), \
            sigmoid(xp, z[:, 3 * n:])
        cell = f * c + i * g
        return o * xp.tanh(cell), cell, (i, f, g, o, c, xp.tanh(cell))
    z = sigmoid(xp, a[:, :2 * n] + r[:, :2 * n])
    reset, update = z[:, :n], z[:, n:]
    candidate = xp.tanh(a[:, 2 * n:] + reset * r[:, 2 * n:])
    return (1 - update) * candidate + update * h, c, (reset, update, candidate, r[:, 2 * n:], h)


def _back(xp: Any, kept: Any, dh: Any, dc: Any) -> tuple[Any, Any, Any, Any]:
    """The gradients of the sums by input and by state, what of dh passes by them, and that of the cell before."""
    if len(kept) == 6:
        i, f, g, o, before, t = kept
        dc = dc + dh * o * (1 - t * t)
        d = xp.concat([dc * g * i * (1 - i), dc * before * f * (1 - f), dc * i * (1 - g * g), dh * t * o * (1 - o)],
                      axis=1)
        return d, d, xp.zeros_like(dh), dc * f
    reset, update, candidate, r, h = kept
    dn = dh * (1 - update) * (1 - candidate * candidate)
    gates = xp.concat([dn * r * reset * (1 - reset), dh * (h - candidate) * update * (1 - update)], axis=1)
    return xp.concat([gates, dn], axis=1), xp.concat([gates, dn * reset], axis=1), dh * update, dc


def _scan(xp: Any, X: Any, h: Any, c: Any, layer: Sequence[Any], backwards: bool) -> tuple[Any, Any, Any, list[Any]]:
    """One layer in one direction: outputs (T, N, H), last state and cell, what each step keeps (state before first)."""
    W, R, b_input, b_state = layer
    sums = xp.matmul(X, xp.matrix_transpose(W)) + b_input
    outputs: list[Any] = [None] * X.shape[0]
    kept: list[Any] = [None] * X.shape[0]
    for t in range(X.shape[0])[::-1 if backwards else 1]:
        before = h
        h, c, saved = _step(xp, R.shape[1], sums[t, ...], xp.matmul(h, xp.matrix_transpose(R)) + b_state, h, c)
        outputs[t], kept[t] = h, (before, saved)
    stacked = xp.stack(outputs) if outputs else zeros(xp, (0, *h.shape), X)
    return stacked, h, c, kept


def _layers(xp: Any, layout: _Layout, X: Any, hidden: Any, cell: Any, parts: Sequence[Any]) -> Any:
    """Outputs, last states, last cells, and for each layer its input and what its directions keep."""
    states, cells, kept = [], [], []
    for layer in range(layout.layers):
        found = []
        for direction in range(layout.directions):
            k = layer * layout.directions + direction
            found.append(_scan(xp, X, hidden[k, ...], cell[k, ...], layout.of_layer(parts, k), direction == 1))
        states += [h for _, h, _, _ in found]
        cells += [c for _, _, c, _ in found]
        kept.append((X, [steps for *_, steps in found]))
        X = xp.concat([Y for Y, *_ in found], axis=2) if len(found) > 1 else found[0][0]
    return X, xp.stack(states), xp.stack(cells), kept


def _read(xp: Any, X: Any, hidden: Any, cell: Any, weights: Any, **arguments: Any) -> tuple[_Layout, list[Any]]:
    layout = _Layout.read(X, **arguments)
    dims = (layout.layers * layout.directions, X.shape[1], layout.hidden)
    require_shape("hidden", hidden, dims, ": layers and directions, batch, hidden_size")
    require_shape("cell", cell, dims, ": layers and directions, batch, hidden_size")
    return layout, layout.parts(xp, weights)


class Recurrent(Operator):
    """A recurrent network of several layers; outputs are those of the last one, directions side by side."""

    inputs = [In("input", "(T, N, D), float"), In("hidden", "(layers directions, N, H): first hidden states"),
              In("cell", "like hidden: first cells; a gru hands them on"), In("weights", "all parameters in one blob")]
    outputs = [Out("output", "(T, N, directions H)"), Out("hidden", "last hidden states", gradient_ignored=True),
               Out("cell", "last cells", gradient_ignored=True),
               Out("rnn_scratch", "empty", differentiable=False), Out("dropout_states", "empty", differentiable=False)]
    arguments = [*ARGUMENTS]
    shares = {(2, 2)}
    example = Example(
        {"input": [[[1.0]]], "hidden": [[[0.0]]], "cell": [[[2.0]]],
         "weights": [0.0, 0.0, 1.0, 0.0] + 12 * [0.0]},
        {"output": [[[0.440565]]], "hidden_last": [[[0.440565]]], "cell_last": [[[1.380797]]],
         "scratch": Tensor([], shape=(0,)), "states": Tensor([], shape=(0,))},
        {"hidden_size": 1, "rnn_mode": "lstm", "input_mode": "linear", "num_layers": 1},
        ys=("output",))

    def shape(input: TensorType, hidden: TensorType, cell: TensorType, weights: TensorType, *, hidden_size: int,
              bidirectional: bool, **_: Any) -> tuple[TensorType, ...]:
        dims = None if input.dims is None else (*input.dims[:2], hidden_size * (1 + bidirectional))
        empty = input.with_dims((0,))
        return input.with_dims(dims), hidden, cell, empty, empty

    def kernel(xp: Any, input: Any, hidden: Any, cell: Any, weights: Any, **arguments: Any) -> Any:
        layout, parts = _read(xp, input, hidden, cell, weights, **arguments)
        Y, states, cells, _ = _layers(xp, layout, input, hidden, cell, parts)
        return Y, states, cells, zeros(xp, (0,), input), zeros(xp, (0,), input)

    def gradient(op: Rule) -> None:
        op.emit("RecurrentGradient", [*map(op.I, range(4)), op.O(3), op.O(0), op.GO(0)],
                [*map(op.GI, range(4)), op.O(4), op.O(3)])


class RecurrentGradient(Operator):
    """Gradients of Recurrent, from that of its output; it runs again for what it did not keep."""

    inputs = [In("input"), In("hidden"), In("cell"), In("weights"), In("rnn_scratch"),
              In("output", shape_only=True), In("doutput", "float")]
    outputs = [Out("dinput"), Out("dhidden"), Out("dcell"), Out("dweights"),
               Out("dropout_states", "empty"), Out("rnn_scratch", "the input")]
    arguments = [*ARGUMENTS]
    inplace = {(4, 5)}
    shares = {(4, 5)}
    internal = True
    example = Example(
        {"input": [[[1.0]]], "hidden": [[[0.0]]], "cell": [[[2.0]]],
         "weights": [0.0, 0.0, 1.0, 0.0] + 12 * [0.0], "scratch": Tensor([], shape=(0,)),
         "output": [[[0.440565]]], "doutput": [[[1.0]]]},
        {"dinput": [[[0.0234777]]], "dhidden": [[[0.0]]], "dcell": [[[0.0559026]]],
         "dweights": [0.0212876, 0.0559026, 0.0234777, 0.220282, 0.0, 0.0, 0.0, 0.0,
                      *2 * [0.0212876, 0.0559026, 0.0234777, 0.220282]],
         "states": Tensor([], shape=(0,)), "scratch_out": Tensor([], shape=(0,))},
        {"hidden_size": 1, "rnn_mode": "lstm", "input_mode": "linear", "num_layers": 1})

    def shape(input: TensorType, hidden: TensorType, cell: TensorType, weights: TensorType, scratch: TensorType,
              *_: TensorType, **__: Any) -> tuple[TensorType, ...]:
        return input, hidden, cell, weights, input.with_dims((0,)), scratch

    def kernel(xp: Any, input: Any, hidden: Any, cell: Any, weights: Any, scratch: Any, output: Any, dY: Any,
               **arguments: Any) -> Any:
        layout, parts = _read(xp, input, hidden, cell, weights, **arguments)
        require_shape("doutput", dY, (*input.shape[:2], layout.directions * layout.hidden), ", the output's")
        *_, kept = _layers(xp, layout, input, hidden, cell, parts)
        half = len(parts) // 2
        d_parts: list[Any] = [None] * len(parts)
        d_hidden: list[Any] = [None] * (half // 2)
        d_cell: list[Any] = [None] * (half // 2)
        for layer in reversed(range(layout.layers)):
            X, directions = kept[layer]
            dX = xp.zeros_like(X)
            for direction, steps in enumerate(directions):
                k, n = layer * layout.directions + direction, layout.hidden
                found = _scan_back(xp, X, dY[..., direction * n:(direction + 1) * n], steps,
                                   layout.of_layer(parts, k), direction == 1, xp.zeros_like(cell[k, ...]))
                d_part, d_hidden[k], d_cell[k], d_layer = found
                dX = dX + d_part
                d_parts[2 * k:2 * k + 2], d_parts[half + 2 * k:half + 2 * k + 2] = d_layer[:2], d_layer[2:]
            dY = dX
        d_weights = xp.reshape(xp.concat([xp.reshape(d, (-1,)) for d in d_parts]), weights.shape)
        return dY, xp.stack(d_hidden), xp.stack(d_cell), d_weights, zeros(xp, (0,), input), scratch


def _scan_back(xp: Any, X: Any, dY: Any, steps: Sequence[Any], layer: Sequence[Any], backwards: bool,
               nothing: Any) -> tuple[Any, Any, Any, list[Any]]:
    """The gradients of `_scan`'s input, first state, first cell and parameters."""
    W, R = layer[:2]
    dh, dc = nothing, nothing
    if not steps:
        return xp.zeros_like(X), dh, dc, [xp.zeros_like(part) for part in layer]
    by_input: list[Any] = [None] * len(steps)
    by_state: list[Any] = [None] * len(steps)
    for t in range(len(steps))[::1 if backwards else -1]:
        d_input, d_state, passed, dc = _back(xp, steps[t][1], dh + dY[t, ...], dc)
        dh = passed + xp.matmul(d_state, R)
        by_input[t], by_state[t] = d_input, d_state
    D, S, H = xp.stack(by_input), xp.stack(by_state), xp.stack([before for before, _ in steps])
    rows = W.shape[0]
    flat = [xp.reshape(a, (-1, a.shape[2])) for a in (D, X, S, H)]
    d_layer = [xp.matmul(xp.matrix_transpose(flat[0]), flat[1]), xp.matmul(xp.matrix_transpose(flat[2]), flat[3]),
               xp.reshape(xp.sum(flat[0], axis=0), (rows,)), xp.reshape(xp.sum(flat[2], axis=0), (rows,))]
    return xp.matmul(D, W), dh, dc, d_layer


class _RecurrentParam(Operator, abstract=True):
    arguments = [Str("param_type", "", "the gate, and _w or _b: input_gate_w"),
                 Str("input_type", "", "recurrent or input"), Int("layer", 0, "of both directions"), *ARGUMENTS]
    example_arguments: ClassVar[dict[str, Any]] = {
        "hidden_size": 1, "rnn_mode": "lstm", "input_mode": "linear", "num_layers": 1, "layer": 0,
        "input_type": "input", "param_type": "cell_w"}


def _place(xp: Any, input: Any, all_params: Any, layer: int, input_type: str, param_type: str,
           **arguments: Any) -> tuple[int, int]:
    layout = _Layout.read(input, **arguments)
    layout.parts(xp, all_params)
    return layout.place(layer, input_type, param_type)


class RecurrentParamGet(_RecurrentParam):
    """One parameter out of Recurrent's blob of all."""

    inputs = [In("input", "(T, N, D): only D matters", shape_only=True), In("all_params", "as Recurrent takes them")]
    outputs = [Out("param", "1-D")]
    shares = {(1, 0)}
    example = Example(
        {"input": [[[1.0, 1.0]]], "all_params": [float(k) for k in range(20)]}, {"param": [4.0, 5.0]},
        _RecurrentParam.example_arguments, wrt=())

    def shape(input: TensorType, all_params: TensorType, **_: Any) -> TensorType:
        return all_params.with_dims((None,))

    def kernel(xp: Any, input: Any, all_params: Any, *, layer: int, input_type: str, param_type: str,
               **arguments: Any) -> Any:
        start, end = _place(xp, input, all_params, layer, input_type, param_type, **arguments)
        return xp.reshape(all_params, (-1,))[start:end]


class RecurrentParamSet(_RecurrentParam):
    """Puts one parameter into Recurrent's blob of all."""

    inputs = [In("input", "(T, N, D): only D matters", shape_only=True), In("all_params", "as Recurrent takes them"),
              In("param", "as many numbers as it has, of any shape")]
    outputs = [Out("all_params", "the input, changed")]
    inplace_required = {(1, 0)}
    shape = same_as(1)
    example = Example(
        {"input": [[[1.0, 1.0]]], "all_params": [0.0] * 20, "param": [7.0, 8.0]},
        {"all_params": [0.0] * 4 + [7.0, 8.0] + [0.0] * 14},
        _RecurrentParam.example_arguments, wrt=())

    def kernel(xp: Any, input: Any, all_params: Any, param: Any, *, layer: int, input_type: str, param_type: str,
               **arguments: Any) -> Any:
        start, end = _place(xp, input, all_params, layer, input_type, param_type, **arguments)
        require_size("param", param, end - start, f", the numbers of {param_type}")
        flat = xp.reshape(all_params, (-1,))
        value = xp.astype(xp.reshape(param, (-1,)), flat.dtype)
        return xp.reshape(xp.concat([flat[:start], value, flat[end:]]), all_params.shape)
