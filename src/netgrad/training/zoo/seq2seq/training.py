"""Training a model of sequence to sequence."""

from __future__ import annotations

import argparse
import logging
import math
import os
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from netgrad.graph.device import DeviceOption
from netgrad.graph.operator import CreateOperator, GradientSlice
from netgrad.graph.scope import DeviceScope, NameScope
from netgrad.proto import caffe2_pb2
from netgrad.runtime import current
from netgrad.runtime.housekeeping import GlobalInit
from netgrad.training.zoo.seq2seq.batches import Pair, gen_batches, prepare_batch
from netgrad.training.zoo.seq2seq.command_line import add_model_arguments, model_params_of
from netgrad.training.zoo.seq2seq.decoder import build_embedding_decoder, output_projection
from netgrad.training.zoo.seq2seq.encoder import build_embedding_encoder
from netgrad.training.zoo.seq2seq.model_helper import Seq2SeqModelHelper
from netgrad.training.zoo.seq2seq.vocabulary import gen_vocab

logger = logging.getLogger(__name__)


class Seq2SeqModelCaffe2:
    """A model, its training net and its net for evaluation, in the current workspace.

    Training is by stochastic gradient descent with gradients clipped to a norm: those of dense parameters together,
    and those of embeddings together.

    Args:
        model_params: "attention" ("none", "regular" or "dot"), "encoder_type" (see `build_embedding_encoder`),
            "decoder_layer_configs" (see `build_embedding_decoder`), "encoder_embedding_size",
            "decoder_embedding_size", "decoder_softmax_size" (see `output_projection`), "batch_size",
            "max_gradient_norm", and "optimizer_params" with the "learning_rate".
        source_vocab_size, target_vocab_size: numbers of words.
        num_gpus: 0, the device that the nets say; spreading over several is not part of netgrad yet.
        num_cpus: threads of the products.

    Raises:
        NotImplementedError: num_gpus is not 0.
    """

    def __init__(self, model_params: Mapping[str, Any], source_vocab_size: int, target_vocab_size: int,
                 num_gpus: int = 1, num_cpus: int = 1) -> None:
        if num_gpus:
            raise NotImplementedError(f"num_gpus={num_gpus}: training spread over devices is not part of netgrad yet; "
                                      "give num_gpus=0, which runs on the device of the nets")
        self.model_params = model_params
        self.encoder_type = "rnn"
        self.encoder_params = model_params["encoder_type"]
        self.source_vocab_size = source_vocab_size
        self.target_vocab_size = target_vocab_size
        self.num_gpus = num_gpus
        self.num_cpus = num_cpus
        self.batch_size = model_params["batch_size"]
        GlobalInit(["caffe2", f"--caffe2_mkl_num_threads={num_cpus}"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        current.ResetWorkspace()

    def initialize_from_scratch(self) -> None:
        """Builds the nets, fills the parameters, creates the nets."""
        self._build_model(init_params=True)
        current.RunNetOnce(self.model.param_init_net)
        for net in (self.model.net, self.forward_net):
            current.CreateNet(net, input_blobs=[str(blob) for blob in net.external_inputs])

    def get_current_step(self) -> int:
        """How many training steps there were."""
        return current.FetchBlob(self.global_step)[0]

    def inc_current_step(self) -> None:
        current.FeedBlob(self.global_step, np.array([self.get_current_step() + 1]))

    def step(self, batch: Sequence[Pair], forward_only: bool) -> Any:
        """Trains on a batch, or only evaluates it; returns the sum of its words' losses."""
        arrays = prepare_batch(batch)
        for name, array in arrays._asdict().items():
            current.FeedBlob(name, array)
        if forward_only:
            current.RunNet(self.forward_net)
        else:
            current.RunNet(self.model.net)
            self.inc_current_step()
        return self.total_loss_scalar()

    def total_loss_scalar(self) -> Any:
        """The sum of the losses of the last batch's words."""
        return current.FetchBlob("total_loss_scalar")

    def save(self, checkpoint_path_prefix: str, current_step: int) -> str:
        """Saves all parameters in a file, and its name in the file ``checkpoint`` beside it; returns the name."""
        path = f"{checkpoint_path_prefix}-{current_step}"
        current.RunOperatorOnce(CreateOperator("Save", self.model.GetAllParams(), [], absolute_path=True, db=path,
                                               db_type="minidb"))
        with open(os.path.join(os.path.dirname(checkpoint_path_prefix), "checkpoint"), "w") as file:
            file.write(f'model_checkpoint_path: "{path}"\nall_model_checkpoint_paths: "{path}"\n')
        logger.info("saved %s", path)
        return path

    # nets

    def _build_model(self, init_params: bool) -> None:
        model, evaluation = (Seq2SeqModelHelper(init_params=init_params) for _ in range(2))
        for each in (model, evaluation):
            self._build_shared(each)
            self._build_embeddings(each)
        model.AddGradientOperators(self.model_build_fun(model))
        self.norm_clipped_grad_update(model, scope="norm_clipped_grad_update")
        self.forward_model_build_fun(evaluation)
        self.norm_clipped_sparse_grad_update(model, scope="norm_clipped_sparse_grad_update")
        self.model = model
        self.forward_net = evaluation.net

    def _build_shared(self, model: Seq2SeqModelHelper) -> None:
        rate = float(self.model_params["optimizer_params"]["learning_rate"])
        with DeviceScope(DeviceOption(caffe2_pb2.CPU)):
            self.learning_rate = model.AddParam("learning_rate", init_value=rate, trainable=False)
            self.global_step = model.AddParam("global_step", init_value=0, trainable=False)
            self.start_time = model.AddParam("start_time", init_value=time.time(), trainable=False)

    def _build_embeddings(self, model: Seq2SeqModelHelper) -> None:
        def table(side: str, size: int) -> Any:
            embeddings = model.param_init_net.UniformFill(
                [], f"{side}_embeddings", shape=[size, self.model_params[f"{side}_embedding_size"]],
                min=-math.sqrt(3), max=math.sqrt(3))  # of variance 1
            model.params.append(embeddings)
            return embeddings

        with DeviceScope(DeviceOption(caffe2_pb2.CPU)):
            self.encoder_embeddings = table("encoder", self.source_vocab_size)
            self.decoder_embeddings = table("decoder", self.target_vocab_size)

    def model_build_fun(self, model: Any, forward_only: bool = False, loss_scale: Any = None) -> list[Any]:
        """Writes the net from words to the loss; returns the loss of a sentence, in the mean of a batch.

        Args:
            model: where it goes.
            forward_only: without a gradient; nothing is dropped out.
            loss_scale: without effect.
        """
        encoder_inputs, encoder_lengths, decoder_inputs, decoder_lengths, targets, weights = (
            model.net.AddExternalInput(current.GetNameScope() + name) for name in (
                "encoder_inputs", "encoder_lengths", "decoder_inputs", "decoder_lengths", "targets", "target_weights"))
        attention = self.model_params["attention"]
        outputs, weighted, hidden, cells, widths = build_embedding_encoder(
            model=model, encoder_params=self.encoder_params,
            num_decoder_layers=len(self.model_params["decoder_layer_configs"]), inputs=encoder_inputs,
            input_lengths=encoder_lengths, vocab_size=self.source_vocab_size, embeddings=self.encoder_embeddings,
            embedding_size=self.model_params["encoder_embedding_size"], use_attention=attention != "none",
            num_gpus=self.num_gpus, forward_only=forward_only)
        decoded, width = build_embedding_decoder(
            model, decoder_layer_configs=self.model_params["decoder_layer_configs"], inputs=decoder_inputs,
            input_lengths=decoder_lengths, encoder_lengths=encoder_lengths, encoder_outputs=outputs,
            weighted_encoder_outputs=weighted, final_encoder_hidden_states=hidden, final_encoder_cell_states=cells,
            encoder_units_per_layer=widths, vocab_size=self.target_vocab_size, embeddings=self.decoder_embeddings,
            embedding_size=self.model_params["decoder_embedding_size"], attention_type=attention,
            forward_only=forward_only, num_gpus=self.num_gpus)
        logits = output_projection(
            model=model, decoder_outputs=decoded, decoder_output_size=width, target_vocab_size=self.target_vocab_size,
            decoder_softmax_size=self.model_params["decoder_softmax_size"])
        targets, _ = model.net.Reshape([targets], ["targets", "targets_old_shape"], shape=[-1])
        weights, _ = model.net.Reshape([weights], ["target_weights", "target_weights_old_shape"], shape=[-1])
        _, loss_per_word = model.net.SoftmaxWithLoss(
            [logits, targets, weights], ["OutputProbs_INVALID", "loss_per_word"], only_loss=True)
        words = model.net.SumElements([weights], "num_words")
        total = model.net.Mul([loss_per_word, words], "total_loss_scalar")
        return [model.net.Scale([total], "total_loss_scalar_weighted", scale=1.0 / self.batch_size)]

    def forward_model_build_fun(self, model: Any, loss_scale: Any = None) -> list[Any]:
        """Writes the net for evaluation."""
        return self.model_build_fun(model=model, forward_only=True, loss_scale=loss_scale)

    def norm_clipped_grad_update(self, model: Any, scope: str) -> None:
        """Writes the updates of parameters with dense gradients, which are scaled to the norm if theirs is larger."""
        self._update(model, scope, sparse=False)

    def norm_clipped_sparse_grad_update(self, model: Any, scope: str) -> None:
        """Writes the updates of parameters with sparse gradients."""
        self._update(model, scope, sparse=True)

    def _update(self, model: Any, scope: str, sparse: bool) -> None:
        params = [param for param in model.GetParams(top_scope=True) if param in model.param_to_grad
                  and isinstance(model.param_to_grad[param], GradientSlice) == sparse]
        one = model.param_init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
        if not params:
            return
        ratio = self._calc_norm_ratio(model, params, scope, one)
        self._apply_norm_ratio(ratio, model, params, self.learning_rate, scope, one)

    def _calc_norm_ratio(self, model: Any, params: Sequence[Any], scope: str, one: Any) -> Any:
        """What gradients are multiplied by: 1, or less if their norm exceeds the largest that is allowed."""
        net, most = model.net, float(self.model_params["max_gradient_norm"])
        with NameScope(scope):
            squares = []
            for i, param in enumerate(params):
                gradient = model.param_to_grad[param]
                values = gradient.values if isinstance(gradient, GradientSlice) else gradient
                square = net.Sqr([values], f"grad_{i}_squared")
                squares.append(net.SumElements(square, f"grad_{i}_squared_sum"))
            norm = net.Pow(net.Sum(squares, "grad_squared_full_sum"), "global_norm", exponent=0.5)
            clip = model.param_init_net.ConstantFill([], "clip_norm", shape=[], value=most)
            return net.Div([clip, net.Max([norm, clip], "max_norm")], "norm_ratio")

    def _apply_norm_ratio(self, norm_ratio: Any, model: Any, params: Sequence[Any], learning_rate: Any, scope: str,
                          one: Any) -> None:
        for param in params:
            gradient = model.param_to_grad[param]
            downwards = model.net.Negative([learning_rate], "negative_learning_rate")
            with NameScope(scope):
                rate = model.net.Mul([downwards, norm_ratio], "update_coeff", broadcast=1)
            if isinstance(gradient, GradientSlice):
                model.net.ScatterWeightedSum([param, one, gradient.indices, gradient.values, rate], param)
            else:
                model.net.WeightedSum([param, one, gradient, rate], param)


def run_seq2seq_model(args: argparse.Namespace, model_params: Mapping[str, Any]) -> None:
    """Trains on two texts and evaluates on two others, for some epochs; logs the losses.

    Args:
        args: what `main` reads from the command line.
        model_params: see `Seq2SeqModelCaffe2`.

    Raises:
        OSError: a text cannot be read, or a checkpoint not be written.
    """
    source, target = (gen_vocab(corpus, args.unk_threshold) for corpus in (args.source_corpus, args.target_corpus))
    logger.info("words: %d and %d", len(source), len(target))
    training, evaluation = (
        gen_batches(*corpora, source, target, model_params["batch_size"], args.max_length)
        for corpora in ((args.source_corpus, args.target_corpus), (args.source_corpus_eval, args.target_corpus_eval)))
    logger.info("batches: %d, and %d for evaluation", len(training), len(evaluation))
    with Seq2SeqModelCaffe2(model_params, len(source), len(target), args.num_gpus, os.cpu_count() or 1) as model:
        model.initialize_from_scratch()
        for epoch in range(args.epochs):
            losses = [sum(float(model.step(batch, forward_only)) for batch in batches)
                      for batches, forward_only in ((training, False), (evaluation, True))]
            logger.info("epoch %d: loss %g, in evaluation %g", epoch, *losses)
            if args.checkpoint is not None:
                model.save(args.checkpoint, epoch)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command: trains a model; ``--help`` lists its arguments."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    random.seed(31415)
    parser = argparse.ArgumentParser(description="Trains a translator.")
    for name, what in (("source", "sentences"), ("target", "their translations")):
        parser.add_argument(f"--{name}-corpus", required=True, help=f"file of {what}, one on each line")
        parser.add_argument(f"--{name}-corpus-eval", required=True, help=f"file of {what} for evaluation")
    parser.add_argument("--max-length", type=int, help="longer sentences are left out")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=0.5)
    parser.add_argument("--max-gradient-norm", type=float, default=1.0, help="gradients are scaled to it if larger")
    parser.add_argument("--num-gpus", type=int, default=0)
    parser.add_argument("--checkpoint", help="files of parameters are called this, with the epoch")
    add_model_arguments(parser)
    args = parser.parse_args(arguments)
    run_seq2seq_model(args, model_params={
        **model_params_of(args), "batch_size": args.batch_size, "max_gradient_norm": args.max_gradient_norm,
        "optimizer_params": {"learning_rate": args.learning_rate}})
