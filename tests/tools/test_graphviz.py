"""Nets and plans as Graphviz graphs."""

import json
import sys
from collections import Counter

import pytest

from netgrad.graph.net import Net
from netgrad.graph.plan import Plan, execution_step
from netgrad.tools import graphviz


@pytest.fixture
def net():
    net = Net("pictured")
    net.FC(["x", "w", "b"], "y")
    net.Relu("y", "y")
    net.Add(["y", "x"], "z", name="plus")
    net.Copy("z", "x")
    return net


def edges(graph):
    """The labels at both ends of all edges."""
    def label(name):
        return (graph.get_node(name)[0].get_label() or name).strip('"')

    return Counter((label(edge.get_source()), label(edge.get_destination())) for edge in graph.get_edges())


def test_blobs_stand_between_operators_once_for_each_write(net):
    graph = graphviz.GetPydotGraph(net)
    assert edges(graph) == Counter([
        ("x", "FC (op#0)"), ("w", "FC (op#0)"), ("b", "FC (op#0)"), ("FC (op#0)", "y"), ("y", "Relu (op#1)"),
        ("Relu (op#1)", "y"), ("y", "plus/Add (op#2)"), ("x", "plus/Add (op#2)"), ("plus/Add (op#2)", "z"),
        ("z", "Copy (op#3)"), ("Copy (op#3)", "x")])
    assert Counter(node.get_label() for node in graph.get_node_list() if node.get_label()) == {
        '"x"': 2, '"w"': 1, '"b"': 1, '"y"': 2, '"z"': 1}


def test_blobs_whose_names_and_numbers_run_together_are_different_nodes():
    net = Net("digits")
    for _ in range(11):
        net.Relu("x", "x")
    net.Copy("x1", "y")
    graph = graphviz.GetPydotGraph(net)
    assert len(graph.get_node_list()) == 12 + 12 + 2  # operators, versions of x, x1 and y


def test_minimal_graphs_leave_out_what_follows(net):
    net.Mul(["z", "y"], "end")
    full, minimal = (graphviz.GetPydotGraphMinimal(net.Proto(), minimal_dependency=m) for m in (False, True))
    assert edges(full) - edges(minimal) == Counter({("Relu (op#1)", "Mul (op#4)"): 1})
    assert ("plus/Add (op#2)", "Mul (op#4)") in edges(minimal) and not edges(minimal) - edges(full)


def test_nodes_are_drawn_as_asked(net):
    graph = graphviz.GetPydotGraph(
        net.Proto().op, name="mine", rankdir="TB", op_node_producer=graphviz.GetOpNodeProducer(True, shape="circle"),
        blob_node_producer=graphviz.GetBlobNodeProducer(color="red"))
    assert graph.get_name() == "mine" and graph.get_rankdir() == "TB"
    first, blob = graph.get_node_list()[:2]
    assert first.get_name() == r'"FC (op#0)\ny"' and first.get_shape() == "circle" and blob.get_color() == "red"


def test_a_plan_is_drawn_by_steps(net):
    again = Net("again")
    again.Relu("x", "x")
    workers = execution_step("workers", [execution_step(f"worker {k}", again) for k in range(5)],
                             concurrent_substeps=True)
    plan = Plan("plan")
    plan.AddStep(execution_step("all", [
        execution_step("first", [net, again], only_once=True), workers, execution_step("first", again)]))
    name = net.Name()
    assert edges(graphviz.GetPlanGraph(plan)) == Counter({
        ("all", r"first\nOnce"): 1, (r"first\nOnce", name): 1, (name, "again"): 1,
        (r"first\nOnce", r"workers\nConcurrent"): 1, (r"workers\nConcurrent", "2 more steps"): 1,
        **{(r"workers\nConcurrent", f"worker {k}"): 1 for k in range(3)},
        **{(f"worker {k}", "again"): 1 for k in range(3)},
        (r"workers\nConcurrent", "first"): 1, ("first", "again"): 1})
    assert list(graphviz.GetOperatorMapForPlan(plan.Proto())) == [f"plan_{name}", "plan_again"]
    with pytest.raises(TypeError, match="GetPlanGraph draws plans"):
        graphviz.GetPydotGraph(plan)


def test_a_graph_in_json_numbers_operators_and_blobs(net, tmp_path):
    graphviz.GetGraphInJson(net, tmp_path / "net.json")
    graph = json.loads((tmp_path / "net.json").read_text())
    labels = [node["label"] for node in graph["nodes"]]
    assert [node["id"] for node in graph["nodes"]] == list(range(len(labels)))
    assert labels == ["FC", "x", "w", "b", "y", "Relu", "y", "plus/Add", "z", "Copy", "x"]
    assert [node["op_id"] for node in graph["nodes"] if node["type"] == "op"] == [0, 1, 2, 3]
    assert {"source": 1, "target": 7} in graph["edges"] and {"source": 9, "target": 10} in graph["edges"]


def test_a_failed_picture_is_a_picture(net, caplog):
    png = graphviz.GetGraphPngSafe(lambda: {}["graph"])
    assert png.startswith(b"\x89PNG") and "no picture of the graph: 'graph'" in caplog.text
    assert graphviz.GetGraphPngSafe(str, net) == png and "expected a pydot.Dot" in caplog.text


def test_a_picture_comes_from_pydot(net, monkeypatch):
    graph = graphviz.GetPydotGraph(net)
    monkeypatch.setattr(graph, "create_png", lambda: b"picture")
    assert graphviz.GetGraphPngSafe(lambda: graph) == b"picture"


def test_without_pydot_it_says_what_to_install(net, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydot", None)
    with pytest.raises(ImportError, match=r"pip install 'netgrad\[draw\]'"):
        graphviz.GetPydotGraph(net)
