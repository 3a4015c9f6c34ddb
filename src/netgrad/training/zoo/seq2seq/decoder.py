"""The decoder: layers of LSTMs over the words so far, with attention to the encoder's outputs; and the projection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netgrad.recurrent.attention import AttentionType
from netgrad.recurrent.attention_cells import AttentionCell
from netgrad.recurrent.cells import RNNCell
from netgrad.recurrent.lstm import LSTMCell
from netgrad.recurrent.wrappers import DropoutCell, MultiRNNCell
from netgrad.training import brew
from netgrad.training.zoo.seq2seq.encoder import embed, get_layer_scope

#: what a model calls its attention -> its kind; "none" is none
ATTENTION = {"regular": AttentionType.Regular, "recurrent": AttentionType.Recurrent, "dot": AttentionType.Dot}


class LSTMWithAttentionDecoder:
    """Layers of cells, with attention or without, as one cell.

    Args:
        encoder_outputs, encoder_output_dim, encoder_lengths, weighted_encoder_outputs: see `AttentionCell`.
        vocab_size, embedding_size: without effect.
        attention_type: "none", or a key of `ATTENTION`.
        decoder_num_units: the width of the top cell.
        decoder_cells: from the input to the output.
        residual_output_layers: see `MultiRNNCell`.
        name: the scope of its names.
        forward_only: without a gradient.

    Raises:
        ValueError: another kind of attention.
    """

    def __init__(
        self, encoder_outputs: Any, encoder_output_dim: int, encoder_lengths: Any, vocab_size: int,
        attention_type: str, embedding_size: int, decoder_num_units: int, decoder_cells: Sequence[RNNCell],
        residual_output_layers: Sequence[int] | None = None, name: str | None = None,
        weighted_encoder_outputs: Any = None, forward_only: bool = False,
    ) -> None:
        if attention_type != "none" and attention_type not in ATTENTION:
            raise ValueError(f"there is no attention {attention_type!r}; choose none, {', '.join(ATTENTION)}")
        self.name = name
        self.num_layers = len(decoder_cells)
        self.use_attention = attention_type != "none"
        layers = MultiRNNCell(decoder_cells, name=self.scope("decoder"), residual_output_layers=residual_output_layers,
                              forward_only=forward_only)
        self.cell: Any = layers
        self.decoder_output_dim = decoder_num_units
        #: positions among the states of those that are read
        self.output_indices = list(layers.output_indices)
        if self.use_attention:
            self.cell = AttentionCell(
                encoder_output_dim=encoder_output_dim, encoder_outputs=encoder_outputs,
                encoder_lengths=encoder_lengths, decoder_cell=layers, decoder_state_dim=decoder_num_units,
                name=self.scope("attention_decoder"), attention_type=ATTENTION[attention_type],
                weighted_encoder_outputs=weighted_encoder_outputs, attention_memory_optimization=True,
                forward_only=forward_only)
            self.decoder_output_dim += encoder_output_dim
            self.output_indices.append(2 * self.num_layers)

    def scope(self, name: str) -> str:
        """A name inside the decoder's scope."""
        return name if self.name is None else f"{self.name}/{name}"

    def get_state_names(self) -> Sequence[str]:
        return self.cell.get_state_names()

    def get_outputs_with_grads(self) -> list[int]:
        """Positions of the results of `RNNCell.apply_over_sequence` from which gradients flow back."""
        return [2 * i for i in self.output_indices]

    def get_output_dim(self) -> int:
        return self.decoder_output_dim

    def get_attention_weights(self) -> Any:
        """The weights of a step, (N, L, 1).

        Raises:
            ValueError: there is no attention.
        """
        if not self.use_attention:
            raise ValueError("a decoder without attention has no attention weights")
        return self.cell.get_attention_weights()

    def apply(self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any) -> tuple[Any, Any]:
        """One step: see `RNNCell.apply`."""
        return self.cell.apply(model=model, input_t=input_t, seq_lengths=seq_lengths, states=states, timestep=timestep)

    def apply_over_sequence(self, model: Any, inputs: Any, seq_lengths: Any, initial_states: Any) -> tuple[Any, Any]:
        """All steps: see `RNNCell.apply_over_sequence`."""
        return self.cell.apply_over_sequence(
            model=model, inputs=inputs, seq_lengths=seq_lengths, initial_states=initial_states,
            outputs_with_grads=self.get_outputs_with_grads())


def build_initial_rnn_decoder_states(
    model: Any, encoder_units_per_layer: Sequence[int], decoder_units_per_layer: Sequence[int],
    final_encoder_hidden_states: Sequence[Any] | None, final_encoder_cell_states: Sequence[Any] | None,
    use_attention: bool,
) -> list[Any]:
    """First values of the decoder's states: the last ones of the encoder's layers, from the top.

    Where the widths differ they go through a linear map; where the encoder has no such layer they are parameters,
    zeros to begin with, as is the first context of attention.
    """
    above = max(0, len(encoder_units_per_layer) - len(decoder_units_per_layer))

    def parameter(name: str, width: int) -> Any:
        blob = model.param_init_net.ConstantFill([], name, shape=[width], value=0.0)
        model.params.append(blob)
        return blob

    def first(finals: Sequence[Any] | None, i: int, width: int, name: str) -> Any:
        final = finals[i + above] if finals and len(finals) > i + above else None
        if final is None:
            return parameter(name, width)
        if width != encoder_units_per_layer[i + above]:
            return brew.fc(model, final, name, encoder_units_per_layer[i + above], width, axis=2)
        return final

    states = []
    for i, width in enumerate(decoder_units_per_layer):
        states.append(first(final_encoder_hidden_states, i, width, f"decoder_initial_hidden_state_{i}"))
        states.append(first(final_encoder_cell_states, i, width, f"decoder_initial_cell_state_{i}"))
    if use_attention:
        states.append(parameter("initial_attention_weighted_encoder_context", encoder_units_per_layer[-1]))
    return states


def build_embedding_decoder(
    model: Any, decoder_layer_configs: Sequence[Mapping[str, Any]], inputs: Any, input_lengths: Any,
    encoder_lengths: Any, encoder_outputs: Any, weighted_encoder_outputs: Any, final_encoder_hidden_states: Any,
    final_encoder_cell_states: Any, encoder_units_per_layer: Sequence[int], vocab_size: int, embeddings: Any,
    embedding_size: int, attention_type: str, forward_only: bool, num_gpus: int = 0, scope: str | None = None,
) -> tuple[Any, int]:
    """Embeds the words so far and decodes them.

    Args:
        model: where it goes.
        decoder_layer_configs: for each layer "num_units" and maybe "dropout_keep_prob".
        inputs: words, (T, N) int32.
        input_lengths, encoder_lengths: (N,) int32.
        encoder_outputs, weighted_encoder_outputs, final_encoder_hidden_states, final_encoder_cell_states,
            encoder_units_per_layer: what `build_embedding_encoder` returns.
        vocab_size, embeddings, embedding_size, num_gpus, scope: as there.
        attention_type: see `LSTMWithAttentionDecoder`.
        forward_only: without a gradient.

    Returns:
        The outputs of all steps, (T N, D), and D.
    """
    embedded = embed(model, embeddings, inputs, "embedded_decoder_inputs", num_gpus, scope)
    cells: list[RNNCell] = []
    for i, config in enumerate(decoder_layer_configs):
        cell: RNNCell = LSTMCell(
            input_size=cells[-1].get_output_dim() if cells else embedding_size, hidden_size=config["num_units"],
            forget_bias=0.0, memory_optimization=False, forward_only=forward_only)
        keep = config.get("dropout_keep_prob")
        if keep is not None:
            cell = DropoutCell(internal_cell=cell, dropout_ratio=1.0 - keep, forward_only=forward_only, is_test=False,
                               name=get_layer_scope(scope, "decoder_dropout", i))
        cells.append(cell)
    widths = [config["num_units"] for config in decoder_layer_configs]
    states = build_initial_rnn_decoder_states(
        model=model, encoder_units_per_layer=encoder_units_per_layer, decoder_units_per_layer=widths,
        final_encoder_hidden_states=final_encoder_hidden_states, final_encoder_cell_states=final_encoder_cell_states,
        use_attention=attention_type != "none")
    decoder = LSTMWithAttentionDecoder(
        encoder_outputs=encoder_outputs, encoder_output_dim=encoder_units_per_layer[-1],
        encoder_lengths=encoder_lengths, vocab_size=vocab_size, attention_type=attention_type,
        embedding_size=embedding_size, decoder_num_units=widths[-1], decoder_cells=cells,
        weighted_encoder_outputs=weighted_encoder_outputs, name=scope, forward_only=forward_only)
    outputs, _ = decoder.apply_over_sequence(model=model, inputs=embedded, seq_lengths=input_lengths,
                                             initial_states=states)
    return flattened(model, outputs, decoder.get_output_dim()), decoder.get_output_dim()


def flattened(model: Any, outputs: Any, width: int) -> Any:
    """Outputs (T, N, D) as rows, (T N, D)."""
    return model.net.Reshape(
        [outputs], ["decoder_outputs_flattened", "decoder_outputs_and_contexts_combination_old_shape"],
        shape=[-1, width])[0]


def output_projection(model: Any, decoder_outputs: Any, decoder_output_size: int, target_vocab_size: int,
                      decoder_softmax_size: int | None) -> Any:
    """A score for each word, (rows, target_vocab_size).

    Args:
        model: where it goes.
        decoder_outputs: (rows, decoder_output_size).
        decoder_softmax_size: the width of a linear map between; None: without.
    """
    if decoder_softmax_size is not None:
        decoder_outputs = brew.fc(model, decoder_outputs, "decoder_outputs_scaled", dim_in=decoder_output_size,
                                  dim_out=decoder_softmax_size)
        decoder_output_size = decoder_softmax_size
    shapes = {"w": [target_vocab_size, decoder_output_size], "b": [target_vocab_size]}
    parameters = [model.param_init_net.XavierFill([], f"output_projection_{name}", shape=shape)
                  for name, shape in shapes.items()]
    model.params.extend(parameters)
    return model.net.FC([decoder_outputs, *parameters], ["output_logits"])
