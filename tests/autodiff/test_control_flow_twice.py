"""Control flow and second passes: another one over the same runs, branches of plain operators, unrolled nets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nested_programs import draw
from small_nets import arrays, op

import netgrad
from netgrad.autodiff.errors import OverwrittenError
from netgrad.control.operators import add_if_op, add_while_op
from netgrad.graph.net import Net
from netgrad.runtime.numeric import check_gradient, evaluate
from netgrad.tools.unroll import unroll


def net(name: str, *lines: Any) -> Any:
    made = Net(name)
    made.Proto().op.extend(lines)
    return made


def loop() -> tuple[Any, dict[str, np.ndarray]]:
    made = Net("program")
    made.ConstantFill([], "i", shape=[1], value=0, dtype=10)
    body = net("body", op("Mul", "p x", "q"), op("Tanh", "q", "p"))
    body.Add(["i", "one"], "i")
    add_while_op(made, "go", {"p", "x", "i", "one", "rounds"}, body, net("test", op("LT", "i rounds", "go")))
    return made, {"one": np.array([1]), "rounds": np.array([3]), **arrays(p=[0.5], x=[1.2])}


def branch() -> tuple[Any, dict[str, np.ndarray]]:
    made = Net("program")
    made.Copy("flag", "c")
    add_if_op(made, "c", {"x", "p", "c"}, net("then", op("Mul", "x p", "q"), op("Tanh", "q", "p")),
              net("other", op("Sqr", "x", "p")))
    return made, {"flag": np.array([True]), **arrays(p=[0.5], x=[1.2])}


CASES = {"While": loop, "If": branch}


@pytest.mark.parametrize("kind", CASES)
def test_a_second_pass_over_the_same_runs(kind: str, backend: str) -> None:
    """The first pass takes the runs off their stack; the second one reads a copy, if values may be saved."""
    made, feeds = CASES[kind]()
    first = made.AddGradientOperators(["p"])
    with pytest.raises(OverwrittenError, match='overwritten="save"'):
        made.Clone("clone").AddGradientOperators(["p"])
    second = made.AddGradientOperators({"p": "weight"}, overwritten="save")
    values = evaluate(made, {**feeds, **arrays(weight=[2.0])}, None, backend)
    assert "CopyScope" in {each.type for each in made.Proto().op}
    for name in ("x", "p"):
        assert values[str(second[name])] == pytest.approx(2 * values[str(first[name])])


def plain_if(flag: bool) -> tuple[Any, dict[str, np.ndarray]]:
    """Branches that run on the blobs around, which leave everything where it can be read."""
    made = Net("program")
    made.If(["c", "x", "p"], ["r"], then_net=net("then", op("Mul", "x p", "q"), op("Tanh", "q", "r")).Proto(),
            else_net=net("other", op("Cube", "x", "r")).Proto())
    return made, {"c": np.array([flag]), **arrays(p=[0.5], x=[1.2])}


@pytest.mark.parametrize("flag", [True, False])
def test_branches_without_a_workspace_are_differentiated_twice(flag: bool) -> None:
    made, feeds = plain_if(flag)
    check_gradient(made, {**feeds, "r": np.zeros(1), "q": np.zeros(1)}, ["r"], ["x", "p"] if flag else ["x"], order=2,
                   overwritten="save")


def trial(seed: int) -> str:
    """A second pass gives the same; the unrolled program's second derivative is the difference of its first."""
    program = draw(seed)
    made = Net("program")
    made.Proto().op.extend(program.net.Proto().op)
    first = made.AddGradientOperators([program.y], overwritten="save")
    second = made.AddGradientOperators([program.y], overwritten="save")
    values = evaluate(made, program.feeds, None, "numpy")
    for name in program.parameters:
        assert (name in first) == (name in second)
        if name in first:
            np.testing.assert_allclose(values[str(second[name])], values[str(first[name])], err_msg=f"{seed}, {name}")
    flat = unroll(program.net.Proto(), program.feeds, backend="numpy")
    if not all(np.all(np.abs(value) < 1e3) for value in evaluate(flat, program.feeds, None, "numpy").values()
               if value.dtype.kind == "f"):
        return "runs off"
    return check_curvature(flat, program, seed)


def check_curvature(flat: Any, program: Any, seed: int) -> str:
    direction = {name: np.random.default_rng(seed).uniform(-1, 1, program.feeds[name].shape)
                 for name in program.parameters}
    once, twice = Net("once"), Net("twice")
    for each in (once, twice):
        each.Proto().op.extend(flat.op)
    gradients = once.AddGradientOperators([program.y], overwritten="save")
    products = netgrad.hessian_vector(twice, program.y, {name: f"{name}_v" for name in program.parameters})
    feeds = {**program.feeds, **{f"{name}_v": value for name, value in direction.items()}}
    values = evaluate(twice, feeds, None, "torch" if seed % 2 else "numpy")

    def slopes(h: float) -> dict[str, np.ndarray]:
        moved = {**program.feeds, **{name: program.feeds[name] + h * v for name, v in direction.items()}}
        found = evaluate(once, moved, None, "numpy")
        return {name: found[str(gradients[name])] for name in program.parameters if name in gradients}

    left, base, right = (slopes(h) for h in (-1e-6, 0.0, 1e-6))
    for name in base:
        if np.any(np.abs(right[name] - 2 * base[name] + left[name]) > 1e-8 * (1 + np.abs(base[name]))):
            return "kink"
        np.testing.assert_allclose(values[str(products[name])], (right[name] - left[name]) / 2e-6, rtol=1e-3, atol=1e-4,
                                   err_msg=f"seed {seed}, {name}")
    return "right"


def test_random_programs_twice() -> None:
    found = [trial(seed) for seed in range(30)]
    assert found.count("right") > 10, found


@pytest.mark.soak
@pytest.mark.parametrize("first", range(100, 400, 50))
def test_soak_of_random_programs_twice(first: int) -> None:
    found = [trial(seed) for seed in range(first, first + 50)]
    assert found.count("right") > 15, found
