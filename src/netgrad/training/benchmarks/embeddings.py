"""Times how fast positions get embeddings: computed from sinusoids, or looked up in a table."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from netgrad.graph.net import Net
from netgrad.runtime.current import CreateNet, FeedBlob, RunNetOnce
from netgrad.runtime.housekeeping import GlobalInit
from netgrad.training.benchmarks.queued import create_queues, timed_runs
from netgrad.training.model_helper import ModelHelper

log = logging.getLogger("embedding_generation_benchmark")

IMPLEMENTATIONS = ("sinusoid", "table")


def generate_data(T: int, batch_size: int, max_seq_length: int) -> str:
    """A queue of ``T`` batches of positions, int64 (max_seq_length, batch_size)."""
    [queue] = create_queues(["inputqueue"], T)
    feed = Net("generate_input")
    feed.EnqueueBlobs([queue, "scratch"], ["scratch"])
    FeedBlob("scratch", np.tile(np.arange(max_seq_length), [batch_size, 1]).transpose())
    for _ in range(T):
        RunNetOnce(feed)
    return queue


def generate_embedding_table(vocab_size: int, embedding_size: int) -> Any:
    """A table of random embeddings, float32 (vocab_size, embedding_size)."""
    net = Net("generate_table")
    table = net.GaussianFill([], ["embedding_table"], shape=[vocab_size, embedding_size])
    RunNetOnce(net)
    return table


def create_model(args: Any, queue: Any, embedding_table: Any, embedding_size: int) -> ModelHelper:
    """The model, which takes a batch from the queue and writes ``output``, (length, batch, embedding_size)."""
    if args.implementation not in IMPLEMENTATIONS:
        raise AssertionError(f"embeddings come from a {' or a '.join(IMPLEMENTATIONS)}, not {args.implementation!r}")
    model = ModelHelper(name="embedding_generation_bench")
    positions = model.net.DequeueBlobs(queue, "input_data")
    if args.implementation == "sinusoid":
        model.net.SinusoidPositionEncoding([positions], ["output"], embedding_size=embedding_size)
    else:
        model.net.Gather([embedding_table, positions], ["output"])
    return model


def Caffe2EmbeddingGeneration(args: Any) -> float:
    """Seconds for all batches but the first."""
    batches = max(1, args.data_size // args.batch_size)
    queue = generate_data(batches, args.batch_size, args.seq_length)
    table = generate_embedding_table(args.seq_length, args.embedding_size) if args.implementation == "table" else None
    model = create_model(args, queue, table, args.embedding_size)
    RunNetOnce(model.param_init_net)
    CreateNet(model.net)
    entries = [args.batch_size * args.seq_length] * batches
    return timed_runs(model.net.Proto().name, entries, args.iters_to_report, "embeddings", log)


Benchmark = Caffe2EmbeddingGeneration


def GetArgumentParser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Times embeddings of positions.")
    parser.add_argument("--embedding_size", type=int, default=512, help="numbers per embedding")
    parser.add_argument("--batch_size", type=int, default=16, help="sequences per batch")
    parser.add_argument("--data_size", type=int, default=10000, help="sequences in all")
    parser.add_argument("--seq_length", type=int, default=128, help="positions per sequence")
    parser.add_argument("--iters_to_report", type=int, default=20, help="batches between two reports")
    parser.add_argument("--implementation", default="sinusoid", help=" or ".join(IMPLEMENTATIONS))
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    args, flags = GetArgumentParser().parse_known_args(arguments)
    GlobalInit(["caffe2", "--caffe2_log_level=0", *flags])
    Benchmark(args)
