"""The encoder: layers of LSTMs over embedded words, the first of them in both directions if so wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from netgrad.graph.device import DeviceOption
from netgrad.graph.scope import DeviceScope, NameScope
from netgrad.proto import caffe2_pb2
from netgrad.recurrent.cells import RNNCell
from netgrad.recurrent.lstm import LSTMCell
from netgrad.recurrent.wrappers import DropoutCell


def in_scope(scope: str | None, name: str) -> str:
    """A name inside a scope, which may be none."""
    return f"{scope}/{name}" if scope else name


def get_layer_scope(scope: str | None, layer_type: str, i: int) -> str:
    """The scope of a layer."""
    return f"{in_scope(scope, layer_type)}/layer{i}"


class Layer(NamedTuple):
    """What a layer makes; None where it was not asked for.

    Attributes:
        outputs: of all steps, (T, N, D).
        hidden, cell: the last states, (1, N, D).
    """

    outputs: Any
    hidden: Any
    cell: Any


def rnn_unidirectional_layer(
    model: Any, inputs: Any, input_lengths: Any, input_size: int, num_units: int, dropout_keep_prob: float | None,
    forward_only: bool, return_sequence_output: bool, return_final_state: bool, scope: str | None = None,
) -> Layer:
    """An LSTM from the first step to the last.

    Args:
        model: where it goes.
        inputs: (T, N, input_size).
        input_lengths: (N,) int32.
        input_size, num_units: dimensions of input and output.
        dropout_keep_prob: the probability with which an output is kept in training; None: always.
        forward_only: without a gradient.
        return_sequence_output, return_final_state: whether gradients flow back from the outputs, the last states.
        scope: of its names.
    """
    with NameScope(scope):
        cell_state, hidden_state = (
            model.param_init_net.ConstantFill([], f"initial_{kind}_state", shape=[num_units], value=0.0)
            for kind in ("cell", "hidden"))
    cell: RNNCell = LSTMCell(input_size=input_size, hidden_size=num_units, forget_bias=0.0, memory_optimization=False,
                             name=in_scope(scope, "lstm"), forward_only=forward_only)
    if dropout_keep_prob is not None:
        cell = DropoutCell(internal_cell=cell, dropout_ratio=1.0 - dropout_keep_prob, name=in_scope(scope, "dropout"),
                           forward_only=forward_only, is_test=False)
    outputs, (_, last_hidden, _, last_cell) = cell.apply_over_sequence(
        model=model, inputs=inputs, seq_lengths=input_lengths, initial_states=(hidden_state, cell_state),
        outputs_with_grads=[0] * return_sequence_output + [1, 3] * return_final_state)
    return Layer(outputs, last_hidden, last_cell)


def rnn_bidirectional_layer(
    model: Any, inputs: Any, input_lengths: Any, input_size: int, num_units: int, dropout_keep_prob: float | None,
    forward_only: bool, return_sequence_output: bool, return_final_state: bool, scope: str | None = None,
) -> Layer:
    """Two LSTMs, one of which reads the sequences from their ends; what they make is (..., 2 num_units).

    The arguments are those of `rnn_unidirectional_layer`.
    """
    def one_way(inputs: Any, way: str) -> Layer:
        return rnn_unidirectional_layer(model, inputs, input_lengths, input_size, num_units, dropout_keep_prob,
                                        forward_only, return_sequence_output, return_final_state, in_scope(scope, way))

    def reverse(blob: Any, name: str) -> Any:
        with NameScope(scope):
            return model.net.ReversePackedSegs([blob, input_lengths], [name])

    def join(pair: tuple[Any, Any], name: str, asked: bool) -> Any:
        if not asked:
            return None
        with NameScope(scope):
            return model.net.Concat(list(pair), [name, f"{name}_dim"], axis=2)[0]

    ahead = one_way(inputs, "fw")
    back = one_way(reverse(inputs, "reversed_inputs"), "bw")
    back = back._replace(outputs=reverse(back.outputs, "outputs_bw"))
    return Layer(join((ahead.outputs, back.outputs), "outputs", return_sequence_output),
                 join((ahead.hidden, back.hidden), "final_hidden_state", return_final_state),
                 join((ahead.cell, back.cell), "final_cell_state", return_final_state))


def build_embeddings(model: Any, vocab_size: int, embedding_size: int, name: str, freeze_embeddings: bool) -> Any:
    """A table of embeddings, (vocab_size, embedding_size), trained unless frozen."""
    embeddings = model.param_init_net.GaussianFill([], name, shape=[vocab_size, embedding_size], std=0.1)
    if not freeze_embeddings:
        model.params.append(embeddings)
    return embeddings


def embed(model: Any, embeddings: Any, words: Any, name: str, num_gpus: int, scope: str | None) -> Any:
    """The embeddings of words, (T, N) int32; the table is kept on the host where there are GPUs."""
    with NameScope(scope or ""):
        if num_gpus == 0:
            return model.net.Gather([embeddings, words], [name])
        with DeviceScope(DeviceOption(caffe2_pb2.CPU)):
            rows = model.net.Gather([embeddings, words], [f"{name}_cpu"])
        return model.CopyCPUToGPU(rows, name)


def build_embedding_encoder(
    model: Any, encoder_params: Mapping[str, Any], num_decoder_layers: int, inputs: Any, input_lengths: Any,
    vocab_size: int, embeddings: Any, embedding_size: int, use_attention: bool, num_gpus: int = 0,
    forward_only: bool = False, scope: str | None = None,
) -> tuple[Any, None, list[Any], list[Any], list[int]]:
    """Embeds words and encodes them.

    Args:
        model: where it goes.
        encoder_params: "encoder_layer_configs": for each layer a mapping of "num_units" and maybe "dropout_keep_prob";
            "use_bidirectional_encoder": whether the first layer reads both ways.
        num_decoder_layers: for so many of the layers, from the top, the last states are returned.
        inputs: words, (T, N) int32.
        input_lengths: (N,) int32.
        vocab_size: the number of words; the table says the same.
        embeddings: (vocab_size, embedding_size).
        embedding_size: its width.
        use_attention: whether gradients flow back from the outputs.
        num_gpus, forward_only, scope: see `embed` and `rnn_unidirectional_layer`.

    Returns:
        The outputs of the top layer; None (they are not weighted yet); the last hidden states and cells of each layer,
        None where the decoder does not want them; the width of each layer's output.
    """
    configs = encoder_params["encoder_layer_configs"]
    both_ways = encoder_params.get("use_bidirectional_encoder", False)
    layer = Layer(embed(model, embeddings, inputs, "embedded_encoder_inputs", num_gpus, scope), None, None)
    width, widths, hidden, cells = embedding_size, [], [], []
    for i, config in enumerate(configs):
        top = i == len(configs) - 1
        build = rnn_bidirectional_layer if both_ways and i == 0 else rnn_unidirectional_layer
        wanted = i >= len(configs) - num_decoder_layers
        layer = build(
            model=model, inputs=layer.outputs, input_lengths=input_lengths, input_size=width,
            num_units=config["num_units"], dropout_keep_prob=config.get("dropout_keep_prob"),
            forward_only=forward_only, return_sequence_output=not top or use_attention, return_final_state=wanted,
            scope=get_layer_scope(scope, "encoder", i))
        width = config["num_units"] * (2 if build is rnn_bidirectional_layer else 1)
        widths.append(width)
        hidden.append(layer.hidden)
        cells.append(layer.cell)
    return layer.outputs, None, hidden, cells, widths
