"""The units of recurrent cells by torch's own kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from netgrad.ops._arrays import require_shape, require_size
from netgrad.ops.recurrent import _split_lengths, states_of
from netgrad.ops.stacked_lstm import InferenceLSTM, require_fitting
from netgrad.runtime.backends.torch import override

_aten: Any = torch.ops.aten


def _ended(lengths: Tensor | None, timestep: Tensor, rows: int) -> Tensor | None:
    """(N, 1): which sequences have ended at this step; None where none has."""
    if lengths is None:
        return None
    require_shape("the sequence lengths", lengths, (rows,), ", one per sequence")
    require_size("the timestep", timestep, 1)
    ended = lengths <= timestep
    return ended.unsqueeze(1) if bool(ended.any()) else None


def _flat(name: str, x: Tensor, hidden: Tensor, count: int = 1) -> Tensor:
    """(N, count D): a state, or gates, without the leading dimension."""
    rows, width = states_of(hidden)
    require_shape(name, x, (*hidden.shape[:-1], count * width), ", by the hidden state's")
    return x.reshape(rows, count * width)


def _lstm_gates(gates: Tensor, forget_bias: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    width = gates.shape[1] // 4
    if forget_bias:
        gates = gates.clone()
        gates[:, width:2 * width] += forget_bias
    i, f, o = torch.sigmoid(gates[:, :3 * width]).split(width, dim=1)
    return i, f, o, torch.tanh(gates[:, 3 * width:])


@override("LSTMUnit")
def lstm_unit(xp: Any, hidden_prev: Tensor, cell_prev: Tensor, gates: Tensor, *rest: Any, forget_bias: float,
              drop_states: bool, sequence_lengths: bool) -> Any:
    lengths, (timestep,) = _split_lengths(rest, sequence_lengths, 1)
    before = _flat("the cell", cell_prev, hidden_prev)
    i, f, o, g = _lstm_gates(_flat("the gates", gates, hidden_prev, 4), forget_bias)
    cell = torch.addcmul(f * before, i, g)
    hidden = o * torch.tanh(cell)
    ended = _ended(lengths if sequence_lengths else None, timestep, before.shape[0])
    if ended is not None:
        hidden = torch.where(ended, 0 if drop_states else hidden_prev.reshape(before.shape), hidden)
        cell = torch.where(ended, 0 if drop_states else before, cell)
    return hidden.reshape(hidden_prev.shape), cell.reshape(hidden_prev.shape)


@override("LSTMUnitGradient")
def lstm_unit_gradient(xp: Any, hidden_prev: Tensor, cell_prev: Tensor, gates: Tensor, *rest: Any, forget_bias: float,
                       drop_states: bool, sequence_lengths: bool) -> Any:
    lengths, (timestep, _hidden, cell, dhidden, dcell) = _split_lengths(rest, sequence_lengths, 5)
    before, now, dh, dc = (_flat(name, x, hidden_prev) for name, x in (
        ("the cell", cell_prev), ("the new cell", cell), ("the gradient of the hidden state", dhidden),
        ("the gradient of the cell", dcell)))
    i, f, o, g = _lstm_gates(_flat("the gates", gates, hidden_prev, 4), forget_bias)
    squashed = torch.tanh(now)
    ended = _ended(lengths if sequence_lengths else None, timestep, before.shape[0])
    alive_dh = dh if ended is None else torch.where(ended, 0, dh)
    through = _aten.tanh_backward(alive_dh * o, squashed) + (dc if ended is None else torch.where(ended, 0, dc))
    dgates = torch.cat([_aten.sigmoid_backward(through * g, i), _aten.sigmoid_backward(through * before, f),
                        _aten.sigmoid_backward(alive_dh * squashed, o), _aten.tanh_backward(through * i, g)], dim=1)
    dcell_prev = through * f
    dhidden_prev = torch.zeros_like(dh)
    if ended is not None and not drop_states:
        dhidden_prev = torch.where(ended, dh, dhidden_prev)
        dcell_prev = torch.where(ended, dc, dcell_prev)
    return (dhidden_prev.reshape(hidden_prev.shape), dcell_prev.reshape(hidden_prev.shape), dgates.reshape(gates.shape))


@override("GRUUnit")
def gru_unit(xp: Any, hidden_prev: Tensor, gates: Tensor, *rest: Any, drop_states: bool,
             sequence_lengths: bool) -> Tensor:
    lengths, (timestep,) = _split_lengths(rest, sequence_lengths, 1)
    before = _flat("the hidden state", hidden_prev, hidden_prev)
    _reset, z, candidate = _flat("the gates", gates, hidden_prev, 3).split(before.shape[1], dim=1)
    hidden = torch.lerp(torch.tanh(candidate), before, torch.sigmoid(z))
    ended = _ended(lengths if sequence_lengths else None, timestep, before.shape[0])
    if ended is not None:
        hidden = torch.where(ended, 0 if drop_states else before, hidden)
    return hidden.reshape(hidden_prev.shape)


@override("GRUUnitGradient")
def gru_unit_gradient(xp: Any, hidden_prev: Tensor, gates: Tensor, *rest: Any, drop_states: bool,
                      sequence_lengths: bool) -> Any:
    lengths, (timestep, _hidden, dhidden) = _split_lengths(rest, sequence_lengths, 3)
    before, dh = (_flat(name, x, hidden_prev) for name, x in (
        ("the hidden state", hidden_prev), ("the gradient of the hidden state", dhidden)))
    _reset, z, candidate = _flat("the gates", gates, hidden_prev, 3).split(before.shape[1], dim=1)
    z, candidate = torch.sigmoid(z), torch.tanh(candidate)
    ended = _ended(lengths if sequence_lengths else None, timestep, before.shape[0])
    alive = dh if ended is None else torch.where(ended, 0, dh)
    kept = alive * z
    dgates = torch.cat([torch.zeros_like(z), _aten.sigmoid_backward(alive * (before - candidate), z),
                        _aten.tanh_backward(alive - kept, candidate)], dim=1)
    if ended is not None and not drop_states:
        kept = torch.where(ended, dh, kept)
    return kept.reshape(hidden_prev.shape), dgates.reshape(gates.shape)


@override("InferenceLSTM")
def inference_lstm(xp: Any, *inputs: Tensor, num_layers: int, has_biases: bool, batch_first: bool,
                   bidirectional: bool) -> Any:
    require_fitting(inputs, num_layers, has_biases, batch_first, bidirectional)  # else torch may read beyond a buffer
    x, *states = inputs[:3]
    if all(x.shape) and states[0].shape[2] and x.is_floating_point():
        return torch.lstm(x, states, list(inputs[3:]), has_biases, num_layers, 0.0, False, bidirectional, batch_first)
    return InferenceLSTM.kernel(xp, *inputs, num_layers=num_layers, has_biases=has_biases, batch_first=batch_first,
                                bidirectional=bidirectional)
