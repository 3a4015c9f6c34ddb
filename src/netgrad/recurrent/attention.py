"""Attention: a decoder's step looks at all outputs of an encoder, each weighted by how well it fits.

The encoder's outputs are (L, N, E), or (N, E, L) where a function says transposed; a decoder state is (1, N, D).

Sources: Bahdanau et al. 2014, https://arxiv.org/abs/1409.0473; Luong et al. 2015, https://arxiv.org/abs/1508.04025;
recurrent attention: https://arxiv.org/abs/1601.03317; coverage: Tu et al. 2016, https://arxiv.org/abs/1601.04811.
"""

from __future__ import annotations

from typing import Any

from netgrad.recurrent.cells import project
from netgrad.training import brew


class AttentionType:
    """Kinds of attention."""

    Regular, Recurrent, Dot, SoftCoverage = range(4)


def s(scope: Any, name: Any) -> str:
    """A name inside a scope."""
    return f"{scope}/{name}"


def _weights(model: Any, logits: Any, scope: str, encoder_lengths: Any) -> Any:
    """The weight of each encoder output, (N, L, 1), from what fits how well, (N, L, 1)."""
    if encoder_lengths is not None:
        logits = model.net.SequenceMask([logits, encoder_lengths], ["masked_attention_logits"], mode="sequence")
    return brew.softmax(model, logits, s(scope, "attention_weights_3d"), engine="CUDNN", axis=1)


def _context(model: Any, encoder_outputs_transposed: Any, encoder_output_dim: int, weights: Any, scope: str) -> Any:
    """The weighted sum of the encoder's outputs, (1, N, E)."""
    name = s(scope, "attention_weighted_encoder_context")
    context = brew.batch_mat_mul(model, [encoder_outputs_transposed, weights], name)
    context, _ = model.net.Reshape(context, [context, name + "_old_shape"], shape=[1, -1, encoder_output_dim])
    return context


def _linear(model: Any, blob: Any, dim_in: int, dim_out: int, scope: str, name: str) -> Any:
    """(1, N, dim_in) to (N, dim_out)."""
    output = project(model, blob, s(scope, name), dim_in, dim_out)
    return model.net.Squeeze(output, output, dims=[0])


def _logits_of_sum(model: Any, total: Any, encoder_output_dim: int, scope: str) -> Any:
    """v tanh(total) for each encoder output, (N, L, 1); total is (L, N, E)."""
    total = model.net.Tanh(total, total)
    logits = brew.fc(model, total, s(scope, "attention_logits"), dim_in=encoder_output_dim, dim_out=1, axis=2,
                     freeze_bias=True)
    return brew.transpose(model, logits, s(scope, "attention_logits_transposed"), axes=[1, 0, 2])


def apply_recurrent_attention(
    model: Any, encoder_output_dim: int, encoder_outputs_transposed: Any, weighted_encoder_outputs: Any,
    decoder_hidden_state_t: Any, decoder_hidden_state_dim: int, attention_weighted_encoder_context_t_prev: Any,
    scope: str, encoder_lengths: Any = None,
) -> tuple[Any, Any, list[Any]]:
    """Attention by the decoder's state and the previous context.

    Returns:
        The context (1, N, E), the weights (N, L, 1), and blobs worth computing anew for the gradient.
    """
    before = _linear(model, attention_weighted_encoder_context_t_prev, encoder_output_dim, encoder_output_dim, scope,
                     "weighted_prev_attention_context")
    state = _linear(model, decoder_hidden_state_t, decoder_hidden_state_dim, encoder_output_dim, scope,
                    "weighted_decoder_hidden_state")
    both = model.net.Add([before, state], s(scope, "decoder_hidden_encoder_outputs_sum_tmp"))
    total = model.net.Add([weighted_encoder_outputs, both], s(scope, "decoder_hidden_encoder_outputs_sum"), broadcast=1)
    logits = _logits_of_sum(model, total, encoder_output_dim, scope)
    weights = _weights(model, logits, scope, encoder_lengths)
    return _context(model, encoder_outputs_transposed, encoder_output_dim, weights, scope), weights, [total]


def apply_regular_attention(
    model: Any, encoder_output_dim: int, encoder_outputs_transposed: Any, weighted_encoder_outputs: Any,
    decoder_hidden_state_t: Any, decoder_hidden_state_dim: int, scope: str, encoder_lengths: Any = None,
) -> tuple[Any, Any, list[Any]]:
    """Attention by the decoder's state; returns as `apply_recurrent_attention`."""
    state = _linear(model, decoder_hidden_state_t, decoder_hidden_state_dim, encoder_output_dim, scope,
                    "weighted_decoder_hidden_state")
    total = model.net.Add([weighted_encoder_outputs, state], s(scope, "decoder_hidden_encoder_outputs_sum"),
                          broadcast=1, use_grad_hack=1)
    logits = _logits_of_sum(model, total, encoder_output_dim, scope)
    weights = _weights(model, logits, scope, encoder_lengths)
    return _context(model, encoder_outputs_transposed, encoder_output_dim, weights, scope), weights, [total]


def apply_dot_attention(
    model: Any, encoder_output_dim: int, encoder_outputs_transposed: Any, decoder_hidden_state_t: Any,
    decoder_hidden_state_dim: int, scope: str, encoder_lengths: Any = None,
) -> tuple[Any, Any, list[Any]]:
    """Attention by dot products with the decoder's state; returns as `apply_recurrent_attention`."""
    state = decoder_hidden_state_t
    if decoder_hidden_state_dim != encoder_output_dim:
        state = project(model, state, s(scope, "weighted_decoder_hidden_state"), decoder_hidden_state_dim,
                        encoder_output_dim)
    column = model.net.Squeeze(state, s(scope, "squeezed_weighted_decoder_hidden_state"), dims=[0])
    column = model.net.ExpandDims(column, column, dims=[2])
    logits = model.net.BatchMatMul([encoder_outputs_transposed, column], s(scope, "attention_logits"), trans_a=1)
    weights = _weights(model, logits, scope, encoder_lengths)
    return _context(model, encoder_outputs_transposed, encoder_output_dim, weights, scope), weights, []


def apply_soft_coverage_attention(
    model: Any, encoder_output_dim: int, encoder_outputs_transposed: Any, weighted_encoder_outputs: Any,
    decoder_hidden_state_t: Any, decoder_hidden_state_dim: int, scope: str, encoder_lengths: Any, coverage_t_prev: Any,
    coverage_weights: Any,
) -> tuple[Any, Any, list[Any], Any]:
    """Attention by the decoder's state and what has been attended to before.

    Returns:
        As `apply_recurrent_attention`, and the coverage (1, N, L): the sum of the weights so far.
    """
    state = _linear(model, decoder_hidden_state_t, decoder_hidden_state_dim, encoder_output_dim, scope,
                    "weighted_decoder_hidden_state")
    plain = model.net.Add([weighted_encoder_outputs, state], s(scope, "decoder_hidden_encoder_outputs_sum_tmp"),
                          broadcast=1)
    covered = model.net.Squeeze(coverage_t_prev, s(scope, "coverage_t_prev_2d"), dims=[0])
    covered = brew.transpose(model, covered, s(scope, "coverage_t_prev_transposed"))
    covered = model.net.Mul([coverage_weights, covered], s(scope, "scaled_coverage_weights"), broadcast=1, axis=0)
    total = model.net.Add([plain, covered], s(scope, "decoder_hidden_encoder_outputs_sum"))
    logits = _logits_of_sum(model, total, encoder_output_dim, scope)
    weights = _weights(model, logits, scope, encoder_lengths)
    context = _context(model, encoder_outputs_transposed, encoder_output_dim, weights, scope)
    flat = model.net.Squeeze(weights, s(scope, "attention_weights_2d"), dims=[2])
    coverage = model.net.Add([coverage_t_prev, flat], s(scope, "coverage_t"), broadcast=1)
    return context, weights, [total], coverage
