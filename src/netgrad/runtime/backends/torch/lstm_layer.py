"""An LSTM over a whole sequence, its input's projection included, and the gradient, by oneDNN's layer in PyTorch.

Gates come in Caffe2's order, input, forget, output, candidate, and go to oneDNN in its own, which has the last two the
other way round.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
from torch import Tensor

from netgrad.runtime.backends.torch.threads import one_thread

_forward: Any = getattr(torch, "mkldnn_rnn_layer", None)
_backward: Any = getattr(torch.ops.aten, "mkldnn_rnn_layer_backward", None)
_LSTM = 2
#: numbers in the gates of one step, and in weights, up to which one thread is as quick as two
_SMALL_GATES, _SMALL_WEIGHTS = 1 << 12, 1 << 16


class LSTMRun(NamedTuple):
    """What a forward run made, and what its gradient reads.

    Attributes:
        hidden: hidden states after each step, (T, N, D).
        last_cell: (N, D).
        inputs: the sequence, projection, weights and biases (gates in oneDNN's order) and first states of the run.
        scratch: oneDNN's own record of the run; empty if no gradient was to be computed.
    """

    hidden: Tensor
    last_hidden: Tensor
    last_cell: Tensor
    inputs: tuple[Tensor, ...]
    scratch: Tensor


def swapped(gates: Tensor) -> Tensor:
    """From Caffe2's order of gates to oneDNN's, and back: (4 D, ...)."""
    i_f, output, candidate = gates.split_with_sizes((gates.shape[0] // 2, *[gates.shape[0] // 4] * 2))
    return torch.cat((i_f, candidate, output))


def forward(X: Tensor, projection: Tensor, weights: Tensor, bias: Tensor, hidden: Tensor, cell: Tensor, *,
            forget_bias: float, keeps: bool) -> LSTMRun:
    """All steps.

    Args:
        X: (T, N, C).
        projection: of the input, (4 D, C).
        weights: of the hidden state, (4 D, D).
        bias: of the gates, (4 D,).
        hidden, cell: before the first step, (N, D).
        forget_bias: is added to the forget gate's bias.
        keeps: whether a gradient is to be computed.
    """
    width = hidden.shape[-1]
    if forget_bias:
        bias = bias.clone()
        bias[width:2 * width] += forget_bias
    inputs = (X.contiguous(), swapped(projection), swapped(weights), swapped(bias), torch.zeros_like(bias),
              hidden.contiguous(), cell.contiguous())
    # with the mode of gradients on no tape comes of it, but the record that the gradient needs
    with one_thread(_is_small(inputs)), torch.set_grad_enabled(keeps):
        made, last_hidden, last_cell, scratch = _forward(*inputs, False, [], _LSTM, width, 1, True, False, False, keeps)
    return LSTMRun(made, last_hidden, last_cell, inputs, scratch)


def backward(run: LSTMRun, of_hidden: Tensor | None, of_last_hidden: Tensor | None,
             of_last_cell: Tensor | None) -> tuple[Tensor, ...]:
    """Gradients of the input, the projection, the weights, the bias, and the first hidden state and cell.

    Args:
        of_hidden: gradient of all hidden states, (T, N, D).
        of_last_hidden, of_last_cell: what more comes to the last states, (N, D).
    """
    width = run.hidden.shape[-1]
    if of_hidden is None:
        of_hidden = torch.zeros_like(run.hidden)
    with one_thread(_is_small(run.inputs)):
        dX, of_projection, of_weights, of_bias, _, dh, dc = _backward(
            *run.inputs, run.hidden, run.last_hidden, run.last_cell, of_hidden.contiguous(), of_last_hidden,
            of_last_cell, False, _LSTM, width, 1, True, True, False, [], False, run.scratch)
    return dX, swapped(of_projection), swapped(of_weights), swapped(of_bias), dh, dc


def _is_small(inputs: tuple[Tensor, ...]) -> bool:
    """Whether the steps of a run are so small that waking threads costs more than it gains."""
    _, projection, weights, *_, cell = inputs
    return 4 * cell.numel() <= _SMALL_GATES and max(projection.numel(), weights.numel()) <= _SMALL_WEIGHTS


@functools.cache
def serves() -> bool:
    """Whether this build of PyTorch has the layer, and it computes an LSTM and its gradient as they are defined."""
    if _forward is None or _backward is None or not torch.backends.mkldnn.is_available():
        return False
    T, N, C, D = 3, 2, 5, 3
    count = T * N * C + 4 * D * (C + D + 1) + 2 * N * D + T * N * D + 2 * N * D
    numbers = torch.sin(torch.arange(count, dtype=torch.float32) * 1.7) / 2
    shapes = ((T, N, C), (4 * D, C), (4 * D, D), (4 * D,), (N, D), (N, D), (T, N, D), (N, D), (N, D))
    pieces = [piece.view(shape) for piece, shape in zip(
        numbers.split([torch.Size(shape).numel() for shape in shapes]), shapes)]
    arguments, cotangents = pieces[:6], pieces[6:]
    try:
        with torch.no_grad():
            run = forward(*arguments, forget_bias=0.5, keeps=True)
            made = (run.hidden, run.last_hidden, run.last_cell)
            found = backward(run, *cotangents)
    except (RuntimeError, TypeError, ValueError):  # another version's layer
        return False
    with torch.enable_grad():
        leaves = [each.clone().requires_grad_() for each in arguments]
        expected = _by_definition(*leaves, forget_bias=0.5)
        gradients = torch.autograd.grad(expected, leaves, cotangents)
    return all(a.shape == b.shape and torch.allclose(a, b, atol=1e-5)
               for a, b in zip((*made, *found), (*expected, *gradients)))


def _by_definition(X: Tensor, projection: Tensor, weights: Tensor, bias: Tensor, h: Tensor, c: Tensor, *,
                   forget_bias: float) -> tuple[Tensor, Tensor, Tensor]:
    hidden = []
    for x in X:
        i, f, o, g = (x @ projection.t() + h @ weights.t() + bias).chunk(4, dim=1)
        c = torch.sigmoid(f + forget_bias) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        hidden.append(h)
    return torch.stack(hidden), h, c
