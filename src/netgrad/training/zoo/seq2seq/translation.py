"""Translating with one model or several, by beam search."""

from __future__ import annotations

import argparse
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netgrad.graph.operator import CreateOperator
from netgrad.graph.scope import NameScope
from netgrad.proto import caffe2_pb2
from netgrad.recurrent.beam_search import BeamSearchForwardOnly, Link, State
from netgrad.recurrent.lstm import LSTMCell
from netgrad.runtime import current
from netgrad.training.zoo.seq2seq.command_line import add_model_arguments, model_params_of
from netgrad.training.zoo.seq2seq.decoder import (
    LSTMWithAttentionDecoder,
    build_initial_rnn_decoder_states,
    flattened,
    output_projection,
)
from netgrad.training.zoo.seq2seq.encoder import build_embedding_encoder, build_embeddings
from netgrad.training.zoo.seq2seq.model_helper import Seq2SeqModelHelper
from netgrad.training.zoo.seq2seq.vocabulary import EOS_ID, GO_ID, PAD_ID, UNK_ID, gen_vocab, get_numberized_sentence

logger = logging.getLogger(__name__)


def _mean(model: Any, values: Sequence[Any], weight: Any, name: str) -> Any:
    return model.net.WeightedSum([blob for value in values for blob in (value, weight)], name)


class Seq2SeqModelCaffe2EnsembleDecoderBase(ABC):
    """Models whose parameters are loaded from files, each in a scope of its own.

    Attributes:
        model: holds the parameters of all.
        models: the ensemble; what of a model says where its file is, `get_model_file` knows.
        decoder_scope_names: the scope of each.
    """

    model: Any
    models: Sequence[Any]
    decoder_scope_names: Sequence[str]

    @abstractmethod
    def get_model_file(self, model: Any) -> str:
        """The file of a model's parameters."""

    @abstractmethod
    def get_db_type(self) -> str:
        """The format of these files."""

    def build_word_rewards(self, vocab_size: int, word_reward: float, unk_reward: float) -> np.ndarray:
        """What each word adds to a score, (vocab_size,) float32: padding, start and end nothing."""
        rewards = np.full([vocab_size], word_reward, dtype=np.float32)
        rewards[[PAD_ID, GO_ID, EOS_ID]] = 0
        rewards[UNK_ID] += unk_reward
        return rewards

    def load_models(self) -> None:
        """Loads all parameters.

        Raises:
            OperatorError: a file cannot be read, or does not hold a parameter.
        """
        for model, scope in zip(self.models, self.decoder_scope_names):
            file = self.get_model_file(model)
            params = [param for param in self.model.GetAllParams() if str(param).startswith(scope + "/")]
            current.RunOperatorOnce(CreateOperator("CreateDB", [], ["reader"], db=file, db_type=self.get_db_type()))
            current.RunOperatorOnce(CreateOperator("Load", ["reader"], params, load_all=1, add_prefix=scope + "/",
                                                   strip_prefix="gpu_0/"))
            logger.info("loaded %s from %s", scope, file)


class Seq2SeqModelCaffe2EnsembleDecoder(Seq2SeqModelCaffe2EnsembleDecoderBase):
    """Translates by beam search, with the mean of what several models say.

    Args:
        translate_params: "ensemble_models", for each model its "source_vocab", "target_vocab", "model_params" (see
            `Seq2SeqModelCaffe2`) and "model_file"; and "decoding_params": "beam_size", "word_reward", "unk_reward".

    Raises:
        ValueError: there are no models, or they do not have the same words, or one has another attention than "none"
            or "regular".
    """

    def __init__(self, translate_params: Mapping[str, Any]) -> None:
        self.models = translate_params["ensemble_models"]
        params = translate_params["decoding_params"]
        self.beam_size = params["beam_size"]
        if not self.models:
            raise ValueError("ensemble_models is empty; translating takes at least one model")
        source, target = self.models[0]["source_vocab"], self.models[0]["target_vocab"]
        if any(model["source_vocab"] != source or model["target_vocab"] != target for model in self.models):
            raise ValueError("the models of an ensemble have different words; they need the same source_vocab and "
                             "target_vocab")
        self.source_vocab_size, self.target_vocab_size = len(source), len(target)
        self.decoder_scope_names = [f"model{i}" for i in range(len(self.models))]
        self.model = Seq2SeqModelHelper(init_params=True)
        self.encoder_inputs, self.encoder_lengths, self.max_output_seq_len = (
            self.model.net.AddExternalInput(name)
            for name in ("encoder_inputs", "encoder_lengths", "max_output_seq_len"))
        self._build()
        current.RunNetOnce(self.model.param_init_net)
        current.FeedBlob("word_rewards", self.build_word_rewards(self.target_vocab_size, params["word_reward"],
                                                                 params["unk_reward"]))
        current.CreateNet(self.model.net, input_blobs=list(map(str, (
            self.encoder_inputs, self.encoder_lengths, self.max_output_seq_len))))

    def get_model_file(self, model: Any) -> str:
        return model["model_file"]

    def get_db_type(self) -> str:
        return "minidb"

    def scope(self, scope_name: str | None, blob_name: str) -> str:
        """A name inside a scope, which may be none."""
        return blob_name if scope_name is None else f"{scope_name}/{blob_name}"

    def decode(self, numberized_input: Sequence[int], max_output_seq_len: int) -> tuple[list[int], list[Any], float]:
        """Translates a sentence.

        Args:
            numberized_input: its words.
            max_output_seq_len: how many words the translation has at most, its end included.

        Returns:
            The words of the translation, its end included; for each the attention to the words of the sentence; and
            the score, the negative logarithm of the translation's probability less the words' rewards.

        Raises:
            ValueError: there are no words.
        """
        if not len(numberized_input):
            raise ValueError("a sentence without words cannot be translated")
        words = np.array(numberized_input, dtype=np.int32)
        current.FeedBlob(self.encoder_inputs, words[::-1, None].copy())
        current.FeedBlob(self.encoder_lengths, np.array([len(words)], dtype=np.int32))
        current.FeedBlob(self.max_output_seq_len, np.array([max_output_seq_len], dtype=np.int64))
        current.RunNet(self.model.net)
        tokens, parents, scores = (current.FetchBlob(blob)[:, :, 0] for blob in (
            self.output_token_beam_list, self.output_prev_index_beam_list, self.output_score_beam_list))
        attention = current.FetchBlob(self.output_attention_weights_beam_list)
        finished = tokens == EOS_ID
        finished[max_output_seq_len] = True
        step, hypothesis = np.unravel_index(np.where(finished, scores, -np.inf).argmax(), scores.shape)
        score = -scores[step, hypothesis]
        output, weights = [], []
        while step > 0:
            output.append(tokens[step, hypothesis])
            weights.append(list(attention[step, hypothesis][::-1][:len(words)]))  # the encoder read from the end
            hypothesis = parents[step, hypothesis]
            step -= 1
        return output[::-1], weights[::-1], score

    def _build(self) -> None:
        """Writes encoders and the search."""
        filler = self.model.param_init_net
        # nothing of a beam ends before the search does
        lengths = filler.ConstantFill([], "fake_seq_lengths", shape=[self.beam_size], value=100000,
                                      dtype=caffe2_pb2.TensorProto.INT32)
        search = BeamSearchForwardOnly(beam_size=self.beam_size, model=self.model, go_token_id=GO_ID,
                                       eos_token_id=EOS_ID)
        step = search.get_step_model()
        states: list[State] = []
        log_probs, attentions = [], []
        for model, scope in zip(self.models, self.decoder_scope_names):
            of_model, log_prob, attention = self._build_decoder(
                model=self.model, step_model=step, model_params=model["model_params"], scope=scope,
                previous_tokens=search.get_previous_tokens(), timestep=search.get_timestep(),
                fake_seq_lengths=lengths)
            states += of_model
            log_probs.append(log_prob)
            attentions.append(attention)
        means = []
        for blobs, weight, name in ((attentions, "num_decoders_with_attention_blob", "attention_weights_average"),
                                    (log_probs, "num_decoders_blob", "output_log_probs_average")):
            share = filler.ConstantFill([], weight, value=1 / float(len(blobs)), shape=[1])
            means.append(_mean(step, blobs, share, name))
        rewards = filler.ConstantFill([], "word_rewards", shape=[self.target_vocab_size], value=0.0,
                                      dtype=caffe2_pb2.TensorProto.FLOAT)
        (self.output_token_beam_list, self.output_prev_index_beam_list, self.output_score_beam_list,
         self.output_attention_weights_beam_list) = search.apply(
            inputs=self.encoder_inputs, length=self.max_output_seq_len, log_probs=means[1], attentions=means[0],
            state_configs=states, data_dependencies=[], word_rewards=rewards)

    def _build_decoder(
        self, model: Any, step_model: Any, model_params: Mapping[str, Any], scope: str, previous_tokens: Any,
        timestep: Any, fake_seq_lengths: Any,
    ) -> tuple[list[State], Any, Any]:
        """Writes one model: its encoder, and a step of its decoder.

        Returns:
            The decoder's states; the logarithms of the words' probabilities, (beam_size, V); the attention's weights,
            (beam_size, L, 1).
        """
        attention_type = model_params["attention"]
        if attention_type not in ("none", "regular"):
            raise ValueError(f"a model with attention {attention_type!r} cannot be searched; none or regular can")
        use_attention = attention_type != "none"
        with NameScope(scope):
            embeddings = build_embeddings(model, self.source_vocab_size, model_params["encoder_embedding_size"],
                                          "encoder_embeddings", freeze_embeddings=False)
        outputs, weighted, hidden, cells, widths = build_embedding_encoder(
            model=model, encoder_params=model_params["encoder_type"],
            num_decoder_layers=len(model_params["decoder_layer_configs"]), inputs=self.encoder_inputs,
            input_lengths=self.encoder_lengths, vocab_size=self.source_vocab_size, embeddings=embeddings,
            embedding_size=model_params["encoder_embedding_size"], use_attention=use_attention, num_gpus=0,
            forward_only=True, scope=scope)
        with NameScope(scope):
            if use_attention:
                outputs = self._for_each(model, outputs, "encoder_outputs_tiled")
            if weighted is not None:
                weighted = self._for_each(model, weighted, "weighted_encoder_outputs_tiled")
            embeddings = build_embeddings(model, self.target_vocab_size, model_params["decoder_embedding_size"],
                                          "decoder_embeddings", freeze_embeddings=False)
            embedded = step_model.net.Gather([embeddings, previous_tokens], "embedded_tokens_t_prev")
        units = [config["num_units"] for config in model_params["decoder_layer_configs"]]
        layers = [LSTMCell(forward_only=True, input_size=size, hidden_size=width, forget_bias=0.0,
                           memory_optimization=False)
                  for size, width in zip([model_params["decoder_embedding_size"], *units], units)]
        with NameScope(scope):
            hidden, cells = ([blob if blob is None else self._for_each(model, blob, f"final_encoder_{kind}_tiled_{i}")
                              for i, blob in enumerate(blobs)] for kind, blobs in (("hidden", hidden), ("cell", cells)))
            firsts = build_initial_rnn_decoder_states(
                model=model, encoder_units_per_layer=widths, decoder_units_per_layer=units,
                final_encoder_hidden_states=hidden, final_encoder_cell_states=cells, use_attention=use_attention)
        decoder = LSTMWithAttentionDecoder(
            encoder_outputs=outputs, encoder_output_dim=widths[-1], encoder_lengths=None,
            vocab_size=self.target_vocab_size, attention_type=attention_type,
            embedding_size=model_params["decoder_embedding_size"], decoder_num_units=units[-1], decoder_cells=layers,
            weighted_encoder_outputs=weighted, name=scope)
        before = step_model.net.AddExternalInputs(*(f"{scope}/{state}_prev" for state in decoder.get_state_names()))
        decoded, after = decoder.apply(model=step_model, input_t=embedded, seq_lengths=fake_seq_lengths, states=before,
                                       timestep=timestep)
        states = [State(first, Link(old, 0, 1), Link(new, 1, 1))
                  for first, old, new in zip(firsts, before, after)]
        with NameScope(scope):
            logits = output_projection(
                model=step_model, decoder_outputs=flattened(step_model, decoded, decoder.get_output_dim()),
                decoder_output_size=decoder.get_output_dim(), target_vocab_size=self.target_vocab_size,
                decoder_softmax_size=model_params["decoder_softmax_size"])
            log_probs = step_model.net.Log(step_model.net.Softmax(logits, "output_probs"), "output_log_probs")
            attention = decoder.get_attention_weights() if use_attention else self._no_attention(step_model)
        return states, log_probs, attention

    def _for_each(self, model: Any, blob: Any, name: str) -> Any:
        """The blob once for each sentence of the beam."""
        return model.net.Tile(blob, name, tiles=self.beam_size, axis=1)

    def _no_attention(self, step_model: Any) -> Any:
        """Zeros in the place of attention."""
        net, name = step_model.net, "zero_attention_weights_tmp"
        zeros = net.Transpose(net.ConstantFill([self.encoder_inputs], f"{name}_1", value=0.0), f"{name}_2")
        return net.Tile(zeros, name, tiles=self.beam_size, axis=0)


def run_seq2seq_beam_decoder(args: argparse.Namespace, model_params: Mapping[str, Any],
                             decoding_params: Mapping[str, Any]) -> None:
    """Translates the sentences on standard input, one on each line, to standard output.

    Args:
        args: what `main` reads from the command line.
        model_params: see `Seq2SeqModelCaffe2`.
        decoding_params: see `Seq2SeqModelCaffe2EnsembleDecoder`.

    Raises:
        OSError, OperatorError: a text or the parameters cannot be read.
    """
    source, target = (gen_vocab(corpus, args.unk_threshold) for corpus in (args.source_corpus, args.target_corpus))
    logger.info("words: %d and %d", len(source), len(target))
    words = {number: word for word, number in target.items()}
    decoder = Seq2SeqModelCaffe2EnsembleDecoder({
        "ensemble_models": [{"source_vocab": source, "target_vocab": target, "model_params": model_params,
                             "model_file": args.checkpoint}],
        "decoding_params": decoding_params})
    decoder.load_models()
    for line in sys.stdin:
        sentence = get_numberized_sentence(line, source)
        translation = decoder.decode(sentence, 2 * len(sentence) + 5)[0] if sentence else []
        print(" ".join(words[number] for number in translation))


def main(arguments: Sequence[str] | None = None) -> None:
    """The command: translates; ``--help`` lists its arguments."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(description="Translates the sentences on standard input.")
    for name, what in (("source", "sentences"), ("target", "translations")):
        parser.add_argument(f"--{name}-corpus", required=True, help=f"file of {what} with which the model was trained")
    parser.add_argument("--checkpoint", required=True, help="file of the model's parameters")
    parser.add_argument("--beam-size", type=int, default=6)
    parser.add_argument("--word-reward", type=float, default=0.0, help="added to the score for each word")
    parser.add_argument("--unk-reward", type=float, default=0.0, help="added for each unknown word; negative, usually")
    add_model_arguments(parser)
    args = parser.parse_args(arguments)
    run_seq2seq_beam_decoder(args, model_params=model_params_of(args), decoding_params={
        "beam_size": args.beam_size, "word_reward": args.word_reward, "unk_reward": args.unk_reward})
