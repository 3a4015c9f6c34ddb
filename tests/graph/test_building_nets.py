"""Nets: operators as methods, names, external inputs, and edits by hand at any time."""

import copy
import pickle
import subprocess
import sys
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from netgrad.graph.blob import BlobReference
from netgrad.graph.net import Net
from netgrad.graph.scope import NameScope
from netgrad.proto import caffe2_pb2


def test_operators_as_methods_of_nets_and_blobs():
    net = Net("methods")
    x = net.AddExternalInput("x")
    y = x.Relu([], "y")
    assert y.Net() is net and net.Sum([y, "z"]) == f"{net.Name()}/Sum"
    assert net.Split("x", ["a", "b"])[1] == "b" and net.Print(y, []) is None
    assert [op.type for op in net.Proto().op] == ["Relu", "Sum", "Split", "Print"]
    assert list(net.Proto().external_input) == ["x", "z"]


def test_a_blob_reference_is_its_name():
    blob = BlobReference(b"s/t/x")
    assert blob == "s/t/x" and blob == b"s/t/x" and blob != "x" and {blob: 1}["s/t/x"] == 1
    assert (blob.GetNameScope(), blob.GetUnscopedName()) == ("s/t/", "x")
    assert str("p_" + blob + "_s") == "p_s/t/x_s"
    with pytest.raises(RuntimeError):
        blob + blob
    with pytest.raises(AttributeError, match="belongs to no net"):
        blob.Relu([], "y")
    blob.meta["k"] = 1
    assert pickle.loads(pickle.dumps(blob)).meta == {"k": 1}


def test_names_of_nets_are_unique_and_counted_by_base_name():
    names = [Net("unique_test").Name() for _ in range(3)]
    assert names == ["unique_test", "unique_test_1", "unique_test_2"]
    assert Net("unique_test_1").Name() == "unique_test_1_1"


def test_a_thousand_nets_of_one_name_take_no_longer_at_the_end():
    def seconds():
        start = time.perf_counter()
        for _ in range(1000):
            Net("linear_test")
        return time.perf_counter() - start

    first = min(seconds(), seconds())
    for _ in range(5):
        seconds()
    assert min(seconds(), seconds()) < 5 * first


def test_automatic_names():
    net = Net("auto")
    assert [str(net.NextBlob("b")) for _ in range(3)] == ["b", "b_auto_0", "b_auto_1"]
    net.AddExternalInput("c", "c_auto_0")
    assert net.NextBlob("c") == "c_auto_1"
    with NameScope("s"):
        assert net.NextScopedBlob("b") == "s/b"
        assert net.Relu("x") == f"s/{net.Name()}/Relu" and net.Relu("x") == f"s/{net.Name()}/Relu_2"
    assert [str(b) for b in net.Split(["x"], 2)] == [f"{net.Name()}/Split:0", f"{net.Name()}/Split:1"]
    assert [str(b) for b in net.Split(["x"], 2)] == [f"{net.Name()}/Split_2:0", f"{net.Name()}/Split_2:1"]
    assert [net.NextName(), net.NextName()] == [f"{net.Name()}_blob_0", f"{net.Name()}_blob_1"]


def test_automatic_names_go_on_after_loading():
    definition = caffe2_pb2.NetDef(name="loaded_auto")
    for k in (2, 13, 1):
        definition.op.add(type="Relu", input=["x"], output=[f"loaded_auto_blob_{k}"])
    assert Net(definition).NextName() == "loaded_auto_blob_14"


def test_external_inputs():
    net = Net("external")
    x, y = net.AddExternalInput("x", "y")
    assert x.Net() is y.Net() is net and net.external_inputs == ["x", "y"]
    with pytest.raises(AssertionError, match="'x' already"):
        net.AddExternalInput("z", "x")
    with pytest.raises(AssertionError, match="'z' already"):
        net.AddExternalInput("z", "z")
    assert net.external_inputs == ["x", "y"]
    with NameScope("s"):
        assert net.AddScopedExternalInputs("x") == ["s/x"]
    with pytest.raises(AssertionError, match="does not define 'nowhere'"):
        net.AddExternalOutput(BlobReference("nowhere"))
    with pytest.raises(KeyError, match="nowhere"):
        net.GetBlobRef("nowhere")


def test_a_failing_argument_leaves_the_net_as_it_was():
    net = Net("failing")
    net.Relu("x", "y")
    with pytest.raises(ValueError):
        net.Relu("y", "z", wrong=object())
    assert len(net.Proto().op) == 1 and not net.BlobIsDefined("z")


def test_copies_and_pickles():
    net = Net("copied")
    net.Relu("x", "y")
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        other.Relu("y", "z")
        assert other.Proto().external_input == ["x"] and len(other.Proto().op) == 2
    assert len(net.Proto().op) == 1


def consistent(net):
    """What the net says of names against what its NetDef says."""
    written = {name for op in net._net.op for name in op.output}
    names = [f"b{k}" for k in range(8)]
    for name in names:
        assert net.BlobIsDefined(name) == (name in written or name in net._net.external_input), name
        assert net.is_external_input(name) == (name in net._net.external_input), name
    net._CheckLookupTables()


blob = st.sampled_from([f"b{k}" for k in range(8)])
kinds = ["call", "append", "input", "pop", "replace", "clear", "drop input", "read"]
edit = st.tuples(st.sampled_from(kinds), blob, blob)


@settings(max_examples=300, deadline=None)
@example([("call", "b0", "b0"), ("call", "b0", "b2"), ("replace", "b0", "b1"), ("append", "b1", "b0")])
@given(st.lists(edit, max_size=12))
def test_edits_by_hand_are_seen_at_the_next_call(edits):
    net = Net("edited")
    for what, one, other in edits:
        proto = net.Proto()
        if what == "call":
            known = net.BlobIsDefined(one)
            before = len(proto.external_input)
            net.Relu(BlobReference(one), BlobReference(other))
            assert len(proto.external_input) == before + (not known)
        elif what == "append":
            proto.op.add(type="Relu", input=[one], output=[other])
        elif what == "input" and one not in proto.external_input:
            proto.external_input.append(one)
        elif what == "pop" and proto.op:
            del proto.op[-1]
        elif what == "replace" and proto.op:
            del proto.op[-1]
            proto.op.add(type="Relu", input=[one], output=[other])
        elif what == "clear":
            proto.ClearField("op")
        elif what == "drop input" and proto.external_input:
            del proto.external_input[0]
        written = {name for op in proto.op for name in op.output} | set(proto.external_input)
        assert net.BlobIsDefined(one) == (one in written)
    net.refresh()
    consistent(net)


def test_the_net_def_can_be_replaced():
    net = Net("whole")
    net.Relu("x", "y")
    net._net = caffe2_pb2.NetDef(name="other", op=[caffe2_pb2.OperatorDef(type="Relu", input=["p"], output=["q"])])
    assert net.BlobIsDefined("q") and not net.BlobIsDefined("y")
    net.Relu("q", "r")
    assert len(net.Proto().op) == 2 and not net.Proto().external_input


def test_building_is_linear_whatever_is_read_in_between():
    def seconds(n):
        net = Net("linear")
        start = time.perf_counter()
        x = net.AddExternalInput("x")
        for _ in range(n):
            x = net.Relu(x)
            net.Proto()
            net.BlobIsDefined(x)
            net.NextBlob("p")
        return time.perf_counter() - start

    assert min(seconds(4000), seconds(4000)) < 10 * min(seconds(1000), seconds(1000))


def test_building_imports_no_array_library():
    program = ("import sys; from netgrad.graph.net import Net; n = Net('n'); n.FC(['x', 'w', 'b'], 'y'); "
               "n.Scale('y', scale=3); print({'torch', 'numpy'} & set(sys.modules))")
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip() == "set()"


def test_provenance_names_the_line_and_is_dropped_with_its_operator():
    net = Net("lines")
    net.Relu("x", "y"); line = sys._getframe().f_lineno  # noqa: E702
    x = net.GetBlobRef("y")
    x.Relu([], "z")
    function = "test_provenance_names_the_line_and_is_dropped_with_its_operator"
    assert net.line_of(0) == (__file__, line, function) and net.line_of(1) == (__file__, line + 2, function)
    net.PopulateProtoWithFileName()
    assert net.Proto().op[0].name == f"{__file__}:{line}:{function}"
    net.Proto().op[0].CopyFrom(caffe2_pb2.OperatorDef(type="Tanh", input=["x"], output=["y"]))
    assert net.line_of(0) is None and net.line_of(1) is not None


def test_operator_tracebacks_of_live_nets():
    from netgrad.graph.tracebacks import operator_tracebacks

    net = Net("traced")
    net.Relu("x", "y")
    assert operator_tracebacks[net.Name()][0][0] == net.line_of(0)
    name = net.Name()
    del net
    assert operator_tracebacks.get(name) is None
