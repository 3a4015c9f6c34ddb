"""Words as numbers. The first four stand for padding, the start and the end of a sentence, and unknown words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from os import PathLike

PAD_ID, GO_ID, EOS_ID, UNK_ID = range(4)
PAD, GO, EOS, UNK = "<PAD>", "<GO>", "<EOS>", "<UNK>"


def gen_vocab(corpus: str | PathLike[str], unk_threshold: int) -> dict[str, int]:
    """Numbers the words of a text that occur more than `unk_threshold` times, in the order in which they first occur.

    Args:
        corpus: a file with a sentence on each line, its words separated by blanks.
        unk_threshold: words that occur so often or less are unknown ones.

    Raises:
        OSError: the file cannot be read.
    """
    with open(corpus) as lines:
        counts = Counter(word for line in lines for word in line.split())
    vocab = {PAD: PAD_ID, GO: GO_ID, EOS: EOS_ID, UNK: UNK_ID}
    for word, count in counts.items():
        if count > unk_threshold:
            vocab.setdefault(word, len(vocab))
    return vocab


def get_numberized_sentence(sentence: str, vocab: Mapping[str, int]) -> list[int]:
    """The numbers of a sentence's words."""
    return [vocab.get(word, vocab[UNK]) for word in sentence.split()]
