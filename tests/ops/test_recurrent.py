"""Recurrent cells: derivatives, sequences that have ended, greedy decoding."""

from __future__ import annotations

import numpy as np
import pytest

from netgrad.graph.operator import CreateOperator as operator
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import check_gradient, evaluate

BACKENDS = ["numpy", "torch"]


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("drop_states", [0, 1])
@pytest.mark.parametrize("lengths", [True, False])
@pytest.mark.parametrize(("type", "states", "gates"), [("LSTMUnit", 2, 4), ("GRUUnit", 1, 3)])
def test_derivative(type: str, states: int, gates: int, lengths: bool, drop_states: int) -> None:
    feeds = {f"state{k}": numbers(1, 3, 2, seed=k) for k in range(states)}
    feeds["gates"] = numbers(1, 3, 2 * gates, seed=5)
    wrt = list(feeds)
    if lengths:
        feeds["lengths"] = np.array([1, 4, 2], np.int32)
    feeds["t"] = np.array([2], np.int32)
    cell = operator(type, list(feeds), [f"new{k}" for k in range(states)], sequence_lengths=int(lengths),
                    drop_states=drop_states)
    check_gradient(cell, feeds, wrt=wrt)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("drop_states", [0, 1])
def test_a_sequence_that_has_ended_keeps_or_drops_its_state(drop_states: int, backend: str) -> None:
    feeds = {"h": numbers(1, 2, 2), "c": numbers(1, 2, 2, seed=1), "gates": numbers(1, 2, 8, seed=2),
             "lengths": np.array([3, 2], np.int32), "t": np.array([2], np.int32)}
    found = evaluate(operator("LSTMUnit", list(feeds), ["h2", "c2"], drop_states=drop_states), feeds, backend=backend)
    for name, before in (("h2", "h"), ("c2", "c")):
        assert np.array_equal(found[name][0, 1], feeds[before][0, 1] * (1 - drop_states))
        assert not np.allclose(found[name][0, 0], feeds[before][0, 0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_gates_of_another_width_are_refused(backend: str) -> None:
    feeds = {"h": numbers(1, 2, 2), "gates": numbers(1, 2, 8), "t": np.array([0], np.int32)}
    with pytest.raises(OperatorError, match="gates"):
        evaluate(operator("GRUUnit", list(feeds), ["h2"], sequence_lengths=0), feeds, backend=backend)


@pytest.mark.parametrize(("merge", "expected"), [(1, [1, 2, 1]), (0, [1, 1, 2, 1])])
def test_greedy_decoding(merge: int, expected: list[int]) -> None:
    best = [1, 1, 2, 0, 1]
    scores = np.eye(3, dtype=np.float32)[best][:, None, :]
    found = evaluate(operator("CTCGreedyDecoder", ["X"], ["length", "values"], merge_repeated=merge), {"X": scores})
    assert found["values"].tolist() == expected and found["length"].tolist() == [len(expected)]
