"""Nets as graphs: what they show, how they are searched and rewired, and that they come back as they were."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[1] / "autodiff"))

from random_nets import Maker

import caffe2.python.nomnigraph as ng
from caffe2.python import core, workspace
from caffe2.python.nomnigraph_transformations import transpose_network
from netgrad.proto import caffe2_pb2
from netgrad.tools.nomnigraph.nodes import GraphError

pytestmark = pytest.mark.filterwarnings("ignore::netgrad.graph.schema.SchemaWarning")


def small():
    net = core.Net("small")
    net.FC(["X", "W", "b"], "Y", engine="E")
    net.Relu("Y", "Y")
    net.Softmax("Y", "Z")
    net.Proto().external_output.append("Z")
    return net


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_a_net_comes_back_as_it_was(r: random.Random):
    net = core.Net("n")
    net.Proto().op.extend(Maker(r, 14).case().ops)
    back = ng.NNModule(net).convertToCaffe2Proto(net.Proto())
    assert list(back.op) == list(net.Proto().op) and back.name == net.Name()
    assert list(ng.NNModule(back).convertToCaffe2Proto(back).external_input) == list(back.external_input)


def test_each_write_is_a_tensor_of_its_own():
    nn = ng.NNModule(small())
    assert [t.name for t in nn.tensors] == ["X", "W", "b", "Y", "Y", "Z"]
    fc, relu, softmax = nn.controlFlow
    assert relu.inputs[0] is not relu.outputs[0] and softmax.inputs == relu.outputs
    assert relu.inputs[0].consumers == [relu] and relu.inputs[0].producer is fc
    assert fc.getOperatorSuccessors() == [relu] and softmax.getOperatorPredecessors() == [relu]
    assert (fc.type, fc.inputs[0].type, fc.annotation.operator_def.engine) == ("Operator", "Tensor", "E")
    text = str(nn.dataFlow)
    assert text.startswith("digraph G") and text.count("shape=box") == 3 and text.count("->") == 8


def test_external_blobs_stay_even_when_unused():
    net = small().Proto()
    net.external_input.append("unused")
    net.external_output.append("nowhere")
    back = ng.NNModule(net).convertToCaffe2Proto(net)
    assert back == net


def test_a_pattern_takes_what_it_names_and_strict_nodes_nothing_more():
    net = core.Net("n")
    for k in range(3):
        net.FC([f"x{k}", "w", "b"], f"y{k}")
        net.Relu(f"y{k}", f"z{k}")
    net.Copy("y1", "c")
    pattern = ng.NNMatchGraph()
    fc, y, relu = (pattern.createNode(ng.Operator("FC")), pattern.createNode(ng.Data("any")),
                   pattern.createNode(ng.Operator("Relu")))
    pattern.createEdge(fc, y)
    pattern.createEdge(y, relu)
    assert [len(m) for m in ng.NNModule(net).match(pattern)] == [3, 3, 3]
    strict = ng.NNMatchGraph()
    fc, y, relu = (strict.createNode(ng.Operator("FC")), strict.createNode(ng.Data("any"), strict=True),
                   strict.createNode(ng.Operator("Relu")))
    strict.createEdge(fc, y)
    strict.createEdge(y, relu)
    matches = list(ng.NNModule(net).match(strict))
    assert len(matches) == 2 and str(matches[0]).count("->") == 2


def test_inputs_are_matched_in_order_and_shared_ones_once():
    net = core.Net("n")
    net.Relu("x", "a")
    net.Sigmoid("x", "b")
    net.Add(["a", "b"], "c")
    net.Add(["b", "a"], "d")
    net.Add(["a", "a"], "e")

    def count(*sources, same=False):
        pattern = ng.NNMatchGraph()
        add = pattern.createNode(ng.Operator("Add"))
        made = {}
        for type in sources:
            if type not in made or not same:
                made[type] = pattern.createNode(ng.Data("t"))
                pattern.createEdge(pattern.createNode(ng.Operator(type)), made[type])
            pattern.createEdge(made[type], add)
        return len(list(ng.NNModule(net).match(pattern)))

    assert count("Relu", "Sigmoid") == 1 and count("Sigmoid", "Relu") == 1
    assert count("Relu", "Relu", same=True) == 1 and count("Relu") == 3


def test_a_subgraph_becomes_one_operator():
    net = small()
    nn = ng.NNModule(net)
    pattern = ng.NNMatchGraph()
    relu, y, softmax = (pattern.createNode(ng.Operator("Relu")), pattern.createNode(ng.Data("y")),
                        pattern.createNode(ng.Operator("Softmax")))
    pattern.createEdge(relu, y)
    pattern.createEdge(y, softmax)
    (match,) = nn.match(pattern)
    first, last = nn.controlFlow[1], nn.controlFlow[2]
    fused = nn.createNode(core.CreateOperator("Fused", [], [], size=3))
    nn.replaceSubgraph(match, fused, first.inputs, last.outputs)
    back = nn.convertToCaffe2Proto(net)
    assert [(op.type, list(op.input), list(op.output)) for op in back.op] == [
        ("FC", ["X", "W", "b"], ["Y"]), ("Fused", ["Y"], ["Z"])]
    assert back.op[1].arg[0].i == 3 and list(back.external_output) == ["Z"]


def test_readers_of_a_name_run_before_it_is_written_anew():
    net = core.Net("n")
    net.Relu("x", "a")
    net.Copy("a", "b")
    net.Relu("b", "a")
    nn = ng.NNModule(net)
    late = nn.createNode(core.CreateOperator("Negative", [], []))
    nn.createEdge(nn.controlFlow[1].inputs[0], late)
    nn.createEdge(late, nn.createUniqueDataNode("n"))
    assert [op.type for op in nn.convertToCaffe2Proto().op] == ["Relu", "Copy", "Negative", "Relu"]
    nn.createEdge(nn.controlFlow[2].outputs[0], late)
    with pytest.raises(GraphError, match=r"older value is still needed.*'a'"):
        nn.convertToCaffe2Proto()


def test_errors_say_what_was_found():
    nn = ng.NNModule(small())
    fc = nn.controlFlow[0]
    for wrong, message in (
        (lambda: ng.NNModule(7), "not 7"),
        (lambda: nn.createNode("FC"), "not 'FC'"),
        (lambda: nn.createEdge(fc.inputs[0], fc.inputs[1]), "not from tensor 'X' to tensor 'W'"),
        (lambda: nn.createEdge(fc, nn.controlFlow[1].outputs[0]), "written by operator 'Relu' already"),
        (lambda: fc.inputs[0].producer, "no operator writes tensor 'X'"),
        (lambda: fc.getTensor(), "operator 'FC' is no tensor"),
        (lambda: nn.deleteEdge(fc, fc.inputs[0]), "there is no edge"),
        (lambda: ng.NNModule(small(), {"fake": caffe2_pb2.DeviceOption()}), "blob 'fake'"),
        (lambda: list(nn.match(ng.NNMatchGraph())), "ends in one node"),
    ):
        with pytest.raises(GraphError, match=message):
            wrong()


def test_convolutions_move_to_channels_last_and_compute_the_same():
    net = core.Net("n")
    net.Conv(["X", "w1", "b"], "a", kernel=3)
    net.Conv(["a", "w2", "b"], "c", kernel=3, order="NCHW")
    net.Conv(["X", "w1", "b"], "e", kernel=3)
    net.Relu("a", "r")
    rng = np.random.RandomState(0)
    feeds = {"X": rng.rand(2, 3, 8, 8), "w1": rng.rand(3, 3, 3, 3), "w2": rng.rand(3, 3, 3, 3), "b": rng.rand(3)}

    def run(proto):
        workspace.ResetWorkspace()
        for name, value in feeds.items():
            workspace.FeedBlob(name, value.astype(np.float32))
        workspace.RunNetOnce(proto)
        return [workspace.FetchBlob(name) for name in "acer"]

    nn = ng.NNModule(net)
    transpose_network(nn)
    changed = nn.convertToCaffe2Proto()
    assert sum(op.type == "NCHW2NHWC" for op in changed.op) == 3, "X, w1 and w2, once each"
    assert [len(op.arg) for op in changed.op if op.type == "Conv"] == [2, 2, 2]
    for before, after in zip(run(net.Proto()), run(changed)):
        np.testing.assert_allclose(before, after, rtol=1e-4)
