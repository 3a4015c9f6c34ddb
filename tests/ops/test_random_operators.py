"""Random operators with random arguments and inputs end with a result or one clear error, never with the process."""

from __future__ import annotations

import pytest
from random_operators import random_operator, survey


def faults(seeds: range, backend: str) -> list[str]:
    return [f"seed {seed} {what}: {words}" for seed, what, words in survey(seeds, backend)
            if what not in ("computed", "refused")]


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_a_result_or_one_clear_error(backend: str) -> None:
    assert faults(range(1700), backend) == []


def test_the_backends_agree() -> None:
    """Both refuse, or both compute what is alike."""
    assert faults(range(1700, 2500), "both") == []


@pytest.mark.soak
def test_the_backends_agree_10_000_times() -> None:
    assert faults(range(10_000), "both") == []


@pytest.mark.soak
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_a_result_or_one_clear_error_20_000_times(backend: str) -> None:
    assert faults(range(20_000), backend) == []


@pytest.mark.filterwarnings("ignore")
def test_a_seed_names_one_operator() -> None:
    for seed in range(50):
        (op, _, feeds), (again, _, fed_again) = random_operator(seed), random_operator(seed)
        assert op == again
        assert {name: repr(value) for name, value in feeds.items()} == {n: repr(v) for n, v in fed_again.items()}
