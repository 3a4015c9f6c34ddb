"""Random recurrent programs: values and gradients are those of the programs written out, and finite differences."""

from __future__ import annotations

import random

import numpy as np
import pytest
from against_unrolled import compare
from random_recurrent import Program


def check(seed: int) -> None:
    program = Program(seed)
    names = [name for name, value in program.feeds.items() if value.dtype.kind == "f" and value.size]
    checked = random.Random(seed).sample(names, min(2, len(names)))
    compare(program.net, program.outputs, program.feeds, np.random.default_rng(seed),
            random.Random(seed).choice(["numpy", "torch"]), check=tuple(checked))


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_programs(first):
    for seed in range(first, first + 10):
        check(seed)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 2000, 50))
def test_soak_of_random_programs(first):
    for seed in range(first, first + 50):
        check(seed)
