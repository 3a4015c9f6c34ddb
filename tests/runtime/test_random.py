"""Random numbers: reproducible, independent between operators, the same on every backend."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from runtime_nets import net, op

from netgrad.runtime import backends, random
from netgrad.runtime.workspace import Workspace


def draw(*ops, backend=None):
    workspace = Workspace(backend=backend)
    workspace.run(net("n", *ops))
    return [workspace.fetch_blob(o.output[0]) for o in ops]


def test_the_bits_are_the_same_on_every_backend():
    found = []
    for backend in backends.available():
        with random.seeded(7):
            found.append(draw(op("TDraw", "", "y", n=1000), backend=backend)[0])
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_a_seed_makes_everything_that_follows_reproducible():
    def run():
        return [draw(op("TDraw", "", "a"), op("TDraw", "", "b")) for _ in range(2)]

    with random.seeded(3):
        first = run()
    with random.seeded(3):
        second = run()
    with random.seeded(4):
        third = run()
    np.testing.assert_array_equal(first, second)
    assert (np.array(first) != np.array(third)).all()


def test_operators_and_repeated_operators_of_one_process_draw_different_numbers():
    with random.seeded(0):
        (a, b), (c, d) = (draw(op("TDraw", "", "a"), op("TDraw", "", "b")) for _ in range(2))
    assert len({tuple(x) for x in (a, b, c, d)}) == 4


def test_an_operator_added_to_a_net_does_not_change_what_the_others_draw():
    with random.seeded(0):
        (alone,) = draw(op("TDraw", "", "w"))
    with random.seeded(0):
        _, beside = draw(op("TDraw", "", "new"), op("TDraw", "", "w"))
    np.testing.assert_array_equal(alone, beside)


def test_a_created_net_draws_new_numbers_on_every_run(ws):
    ws.create_net(net("n", op("TDraw", "", "y")))
    ws.run_net("n")
    first = ws.fetch_blob("y")
    ws.run_net("n")
    assert (ws.fetch_blob("y") != first).all()


def test_a_device_options_seed_overrides_the_processs():
    seeded = op("TDraw", "", "y")
    seeded.device_option.random_seed = 11
    with random.seeded(0):
        first, second = draw(seeded), draw(seeded)
    with random.seeded(1):
        third = draw(seeded)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, third)


def test_without_a_seed_two_processes_differ():
    code = "from netgrad.runtime.random import open_stream; print(open_stream('x').uniform((3,)).tolist())"
    first, second = (subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
                     for _ in range(2))
    assert first != second


def test_the_distributions_are_what_they_are_called():
    stream = random.Stream(1)
    uniform, normal = stream.uniform((100_000,)), stream.normal((100_000,))
    integers = stream.integers(-2, 3, (100_000,))
    assert uniform.dtype == normal.dtype == np.float64 and integers.dtype == np.int64
    assert 0 <= uniform.min() and uniform.max() < 1
    assert uniform.mean() == pytest.approx(0.5, abs=0.01) and uniform.var() == pytest.approx(1 / 12, rel=0.02)
    assert normal.mean() == pytest.approx(0, abs=0.02) and normal.std() == pytest.approx(1, rel=0.02)
    assert np.bincount(integers + 2).tolist() == pytest.approx([20_000] * 5, rel=0.05)
    assert sorted(stream.permutation(10)) == list(range(10))


def test_seeded_leaves_the_process_as_it_was():
    with random.seeded(5):
        a = random.open_stream("x").uniform((2,))
        with random.seeded(9):
            random.open_stream("x")
        b = random.open_stream("x").uniform((2,))
    with random.seeded(5):
        np.testing.assert_array_equal(a, random.open_stream("x").uniform((2,)))
        np.testing.assert_array_equal(b, random.open_stream("x").uniform((2,)))
