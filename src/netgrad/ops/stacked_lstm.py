"""A whole LSTM in one operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.graph.arguments import Bool, Int
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example
from netgrad.graph.rules import no_gradient
from netgrad.graph.shapes import ShapeError
from netgrad.ops._arrays import require_one_dtype, require_shape
from netgrad.ops._logistic import sigmoid


class InferenceLSTM(Operator):
    """A whole LSTM of one or more layers, forwards or both ways, for inference.

    Gates are stacked in the order input, forget, cell, output. Every layer and direction has an input matrix
    (4 H, D), a recurrent one (4 H, H) and, with biases, two of shape (4 H,).
    """

    inputs = [In("input, first states, parameters", "float: (T, N, D) or, with batch_first, (N, T, D); hidden states "
                 "and cells, (layers directions, N, H); then the parameters, layer by layer, forwards before backwards",
                 variadic=True)]
    outputs = [Out("output", "states of the last layer at all steps, both directions side by side"),
               Out("hidden", "last hidden states, (layers directions, N, H)"), Out("cell", "last cells, like hidden")]
    arguments = [Int("num_layers", 1), Bool("has_biases", True), Bool("batch_first", False),
                 Bool("bidirectional", False)]
    gradient = no_gradient
    example = Example(
        {"input": [[[1.0]]], "hidden_0": [[[0.0]]], "cell_0": [[[0.0]]], "w_ih": [[0.1], [0.2], [0.3], [0.4]],
         "w_hh": [[0.5], [0.5], [0.5], [0.5]], "b_ih": [0.0, 0.0, 0.0, 0.0], "b_hh": [0.0, 0.0, 0.0, 0.0]},
        {"output": [[[0.0908519]]], "hidden": [[[0.0908519]]], "cell": [[[0.152933]]]})

    def kernel(xp: Any, *inputs: Any, num_layers: int, has_biases: bool, batch_first: bool, bidirectional: bool) -> Any:
        require_fitting(inputs, num_layers, has_biases, batch_first, bidirectional)
        directions, each = 2 if bidirectional else 1, 4 if has_biases else 2
        x, hidden, cell, *parameters = inputs
        if batch_first:
            x = xp.permute_dims(x, (1, 0, 2))
        last_h, last_c = [], []
        for layer in range(num_layers):
            ways = []
            for direction in range(directions):
                k = layer * directions + direction
                steps = xp.flip(x, axis=0) if direction else x
                out, h, c = _run(xp, steps, hidden[k, ...], cell[k, ...], parameters[k * each:(k + 1) * each])
                ways.append(xp.flip(out, axis=0) if direction else out)
                last_h.append(h)
                last_c.append(c)
            x = xp.concat(ways, axis=2)
        return xp.permute_dims(x, (1, 0, 2)) if batch_first else x, xp.stack(last_h), xp.stack(last_c)


def require_fitting(inputs: Sequence[Any], num_layers: int, has_biases: bool, batch_first: bool,
                    bidirectional: bool) -> None:
    """Raises ShapeError or ValueError unless sequences, states and parameters go together; torch looks at few."""
    directions, each = 2 if bidirectional else 1, 4 if has_biases else 2
    expected = 3 + num_layers * directions * each
    if len(inputs) != expected or num_layers < 1:
        raise ValueError(f"there are {len(inputs)} inputs, expected {expected}: the sequences, two states, and "
                         f"{each} parameters for each of {num_layers} layers and {directions} directions")
    require_one_dtype(**{f"input {k}": x for k, x in enumerate(inputs)})
    x, hidden, cell, *parameters = inputs
    if x.ndim != 3 or hidden.ndim != 3:
        raise ShapeError(f"the sequences have shape {tuple(x.shape)} and the hidden states {tuple(hidden.shape)}, "
                         "expected three dimensions each")
    size = hidden.shape[2]
    states = (num_layers * directions, x.shape[0 if batch_first else 1], size)
    require_shape("the hidden states", hidden, states)
    require_shape("the cells", cell, states)
    for k in range(num_layers * directions):
        inward, recurrent, *biases = parameters[k * each:(k + 1) * each]
        width = x.shape[2] if k < directions else size * directions
        require_shape("the input matrix", inward, (4 * size, width))
        require_shape("the recurrent matrix", recurrent, (4 * size, size))
        for bias in biases:
            require_shape("a bias", bias, (4 * size,))


def _run(xp: Any, steps: Any, h: Any, c: Any, parameters: Any) -> tuple[Any, Any, Any]:
    """One layer in one direction: the hidden states of all steps, and the last hidden state and cell."""
    size = h.shape[1]
    inward, recurrent, *biases = parameters
    gates = xp.matmul(steps, xp.permute_dims(inward, (1, 0)))
    for bias in biases:
        gates = gates + bias
    across, states = xp.permute_dims(recurrent, (1, 0)), []
    for t in range(steps.shape[0]):
        now = gates[t, ...] + xp.matmul(h, across)
        i, f, g, o = (now[:, k * size:(k + 1) * size] for k in range(4))
        c = sigmoid(xp, f) * c + sigmoid(xp, i) * xp.tanh(g)
        h = sigmoid(xp, o) * xp.tanh(c)
        states.append(h)
    return xp.stack(states) if states else xp.zeros_like(gates[:, :, :size]), h, c
