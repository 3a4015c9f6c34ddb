"""The order in which C++ shuffles: `std::shuffle` of GCC's library with `std::default_random_engine()`.

The engine is Park and Miller's generator, x -> 16807 x mod 2^31 - 1, from x = 1, so it is the same order every time.
"""

from __future__ import annotations

from collections.abc import Iterator

_MODULUS = 2**31 - 1
_MULTIPLIER = 16807


def _engine() -> Iterator[int]:
    """Numbers from 0 to ``_MODULUS - 2``."""
    x = 1
    while True:
        x = x * _MULTIPLIER % _MODULUS
        yield x - 1


def _below(count: int, numbers: Iterator[int]) -> int:
    """A number below ``count``, by division, numbers at the top of the range thrown away."""
    scale = (_MODULUS - 2) // count
    while True:
        x = next(numbers)
        if x < count * scale:
            return x // scale


def std_shuffle(items: list[int]) -> list[int]:
    """The items in the order that `std::shuffle` leaves them in.

    Two swaps come from one number, as long as the list is no longer than about 46,000 items.
    """
    items, numbers = list(items), _engine()

    def swap(a: int, b: int) -> None:
        items[a], items[b] = items[b], items[a]

    count = len(items)
    if count and (_MODULUS - 2) // count < count:
        for k in range(1, count):
            swap(k, _below(k + 1, numbers))
        return items
    first = 1
    if count and count % 2 == 0:
        swap(1, _below(2, numbers))
        first = 2
    for k in range(first, count, 2):
        x = _below((k + 1) * (k + 2), numbers)
        swap(k, x // (k + 2))
        swap(k + 1, x % (k + 2))
    return items
