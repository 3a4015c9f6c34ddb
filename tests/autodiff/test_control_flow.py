"""Gradients of If, While and Do: those of the unrolled net, and Caffe2's operators wherever those are right."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nested_programs import Program, draw
from small_nets import arrays, gradients, op

DATA = Path(__file__).parent / "data"
sys.path.insert(0, str(DATA))

from control_nets import answer, forward_nets  # noqa: E402

from netgrad.autodiff.errors import MissingRuleError, OverwrittenError  # noqa: E402
from netgrad.autodiff.verification import verify  # noqa: E402
from netgrad.control import operators  # noqa: E402
from netgrad.control.net_builder import NetBuilder, ops  # noqa: E402
from netgrad.control.operators import add_if_op, add_while_op  # noqa: E402
from netgrad.graph.net import Net  # noqa: E402
from netgrad.runtime import backends  # noqa: E402
from netgrad.runtime.workspace import Workspace  # noqa: E402
from netgrad.tools.unroll import unroll  # noqa: E402


def net(name: str, *lines: Any) -> Any:
    made = Net(name)
    made.Proto().op.extend(lines)
    return made


# Caffe2's answers


class _Core:
    Net = Net

    class GradientRegistry:
        @staticmethod
        def GetBackwardPass(*args: Any) -> Any:
            from caffe2.python import core

            return core.GradientRegistry.GetBackwardPass(*args)


ANSWERS = json.loads((DATA / "caffe2_control.json").read_text())


@pytest.mark.parametrize("name", ANSWERS)
def test_the_operators_are_caffe2s(name):
    found = answer(_Core, forward_nets(_Core, operators)[name])
    assert json.loads(json.dumps(found)) == ANSWERS[name]


# known values


def test_an_if_net_whose_branches_give_y_other_gradients(backend):
    for x, expected in ((1.0, 8.0), (3.0, 48.0)):
        with NetBuilder(_use_control_ops=True, initial_scope=["x", "two", "y"]) as builder:
            z = ops.Copy("y", "z")
            with ops.IfNet(ops.LT(["x", "two"])):
                ops.Pow("z", "z", exponent=2.0)  # (y^2)' = 2y
            with ops.Else():
                ops.Pow("z", "z", exponent=3.0)  # (y^3)' = 3y^2
            ops.Copy(z, "out")
        found = gradients(builder.get()[0], ["out"], arrays(x=[x], two=[2.0], y=[4.0]), backend)
        assert found["y"] == pytest.approx(expected)


def test_a_while_net_with_an_if_in_it(backend):
    """x is squared twice, y once, z cubed once."""
    with NetBuilder(_use_control_ops=True, initial_scope=["x", "y", "z"]) as builder:
        ops.Const(0, blob_out="round")
        ops.Const(2, blob_out="last")
        with ops.WhileNet():
            with ops.Condition():
                ops.Add(["round", ops.Const(1)], "round")
                ops.LE(["round", "last"])
            ops.Pow("x", "x", exponent=2.0)
            with ops.IfNet(ops.LT(["round", "last"])):
                ops.Pow("y", "y", exponent=2.0)
            with ops.Else():
                ops.Pow("z", "z", exponent=3.0)
        ops.Sum(["x", "y", "z"], "total")
    found = gradients(builder.get()[0], ["total"], arrays(x=[2.0], y=[3.0], z=[2.0]), backend)
    assert [float(found[name][0]) for name in "xyz"] == pytest.approx([32.0, 6.0, 12.0])
    assert [float(found.values_after[name][0]) for name in "xyz"] == [16.0, 9.0, 8.0]


# loops


def loop(body: Any, rounds: int, scope: set[str], *after: Any, name: str = "p") -> tuple[Any, dict[str, np.ndarray]]:
    """A net that runs a body so often, and the feeds that it needs for that."""
    made = Net("program")
    made.ConstantFill([], "i", shape=[1], value=0, dtype=10)
    body.Add(["i", "one"], "i")
    add_while_op(made, "go", scope | {"i", "one", "rounds"}, body, net("test", op("LT", "i rounds", "go")))
    made.Proto().op.extend(after)
    return made, {"one": np.array([1], np.int64), "rounds": np.array([rounds], np.int64)}


@pytest.mark.parametrize("rounds", [0, 1, 3])
@pytest.mark.parametrize("following", ["Sum", "Relu", "nothing"])
def test_what_every_round_reads_gets_the_sum_over_rounds(backend, rounds, following):
    """p = p * x, whatever the gradient that arrives is called; Caffe2 gives 8 for dx after three rounds."""
    after = [] if following == "nothing" else [op(following, "p", "out")]
    made, feeds = loop(net("body", op("Mul", "p x", "p")), rounds, {"p", "x"}, *after)
    found = gradients(made, ["out" if after else "p"], {**feeds, **arrays(p=[1.5], x=[2.0])}, backend)
    assert found["x"] == pytest.approx(1.5 * rounds * 2.0 ** (rounds - 1))
    assert found["p"] == pytest.approx(2.0**rounds)


def test_a_number_of_rounds_that_the_data_decide(backend):
    made = Net("program")
    test = net("test", op("SumElements", "p", "size"), op("LT", "size limit", "go"))
    add_while_op(made, "go", {"p", "x", "limit"}, net("body", op("Mul", "p x", "p")), test)
    for limit, rounds in ((5.0, 2), (100.0, 7), (1.0, 0)):
        found = gradients(made.Clone("clone"), ["p"], arrays(p=[1.25], x=[2.0], limit=limit), backend)
        assert found["x"] == pytest.approx(1.25 * rounds * 2.0 ** (rounds - 1))


def test_slices_inside_a_body(backend):
    body = net("body", op("Gather", "table rows", "some"), op("Mul", "some p", "p"))
    made, feeds = loop(body, 2, {"p", "table", "rows"}, op("SumElements", "p", "out"))
    numbers = arrays(p=[[1.0], [2.0]], table=[[3.0], [4.0], [5.0]], rows=[2, 2])
    found = gradients(made, ["out"], {**feeds, **numbers}, backend)
    assert found["table"].ravel().tolist() == [0.0, 0.0, 30.0]


def test_a_swap_in_every_round(backend):
    body = net("body", op("Copy", "a", "t"), op("Scale", "b", "a", scale=2.0), op("Copy", "t", "b"))
    made, feeds = loop(body, 3, {"a", "b"}, op("Copy", "a", "out"))
    found = gradients(made, ["out"], {**feeds, **arrays(a=[1.0], b=[1.0])}, backend)
    assert "a" not in found or found["a"] == 0
    assert found["b"] == pytest.approx(4.0)


@pytest.mark.parametrize(("rounds", "slope"), [(0, 4.0), (1, 0.0), (3, 0.0)])
def test_a_body_through_which_nothing_flows(backend, rounds, slope):
    made, feeds = loop(net("body", op("StopGradient", "x", "s"), op("Copy", "s", "p")), rounds, {"p", "x"},
                       op("Sqr", "p", "out"))
    found = gradients(made, ["out"], {**feeds, **arrays(p=[2.0], x=[3.0])}, backend)
    assert found["p"] == slope and "x" not in found


# branches


def branch(taken: bool, scope: set[str], then: Any, other: Any, *after: Any, condition: str = "test") -> Any:
    made = Net("program")
    made.Copy("flag", condition)
    add_if_op(made, condition, scope | {condition}, then, other)
    made.Proto().op.extend(after)
    return made, {"flag": np.array([taken])}


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_that_is_not_taken_keeps_a_value_and_its_gradient(backend, taken):
    made, feeds = branch(taken, {"x", "z"}, net("then", op("Tanh", "x", "z")), None, op("Mul", "z z", "out"))
    found = gradients(made, ["out"], {**feeds, **arrays(x=[0.5], z=[3.0])}, backend)
    slope = 2 * np.tanh(0.5) * (1 - np.tanh(0.5) ** 2)
    assert [float(found[name][0]) for name in "xz"] == pytest.approx([slope, 0.0] if taken else [0.0, 6.0])


@pytest.mark.parametrize("taken", [True, False])
def test_branches_that_write_different_blobs(backend, taken):
    made, feeds = branch(taken, {"x", "y", "a", "b"}, net("then", op("Mul", "x y", "a")),
                         net("else", op("Sub", "x y", "b")), op("Mul", "a b", "out"))
    found = gradients(made, ["out"], {**feeds, **arrays(x=[2.0], y=[3.0], a=[5.0], b=[7.0])}, backend)
    expected = {"x": 21.0, "y": 14.0, "a": 0.0, "b": 6.0} if taken else {"x": 5.0, "y": -5.0, "a": -1.0, "b": 0.0}
    assert {name: float(found[name][0]) for name in expected} == pytest.approx(expected)


def test_letters_of_the_condition_and_names_like_gradients(backend):
    made, feeds = branch(True, {"x", "y", "z", "x_grad"}, net("then", op("Mul", "x x_grad", "z")),
                         net("else", op("Mul", "x y", "z")), op("Relu", "z", "out"), condition="xyz_condition")
    found = gradients(made, ["out"], {**feeds, **arrays(x=[2.0], y=[3.0], z=[0.0], x_grad=[5.0])}, backend)
    assert float(found["x"][0]) == 5.0 and float(found["x_grad"][0]) == 2.0 and float(found["y"][0]) == 0.0
    assert found.values_after["x_grad"] == 5.0
    gradient = next(each for each in made.Proto().op if each.type == "If" and each.is_gradient_op)
    assert {"x", "y", "x_grad"} <= set(gradient.input)


# random programs


def numbers_of(forward: Any, program: Program, backend: str, **options: Any) -> tuple[dict[str, np.ndarray], Any]:
    """The gradients of a program's parameters by running, zeros where the map has none, and the net."""
    made = Net("program")
    made.Proto().op.extend(forward.op)
    found = made.AddGradientOperators([program.y], **options)
    workspace = Workspace(backend=backend)
    for name, value in program.feeds.items():
        workspace.feed_blob(name, value)
    workspace.run_net_once(made.Proto())
    return {name: workspace.fetch_blob(found[name]) if name in found else np.zeros_like(program.feeds[name])
            for name in program.parameters}, made


def value_of(program: Program, name: str, shift: np.ndarray) -> float:
    workspace = Workspace(backend="numpy")
    for blob, value in program.feeds.items():
        workspace.feed_blob(blob, value + shift if blob == name else value)
    workspace.run_net_once(program.net.Proto())
    return float(workspace.fetch_blob(program.y))


def stays_small(flat: Any, program: Program) -> bool:
    """Whether no value on the way is so large that a gradient of zero times it is not zero."""
    workspace = Workspace(backend="numpy")
    for name, value in program.feeds.items():
        workspace.feed_blob(name, value)
    for each in flat.op:
        workspace.run_operator(each)
        if not all(np.all(np.abs(workspace.fetch_blob(name)) < 1e100) for name in each.output):
            return False
    return True


def check_slope(program: Program, name: str, gradient: np.ndarray, seed: int) -> None:
    """Compares a gradient with finite differences, unless the point lies at a jump or a kink."""
    direction = np.random.default_rng(seed).uniform(-1, 1, gradient.shape)
    slope, h = float((gradient * direction).sum()), 1e-6
    right, base, left = (value_of(program, name, s * h * direction) for s in (1, 0, -1))
    if abs(right - 2 * base + left) / h < 1e-2 * (1 + abs(slope)):
        assert abs((right - left) / (2 * h) - slope) < 1e-4 * (1 + abs(slope)), f"seed {seed}: slope along {name}"


def trial(seed: int, most: int = 5) -> str:
    """Compares one program with its unrolled form; says how asking without saving went."""
    program, r = draw(seed, most), random.Random(seed)
    forward = program.net.Proto()
    flat = unroll(forward, program.feeds, backend="numpy")
    assert not {"If", "While", "Do"} & {each.type for each in flat.op}
    if not stays_small(flat, program):
        return "runs off"
    expected, _ = numbers_of(flat, program, "numpy", overwritten="save")
    wanted = r.sample(program.parameters, 1)
    ways: list[dict[str, Any]] = [{}, {"wrt": wanted}, {"share_results": False}]
    for options in r.sample(ways, 2):
        got, _ = numbers_of(forward, program, r.choice(backends.available()), overwritten="save", **options)
        for name in options.get("wrt", program.parameters):
            np.testing.assert_allclose(got[name], expected[name], rtol=1e-6, atol=1e-9, err_msg=f"seed {seed}, {name}")
    check_slope(program, wanted[0], expected[wanted[0]], seed)
    try:
        got, made = numbers_of(forward, program, "numpy")
    except OverwrittenError:
        return "needs saving"
    for name in program.parameters:
        np.testing.assert_allclose(got[name], expected[name], rtol=1e-6, atol=1e-9, err_msg=f"seed {seed}, {name}")
    assert not verify(made)
    made.ExplainGradient(wanted[0])
    return "right"


@pytest.mark.parametrize("first", range(0, 80, 10))
def test_random_programs(first):
    for seed in range(first, first + 10):
        trial(seed)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 2000, 50))
def test_soak_of_random_programs(first):
    found = Counter(trial(seed, most=30) for seed in range(first, first + 50))
    assert found["right"] > 5 and found["runs off"] < 15, found


# refusals


def test_a_value_that_a_body_overwrites_is_named_and_can_be_saved(backend):
    body = net("body", op("Tanh", "p", "h"), op("Sqr", "h", "h"), op("Mul", "h x", "p"))
    made, feeds = loop(body, 2, {"p", "x"})
    with pytest.raises(OverwrittenError, match=r"loop_net of While #\d+: In the net of Do #0: .* of Sqr #1"):
        made.Clone("clone").AddGradientOperators(["p"])
    found = gradients(made, ["p"], {**feeds, **arrays(p=[0.5], x=[2.0])}, backend, overwritten="save")
    inner = 2 * np.tanh(0.5) ** 2
    slope = [2 * 2 * np.tanh(v) * (1 - np.tanh(v) ** 2) for v in (0.5, inner)]
    assert found["p"] == pytest.approx(slope[0] * slope[1])


def test_loops_that_leave_nothing_behind_are_refused():
    plain = op("While", "go p", "p", loop_net=net("body", op("Tanh", "p", "p")).Proto())
    with pytest.raises(MissingRuleError, match=r"not a single Do.*WhileNet"):
        net("program", plain).AddGradientOperators(["p"])


def test_an_operator_without_a_rule_is_named_where_it_stands():
    made, _ = branch(True, {"x", "z"}, net("then", op("Tanh", "x", "t"), op("Unknown", "t", "z")), None)
    with pytest.raises(MissingRuleError, match=r"(?s)If #\d.*in its then_net.*Do #0.*in its net.*Unknown #1"):
        made.AddGradientOperators(["z"])


def test_a_missing_gradient_is_explained_through_a_branch():
    made, _ = branch(True, {"x", "y", "z"}, net("then", op("Tanh", "x", "z")), net("else", op("Copy", "x", "z")),
                     op("Copy", "y", "apart"))
    made.AddGradientOperators(["z"])
    assert "no operator leads" in str(made.ExplainGradient("y"))
    assert "If" in str(made.ExplainGradient("x"))
