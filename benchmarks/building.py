"""What building a net through ``net.X(...)`` costs, as a ratio to bare ``net_def.op.add(...)`` of the same operators.

    python benchmarks/building.py [--operators 20000] [--rounds 7]

Runs are interleaved and medians are compared, since machines drift; trust the ratios. The bound is 4.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable

from netgrad.graph.net import Net
from netgrad.proto import caffe2_pb2


def bare(n: int) -> None:
    net = caffe2_pb2.NetDef()
    for k in range(n):
        net.op.add(type="FC", input=[f"x{k}", "w", "b"], output=[f"x{k + 1}"])


def chain(n: int) -> None:
    net = Net("chain")
    x, w, b = net.AddExternalInput("x0", "w", "b")
    for k in range(n):
        x = net.FC([x, w, b], f"x{k + 1}")


def chain_reading(n: int) -> None:
    net = Net("chain")
    x, w, b = net.AddExternalInput("x0", "w", "b")
    for k in range(n):
        x = net.FC([x, w, b], f"x{k + 1}")
        net.Proto()


def strings(n: int) -> None:
    net = Net("strings")
    net.AddExternalInput("x0", "w", "b")
    for k in range(n):
        net.FC([f"x{k}", "w", "b"], f"x{k + 1}")


def automatic_names(n: int) -> None:
    net = Net("names")
    x, w, b = net.AddExternalInput("x0", "w", "b")
    for _ in range(n):
        x = net.FC([x, w, b])


def one_argument(n: int) -> None:
    net = Net("arguments")
    x = net.AddExternalInput("x0")
    for k in range(n):
        x = net.Scale(x, f"x{k + 1}", scale=2.0)


def bare_argument(n: int) -> None:
    net = caffe2_pb2.NetDef()
    for k in range(n):
        op = net.op.add(type="Scale", input=[f"x{k}"], output=[f"x{k + 1}"])
        op.arg.add(name="scale", f=2.0)


def seconds(build: Callable[[int], None], n: int) -> float:
    gc.collect()
    start = time.perf_counter()
    build(n)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    n = options.operators
    builds = [chain, chain_reading, strings, automatic_names, one_argument]
    times: dict[Callable[[int], None], list[float]] = {b: [] for b in [bare, bare_argument, *builds]}
    for _ in range(options.rounds):
        for build, taken in times.items():
            taken.append(seconds(build, n))
    median = {build: statistics.median(taken) / n * 1e6 for build, taken in times.items()}
    print(f"bare op.add: {median[bare]:.2f} us, with an argument {median[bare_argument]:.2f} us ({n} operators)")
    for build in builds:
        floor = median[bare_argument if build is one_argument else bare]
        print(f"{build.__name__:>16}: {median[build]:6.2f} us = {median[build] / floor:.2f} x bare")


if __name__ == "__main__":
    main()
