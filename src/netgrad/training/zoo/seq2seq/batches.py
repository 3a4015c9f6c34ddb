"""Pairs of sentences, as batches of arrays."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import NamedTuple

import numpy as np

from netgrad.training.zoo.seq2seq.vocabulary import EOS_ID, GO_ID, PAD_ID, get_numberized_sentence

#: the words of a sentence and of its translation
Pair = tuple[Sequence[int], Sequence[int]]


class Batch(NamedTuple):
    """What a training step is fed; N pairs, the longest sentences of which have L and T - 1 words.

    Attributes:
        encoder_inputs: words from the last to the first, (L, N) int32.
        encoder_lengths: (N,) int32.
        decoder_inputs: the translations, after the word that begins one, (T, N) int32.
        decoder_lengths: (N,) int32.
        targets: the translations and the word that ends one, (T, N) int32.
        target_weights: 1 for words, 0 for padding, (T, N) float32.
    """

    encoder_inputs: np.ndarray
    encoder_lengths: np.ndarray
    decoder_inputs: np.ndarray
    decoder_lengths: np.ndarray
    targets: np.ndarray
    target_weights: np.ndarray


def _columns(sentences: Sequence[Sequence[int]]) -> np.ndarray:
    """Sentences as the columns of an array, padded at their ends."""
    columns = np.full((max(map(len, sentences)), len(sentences)), PAD_ID, dtype=np.int32)
    for k, sentence in enumerate(sentences):
        columns[:len(sentence), k] = sentence
    return columns


def _lengths(sentences: Sequence[Sequence[int]]) -> np.ndarray:
    return np.array([len(sentence) for sentence in sentences], dtype=np.int32)


def prepare_batch(batch: Sequence[Pair]) -> Batch:
    """The arrays of some pairs. A pair of empty sentences has no weight.

    Raises:
        ValueError: there are no pairs.
    """
    if not batch:
        raise ValueError("a batch needs at least one pair of sentences")
    sources = [list(reversed(source)) for source, _ in batch]
    begun = [[GO_ID, *target] for _, target in batch]
    ended = [[*target, EOS_ID] for _, target in batch]
    targets = _columns(ended)
    empty = [not source and not target for source, target in batch]
    weights = ((targets != PAD_ID) & ~np.array(empty)).astype(np.float32)
    return Batch(_columns(sources), _lengths(sources), _columns(begun), _lengths(begun), targets, weights)


def gen_batches(
    source_corpus: str | PathLike[str], target_corpus: str | PathLike[str], source_vocab: Mapping[str, int],
    target_vocab: Mapping[str, int], batch_size: int, max_length: int | None,
) -> list[list[Pair]]:
    """The pairs of two texts, line by line, in batches of pairs that are about as long, in random order.

    Args:
        source_corpus, target_corpus: files with a sentence on each line.
        source_vocab, target_vocab: word -> number.
        batch_size: the last batch is filled up with its last pair.
        max_length: longer sentences are left out, with their pairs; None: no bound.

    Raises:
        OSError: a file cannot be read.
    """
    most = float("inf") if max_length is None else max_length
    pairs: list[Pair] = []
    with open(source_corpus) as sources, open(target_corpus) as targets:
        for lines in zip(sources, targets):
            source, target = (get_numberized_sentence(*each) for each in zip(lines, (source_vocab, target_vocab)))
            if all(0 < len(sentence) <= most for sentence in (source, target)):
                pairs.append((source, target))
    pairs.sort(key=lambda pair: (len(pair[0]), len(pair[1])))
    batches = [pairs[k:k + batch_size] for k in range(0, len(pairs), batch_size)]
    if batches:
        batches[-1] += batches[-1][-1:] * (batch_size - len(batches[-1]))
    random.shuffle(batches)
    return batches
