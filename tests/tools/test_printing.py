"""Nets as text."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from netgrad.graph.net import Net
from netgrad.proto import caffe2_pb2
from netgrad.tools.printing import format_net, format_operator, short_float


def test_operator_is_one_line_with_outputs_inputs_arguments_and_place():
    op = caffe2_pb2.OperatorDef(type="Concat", input=["a", "b"], output=["c", "dims"], engine="CUDNN", name="join")
    op.arg.add(name="axis", i=1)
    op.arg.add(name="order", s=b"NHWC")
    op.device_option.device_type, op.device_option.device_id = 1, 3
    assert format_operator(op) == "c, dims = Concat(a, b, axis=1, order=\"NHWC\")  # CUDA:3, CUDNN, name 'join'"


def test_every_kind_of_argument_is_readable():
    op = caffe2_pb2.OperatorDef(type="X")
    op.arg.add(name="rate", f=0.1)
    op.arg.add(name="whole", f=2.0)
    op.arg.add(name="shape", ints=range(20))
    op.arg.add(name="text", s=b'say "hi"\n')
    op.arg.add(name="raw", s=b"\xff\x00")
    op.arg.add(name="words", strings=[b"a", b"b"])
    op.arg.add(name="nothing")
    assert format_operator(op) == (
        "X(rate=0.1, whole=2.0, shape=[0, 1, 2, 3, 4, 5, 6, 7, ... 12 more], text=\"say \\\"hi\\\"\\n\", "
        "raw=b'\\xff\\x00', words=[\"a\", \"b\"], nothing=())")


def test_floats_are_the_shortest_that_are_exact():
    for value in np.random.default_rng(0).standard_normal(300).astype(np.float32) ** 5:
        assert struct.pack("f", float(short_float(float(value)))) == struct.pack("f", value)
    assert short_float(float(np.float32(0.1))) == "0.1" and short_float(1e-6) == "1e-06"
    assert short_float(float("inf")) == "inf" and short_float(float("nan")) == "nan"


def test_versions_count_writes_and_lines_say_who_wrote_them():
    net = Net("versions")
    net.Relu(net.Relu("x", "y"), "y")
    text = format_net(net, versions=True)
    assert "0  y@1 = Relu(x@0)  # test_printing.py:" in text
    assert "1  y@2 = Relu(y@1)" in text
    assert "#" not in format_net(net, origins=False)


def test_head_counts_operators_and_names_what_comes_from_outside():
    net = Net("heads")
    net.AddGradientOperators([net.Relu("x", "y")])
    first, reads = format_net(net).splitlines()[:2]
    assert first == "net heads: 3 operators, 1 of gradients"
    assert reads.split() == ["reads", "x"]


def test_nets_among_the_arguments_are_printed_below_their_operator():
    inner = Net("inner")
    inner.Relu("x", "y")
    proto = caffe2_pb2.NetDef(name="outer")
    proto.op.add(type="If", input=["c"]).arg.add(name="then_net").n.CopyFrom(inner.Proto())
    lines = format_net(proto).splitlines()
    assert f"then_net=<net {inner.Name()}: 1 operators>" in lines[1]
    assert lines[2].strip() == "then_net:" and lines[-1].strip() == "0  y = Relu(x)"


@pytest.mark.parametrize("name", ["has blank", "a,b", "x=1", 'quote"'])
def test_odd_names_are_quoted(name):
    op = caffe2_pb2.OperatorDef(type="Relu", input=[name], output=["y"])
    assert format_operator(op).startswith('y = Relu("')
