"""Hierarchical softmax: words are leaves of a tree, and a word's probability is the product of those on its path.

Morin and Bengio 2005. Trees and paths are messages of ``hsm.proto``, serialized in string arguments.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from netgrad.graph.arguments import Float, Int, Str
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import Rule, forbidden
from netgrad.graph.shapes import Fixed, TensorType, same_as
from netgrad.ops._arrays import require_rank, require_shape, require_size

#: for examples: two words, chosen by one decision; and the tree of it
_TWO_WORDS = (b"\x08\x02\x12\n\x08\x00\x12\x06\x08\x00\x10\x02\x18\x00"
              b"\x12\n\x08\x01\x12\x06\x08\x00\x10\x02\x18\x01")
_TREE_OF_TWO = b"\n\x0c\x10\x00\x10\x01\x18\x00\"\x04root"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _paths(hierarchy: str) -> dict[int, list[tuple[int, int, int]]]:
    """Word -> the decisions on its path: first row, number of rows, which is taken."""
    from netgrad.proto import hsm_pb2

    message = hsm_pb2.HierarchyProto.FromString(_bytes(hierarchy))
    return {path.word_id: [(n.index, n.length, n.target) for n in path.path_nodes] for path in message.paths}


def _decisions(xp: Any, X: Any, W: Any, b: Any, labels: Any, hierarchy: str) -> Iterator[tuple[int, ...]]:
    """For each sample each decision of its label: sample, first and end row, target, place of its results."""
    require_rank("X", X, 2)
    require_size("b", b, W.shape[0], ", the rows of W")
    require_shape("W", W, (W.shape[0], X.shape[1]), ", the columns of X")
    require_size("labels", labels, X.shape[0], ", one for each row of X")
    paths, place = _paths(hierarchy), 0
    for sample, label in enumerate(xp.to_numpy(labels).reshape(-1).tolist()):
        if label not in paths:
            raise ValueError(f"label {label} of sample {sample} is no word of the hierarchy, which has {len(paths)}")
        for index, length, target in paths[label]:
            if index + length > W.shape[0]:
                raise ValueError(f"the path of word {label} needs {index + length} rows of W, which has {W.shape[0]}")
            yield sample, index, index + length, target, place
            place += 2 * length


class HSoftmax(Operator):
    """Y = -log of the probability of each sample's label; the second output keeps all scores for the gradient."""

    inputs = [In("X", "(N, D), float"), In("W", "(size of the hierarchy, D)"), In("b", "(size of the hierarchy,)"),
              In("labels", "(N,) words, int32", differentiable=False)]
    outputs = [Out("Y", "(N,)"),
               Out("intermediate_output", "1-D: of each decision its scores and their softmax")]
    arguments = [Str("hierarchy", "", "a serialized HierarchyProto: a path for each word")]
    example = Example(
        {"X": [[1.0]], "W": [[1.0], [0.0]], "b": [0.0, 0.0], "labels": [0]},
        {"Y": [0.313262], "intermediate_output": [1.0, 0.0, 0.731059, 0.268941]},
        {"hierarchy": _TWO_WORDS})

    def shape(X: TensorType, *_: TensorType, hierarchy: str) -> tuple[TensorType, TensorType]:
        return X.with_dims(X.dims and X.dims[:1]), X.with_dims((None,))

    def kernel(xp: Any, X: Any, W: Any, b: Any, labels: Any, *, hierarchy: str) -> Any:
        losses: list[list[Any]] = [[] for _ in range(X.shape[0])]
        kept = []
        for sample, start, end, target, _ in _decisions(xp, X, W, b, labels, hierarchy):
            scores = xp.matmul(W[start:end, :], X[sample, :]) + b[start:end]
            powers = xp.exp(scores - xp.max(scores))
            total = xp.sum(powers)
            losses[sample].append(xp.log(total) - (scores[target] - xp.max(scores)))
            kept += [scores, powers / total]
        nothing = xp.zeros_like(X[:0, 0])
        Y = xp.stack([sum(terms[1:], terms[0]) for terms in losses]) if losses else nothing
        return Y, xp.concat(kept) if kept else nothing

    def gradient(op: Rule) -> None:
        values = [*map(op.I, range(4)), op.O(1), op.GO(0)]
        kept = op.GO(1) if op.has_GO(1) and not op.in_pass else op.temp(op.output_name(1) + "_grad")
        op.emit("HSoftmaxGradient", values, [op.GI(0), op.GI(1), op.GI(2), kept])


class HSoftmaxGradient(Operator):
    """dX, dW, db from dY, and what they are made of: for each decision the slopes of scores and of probabilities."""

    inputs = [In("X"), In("W"), In("b", shape_only=True), In("labels", differentiable=False),
              In("intermediate_output"), In("dY", "(N,), float")]
    outputs = [Out("dX", "like X"), Out("dW", "like W"), Out("db", "like b"),
               Out("dintermediate_output", "like intermediate_output")]
    arguments = [Str("hierarchy", "")]
    shape = same_as(0, 1, 2, 4)
    internal = True
    example = Example(
        {"X": [[1.0]], "W": [[1.0], [0.0]], "b": [0.0, 0.0], "labels": [0],
         "intermediate_output": [1.0, 0.0, 0.731059, 0.268941], "dY": [1.0]},
        {"dX": [[-0.268941]], "dW": [[-0.268941], [0.268941]], "db": [-0.268941, 0.268941],
         "dintermediate_output": [-0.268941, 0.268941, -1.367879, 0.0]},
        {"hierarchy": _TWO_WORDS})

    def kernel(xp: Any, X: Any, W: Any, b: Any, labels: Any, kept: Any, dY: Any, *, hierarchy: str) -> Any:
        require_shape("dY", dY, (X.shape[0],), ", the shape of Y")
        decisions = list(_decisions(xp, X, W, b, labels, hierarchy))
        size = sum(2 * (end - start) for _, start, end, *_ in decisions)
        require_shape("intermediate_output", kept, (size,), ", what HSoftmax made")
        dX: list[Any] = [xp.zeros_like(X[sample, :]) for sample in range(X.shape[0])]
        dW, db, slopes = xp.zeros_like(W), xp.zeros_like(b), []
        for sample, start, end, target, place in decisions:
            probabilities = kept[place + end - start:place + 2 * (end - start)]
            taken = xp.arange(end - start, device=probabilities.device) == target
            nothing = xp.zeros_like(probabilities)
            slope = xp.where(taken, probabilities - 1, probabilities) * dY[sample]
            slopes += [slope, xp.where(taken, -dY[sample] / probabilities, nothing)]
            dX[sample] = dX[sample] + xp.matmul(slope, W[start:end, :])
            rows = xp.arange(start, end, device=probabilities.device)
            dW = xp.scatter_add(dW, rows, xp.expand_dims(slope, axis=1) * xp.expand_dims(X[sample, :], axis=0))
            db = xp.scatter_add(db, rows, slope)
        whole = xp.concat(slopes) if slopes else xp.zeros_like(kept)
        return xp.stack(dX) if dX else xp.zeros_like(X), dW, db, whole


class HSoftmaxSearch(Operator):
    """The likeliest nodes and words of the tree for each sample, best first; -log of their probabilities."""

    inputs = [In("X", "(N, D), float"), In("W", "(rows of the tree, D)"), In("b", "(rows of the tree,)")]
    outputs = [Out("names", "(N, topN), string: names of nodes, numbers of words, empty where there are fewer",
                   differentiable=False),
               Out("scores", "(N, topN)", differentiable=False)]
    arguments = [
        Str("tree", "", "a serialized TreeProto"), Float("beam", 0.01, "branches less likely than e^-beam are cut"),
        Int("topN", 5, "how many"), Str("hierarchy", "", "of no effect"),
    ]
    host = True
    gradient = forbidden("it is a search")
    example = Example(
        {"X": [[1.0]], "W": [[1.0], [0.0]], "b": [0.0, 0.0]},
        {"names": [["0", "1"]], "scores": [[0.313262, 1.313262]]},
        {"tree": _TREE_OF_TWO, "beam": 5.0, "topN": 2})

    def shape(X: TensorType, *_: TensorType, topN: int, **arguments: Any) -> tuple[TensorType, TensorType]:
        found = X.with_dims(((X.dims or (None,))[0], topN))
        return found.with_dtype("string"), found

    def kernel(xp: Any, X: Any, W: Any, b: Any, *, tree: str, beam: float, topN: int) -> Any:
        import numpy as np

        from netgrad.proto import hsm_pb2

        require_rank("X", X, 2)
        require_shape("W", W, (W.shape[0], X.shape[1]), ", the columns of X")
        require_size("b", b, W.shape[0], ", the rows of W")
        root = hsm_pb2.TreeProto.FromString(_bytes(tree)).root_node
        names, scores = np.full((X.shape[0], topN), b"", dtype=object), np.zeros((X.shape[0], topN), X.dtype)
        for sample in range(X.shape[0]):
            best = sorted(_search(root, W @ X[sample] + b.reshape(-1), 0.0, beam))[:topN]
            for k, (score, name) in enumerate(best):
                names[sample, k], scores[sample, k] = name, score
        return names, scores


def _search(node: Any, rows: Any, above: float, beam: float) -> Iterator[tuple[float, bytes]]:
    """(-log probability, name) of all that can be reached from a node."""
    import numpy as np

    size = len(node.children) + len(node.word_ids)
    if node.offset + size > len(rows):
        raise ValueError(f"node {node.name!r} needs row {node.offset + size - 1} of W, which has {len(rows)}")
    scores = rows[node.offset:node.offset + size]
    highest = scores.max(initial=-np.inf)
    costs = np.log(np.exp(scores - highest).sum()) - (scores - highest)
    for k, cost in enumerate(costs.tolist()):
        if cost > beam:
            continue
        if k < len(node.children):
            yield above + cost, node.children[k].name.encode()
            yield from _search(node.children[k], rows, above + cost, beam)
        else:
            yield above + cost, str(node.word_ids[k - len(node.children)]).encode()


class _Count:
    """A node of a Huffman tree in the making; ordered by how often its words occur."""

    def __init__(self, count: int, word: int = -1, parts: tuple[_Count, ...] = ()) -> None:
        self.count, self.word, self.parts = count, word, parts

    def __lt__(self, other: _Count) -> bool:
        return self.count < other.count


class HuffmanTreeHierarchy(Operator):
    """A tree in which frequent labels have short paths. Huffman 1952."""

    inputs = [In("labels", "any shape, int64", differentiable=False)]
    outputs = [Out("tree", "(1,): a serialized TreeProto", differentiable=False)]
    arguments = [Int("num_classes", -1, "labels lie below this")]
    host = True
    shape = Fixed((TensorType("string", (1,)),))
    example = Example(
        {"labels": Tensor([0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5], "int64")},
        {"tree": [b"\n\x1e\n\x06\x10\x03\x10\x04\x18\x02"
                  b"\n\x12\n\x0c\n\x06\x10\x00\x10\x01\x18\t\x10\x02\x18\x07\x10\x05\x18\x05\x18\x00"]},
        {"num_classes": 6})

    def kernel(xp: Any, labels: Any, *, num_classes: int) -> Any:
        import numpy as np

        from netgrad.proto import hsm_pb2

        flat = labels.reshape(-1)
        if num_classes < 1 or (flat.size and (flat.min() < 0 or flat.max() >= num_classes)):
            raise ValueError(f"found labels from {flat.min(initial=0)} to {flat.max(initial=0)}, "
                             f"expected 0 to num_classes - 1, which is {num_classes - 1}")
        heap: list[_Count] = []
        for word, count in enumerate(np.bincount(flat, minlength=num_classes).tolist()):
            heapq.heappush(heap, _Count(count, word))
        while len(heap) > 1:
            first, second = heapq.heappop(heap), heapq.heappop(heap)
            heapq.heappush(heap, _Count(first.count + second.count, parts=(first, second)))
        tree = hsm_pb2.TreeProto()
        _write_node(heap[0], tree.root_node, 0)
        return np.array([tree.SerializeToString()], dtype=object)


def _write_node(node: _Count, message: Any, offset: int) -> int:
    """Fills ``message``; returns the first row of W that is free behind the node. Rows are numbered as Caffe2 does."""
    message.offset = offset
    if not node.parts:
        message.word_ids.append(node.word)
        return offset + 1
    offset += 2
    for place, part in enumerate(node.parts):
        if part.parts:
            offset = _write_node(part, message.children.add(), offset)
        else:
            message.word_ids.append(part.word)
            offset += place
    return offset
