"""Clones, partial clones, appended nets, inserted and rerouted operators, devices and seeds."""

import numpy as np
import pytest

from netgrad.graph.device import DeviceOption
from netgrad.graph.net import Net
from netgrad.graph.net_cloning import clone_and_bind_net
from netgrad.graph.operator import CreateOperator, GradientSlice
from netgrad.graph.records import Scalar, Struct
from netgrad.graph.remapping import recurrent_network_op_remap, remap_input
from netgrad.proto import caffe2_pb2


def chain():
    net = Net("chain")
    x = net.AddExternalInput("x")
    a = net.Relu(x, "a")
    b = net.Sum([a, "p"], "b")
    net.Tanh(b, "c")
    return net


def test_a_clone_is_renamed_throughout_and_independent():
    net = chain()
    net.add_attribute("k", 1)
    clone = net.Clone("clone", blob_remap={"x": "y", "c": "d"})
    assert [list(op.input) + list(op.output) for op in clone.Proto().op] == [["y", "a"], ["a", "p", "b"], ["b", "d"]]
    assert list(clone.Proto().external_input) == ["y", "p"] and clone.get_attributes("k") == [1]
    assert clone.line_of(0) == net.line_of(0) is not None
    clone.Relu("d", "e")
    assert len(net.Proto().op) == 3


def test_a_clone_of_some_operators_with_its_own_interface():
    clone = chain().Clone("some", op_id_mask=[1, 2], update_external_list=True)
    assert (list(clone.Proto().external_input), list(clone.Proto().external_output)) == (["a", "p"], ["c"])


def test_nets_inside_arguments_are_renamed():
    inner = Net("inner")
    inner.Relu("x", "y")
    net = Net("outer")
    net._CreateAndAddToSelf("If", "condition", "y", then_net=inner.Proto())
    then_net = net.Clone("renamed", blob_remap={"x": "z"}).Proto().op[0].arg[0].n
    assert list(then_net.op[0].input) == ["z"] and list(then_net.external_input) == ["z"]
    assert list(net.Proto().op[0].arg[0].n.op[0].input) == ["x"]


def test_names_in_arguments_of_recurrent_networks_are_renamed():
    step = caffe2_pb2.NetDef(op=[caffe2_pb2.OperatorDef(type="Relu", input=["x"], output=["y"])])
    op = CreateOperator("RecurrentNetwork", "x", ["y", "w"], link_internal=["x", "q"], timestep="x", step_net=step)
    recurrent_network_op_remap(op, "", {"x": "z"})
    arguments = {a.name: a for a in op.arg}
    assert list(arguments["link_internal"].strings) == [b"z", b"q"] and arguments["timestep"].s == b"z"
    assert list(arguments["step_net"].n.op[0].input) == ["z"]


def test_a_partial_clone_holds_what_the_outputs_need():
    net = chain()
    part, (c,) = net.ClonePartial("part", {"a": "given"}, ["c"])
    assert [op.type for op in part.Proto().op] == ["Sum", "Tanh"] and c == "part/c" and c.Net() is part
    assert list(part.Proto().external_input) == ["given", "p"] and list(part.Proto().external_output) == ["part/c"]
    with pytest.raises(AssertionError, match="operator 0, Relu"):
        net.ClonePartial("wrong", ["b"], ["a", "c"])
    with pytest.raises(AssertionError, match="'nowhere'"):
        net.ClonePartial("wrong", ["x"], ["nowhere"])


def test_a_net_behind_another():
    first, second = Net("first"), Net("second")
    first.Relu("x", "y")
    second.Sum(["y", "w"], "z")
    second.AddExternalOutput(second.GetBlobRef("z"))
    first.AppendNet(second, device_option=DeviceOption(caffe2_pb2.CUDA, 1))
    assert list(first.Proto().external_input) == ["x", "w"] and list(first.Proto().external_output) == ["z"]
    assert first.Proto().op[1].device_option.device_id == 1 and not second.Proto().op[0].HasField("device_option")
    assert first.BlobIsDefined("z") and first.line_of(1) is not None


def test_an_inserted_operator():
    net = chain()
    net.insert_op_at_idx(CreateOperator("Tanh", ["a"], ["a2"]), 1)
    assert [op.type for op in net.Proto().op] == ["Relu", "Tanh", "Sum", "Tanh"] and net.BlobIsDefined("a2")
    assert net.line_of(3) is not None and net.line_of(2)[1] + 1 == net.line_of(3)[1]


def test_rerouting_readers_of_a_blob():
    net = chain()
    net.AddExternalOutput(net.GetBlobRef("a"))
    new = CreateOperator("Tanh", ["a"], ["a_squashed"])
    assert net.reroute_tensor("a", new, [net.Proto().op[1]]) == 1
    assert net.Proto().op[1] == new and list(net.Proto().op[2].input) == ["a_squashed", "p"]
    assert list(net.Proto().external_output) == ["a_squashed"]


def test_seeds():
    net = chain()
    net.set_rand_seed(10)
    assert [op.device_option.random_seed for op in net.Proto().op] == [10, 11, 12]
    net.set_rand_seed(5, sequence_seed=False)
    assert {op.device_option.random_seed for op in net.Proto().op} == {5}
    with pytest.raises(AssertionError):
        net.set_rand_seed(5, seed_on_op_def=True)


def test_all_on_a_gpu():
    net = chain()
    net.RunAllOnGPU(gpu_id=3, use_cudnn=True)
    assert net.Proto().device_option == DeviceOption(caffe2_pb2.CUDA, 3)
    assert {op.engine for op in net.Proto().op} == {"CUDNN"}


@pytest.mark.parametrize("value, operator, field, expected", [
    (3, "GivenTensorInt64Fill", "ints", [3]), (np.int32(3), "GivenTensorIntFill", "ints", [3]),
    ([1.5, 2.0], "GivenTensorFill", "floats", [1.5, 2.0]), ("a", "GivenTensorStringFill", "strings", [b"a"]),
    (np.array([True]), "GivenTensorBoolFill", "ints", [1]),
])
def test_constants(value, operator, field, expected):
    net = Net("constants")
    assert net.Const(value) == f"{net.Name()}/{operator}:0"
    arguments = {a.name: a for a in net.Proto().op[0].arg}
    assert list(getattr(arguments["values"], field)) == expected
    assert list(arguments["shape"].ints) == list(np.shape(value))


def test_merged_gradient_slices():
    net = Net("slices")
    merged = net.DeduplicateGradientSlices(GradientSlice("i", "v"), aggregator="mean")
    assert [op.type for op in net.Proto().op] == ["Unique", "UnsortedSegmentMean"]
    assert merged.values == net.Proto().op[1].output[0]
    with pytest.raises(ValueError, match="'max'"):
        net.DeduplicateGradientSlices(GradientSlice("i", "v"), aggregator="max")


def test_records_of_nets_and_their_clones():
    net = Net("records")
    record = net.set_input_record(Struct(("a", np.float32), ("b:c", np.int64)))
    assert record.field_blobs() == [f"{net.Name()}/a", f"{net.Name()}/b:c"] == net.external_inputs
    with pytest.raises(AssertionError, match="has an input record already"):
        net.set_input_record(Struct(("z", Scalar(np.float32))))
    net.set_output_record(Struct(("y", Scalar(blob=net.Relu(record.a(), "y")))))
    net.AppendOutputRecordField("more", Struct(("t", Scalar(blob=net.Tanh("y", "t")))))
    assert net.output_record().field_names() == ["y", "more:t"] and net.external_outputs == ["y", "t"]
    clone, remap = clone_and_bind_net(net, "bound", "pre/")
    assert clone.input_record().field_blobs() == record.field_blobs() and clone.output_record().y() == "pre/y"
    assert remap["y"] == "pre/y" and remap[str(record.a())] == str(record.a())

    given = Net("provider")
    inputs = Struct(("a", Scalar(np.float32, given.NextBlob("mine"))),
                    ("b:c", Scalar(np.int64, given.NextBlob("other"))))
    bound, _ = clone_and_bind_net(net, "bound", "pre/", inputs=inputs)
    assert list(bound.Proto().op[0].input) == ["mine"]
    with pytest.raises(AssertionError, match="lack the fields"):
        clone_and_bind_net(net, "bound", "pre/", inputs=Struct(("a", Scalar(np.float32, given.NextBlob("m")))))


def test_records_are_recovered_from_prefixed_names():
    net = Net("recovered")
    net.AddExternalInput("in/a", "in/b:lengths", "in/b:values", "elsewhere")
    net.recover_input_record_by_prefix("in/")
    assert net.input_record().field_names() == ["a", "b:lengths", "b:values"]
    assert net.input_record().b.lengths() == "in/b:lengths"


def test_inputs_of_an_operator_are_renamed():
    op = CreateOperator("Sum", ["a", "b", "a"], "c")
    remap_input(op, {"a": "z"})
    assert list(op.input) == ["z", "b", "z"]


def test_the_last_writer_of_a_blob_is_known_through_edits_by_hand():
    net = Net("written")
    net.ConstantFill([], "a", shape=[1])
    net.Relu("a", "b")
    assert net.writer_of("b").type == "Relu"
    assert net.writer_of("x") is None
    net.AddExternalInput("x")
    assert net.writer_of("x") is None
    net.Proto().op.append(CreateOperator("Sigmoid", ["b"], ["b"]))
    assert net.writer_of("b").type == "Sigmoid"
    del net.Proto().op[1:]
    assert net.writer_of("b") is None
    net.Proto().op[0].output[0] = "c"
    assert net.writer_of("a") is None
