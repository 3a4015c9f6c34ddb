"""The 1,797 handwritten digits, 8 by 8 pixels, that scikit-learn ships."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from netgrad.demo.errors import MissingPackageError

#: every fifth digit is held out
HELD_OUT = 5

_NEEDED = {"sklearn": "scikit-learn (its handwritten digits)", "matplotlib": "matplotlib (the training curve)"}


def require_packages() -> None:
    """Raises `MissingPackageError` if something is missing that the demo needs beside netgrad itself."""
    missing = [what for module, what in _NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise MissingPackageError(f"the demo needs {' and '.join(missing)}: pip install 'netgrad[demo]'")


@dataclass(frozen=True)
class Digits:
    """Images, float32 [N, 1, 8, 8] in 0 to 1, and labels, int32 [N]."""

    images: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, size: int, rng: np.random.Generator) -> Iterator[Digits]:
        """All digits once, in random order, in batches of one size; the last few that fill no batch are left out."""
        order = rng.permutation(len(self))
        for start in range(0, len(self) - size + 1, size):
            chosen = order[start : start + size]
            yield Digits(self.images[chosen], self.labels[chosen])


def load_digits() -> tuple[Digits, Digits]:
    """The digits to learn from and those held out.

    Raises:
        MissingPackageError: scikit-learn is not installed.
    """
    try:
        from sklearn import datasets  # type: ignore[import-untyped]
    except ImportError:
        raise MissingPackageError(f"the digits are in {_NEEDED['sklearn']}: pip install 'netgrad[demo]'") from None

    found = datasets.load_digits()
    images = (found.images / 16).astype(np.float32)[:, None]
    labels = found.target.astype(np.int32)
    held = np.arange(len(labels)) % HELD_OUT == 0
    return Digits(images[~held], labels[~held]), Digits(images[held], labels[held])


def as_picture(image: np.ndarray) -> str:
    """An image as 8 lines of text, two characters a pixel."""
    shades = " ░▒▓█"
    rows = image.reshape(8, 8)
    return "\n".join("".join(2 * shades[round(float(value) * (len(shades) - 1))] for value in row) for row in rows)
