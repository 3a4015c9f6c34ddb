"""Trees of words for the hierarchical softmax (HSoftmax), and the path from the root to each word that it wants.

Morin and Bengio 2005, Hierarchical Probabilistic Neural Network Language Model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from netgrad.proto import hsm_pb2


def create_node_with_words(words: Iterable[int], name: str = "node") -> hsm_pb2.NodeProto:
    """An inner node above these words, given by their ids."""
    return hsm_pb2.NodeProto(name=name, word_ids=words)


def create_node_with_nodes(nodes: Iterable[hsm_pb2.NodeProto], name: str = "node") -> hsm_pb2.NodeProto:
    """An inner node above copies of these nodes."""
    return hsm_pb2.NodeProto(name=name, children=nodes)


def create_hierarchy(tree_proto: hsm_pb2.TreeProto) -> hsm_pb2.HierarchyProto:
    """The path of every word of a tree.

    Each inner node chooses among its children and its words, children first, by a softmax of its own. These lie one
    after another, nodes before what is below them, in one vector of ``size`` scores; ``offset`` of a node, which is
    set here, says where its scores begin. A step of a path is such a stretch and the choice taken in it.
    """
    hierarchy = hsm_pb2.HierarchyProto()
    _add_paths(hierarchy, tree_proto.root_node, ())
    return hierarchy


def _add_paths(hierarchy: hsm_pb2.HierarchyProto, node: hsm_pb2.NodeProto,
               above: Sequence[hsm_pb2.PathNodeProto]) -> None:
    choices = len(node.children) + len(node.word_ids)
    node.offset = hierarchy.size
    hierarchy.size += choices
    steps = [(*above, hsm_pb2.PathNodeProto(index=node.offset, length=choices, target=k)) for k in range(choices)]
    for child, path in zip(node.children, steps):
        _add_paths(hierarchy, child, path)
    for word, path in zip(node.word_ids, steps[len(node.children):]):
        hierarchy.paths.add(word_id=word, path_nodes=path)
