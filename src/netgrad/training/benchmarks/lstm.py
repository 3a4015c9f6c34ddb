"""Times LSTMs on random sequences: ``--implementation own``, ``static`` (unrolled), or ``cudnn``."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from netgrad.graph import scope
from netgrad.graph.device import CPU, CUDA, DeviceOption
from netgrad.graph.net import Net
from netgrad.recurrent import cudnn, layers, network
from netgrad.runtime.current import CreateNet, FeedBlob, RunNetOnce
from netgrad.runtime.housekeeping import GlobalInit
from netgrad.training.benchmarks.queued import create_queues, timed_runs
from netgrad.training.model_helper import ModelHelper

log = logging.getLogger("lstm_bench")

IMPLEMENTATIONS = ("own", "static", "static_dag", "cudnn")


def generate_data(
    T: int, shape: Sequence[int], num_labels: int, fixed_shape: bool
) -> tuple[str, str, list[int]]:
    """Queues of ``T`` batches and of their labels, and how many entries each batch has.

    Args:
        shape: (length, batch, features) of a batch; all but the first are shorter by chance unless ``fixed_shape``.
        num_labels: how many labels there are per sequence of the batch.
    """
    queue, label_queue = create_queues(["inputqueue", "labelqueue"], T)
    feed = Net("generate_input")
    feed.EnqueueBlobs([queue, "scratch"], ["scratch"])
    feed.EnqueueBlobs([label_queue, "label_scr"], ["label_scr"])
    rng = np.random.RandomState(2603)
    entries = []
    for k in range(T):
        length = rng.randint(1, shape[0]) if k and not fixed_shape and shape[0] > 1 else shape[0]
        FeedBlob("scratch", rng.rand(length, *shape[1:]).astype(np.float32))
        FeedBlob("label_scr", (rng.rand(length) * num_labels * shape[1]).astype(np.int32))
        RunNetOnce(feed)
        entries.append(length * shape[1])
    return queue, label_queue, entries


def create_model(args: Any, queue: Any, label_queue: Any, input_shape: Sequence[int]) -> tuple[ModelHelper, Any]:
    """The model, which takes a batch from each queue and keeps its states for the next, and the blob of its outputs."""
    if args.implementation not in IMPLEMENTATIONS:
        raise AssertionError(f"an LSTM is {', '.join(IMPLEMENTATIONS)}, not {args.implementation!r}")
    model = ModelHelper(name="LSTM_bench")
    seq_lengths, _ = model.net.AddExternalInputs("seq_lengths", "target")
    given = model.net.DequeueBlobs(queue, "input_data")
    labels = model.net.DequeueBlobs(label_queue, "label")
    if args.implementation == "cudnn":
        hidden, cell = states = list(model.net.AddExternalInputs("hidden_init", "cell_init"))
        # shows the operator that fills the weights what the input is like
        model.param_init_net.ConstantFill([], given, shape=list(input_shape))
        output, last_hidden, last_state = cudnn.cudnn_LSTM(
            model=model, input_blob=given, initial_states=(hidden, cell), dim_in=args.input_dim,
            dim_out=args.hidden_dim, scope="cudnnlstm", num_layers=args.num_layers,
        )
        finals, shape = [last_hidden, last_state], [args.num_layers, args.batch_size, args.hidden_dim]
    else:
        unrolled = args.implementation.startswith("static")
        if unrolled and not args.fixed_shape:
            raise AssertionError("an unrolled LSTM takes sequences of one length; add --fixed_shape")
        states = [
            state for k in range(args.num_layers)
            for state in model.net.AddExternalInputs(f"hidden_init_{k}", f"cell_init_{k}")
        ]
        results = layers.LSTM(
            model=model, input_blob=given, seq_lengths=seq_lengths, initial_states=states, dim_in=args.input_dim,
            dim_out=[args.hidden_dim] * args.num_layers, scope="lstm1", memory_optimization=args.memory_optimization,
            forward_only=args.forward_only, drop_states=True, return_last_layer_only=False,
            static_rnn_unroll_size=args.seq_length if unrolled else None,
        )
        # of each layer: hidden of all steps, the last one, cell of all steps, the last one
        output, finals = results[-4], list(results[1::2])
        shape = [1, args.batch_size, args.hidden_dim]
        if args.implementation == "static_dag":
            model.net.Proto().type = "dag"
            model.net.Proto().num_workers = 4
    weights = model.net.UniformFill(labels, "weights")
    _, loss = model.net.SoftmaxWithLoss([model.net.Flatten(output), labels, weights], ["softmax", "loss"])
    if not args.forward_only:
        model.AddGradientOperators([loss])
    for state, final in zip(states, finals, strict=True):
        model.net.Copy(final, state)
        FeedBlob(state, np.zeros(shape, np.float32))
    if args.rnn_executor:
        for op in model.net.Proto().op:
            if op.type.startswith("RecurrentNetwork"):
                network.set_rnn_executor_config(
                    op, num_threads=args.rnn_executor_num_threads, max_cuda_streams=args.rnn_executor_max_cuda_streams)
    return model, output


def Caffe2LSTM(args: Any) -> float:
    """Seconds for all batches but the first."""
    batches = max(1, args.data_size // (args.batch_size * args.seq_length))
    shape = [args.seq_length, args.batch_size, args.input_dim]
    queue, label_queue, entries = generate_data(batches, shape, args.hidden_dim, args.fixed_shape)
    FeedBlob("seq_lengths", np.array([args.seq_length] * args.batch_size, np.int32))
    model, _ = create_model(args, queue, label_queue, shape)
    RunNetOnce(model.param_init_net)
    CreateNet(model.net)
    return timed_runs(model.net.Proto().name, entries, args.iters_to_report, "entries", log)


Benchmark = Caffe2LSTM


def GetArgumentParser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Times LSTMs on random sequences.")
    parser.add_argument("--hidden_dim", type=int, default=800, help="units per layer")
    parser.add_argument("--input_dim", type=int, default=40, help="features per entry")
    parser.add_argument("--batch_size", type=int, default=128, help="sequences per batch")
    parser.add_argument("--seq_length", type=int, default=20, help="length of the longest sequence")
    parser.add_argument("--data_size", type=int, default=1000000, help="entries in all")
    parser.add_argument("--iters_to_report", type=int, default=20, help="batches between two reports")
    parser.add_argument("--gpu", action="store_true", help="run on a GPU")
    parser.add_argument("--implementation", default="own", help=", ".join(IMPLEMENTATIONS))
    parser.add_argument("--fixed_shape", action="store_true", help="all sequences are of full length")
    parser.add_argument("--memory_optimization", action="store_true",
                        help="compute steps anew in the backward pass instead of keeping them")
    parser.add_argument("--forward_only", action="store_true", help="no backward pass")
    parser.add_argument("--num_layers", type=int, default=1, help="layers, all of --hidden_dim units")
    parser.add_argument("--rnn_executor", action="store_true", help="note the settings of Caffe2's executor for RNNs")
    parser.add_argument("--rnn_executor_num_threads", type=int, help="its threads on the CPU")
    parser.add_argument("--rnn_executor_max_cuda_streams", type=int, help="its streams on a GPU")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    args, flags = GetArgumentParser().parse_known_args(arguments)
    GlobalInit(["caffe2", "--caffe2_log_level=0", f"--caffe2_rnn_executor={int(args.rnn_executor)}", *flags])
    with scope.DeviceScope(DeviceOption(CUDA if args.gpu else CPU, 0)):
        Benchmark(args)
