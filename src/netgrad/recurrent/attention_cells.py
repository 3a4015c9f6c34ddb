"""Cells that attend to the outputs of an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.graph import scope
from netgrad.graph.device import IsGPUDeviceType
from netgrad.recurrent.attention import (
    AttentionType,
    apply_dot_attention,
    apply_recurrent_attention,
    apply_regular_attention,
    apply_soft_coverage_attention,
)
from netgrad.recurrent.cells import ExtraInputs, RNNCell, inside_scope, project
from netgrad.recurrent.lstm import LSTMCell, MILSTMCell
from netgrad.training import brew

_KINDS = (AttentionType.Regular, AttentionType.Recurrent, AttentionType.Dot, AttentionType.SoftCoverage)


class AttentionCell(RNNCell):
    """A decoder's cell with attention: its states, the context, and for soft coverage the coverage.

    Args:
        encoder_output_dim: E.
        encoder_outputs: (L, N, E).
        encoder_lengths: (N,) int32, or None: all have L.
        decoder_cell: reads the previous context as an extra input.
        decoder_state_dim: D of its output.
        attention_type: see `AttentionType`.
        weighted_encoder_outputs: what is compared with the decoder's state; a linear map of the outputs unless given.
        attention_memory_optimization: the largest blobs are computed anew for the gradient.
    """

    def __init__(self, encoder_output_dim: int, encoder_outputs: Any, encoder_lengths: Any, decoder_cell: RNNCell,
                 decoder_state_dim: int, attention_type: int, weighted_encoder_outputs: Any,
                 attention_memory_optimization: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if attention_type not in _KINDS:
            raise AssertionError(f"there is no attention of type {attention_type!r}; see AttentionType")
        self.encoder_output_dim = encoder_output_dim
        self.encoder_outputs = encoder_outputs
        self.encoder_lengths = encoder_lengths
        self.decoder_cell = decoder_cell
        self.decoder_state_dim = decoder_state_dim
        self.weighted_encoder_outputs = weighted_encoder_outputs
        self.encoder_outputs_transposed: Any = None
        self.coverage_weights: Any = None
        self.attention_type = attention_type
        self.attention_memory_optimization = attention_memory_optimization

    @property
    def _extra_states(self) -> int:
        """How many states come after the decoder's: the context, and maybe the coverage."""
        return 2 if self.attention_type == AttentionType.SoftCoverage else 1

    def _apply(self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any,
               extra_inputs: ExtraInputs = None) -> Any:
        if extra_inputs is not None:
            raise AssertionError("a cell with attention takes no extra inputs: its decoder's is the context")
        context_before, *coverage_before = states[-self._extra_states:]
        decoder_states = self.decoder_cell._apply(
            model, input_t, seq_lengths, states[:-self._extra_states], timestep,
            extra_inputs=[(context_before, self.encoder_output_dim)])
        self.hidden_t_intermediate = self.decoder_cell._prepare_output(model, decoder_states)
        context, self.attention_weights_3d, large, *coverage = self._attend(model, context_before, coverage_before)
        if self.attention_memory_optimization:
            self.recompute_blobs.extend(large)
        made = [*decoder_states, context, *coverage]
        index = self.decoder_cell.get_output_state_index()
        made[index] = model.Copy(made[index], self.scope("hidden_t_external"))
        model.net.AddExternalOutputs(*made)
        return made

    def _attend(self, model: Any, context_before: Any, coverage_before: Sequence[Any]) -> Any:
        arguments: dict[str, Any] = {
            "model": model,
            "encoder_output_dim": self.encoder_output_dim,
            "encoder_outputs_transposed": self.encoder_outputs_transposed,
            "decoder_hidden_state_t": self.hidden_t_intermediate,
            "decoder_hidden_state_dim": self.decoder_state_dim,
            "scope": self.name,
            "encoder_lengths": self.encoder_lengths,
        }
        if self.attention_type == AttentionType.Dot:
            return apply_dot_attention(**arguments)
        arguments["weighted_encoder_outputs"] = self.weighted_encoder_outputs
        if self.attention_type == AttentionType.Regular:
            return apply_regular_attention(**arguments)
        if self.attention_type == AttentionType.Recurrent:
            return apply_recurrent_attention(attention_weighted_encoder_context_t_prev=context_before, **arguments)
        return apply_soft_coverage_attention(coverage_t_prev=coverage_before[0], coverage_weights=self.coverage_weights,
                                             **arguments)

    def get_attention_weights(self) -> Any:
        """The weights of the step, (N, L, 1)."""
        return self.attention_weights_3d

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        if self.encoder_outputs_transposed is None:
            self.encoder_outputs_transposed = brew.transpose(
                model, self.encoder_outputs, self.scope("encoder_outputs_transposed"), axes=[1, 2, 0])
        if self.weighted_encoder_outputs is None and self.attention_type != AttentionType.Dot:
            self.weighted_encoder_outputs = self._map_of_outputs(model, "weighted_encoder_outputs")
        return self.decoder_cell.prepare_input(model, input_blob)

    def _map_of_outputs(self, model: Any, name: str) -> Any:
        return project(model, self.encoder_outputs, self.scope(name), self.encoder_output_dim, self.encoder_output_dim)

    def build_initial_coverage(self, model: Any) -> Any:
        """The first value of the coverage, zeros (L,); also makes the map of the outputs that coverage weighs."""
        if self.attention_type != AttentionType.SoftCoverage:
            raise AssertionError("only attention of type SoftCoverage has a coverage")
        self.coverage_weights = self._map_of_outputs(model, "coverage_weights")
        length = model.net.Slice(model.net.Shape(self.encoder_outputs), starts=[0], ends=[1])
        device = scope.CurrentDeviceScope()
        if device is not None and IsGPUDeviceType(device.device_type):
            length = model.net.CopyGPUToCPU(length, "encoder_length_cpu")
        return model.net.ConstantFill(length, self.scope("initial_coverage"), value=0.0, input_as_shape=1)

    def get_state_names(self) -> Sequence[str]:
        names = list(self.decoder_cell.get_state_names())
        names[self.get_output_state_index()] = self.scope("hidden_t_external")
        extra = ["attention_weighted_encoder_context_t", "coverage_t"][:self._extra_states]
        return names + [self.scope(name) for name in extra]

    def get_output_dim(self) -> int:
        return self.decoder_state_dim + self.encoder_output_dim

    def get_output_state_index(self) -> int:
        return self.decoder_cell.get_output_state_index()

    def _prepare_output(self, model: Any, states: Any) -> Any:
        return self._combined(model, self.hidden_t_intermediate, states[-self._extra_states])

    def _prepare_output_sequence(self, model: Any, state_outputs: Any) -> Any:
        extra = 2 * self._extra_states
        decoder = self.decoder_cell._prepare_output_sequence(model, state_outputs[:-extra])
        return self._combined(model, decoder, state_outputs[-extra])

    def _combined(self, model: Any, output: Any, context: Any) -> Any:
        with inside_scope(self.name):
            return brew.concat(model, [output, context], "states_and_context_combination", axis=2)


class LSTMWithAttentionCell(AttentionCell):
    """`AttentionCell` around an `LSTMCell`."""

    decoder_class = LSTMCell

    def __init__(self, encoder_output_dim: int, encoder_outputs: Any, encoder_lengths: Any, decoder_input_dim: int,
                 decoder_state_dim: int, name: str, attention_type: int, weighted_encoder_outputs: Any,
                 forget_bias: float, lstm_memory_optimization: bool, attention_memory_optimization: bool,
                 forward_only: bool = False) -> None:
        decoder = self.decoder_class(
            input_size=decoder_input_dim, hidden_size=decoder_state_dim, forget_bias=forget_bias,
            memory_optimization=lstm_memory_optimization, name=f"{name}/decoder", forward_only=False, drop_states=False)
        super().__init__(
            encoder_output_dim=encoder_output_dim, encoder_outputs=encoder_outputs, encoder_lengths=encoder_lengths,
            decoder_cell=decoder, decoder_state_dim=decoder_state_dim, name=name, attention_type=attention_type,
            weighted_encoder_outputs=weighted_encoder_outputs,
            attention_memory_optimization=attention_memory_optimization, forward_only=forward_only)


class MILSTMWithAttentionCell(LSTMWithAttentionCell):
    """`AttentionCell` around a `MILSTMCell`."""

    decoder_class = MILSTMCell

    def __init__(self, encoder_output_dim: int, encoder_outputs: Any, decoder_input_dim: int, decoder_state_dim: int,
                 name: str, attention_type: int, weighted_encoder_outputs: Any, forget_bias: float,
                 lstm_memory_optimization: bool, attention_memory_optimization: bool, forward_only: bool = False,
                 encoder_lengths: Any = None) -> None:
        super().__init__(encoder_output_dim, encoder_outputs, encoder_lengths, decoder_input_dim, decoder_state_dim,
                         name, attention_type, weighted_encoder_outputs, forget_bias, lstm_memory_optimization,
                         attention_memory_optimization, forward_only)
