"""Cost grows with the number of operators and of their inputs, and no recursion limits it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from netgrad.autodiff.explanation import explain
from netgrad.autodiff.gradient_registry import GetBackwardPass
from netgrad.autodiff.verification import verify
from netgrad.graph.net import Net
from netgrad.proto import caffe2_pb2


def chain(length: int) -> Any:
    net = Net("chain")
    add = net.Proto().op.add
    for k in range(length):
        add(type="Relu", input=[f"h{k}"], output=[f"h{k + 1}"])
    return net


def in_place_chain(length: int) -> Any:
    """Every operator rebinds one name, so that the verifier has work at every step."""
    net = Net("in_place")
    add = net.Proto().op.add
    for k in range(length):
        add(type="Sigmoid" if k % 2 else "Relu", input=["h"], output=["h"])
    return net


def fan(count: int) -> Any:
    net = Net("fan")
    add = net.Proto().op.add
    for k in range(count):
        add(type="Relu", input=["x"], output=[f"y{k}"])
    add(type="Sum", input=[f"y{k}" for k in range(count)], output=["y"])
    return net


def least(make: Callable[[], Any], work: Callable[[Any], Any], repeats: int = 2) -> float:
    """The least time of some runs, each on a fresh object."""
    times = []
    for _ in range(repeats):
        subject = make()
        start = time.perf_counter()
        work(subject)
        times.append(time.perf_counter() - start)
    return min(times)


def assert_growth(make: Callable[[int], Any], work: Callable[[Any], Any], small: int, below: float) -> None:
    """Asserts that four times the size takes less than so many times as long: 4 is linear, 16 quadratic."""
    ratios = []
    for _ in range(3):  # other processes disturb a measurement
        ratios.append(least(lambda: make(4 * small), work) / least(lambda: make(small), work))
        if ratios[-1] < below:
            return
    raise AssertionError(f"times grow by {', '.join(f'{ratio:.1f}' for ratio in ratios)}, expected less than {below}")


def test_200_000_operators_are_linear_and_need_no_stack():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(250)
    try:
        assert_growth(chain, lambda net: net.AddGradientOperators([f"h{len(net.Proto().op)}"]), 50_000, below=6)
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize(
    "make, work",
    [
        (in_place_chain, lambda net: net.AddGradientOperators(["h"], overwritten="save")),
        (fan, lambda net: net.AddGradientOperators(["y"])),
        (fan, lambda net: net.AddGradientOperators(["y"], share_results=False)),
        (chain, lambda net: net.AddGradientOperators([f"h{len(net.Proto().op)}"], wrt=["h5"])),
        (chain, lambda net: GetBackwardPass(list(net.Proto().op), [f"h{len(net.Proto().op)}"])),
    ],
    ids=["saving", "fan", "unshared", "wrt", "operators"],
)
def test_ways_of_asking_are_linear(make, work):
    assert_growth(make, work, 3000, below=9)


def test_explaining_and_verifying_are_linear():
    def finish(length: int) -> Any:
        net = chain(length)
        net.AddGradientOperators([f"h{length}"])
        return net

    assert_growth(finish, verify, 3000, below=9)
    assert_growth(finish, lambda net: explain(net, "h0"), 3000, below=9)


def test_a_concat_of_4000_inputs():
    def make(count: int) -> Any:
        net = Net("wide")
        net.Proto().op.add(type="Concat", input=[f"x{k}" for k in range(count)], output=["y", "sizes"])
        return net

    assert_growth(make, lambda net: net.AddGradientOperators(["y"]), 4000, below=11)
    assert least(lambda: make(4000), lambda net: net.AddGradientOperators(["y"])) < 0.05


def test_a_split_of_4000_outputs():
    def make(count: int) -> Any:
        net = Net("wide")
        net.Proto().op.add(type="Split", input=["x"], output=[f"y{k}" for k in range(count)])
        net.Proto().op.add(type="Sum", input=[f"y{k}" for k in range(count)], output=["y"])
        return net

    assert_growth(make, lambda net: net.AddGradientOperators(["y"]), 2000, below=11)


def test_the_cost_is_a_few_times_that_of_bare_operators():
    """A generous bound; the benchmark measures the exact ratio."""
    length = 20_000

    def bare(proto: Any) -> None:
        for k in range(length):
            proto.op.add(type="Relu", input=[f"h{k}"], output=[f"h{k + 1}"])

    def whole(net: Any) -> None:
        net.AddGradientOperators([f"h{length}"])
        net.Proto().SerializeToString()

    ratio = min(least(lambda: chain(length), whole) / least(caffe2_pb2.NetDef, bare) for _ in range(3))
    assert ratio < 12
