"""Hierarchical softmax, its search and Huffman's tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.graph.operator import CreateOperator as operator
from netgrad.proto import hsm_pb2
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import check_gradient, evaluate

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "torch"])
RNG = np.random.default_rng(0)
X, W, b = RNG.normal(size=(4, 3)), RNG.normal(size=(5, 3)), RNG.normal(size=5)
#: word 0 is a leaf of the root (rows 0 and 1), words 1, 2, 3 of the node below it (rows 2 to 4)
PATHS = {0: [(0, 2, 1)], **{word: [(0, 2, 0), (2, 3, word - 1)] for word in (1, 2, 3)}}


def hierarchy() -> bytes:
    message = hsm_pb2.HierarchyProto(size=5)
    for word, path in PATHS.items():
        entry = message.paths.add(word_id=word)
        for index, length, target in path:
            entry.path_nodes.add(index=index, length=length, target=target)
    return message.SerializeToString()


def tree() -> bytes:
    message = hsm_pb2.TreeProto()
    message.root_node.name, message.root_node.offset = "root", 0
    message.root_node.children.add(name="below", offset=2, word_ids=[1, 2, 3])
    message.root_node.word_ids.append(0)
    return message.SerializeToString()


def probabilities(x: np.ndarray) -> dict[int, float]:
    def share(first: int, length: int, target: int) -> float:
        powers = np.exp(W[first:first + length] @ x + b[first:first + length])
        return float(powers[target] / powers.sum())

    return {word: float(np.prod([share(*step) for step in path])) for word, path in PATHS.items()}


@BACKENDS
def test_the_loss_is_that_of_the_path(backend: str) -> None:
    labels = np.array([0, 1, 2, 3], np.int32)
    op = operator("HSoftmax", ["X", "W", "b", "labels"], ["Y", "kept"], hierarchy=hierarchy())
    Y = evaluate(op, {"X": X, "W": W, "b": b, "labels": labels}, backend=backend)["Y"]
    np.testing.assert_allclose(Y, [-np.log(probabilities(x)[word]) for x, word in zip(X, labels, strict=True)])


def test_derivative() -> None:
    op = operator("HSoftmax", ["X", "W", "b", "labels"], ["Y", "kept"], hierarchy=hierarchy())
    check_gradient(op, {"X": X, "W": W, "b": b, "labels": np.array([3, 0, 2, 2], np.int32)}, ys=["Y"],
                   order=2)


@BACKENDS
def test_a_label_without_a_path_is_refused(backend: str) -> None:
    op = operator("HSoftmax", ["X", "W", "b", "labels"], ["Y", "kept"], hierarchy=hierarchy())
    with pytest.raises(OperatorError, match="label 7 of sample 1"):
        evaluate(op, {"X": X[:2], "W": W, "b": b, "labels": np.array([0, 7], np.int32)}, backend=backend)


@BACKENDS
def test_search_finds_all_within_the_beam_best_first(backend: str) -> None:
    op = operator("HSoftmaxSearch", ["X", "W", "b"], ["names", "scores"], tree=tree(), beam=50.0, topN=6)
    found = evaluate(op, {"X": X, "W": W, "b": b}, backend=backend)
    for x, names, scores in zip(X, found["names"], found["scores"], strict=True):
        each = probabilities(x)
        expected = {str(word): p for word, p in each.items()} | {"below": 1 - each[0]}
        best = sorted(expected, key=lambda name: -expected[name])
        assert [n.decode() if isinstance(n, bytes) else n for n in names] == [*best, ""]
        np.testing.assert_allclose(scores, [*(-np.log(expected[n]) for n in best), 0])


@pytest.mark.parametrize(("counts", "depths"), [([1, 1, 2, 4], [3, 3, 2, 1]), ([5, 5, 5, 5], [2, 2, 2, 2]), ([3], [1])])
@BACKENDS
def test_frequent_labels_have_short_paths(counts: list[int], depths: list[int], backend: str) -> None:
    def depth(node: Any, below: int) -> dict[int, int]:
        found = dict.fromkeys(node.word_ids, below + 1)
        for child in node.children:
            found |= depth(child, below + 1)
        return found

    op = operator("HuffmanTreeHierarchy", ["labels"], ["tree"], num_classes=len(counts))
    found = evaluate(op, {"labels": np.repeat(np.arange(len(counts)), counts)}, backend=backend)["tree"]
    root = hsm_pb2.TreeProto.FromString(np.asarray(found, object).reshape(-1)[0]).root_node
    assert depth(root, 0) == dict(enumerate(depths))
