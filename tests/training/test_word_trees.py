"""Trees of words for the hierarchical softmax: paths that choose every word, in a vector of scores without gaps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from caffe2.python import hsm_util
from netgrad.proto import hsm_pb2

#: a node as (its children, how many words it has)
SHAPES = st.recursive(st.tuples(st.just([]), st.integers(0, 3)),
                      lambda nodes: st.tuples(st.lists(nodes, max_size=3), st.integers(0, 3)), max_leaves=8)


def tree_of(shape) -> hsm_pb2.TreeProto:
    words = iter(range(1000))

    def node(shape):
        children, count = shape
        made = hsm_util.create_node_with_nodes([node(child) for child in children], "inner")
        made.MergeFrom(hsm_util.create_node_with_words([next(words) for _ in range(count)], "inner"))
        return made

    return hsm_pb2.TreeProto(root_node=node(shape))


@given(SHAPES)
def test_following_a_path_leads_to_its_word(shape) -> None:
    tree = tree_of(shape)
    hierarchy = hsm_util.create_hierarchy(tree)
    for path in hierarchy.paths:
        at = tree.root_node
        for step in path.path_nodes:
            assert (step.index, step.length) == (at.offset, len(at.children) + len(at.word_ids))
            below = [*at.children, *at.word_ids]
            at = below[step.target]
        assert at == path.word_id


@given(SHAPES)
def test_the_stretches_of_all_nodes_fill_the_scores(shape) -> None:
    tree = tree_of(shape)
    hierarchy = hsm_util.create_hierarchy(tree)
    stretches, words, waiting = [], 0, [tree.root_node]
    while waiting:
        node = waiting.pop()
        stretches.append((node.offset, len(node.children) + len(node.word_ids)))
        words += len(node.word_ids)
        waiting.extend(node.children)
    end = 0
    for offset, length in sorted(stretches):
        assert offset == end
        end += length
    assert hierarchy.size == end
    assert len(hierarchy.paths) == words


def test_nodes_are_copied_under_their_parent() -> None:
    leaf = hsm_util.create_node_with_words([3, 5], "leaf")
    root = hsm_util.create_node_with_nodes([leaf, leaf])
    leaf.word_ids.append(7)
    assert [list(child.word_ids) for child in root.children] == [[3, 5], [3, 5]]
    assert root.name == "node"
