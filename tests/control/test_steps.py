"""Control flow by steps: what runs, how often, in which order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from netgrad.control import steps
from netgrad.graph.net import Net
from netgrad.graph.plan import Plan
from netgrad.runtime.workspace import Workspace


class Bench:
    """Nets that write into one tally, and a counter to decide by."""

    def __init__(self) -> None:
        self.workspace = Workspace()
        for name, value in {"n": [0], "one": [1], "three": [3], "ten": [10], "tally": [0]}.items():
            self.workspace.feed_blob(name, np.array(value, np.int64))
        for name, flag in {"yes": True, "no": False}.items():
            self.workspace.feed_blob(name, np.array(flag))

    def note(self, digit: int) -> Net:
        """Appends a digit to the tally."""
        self.workspace.feed_blob(f"digit{digit}", np.array([digit], np.int64))
        net = Net("note")
        net.Mul(["tally", "ten"], "tally")
        net.Add(["tally", f"digit{digit}"], "tally")
        return net

    def count(self) -> Net:
        net = Net("count")
        net.Add(["n", "one"], "n")
        return net

    def below_three(self) -> Net:
        net = Net("below")
        net.AddExternalOutput(net.LT(["n", "three"]))
        return net

    def at_least_three(self) -> Net:
        net = Net("at_least")
        net.AddExternalOutput(net.GE(["n", "three"]))
        return net

    def run(self, step: Any) -> int:
        """The tally after a step."""
        plan = Plan("plan")
        plan.AddStep(step)
        self.workspace.run(plan)
        return int(self.workspace.fetch_blob("tally")[0])


@pytest.fixture
def bench() -> Iterator[Bench]:
    yield Bench()


def test_sequences(bench):
    assert bench.run(steps.Do("do", bench.note(1), bench.note(2))) == 12
    step = steps.Do("one", bench.note(3))
    assert steps.Do("same", step) is step
    assert bench.run(steps.DoParallel("both", [step, steps.Do("two", bench.count())])) == 123
    with pytest.raises(ValueError, match="at least one"):
        steps.Do("nothing")


@pytest.mark.parametrize("as_step", [False, True])
def test_loops(bench, as_step):
    def body(digit: int) -> Any:
        nets = [bench.note(digit), bench.count()]
        return steps.Do("body", nets) if as_step else nets

    assert bench.run(steps.For("for", body(1), 2)) == 11
    assert bench.run(steps.While("while", bench.below_three(), body(2))) == 112
    assert bench.run(steps.While("again", bench.below_three(), body(3))) == 112
    assert bench.run(steps.DoWhile("do_while", bench.below_three(), body(4))) == 1124
    bench.workspace.feed_blob("n", np.array([1], np.int64))
    assert bench.run(steps.Until("until", bench.at_least_three(), body(5))) == 112455
    assert bench.run(steps.DoUntil("do_until", bench.at_least_three(), body(6))) == 1124556


@pytest.mark.parametrize("as_step", [False, True])
@pytest.mark.parametrize("as_net", [False, True])
def test_branches(bench, as_step, as_net):
    def condition(name: str) -> Any:
        if not as_net:
            return name
        net = Net("condition")
        net.AddExternalOutput(net.Copy(name))
        return net

    def body(digit: int) -> Any:
        return steps.Do("body", bench.note(digit)) if as_step else bench.note(digit)

    assert bench.run(steps.If("if", condition("yes"), body(1), body(2))) == 1
    assert bench.run(steps.If("if", condition("no"), body(1), body(2))) == 12
    assert bench.run(steps.If("if", condition("no"), body(3))) == 12
    assert bench.run(steps.IfNot("not", condition("no"), body(4), body(5))) == 124
    assert bench.run(steps.IfNot("not", condition("yes"), body(4), body(5))) == 1245
    assert bench.run(steps.Switch("switch", (condition("no"), body(6)), (condition("yes"), body(7)))) == 12457
    assert bench.run(steps.SwitchNot("switch", [(condition("no"), body(8)), (condition("yes"), body(9))])) == 124578


def test_branches_in_a_loop_decide_anew_each_round(bench):
    first = Net("first")
    first.AddExternalOutput(first.EQ(["n", "one"]))
    body = steps.Do("body", steps.If("if", first, bench.note(1), bench.note(2)), steps.Do("count", bench.count()))
    assert bench.run(steps.While("while", bench.below_three(), body)) == 212


def test_nets_of_conditions(bench):
    def value(net: Net) -> bool:
        bench.workspace.run_net_once(net)
        return bool(bench.workspace.fetch_blob(steps.GetConditionBlobFromNet(net)))

    both = steps.BoolNet(("a", True), ("b", False))
    bench.workspace.run_net_once(both)
    assert bench.workspace.fetch_blob("a") and not bench.workspace.fetch_blob("b")
    negated, blob = steps.NotNet("yes")
    assert not value(negated) and steps.GetConditionBlobFromNet(negated) == blob
    nets = [bench.below_three(), bench.at_least_three()]
    assert not value(steps.MergeConditionNets("and", nets, "And")) and value(steps.MergeConditionNets("or", nets, "Or"))
    assert value(steps.CombineConditions("or", nets, "Or")) and value(steps.CombineConditions("one", nets[:1], "Or"))
    assert steps.MergeConditionNets("one", nets[:1], "Or") is nets[0]
    assert steps.CombineConditions("none", [], "Or") is None
    with pytest.raises(AssertionError, match="no external output"):
        steps.GetConditionBlobFromNet(bench.count())
