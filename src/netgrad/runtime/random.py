"""Random numbers: one counter-based generator (Philox), the same bits on every backend.

Every operator that draws has a stream of its own, found by its seed and its name (its first output), so that operators
added to a net do not change what the others draw. The seed is `DeviceOption.random_seed` where that is set, and then
every operator made with it draws the same numbers again; else it is the seed of the process, and each further operator
of one name gets the next stream. The process's seed is entropy unless `seed` was called.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


class _Process:
    """The seed of this process, and how many streams were opened under each name."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.opened: Counter[str] = Counter()


_process = _Process(secrets.randbits(64))


def seed(n: int) -> None:
    """Makes everything that is drawn from now on by operators without a seed of their own a function of ``n``."""
    global _process
    _process = _Process(n)


@contextmanager
def seeded(n: int) -> Iterator[None]:
    """Within it the process has seed ``n``; afterwards its streams go on where they were."""
    global _process
    before, _process = _process, _Process(n)
    try:
        yield
    finally:
        _process = before


class Stream:
    """What kernels draw from. Numbers are float64 and int64 NumPy arrays."""

    __slots__ = ("_generator",)

    def __init__(self, *name: object) -> None:
        digest = hashlib.blake2b(repr(name).encode(), digest_size=16).digest()
        self._generator = np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))

    def uniform(self, shape: tuple[int, ...] | list[int] = ()) -> np.ndarray:
        """Uniform on [0, 1)."""
        return np.asarray(self._generator.random(tuple(shape)))

    def normal(self, shape: tuple[int, ...] | list[int] = ()) -> np.ndarray:
        """Mean 0, standard deviation 1."""
        return np.asarray(self._generator.standard_normal(tuple(shape)))

    def integers(self, low: int, high: int, shape: tuple[int, ...] | list[int] = ()) -> np.ndarray:
        """Integers in [low, high), each equally likely."""
        return np.asarray(self._generator.integers(low, high, tuple(shape), dtype=np.int64))

    def permutation(self, n: int) -> np.ndarray:
        """The numbers 0 to n - 1 in random order."""
        return self._generator.permutation(n).astype(np.int64)


def open_stream(name: str, own_seed: int | None = None) -> Stream:
    """The stream of an operator called ``name``, from its own seed or else the process's."""
    if own_seed is not None:
        return Stream(own_seed, name)
    k = _process.opened[name]
    _process.opened[name] = k + 1
    return Stream(_process.seed, name, k)
