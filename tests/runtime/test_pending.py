"""Blobs that are computed at the first look: a dictionary to all who look, however they do."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgrad.runtime.pending import Blobs


def made(**pending):
    blobs = Blobs()
    blobs.update(a=1, b=2)
    for name, value in pending.items():
        blobs.defer(name, lambda value=value: value)
    return blobs


LOOKS = [
    lambda d, k: d.get(k), lambda d, k: d.get(k, 7), lambda d, k: k in d, lambda d, k: sorted(d), lambda d, k: len(d),
    lambda d, k: sorted(d.keys()), lambda d, k: sorted(d.items()), lambda d, k: sorted(d.values()),
    lambda d, k: dict(d), lambda d, k: {**d}, lambda d, k: d.copy(), lambda d, k: d == {"a": 1}, lambda d, k: bool(d),
    lambda d, k: d != {"a": 1}, lambda d, k: d.pop(k, None), lambda d, k: d.setdefault(k, 9),
    lambda d, k: d.__setitem__(k, 5), lambda d, k: d.update({k: 6}), lambda d, k: d.clear(),
    lambda d, k: d.__delitem__(k) if k in d else None, lambda d, k: {**d, "z": 1}, lambda d, k: d | {"z": 1},
    lambda d, k: {"z": 1} | d,
]


@given(st.lists(st.tuples(st.sampled_from(LOOKS + ["defer"]), st.sampled_from("abc"), st.integers(10, 20))))
def test_it_behaves_like_a_dictionary_of_the_computed_values(actions):
    blobs, plain = made(b=3, c=4), {"a": 1, "b": 3, "c": 4}
    for look, name, value in actions:
        if look == "defer":
            blobs.defer(name, lambda value=value: value)
            plain[name] = value
        else:
            assert look(blobs, name) == look(plain, name)
    assert dict(blobs) == plain


def test_nothing_is_computed_before_it_is_looked_at_and_then_once():
    runs = []
    blobs = made()
    blobs.defer("x", lambda: runs.append(1) or len(runs))
    assert "x" in blobs and sorted(blobs) == ["a", "b", "x"] and len(blobs) == 3 and blobs.is_pending("x") and not runs
    assert blobs["x"] == blobs["x"] == 1 and not blobs.is_pending("x")
    blobs.defer("y", lambda: runs.append(1))
    blobs["y"] = 0
    assert blobs["y"] == 0 and len(runs) == 1
    with pytest.raises(KeyError):
        blobs["z"]
    with pytest.raises(KeyError):
        del blobs["z"]


def test_a_computation_that_fails_can_be_tried_again():
    blobs, tries = Blobs(), []

    def compute():
        tries.append(1)
        if len(tries) == 1:
            raise MemoryError
        return 5

    blobs.defer("x", compute)
    with pytest.raises(MemoryError):
        blobs["x"]
    assert blobs["x"] == 5


def test_threads_that_look_at_once_find_one_value():
    blobs, barrier, found = Blobs(), threading.Barrier(4), []
    blobs.defer("x", object)

    def look():
        barrier.wait()
        found.append(blobs["x"])

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
