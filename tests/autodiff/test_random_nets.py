"""Random nets: every gradient is right or refused for a reason, and nothing else changes. The laws are in `laws.check`.

A failing case of the long form is shrunk and printed with its seed; ``draw(seed)`` makes it again.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import Broken, build, check, check_numbers, run, shrink, ys_of
from random_nets import Case, Maker, draw
from small_nets import op

from netgrad.autodiff.errors import MissingRuleError
from netgrad.autodiff.gradient_registry import GetBackwardPass
from netgrad.graph.operator import CreateOperator
from netgrad.runtime import backends

pytestmark = pytest.mark.filterwarnings("ignore::netgrad.autodiff.errors.IgnoredGradientWarning")


def asked(r: random.Random) -> dict[str, Any]:
    """A way of asking for the gradients of a case, and which further laws to check."""
    return {
        "overwritten": r.choice(["error", "error", "save"]),
        "backend": r.choice(backends.available()),
        "share_results": r.random() < 0.8,
        "wrt": r.random() < 0.3,
        "rewire": r.random() < 0.3,
        "again": r.random() < 0.25,
        "redo": r.random() < 0.2,
    }


def trial(case: Case, seed: int) -> str:
    r = random.Random(seed)
    return check(case, r, **asked(r))


@settings(max_examples=1200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(0, 2**32 - 1))
def test_random_nets(choices, seed):
    trial(Maker(choices).case(), seed)


def many(first: int, count: int, most: int) -> Counter[str]:
    """Checks that many seeds; raises for the first broken law, with the smallest net that breaks it."""
    found: Counter[str] = Counter()
    for seed in range(first, first + count):
        case = draw(seed, most)
        try:
            found[trial(case, seed)] += 1
        except Broken as error:
            kind = str(error)[:25]

            def fails(smaller: Case, seed: int = seed, kind: str = kind) -> bool:
                try:
                    trial(smaller, seed)
                except Broken as another:
                    return str(another).startswith(kind)
                except Exception:
                    return False
                return False

            small = shrink(case, fails)
            with pytest.raises(Broken) as broken:
                trial(small, seed)
            raise Broken(f"{broken.value}\nasked as {asked(random.Random(seed))}\n{small}") from None
    return found


@pytest.mark.parametrize("first, count, most", [(0, 3000, 12), (10**6, 300, 45)])
def test_fixed_seeds_and_that_most_of_them_have_an_answer(first, count, most):
    found = many(first, count, most)
    assert found["right"] > 0.5 * count, found
    assert found["refused"] > 0.05 * count, found


@pytest.mark.soak
@pytest.mark.parametrize("first, count, most", [(10**7, 20_000, 12), (2 * 10**7, 2_000, 45), (3 * 10**7, 20_000, 5)])
def test_soak(first, count, most):
    assert many(first, count, most)["right"] > 0.6 * count


def test_a_wrong_gradient_breaks_a_law():
    """The judge is not blind: with one gradient operator's argument changed the numbers disagree."""
    broken = 0
    for seed in range(150):
        case = draw(seed)
        if not case.ys or case.skip or case.edits:
            continue
        r = random.Random(seed)
        net = build(case, r)
        try:
            gradients = net.AddGradientOperators(ys_of(case), overwritten="save")
        except MissingRuleError:
            continue
        scales = [op for op in net.Proto().op if op.is_gradient_op and op.type == "Scale"]
        if not scales:
            continue
        scales[-1].arg[0].f *= 1.5
        values = run(list(net.Proto().op), case.feeds)
        try:
            check_numbers(case.ops, case.feeds, case.cotangents, {str(b): g for b, g in gradients.items()}, values, r)
        except Broken:
            broken += 1
    assert broken >= 3


# order 2


def plain_net(r: random.Random) -> tuple[list[Any], str]:
    """A net of operators whose gradients are made of ordinary operators, on 3 x 3 matrices."""
    ops, live = [], ["x", "w"]
    for k in range(r.randint(2, 6)):
        type, out = r.choice(["Scale", "MatMul", "Sqr", "Sum", "Negative"]), f"y{k}"
        operands = [r.choice(live) for _ in range(2 if type in ("MatMul", "Sum") else 1)]
        arguments = {"scale": r.choice([0.5, -2.0])} if type == "Scale" else {}
        arguments.update({"trans_a": 1} if type == "MatMul" and r.random() < 0.5 else {})
        ops.append(CreateOperator(type, operands, [out], **arguments))
        live.append(out)
    return ops, live[-1]


@pytest.mark.parametrize("seed", range(60))
def test_the_gradient_of_a_gradient(seed, backend):
    r = random.Random(seed)
    ops, y = plain_net(r)
    numbers = np.random.default_rng(seed)
    feeds = {name: numbers.uniform(-0.6, 0.6, (3, 3)) for name in ("x", "w")}
    first, gradients = GetBackwardPass(ops, [y])
    whole = [*ops, *first]
    target = gradients["x" if "x" in gradients else "w"]
    second, again = GetBackwardPass(whole, [target])
    values = run([*whole, *second], feeds, backend)
    check_numbers(whole, feeds, {target: np.ones((3, 3))}, again, values, r)


def test_a_gradient_operator_without_gradient_is_named():
    forward = [op("Python", "x", "y", token="t", grad_output_indices=[0], grad_input_indices=[0])]
    first, gradients = GetBackwardPass(forward, ["y"])
    with pytest.raises(MissingRuleError, match=r"PythonGradient #2 \("):
        GetBackwardPass([*forward, *first], [gradients["x"]])


def test_the_second_derivative_of_a_cube(backend):
    forward = [op("Sqr", "x", "s"), op("MatMul", "s x", "y")]
    first, gradients = GetBackwardPass(forward, ["y"])
    second, again = GetBackwardPass([*forward, *first], [gradients["x"]])
    x = np.array([[0.7]])
    values = run([*forward, *first, *second], {"x": x}, backend)
    assert np.allclose(values[gradients["x"]], 3 * x**2) and np.allclose(values[again["x"]], 6 * x)
