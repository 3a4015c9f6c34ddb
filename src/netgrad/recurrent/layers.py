"""Recurrent layers, written into a model by one call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from netgrad.recurrent.attention import AttentionType
from netgrad.recurrent.attention_cells import LSTMWithAttentionCell
from netgrad.recurrent.cells import RNNCell
from netgrad.recurrent.lstm import BasicRNNCell, LayerNormLSTMCell, LayerNormMILSTMCell, LSTMCell, MILSTMCell
from netgrad.recurrent.wrappers import MultiRNNCell, UnrolledCell


def _LSTM(
    cell_class: Callable[..., Any],
    model: Any,
    input_blob: Any,
    seq_lengths: Any,
    initial_states: Any,
    dim_in: int,
    dim_out: int | Sequence[int],
    scope: str | None = None,
    outputs_with_grads: Sequence[int] = (0,),
    return_params: bool = False,
    memory_optimization: bool = False,
    forget_bias: float = 0.0,
    forward_only: bool = False,
    drop_states: bool = False,
    return_last_layer_only: bool = True,
    static_rnn_unroll_size: int | None = None,
    **cell_kwargs: Any,
) -> tuple[Any, ...]:
    """A recurrent layer, or several.

    Args:
        cell_class: `LSTMCell` or another class with its arguments.
        model: where the operators and parameters go.
        input_blob: the sequence, (T, N, dim_in).
        seq_lengths: (N,) int32, the length of each sequence; None: all have T steps.
        initial_states: first values of the states, layer by layer; None: parameters.
        dim_in: of the input.
        dim_out: of the states; a list for several layers.
        scope: name scope.
        outputs_with_grads: positions among the results of the last layer whose gradients flow back.
        return_params: return the names of the parameters, too.
        memory_optimization: compute gates anew for the gradient instead of keeping them.
        forget_bias: added to the forget gate.
        forward_only: without a gradient.
        drop_states: states of sequences that have ended become 0.
        return_last_layer_only: else the results of all layers.
        static_rnn_unroll_size: T, to have ordinary operators instead of a RecurrentNetwork.
        cell_kwargs: further arguments of the cell.

    Returns:
        For each state the values of all steps and the last one: hidden, then cell. With `return_params` also a dict.
    """
    dims = list(dim_out) if isinstance(dim_out, (list, tuple)) else [dim_out]
    layers = len(dims)
    cells = [
        cell_class(
            input_size=dims[i - 1] if i else dim_in, hidden_size=dims[i], forget_bias=forget_bias,
            memory_optimization=memory_optimization, name=scope if layers == 1 else None, forward_only=forward_only,
            drop_states=drop_states, **cell_kwargs)
        for i in range(layers)
    ]
    inner: RNNCell = cells[0] if layers == 1 else MultiRNNCell(cells, name=scope, forward_only=forward_only)
    cell = inner if static_rnn_unroll_size is None else UnrolledCell(inner, static_rnn_unroll_size)
    before_last = 2 * sum(len(each.get_state_names()) for each in cells[:-1])
    _, result = cell.apply_over_sequence(
        model=model, inputs=input_blob, seq_lengths=seq_lengths, initial_states=initial_states,
        outputs_with_grads=[before_last + k for k in outputs_with_grads])
    if return_last_layer_only:
        result = result[before_last:]
    if return_params:
        if layers > 1:
            raise ValueError("return_params is for a single layer; give dim_out as a number")
        result = (*result, {"input": cells[0].get_input_params(), "recurrent": cells[0].get_recurrent_params()})
    return tuple(result)


LSTM = functools.partial(_LSTM, LSTMCell)
BasicRNN = functools.partial(_LSTM, BasicRNNCell)
MILSTM = functools.partial(_LSTM, MILSTMCell)
LayerNormLSTM = functools.partial(_LSTM, LayerNormLSTMCell)
LayerNormMILSTM = functools.partial(_LSTM, LayerNormMILSTMCell)


def LSTMWithAttention(
    model: Any,
    decoder_inputs: Any,
    decoder_input_lengths: Any,
    initial_decoder_hidden_state: Any,
    initial_decoder_cell_state: Any,
    initial_attention_weighted_encoder_context: Any,
    encoder_output_dim: int,
    encoder_outputs: Any,
    encoder_lengths: Any,
    decoder_input_dim: int,
    decoder_state_dim: int,
    scope: str,
    attention_type: int = AttentionType.Regular,
    outputs_with_grads: Sequence[int] = (0, 4),
    weighted_encoder_outputs: Any = None,
    lstm_memory_optimization: bool = False,
    attention_memory_optimization: bool = False,
    forget_bias: float = 0.0,
    forward_only: bool = False,
) -> tuple[Any, ...]:
    """A decoder, a long short-term memory with attention, over a sequence.

    Args:
        decoder_inputs: (T, N, decoder_input_dim).
        decoder_input_lengths: (N,) int32, or None.
        initial_decoder_hidden_state, initial_decoder_cell_state: (1, N, decoder_state_dim).
        initial_attention_weighted_encoder_context: (1, N, encoder_output_dim).
        outputs_with_grads: positions among the results whose gradients flow back.
        Others: see `AttentionCell` and `LSTMCell`.

    Returns:
        For hidden state, cell, context (and coverage) the values of all steps and the last one.
    """
    cell = LSTMWithAttentionCell(
        encoder_output_dim=encoder_output_dim, encoder_outputs=encoder_outputs, encoder_lengths=encoder_lengths,
        decoder_input_dim=decoder_input_dim, decoder_state_dim=decoder_state_dim, name=scope,
        attention_type=attention_type, weighted_encoder_outputs=weighted_encoder_outputs, forget_bias=forget_bias,
        lstm_memory_optimization=lstm_memory_optimization,
        attention_memory_optimization=attention_memory_optimization, forward_only=forward_only)
    states = [initial_decoder_hidden_state, initial_decoder_cell_state, initial_attention_weighted_encoder_context]
    if attention_type == AttentionType.SoftCoverage:
        states.append(cell.build_initial_coverage(model))
    return cell.apply_over_sequence(
        model=model, inputs=decoder_inputs, seq_lengths=decoder_input_lengths, initial_states=states,
        outputs_with_grads=outputs_with_grads)[1]


def _layered_LSTM(
    model: Any, input_blob: Any, seq_lengths: Any, initial_states: Any, dim_in: int, dim_out: int | Sequence[int],
    scope: str, outputs_with_grads: Sequence[int] = (0,), return_params: bool = False,
    memory_optimization: bool = False, forget_bias: float = 0.0, forward_only: bool = False, drop_states: bool = False,
    create_lstm: Any = None,
) -> tuple[Any, ...]:
    """Several layers, each a RecurrentNetwork of its own that begins with the last states of the one before.

    Raises:
        AssertionError: `dim_out` is an empty list, or `return_params` asks for the parameters of several layers.
    """
    dims = dim_out if isinstance(dim_out, list) else [dim_out]
    if not dims:
        raise AssertionError("dim_out is an empty list; give the dimension of each layer")
    if return_params and len(dims) > 1:
        raise AssertionError("return_params is for a single layer")
    result: tuple[Any, ...] = ()
    for i, dim in enumerate(dims):
        result = create_lstm(
            model=model, input_blob=input_blob, seq_lengths=seq_lengths, initial_states=initial_states, dim_in=dim_in,
            dim_out=dim, scope=scope, outputs_with_grads=outputs_with_grads, return_params=return_params,
            memory_optimization=memory_optimization, forget_bias=forget_bias, forward_only=forward_only,
            drop_states=drop_states)
        input_blob, dim_in, initial_states = result[0], dim, (result[1], result[3])
        scope = f"{scope}_layer_{i + 1}"
    return result


layered_LSTM = functools.partial(_layered_LSTM, create_lstm=LSTM)
