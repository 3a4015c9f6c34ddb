"""Batches of images and labels from records."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from netgrad.data.images import Preparation, Sample, Undecodable
from netgrad.persist.errors import StorageError
from netgrad.persist.readers import RecordReader

log = logging.getLogger("netgrad")
#: random numbers for one image; it needs fewer
_DRAWS = 96


@dataclass(frozen=True)
class ImageBatches:
    """Reads batches of images.

    Attributes:
        parse: from a record's value to a sample.
        prepare: what is done with each image.
        size: images in a batch.
        box: the part to cut out of images whose record has none.
        tolerated: which part of a batch may be images that cannot be decoded; others take their place.
        uniform: gives random numbers of a shape; called by one thread at a time.
    """

    reader: RecordReader
    parse: Callable[[bytes], Sample]
    prepare: Preparation
    size: int
    box: tuple[int, int, int, int] | None
    tolerated: float
    uniform: Callable[[tuple[int, int]], np.ndarray]

    def read(self, threads: Executor, cancelled: threading.Event) -> tuple[np.ndarray, ...]:
        """Images (size, crop, crop, channels) float32, labels, and what else there is, each with its record's place.

        Raises `StorageError`, with the record, where one is damaged or too many images are.
        """
        images: list[np.ndarray] = []
        samples: list[Sample] = []
        broken: list[StorageError] = []
        while len(images) < self.size:
            wanted = self.size - len(images)
            records = [self.reader.read(cancelled) for _ in range(wanted)]
            draws = self.uniform((wanted, _DRAWS))
            for found in threads.map(self._one, records, draws):
                if isinstance(found, StorageError):
                    broken.append(found)
                else:
                    samples.append(found[0])
                    images.append(found[1])
            if len(broken) > self.tolerated * self.size:
                raise broken[-1]
        if broken:
            log.warning("%d images could not be decoded, others took their place: %s", len(broken), broken[-1])
        return (np.stack(images), self._stacked([sample.label for sample in samples], "labels"),
                *(self._stacked(list(column), f"output {2 + k}")
                  for k, column in enumerate(zip(*(sample.others for sample in samples), strict=True))))

    def _stacked(self, rows: list[np.ndarray], what: str) -> np.ndarray:
        if len(kinds := {(row.dtype.name, row.shape) for row in rows}) > 1:
            raise StorageError(f"{self.reader.source}: {what} of its records are {sorted(kinds)}, which makes no batch")
        stacked = np.stack(rows)
        return stacked[:, 0] if stacked.ndim == 2 and what != "labels" and stacked.shape[1] == 1 else stacked

    def _one(self, record: tuple[bytes, bytes], draws: np.ndarray) -> tuple[Sample, np.ndarray] | StorageError:
        key, value = record
        place = f"{self.reader.source}: record {key[:200].decode('utf-8', 'replace')!r}"
        numbers: Iterator[float] = iter(draws.tolist())
        try:
            sample = self.parse(value)
            return sample, self.prepare(sample.image, sample.box or self.box, lambda: next(numbers))
        except Undecodable as error:
            return StorageError(f"{place}: {error}")
        except StorageError as error:
            raise StorageError(f"{place}: {error}") from None
