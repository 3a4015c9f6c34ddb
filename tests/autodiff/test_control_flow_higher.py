"""Derivatives of derivatives through control flow: against finite differences, and the unrolled net."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from nested_programs import draw
from second_of_programs import check
from small_nets import arrays, op

import netgrad
from netgrad.autodiff.errors import MissingRuleError, OverwrittenError
from netgrad.autodiff.gradient_registry import GetBackwardPass
from netgrad.control.operators import add_if_op, add_while_op
from netgrad.graph.net import Net
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import check_gradient, evaluate
from netgrad.runtime.workspace import Workspace
from netgrad.tools.unroll import unroll

Case = tuple[Any, dict[str, np.ndarray]]
TEST = [op("LT", "i rounds", "go")]
COUNT = op("Add", "i one", "i")


def net(name: str, *lines: Any) -> Any:
    made = Net(name)
    made.Proto().op.extend(lines)
    return made


def loop(rounds: int, *body: Any, test: Any = TEST, scope: str = "p x i one rounds limit") -> Case:
    """While i < rounds: the body, on p and x."""
    made = Net("program")
    made.ConstantFill([], "i", shape=[1], value=0, dtype=10)
    add_while_op(made, "go", set(scope.split()), net("body", *body, COUNT), net("test", *test))
    return made, {"one": np.array([1]), "rounds": np.array([rounds]), "limit": np.array(2.0),
                  **arrays(p=[0.5, -0.3], x=[1.2, 0.7])}


def branch(flag: bool) -> Case:
    made = Net("program")
    made.Copy("flag", "c")
    add_if_op(made, "c", {"x", "p", "c"}, net("then", op("Mul", "x p", "q"), op("Tanh", "q", "p")),
              net("other", op("Sin", "x", "s"), op("Sqr", "s", "p")))
    return made, {"flag": np.array([flag]), **arrays(p=[0.5, -0.3], x=[1.2, 0.7])}


def do() -> Case:
    made = Net("program")
    made.CreateScope([], "scope")
    made.Do(["x", "p", "scope"], ["r", "scope"], net=net("in", op("Mul", "a b", "c"), op("Tanh", "c", "d")).Proto(),
            inner_blobs=["a", "b", "d"], outer_blobs_idx=[0, 1, 2])
    made.Mul(["r", "x"], "p")
    return made, arrays(p=[0.5, -0.3], x=[1.2, 0.7])


def nested(rounds: int) -> Case:
    """A loop in a loop, with a branch by the data in it; p is updated in place everywhere, x is shared."""
    inner = Net("inner")
    inner.SumElements("p", "s")
    inner.GT(["s", "limit"], "large")
    add_if_op(inner, "large", {"p", "x", "large"}, net("then", op("Sigmoid", "p", "p")),
              net("other", op("Mul", "p x", "m"), op("Add", "m x", "p")))
    inner.Add(["j", "one"], "j")
    outer = Net("outer")
    outer.ConstantFill([], "j", shape=[1], value=0, dtype=10)
    add_while_op(outer, "again", {"p", "x", "j", "one", "rounds", "limit"}, inner,
                 net("t", op("LT", "j rounds", "again")))
    outer.Tanh("p", "p")
    return loop(rounds, *outer.Proto().op)


def two_loops() -> Case:
    """The second loop goes on with what the first one made, under the same names."""
    made, feeds = loop(2, op("Mul", "p x", "q"), op("Tanh", "q", "p"))
    made.ConstantFill([], "i", shape=[1], value=0, dtype=10)
    more = net("more", op("Sin", "p", "q"), op("Add", "q x", "p"), COUNT)
    add_while_op(made, "go", {"p", "x", "i", "one", "rounds"}, more, net("test", *TEST))
    return made, feeds


def until_large() -> Case:
    """A number of rounds that depends on the data."""
    test = [op("SumElements", "p", "s"), op("LT", "s limit", "far"), op("LT", "i rounds", "few"),
            op("And", "far few", "go")]
    return loop(9, op("Sqr", "x", "q"), op("Add", "p q", "p"), test=test)


def gradient_in_a_branch() -> Case:
    """A loop and its gradient, both inside a branch."""
    then = Net("then")
    then.Copy("x", "start")
    then.ConstantFill([], "i", shape=[1], value=0, dtype=10)
    add_while_op(then, "go", {"start", "x", "i", "one", "rounds"},
                 net("body", op("Mul", "start x", "q"), op("Tanh", "q", "start"), COUNT), net("test", *TEST))
    gradients = then.AddGradientOperators(["start"], overwritten="save")
    then.Copy(str(gradients["x"]), "p")
    made = Net("program")
    made.Copy("flag", "c")
    add_if_op(made, "c", {"x", "p", "one", "rounds", "c"}, then)
    return made, {"flag": np.array([True]), "one": np.array([1]), "rounds": np.array([2]),
                  **arrays(x=[0.5, -0.3], p=[0.5, 0.5])}


CASES: dict[str, tuple[Callable[[], Case], list[str]]] = {
    "While": (lambda: loop(3, op("Mul", "p x", "q"), op("Tanh", "q", "p")), ["x", "p"]),
    "in place": (lambda: loop(3, op("Sigmoid", "p", "p"), op("Add", "p x", "p"), op("Tanh", "p", "p")), ["x", "p"]),
    "once": (lambda: loop(1, op("Mul", "p x", "q"), op("Tanh", "q", "p")), ["x", "p"]),
    "loop-invariant": (lambda: loop(3, op("Mul", "x x", "q"), op("Add", "q p", "p")), ["x"]),
    "until large": (until_large, ["x"]),
    "If": (lambda: branch(True), ["x", "p"]),
    "Else": (lambda: branch(False), ["x"]),
    "Do": (do, ["x", "p"]),
    "nested": (lambda: nested(2), ["x", "p"]),
    "gradient in a branch": (gradient_in_a_branch, ["x"]),
    "two loops": (two_loops, ["x", "p"]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_second_derivative_is_that_of_the_first(name: str, backend: str) -> None:
    build, wrt = CASES[name]
    made, feeds = build()
    check_gradient(made, feeds, ["p"], wrt, order=2, overwritten="save", backend=backend)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["While", "If", "Do", "in place", "two loops"])
def test_the_third_derivative_is_that_of_the_second(name: str, backend: str) -> None:
    build, wrt = CASES[name]
    made, feeds = build()
    check_gradient(made, feeds, ["p"], wrt[:1], order=3, overwritten="save", backend=backend)


def products(made: Any, feeds: dict[str, np.ndarray], backend: str) -> list[np.ndarray]:
    again = Net("again")
    again.Proto().op.extend(made.op if hasattr(made, "op") else made.Proto().op)
    again.SumElements("p", "loss")
    found = netgrad.hessian_vector(again, "loss", {"x": "u", "p": "v"})
    values = evaluate(again, {**feeds, **arrays(u=[0.3, -0.8], v=[1.1, 0.4])}, None, backend)
    return [values[str(found[name])] for name in ("x", "p")]


@pytest.mark.parametrize("name", [name for name in CASES if name != "gradient in a branch"])
def test_products_with_the_hessian_are_those_of_the_unrolled_net(name: str, backend: str) -> None:
    made, feeds = CASES[name][0]()
    flat = unroll(made, feeds, backend=backend)
    # what was fed keeps its name, what comes out of p is p
    for ours, theirs in zip(products(made, feeds, backend), products(flat, feeds, backend)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rounds", [0, 2])
def test_a_loop_without_a_round_has_no_curvature(rounds: int, backend: str) -> None:
    made, feeds = nested(rounds)
    assert any(np.any(product != 0) for product in products(made, feeds, backend)) == (rounds > 0)


def test_the_path_may_change_from_run_to_run(backend: str) -> None:
    """What one run did serves the next only if that does the same."""
    made, feeds = nested(2)
    made.SumElements("p", "loss")
    found = netgrad.hessian_vector(made, "loss", {"x": "u", "p": "v"})
    workspace = Workspace(backend=backend)
    for name, value in {**feeds, **arrays(u=[0.3, -0.8], v=[1.1, 0.4])}.items():
        workspace.feed_blob(name, value)
    bound = workspace.create_net(made)
    start = {name: workspace.fetch_blob(name) for name in ("p", "x")}
    for rounds, factor in [(2, 1.0), (2, 1.0), (2, 9.0), (2, 9.0), (0, 1.0), (3, 1.0), (3, -1.0), (2, 1.0)]:
        given = {"rounds": np.array([rounds]), **{name: value * factor for name, value in start.items()}}
        for name, value in given.items():
            workspace.feed_blob(name, value)
        bound.run()
        fresh = evaluate(made, {**feeds, **arrays(u=[0.3, -0.8], v=[1.1, 0.4]), **given}, None, backend)
        for product in found.values():
            np.testing.assert_array_equal(workspace.fetch_blob(str(product)), fresh[str(product)])


def test_shapes_may_change_from_run_to_run(backend: str) -> None:
    made, feeds = loop(3, op("Mul", "p x", "q"), op("Tanh", "q", "p"))
    made.SumElements("p", "loss")
    found = netgrad.hessian_vector(made, "loss", {"x": "u"})
    workspace = Workspace(backend=backend)
    for name, value in feeds.items():
        workspace.feed_blob(name, value)
    for size in (2, 3, 2, 2, 5):
        given = {name: np.linspace(0.1, k, size) for k, name in enumerate("pxu", 1)}
        for name, value in given.items():
            workspace.feed_blob(name, value)
        if size == 2 and not workspace.nets:
            workspace.create_net(made)
        workspace.run_net(made.Name())
        fresh = evaluate(made, {**feeds, **given}, None, backend)
        np.testing.assert_array_equal(workspace.fetch_blob(str(found["x"])), fresh[str(found["x"])])


def test_a_second_derivative_is_written_in_an_operator_that_any_order_can_follow() -> None:
    made, _ = loop(2, op("Mul", "p x", "q"), op("Tanh", "q", "p"))
    gradients = made.AddGradientOperators(["p"], overwritten="save")
    again = made.AddGradientOperators([str(gradients["x"])], overwritten="save")
    product = next(each for each in made.Proto().op if each.type == "NetVectorJacobianProduct")
    carried = next(argument.n for argument in product.arg if argument.name == "net")
    assert [each.type for each in carried.op if each.type != "Copy"] == ["CreateScope", "CreateScope", "While", "While"]
    made.AddGradientOperators([str(again["x"])], overwritten="save")


def test_values_that_were_overwritten_are_asked_for_like_any_other() -> None:
    made, _ = loop(2, op("Mul", "p x", "q"), op("Tanh", "q", "p"))
    gradients = made.AddGradientOperators(["p"])
    before = made.Proto().SerializeToString()
    with pytest.raises(OverwrittenError, match=r"(?s)needs version 0 of 'p'.*overwritten=\"save\""):
        made.AddGradientOperators([str(gradients["x"])])
    assert made.Proto().SerializeToString() == before


@pytest.mark.parametrize("kind", ["Do", "While", "If"])
def test_a_gradient_without_its_forward_operator_is_refused(kind: str) -> None:
    build = {"Do": do, "While": CASES["While"][0], "If": lambda: branch(True)}[kind]
    made, _ = build()
    count = len(made.Proto().op)
    gradients = made.AddGradientOperators(["p"], overwritten="save")
    alone = list(made.Proto().op)[count:]
    with pytest.raises(MissingRuleError, match=r"(?s)the forward operator.*netgrad\.tools\.unroll"):
        GetBackwardPass(alone, [str(gradients["x"])])


@pytest.mark.parametrize(("line", "reason"), [
    (op("Dropout", "p", "p mask", ratio=0.5), "Dropout draws 'p', 'mask' at random.*draw them before"),
    (op("UniformFill", "p", "q", input_as_shape=0), "UniformFill draws 'q' at random"),
])
def test_numbers_that_would_be_drawn_anew_are_refused(line: Any, reason: str) -> None:
    made, _ = loop(2, line, op("Mul", "p x", "q"), op("Tanh", "q", "p"))
    gradients = made.AddGradientOperators(["p"], overwritten="save")
    with pytest.raises(MissingRuleError, match=f"(?s){reason}.*netgrad.tools.unroll"):
        made.AddGradientOperators([str(gradients["x"])], overwritten="save")


def test_counters_that_would_be_counted_anew_are_refused() -> None:
    made = Net("program")
    made.CreateCounter([], "counter", init_count=2)
    add_while_op(made, "go", {"p", "x", "counter"}, net("body", op("Mul", "p x", "q"), op("Tanh", "q", "p")),
                 net("test", op("CountDown", "counter", "done"), op("Not", "done", "go")))
    gradients = made.AddGradientOperators(["p"], overwritten="save")
    with pytest.raises(MissingRuleError, match=r"(?s)CountDown makes 'done', and running that has effects \(state\)"):
        made.AddGradientOperators([str(gradients["x"])], overwritten="save")


def test_dropout_that_lets_everything_through_draws_nothing(backend: str) -> None:
    made, feeds = loop(2, op("Dropout", "p", "q mask", is_test=1), op("Mul", "q x", "r"), op("Tanh", "r", "p"))
    check_gradient(made, feeds, ["p"], ["x", "p"], order=2, overwritten="save", backend=backend)


def test_an_operator_without_a_second_derivative_is_named() -> None:
    made, _ = loop(2, op("Mul", "p x", "q"), op("Tanh", "q", "p"))
    gradients = made.AddGradientOperators(["p"], overwritten="save")
    for each in made.Proto().op:
        for line in _lines(each):
            if line.type == "TanhGradient":
                line.type = "NobodyKnowsGradient"
    with pytest.raises(MissingRuleError, match="NobodyKnowsGradient, which makes"):
        made.AddGradientOperators([str(gradients["x"])], overwritten="save")


def _lines(each: Any) -> Any:
    yield each
    for argument in each.arg:
        for line in argument.n.op:
            yield from _lines(line)


def test_a_carrier_without_a_net_says_so(backend: str) -> None:
    with pytest.raises(OperatorError, match="its argument net holds no operators"):
        evaluate([op("NetVectorJacobianProduct", "x", "y")], arrays(x=[1.0]), None, backend)


def test_random_programs_and_their_unrolled_nets() -> None:
    found = [check(draw(seed), seed) for seed in range(30)]
    assert found.count("right") > 20, found


@pytest.mark.soak
@pytest.mark.parametrize("first", range(100, 400, 50))
def test_soak_of_random_programs_and_their_unrolled_nets(first: int) -> None:
    found = [check(draw(seed), seed) for seed in range(first, first + 50)]
    assert found.count("right") > 35, found
