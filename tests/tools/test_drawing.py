"""Pictures of nets: they are well-formed, complete, laid out without overlaps, and quick."""

from __future__ import annotations

import random
import re
import time
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from caffe2.python import brew, model_helper, optimizer
from netgrad.graph.net import Net
from netgrad.proto import caffe2_pb2
from netgrad.tools.diagram import BACKWARD, FORWARD, UPDATE, diagram
from netgrad.tools.drawing import draw
from netgrad.tools.layers import Node, arrange

SVG = "{http://www.w3.org/2000/svg}"


def classifier():
    model = model_helper.ModelHelper("classifier", arg_scope={"use_cudnn": False})
    brew.conv(model, "image", "conv", 1, 4, kernel=3)
    brew.relu(model, "conv", "conv")
    brew.fc(model, "conv", "scores", 144, 3)
    _, loss = model.net.SoftmaxWithLoss(["scores", "label"], ["softmax", "loss"])
    model.AddGradientOperators([loss])
    optimizer.build_sgd(model, 0.1)
    return model


def shapes(svg, group, kind):
    """(title, x, y, width, height) of the boxes or pills of a picture."""
    found = []
    for g in ET.fromstring(svg).iter(f"{SVG}g"):
        if group in g.get("class", "").split() and g.find(f"{SVG}title") is not None:
            rect = g.find(f"{SVG}rect")
            assert rect.get("class") == kind
            found.append((g.find(f"{SVG}title").text, *(float(rect.get(key)) for key in ("x", "y", "width", "height"))))
    return found


def test_picture_shows_every_operator_with_its_line_and_every_blob():
    model = classifier()
    svg = draw(model)
    boxes = shapes(svg, "op", "box")
    proto = model.net.Proto()
    assert len(boxes) == len(proto.op)
    for position, op in enumerate(proto.op):
        title = next(title for title, *_ in boxes if title.startswith(f"#{position} "))
        assert f" {op.type}(" in title
    assert "test_drawing.py:" in boxes[0][0] and "belongs to #0 Conv" in svg
    shown = {title.split(",")[0] for title, *_ in shapes(svg, "bl", "pill")}
    assert shown == {name for op in proto.op for name in (*op.input, *op.output)}


@pytest.mark.parametrize("make", ["classifier", "random"])
def test_nothing_overlaps_and_all_is_inside(make):
    if make == "classifier":
        net = classifier()
    else:
        choose, net, blobs = random.Random(3), Net("random"), ["x", "y"]
        for k in range(60):
            blobs.append(str(net.Add([choose.choice(blobs[-6:]), choose.choice(blobs[-20:])], f"b{k}")))
        net.AddGradientOperators([blobs[-1]])
    svg = draw(net)
    root = ET.fromstring(svg)
    width, height = float(root.get("width")), float(root.get("height"))
    lines = {}
    for _, x, y, w, h in [*shapes(svg, "op", "box"), *shapes(svg, "bl", "pill")]:
        assert 0 <= x and x + w <= width and 0 <= y and y + h <= height
        lines.setdefault(y, []).append((x, x + w))
    for line in lines.values():
        line.sort()
        assert all(left[1] < right[0] for left, right in pairwise(line))


def test_gradient_operators_stand_beside_their_operators_and_flow_up():
    shown = diagram(classifier().net.Proto())
    lanes = {lane: [box for box in shown.operators if box.lane == lane] for lane in (FORWARD, BACKWARD, UPDATE)}
    assert [len(lanes[lane]) for lane in lanes] == [4, 5, 6]
    partners = [box for box in lanes[BACKWARD] if box.partner is not None]
    types = [box.op.type for box in partners]
    assert types == ["SoftmaxWithLossGradient", "FCGradient", "ReluGradient", "ConvGradient"]
    assert all(box.row == shown.operators[box.partner].row for box in partners)
    assert [box.row for box in lanes[FORWARD]] == [0, 1, 2, 3]


def test_parameters_are_marked_also_without_a_model():
    model = classifier()
    kinds = {blob.label: blob.kind for blob in diagram(model.net.Proto()).blobs}
    assert kinds["conv_w"] == kinds["scores_b"] == "parameter"
    assert kinds["image"] == kinds["label"] == "input"
    assert kinds["loss"] == "blob"


def test_names_and_arguments_are_escaped():
    proto = caffe2_pb2.NetDef(name="<&>")
    op = proto.op.add(type="Relu", input=["a<b"], output=['"&'])
    op.arg.add(name="text", s=b"</svg>")
    root = ET.fromstring(draw(proto))
    assert root.find(f"{SVG}title").text == "<&>"


def test_styles_do_not_leak_into_the_page_of_a_notebook():
    style = re.search(r"<style>(.*?)</style>", classifier().net._repr_html_(), re.S)[1]
    assert all(rule.startswith(".netgrad ") for rule in style.strip().splitlines())


def test_empty_net_is_drawn():
    assert ET.fromstring(draw(caffe2_pb2.NetDef(name="empty"))).get("class") == "netgrad"


def test_a_thousand_operators_take_seconds_at_most_and_the_same_bytes_each_time():
    net, blob = Net("long"), "x"
    for k in range(250):
        blob = net.Add([net.Relu(blob, f"a{k}"), blob], f"b{k}")
    net.AddGradientOperators([blob])
    assert len(net.Proto().op) >= 1000
    start = time.process_time()
    first = draw(net)
    assert time.process_time() - start < 10
    assert draw(net) == first


def test_order_removes_crossings_that_can_be_removed():
    nodes = [Node(10, 0) for _ in range(6)] + [Node(10, 1) for _ in range(6)]
    arrange(nodes, [(k, 11 - k) for k in range(6)], gap=4)
    assert [nodes[k].x for k in range(6)] == pytest.approx([nodes[11 - k].x for k in range(6)])


def test_places_keep_their_distance_and_stay_near_what_they_are_joined_to():
    nodes = [Node(10, 0), Node(40, 1), Node(20, 1), Node(30, 1)]
    arrange(nodes, [(0, 1), (0, 2), (0, 3)], gap=5)
    row = sorted(nodes[1:], key=lambda node: node.x)
    for left, right in pairwise(row):
        assert right.x - left.x >= (left.width + right.width) / 2 + 5 - 1e-9
    assert row[0].x < nodes[0].x < row[-1].x
