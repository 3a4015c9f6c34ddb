"""Where blobs live, and copies between devices."""

import pytest

from netgrad.graph.device import DeviceOption
from netgrad.graph.device_placement import (
    InferBlobDevices,
    InferOpBlobDevices,
    InferOpBlobDevicesAsDict,
    InjectCrossDeviceCopies,
    InjectDeviceCopiesAmongNets,
    copy_func_between_devices,
)
from netgrad.graph.net import Net
from netgrad.graph.operator import CreateOperator
from netgrad.graph.scope import DeviceScope, NameScope
from netgrad.proto import caffe2_pb2

CPU, GPU0, GPU1 = DeviceOption(0), DeviceOption(caffe2_pb2.CUDA, 0), DeviceOption(caffe2_pb2.CUDA, 1)


def shape(net):
    return [(op.type, *op.input, "->", *op.output) for op in net.Proto().op]


@pytest.mark.parametrize("type, inputs, outputs, on_cpu", [
    ("FC", "xwb", "y", ""), ("Concat", "ab", "yi", "i"), ("Split", "xs", "ab", "s"), ("Adam", "pmvgli", "pmv", "i"),
    ("CopyGPUToCPU", "x", "y", "y"), ("CopyCPUToGPU", "x", "y", "x"), ("LearningRate", "i", "l", "i"),
])
def test_blobs_live_on_the_operators_device_with_few_exceptions(type, inputs, outputs, on_cpu):
    op = caffe2_pb2.OperatorDef(type=type, input=inputs, output=outputs, device_option=GPU1)
    read, written = InferOpBlobDevicesAsDict(op)
    assert {blob for blob, device in {**read, **written}.items() if device != GPU1} == set(on_cpu)


def test_blobs_of_collectives_lie_on_their_gpus():
    op = CreateOperator("NCCLAllreduce", ["a", "b", "c"], ["a", "b", "c"], device_option=GPU1)
    assert [[d.device_id for d in devices] for devices in InferOpBlobDevices(op)] == [[0, 1, 2], [0, 1, 2]]


def test_devices_of_a_nets_blobs():
    net = Net("devices")
    net.Relu("x", "y")
    net.Relu("y", "z", device_option=GPU1)
    assert InferBlobDevices(net)["z"] == GPU1 and InferBlobDevices(net)["y"].device_type == 0


def test_a_blob_is_copied_once_to_each_device_that_needs_it():
    net = Net("uses")
    for k, device in enumerate([GPU1, CPU, GPU1, GPU0]):
        net.Relu("x", f"y{k}", device_option=device)
    with NameScope("must_not_matter"):
        new, places = InjectCrossDeviceCopies(net)
    assert shape(new) == [
        ("CopyCPUToGPU", "x", "->", "x_gpu_1"), ("Relu", "x_gpu_1", "->", "y0"), ("Relu", "x", "->", "y1"),
        ("Relu", "x_gpu_1", "->", "y2"), ("CopyCPUToGPU", "x", "->", "x_gpu_0"), ("Relu", "x_gpu_0", "->", "y3")]
    assert places["y2"] == GPU1 and len(net.Proto().op) == 4


def test_copies_made_in_one_net_serve_the_next():
    init, train = Net("init"), Net("train")
    w = init.ConstantFill([], "w", shape=[1])
    init.Relu(w, "r", device_option=GPU1)
    with DeviceScope(GPU1):
        train.Relu(w, "s")
        train.Relu("data", "t")
    (_, new), places = InjectDeviceCopiesAmongNets([init, train], {"data": GPU1})
    assert shape(new) == [("Relu", "w_gpu_1", "->", "s"), ("Relu", "data", "->", "t")]
    assert "w_gpu_1" in new.Proto().external_input and places["t"] == GPU1


def test_in_place_use_stays_in_place():
    net = Net("inplace")
    net.Relu("x", "x", device_option=GPU1)
    new, _ = InjectCrossDeviceCopies(net)
    assert shape(new)[1] == ("Relu", "x_gpu_1", "->", "x_gpu_1")


def test_one_name_on_two_devices_is_refused():
    net = Net("conflict")
    net.Relu("x", "y")
    net.Relu("z", "y", device_option=GPU1)
    with pytest.raises(RuntimeError, match=r"operator 1, Relu.*'y' on CUDA:1.*lives on CPU"):
        InjectCrossDeviceCopies(net)


def test_placeholders_need_no_declaration_and_change_no_input():
    net = Net("placeholder")
    net.Relu("x", "y", device_option=GPU0)
    net.extend_ops([caffe2_pb2.OperatorDef(type="Placeholder:Recv", output=["y"])])
    new, _ = InjectCrossDeviceCopies(net, placeHolderOps=["Placeholder:Recv"])
    assert shape(new)[-1] == ("Placeholder:Recv", "->", "y_cpu") and net.Proto().op[1].output[0] == "y"


def test_devices_between_which_nothing_copies():
    assert copy_func_between_devices(CPU, DeviceOption(0, 5)) is None
    assert copy_func_between_devices(GPU1, GPU1) is None
    with pytest.raises(ValueError, match="IDEEP:0"):
        copy_func_between_devices(GPU0, DeviceOption(caffe2_pb2.IDEEP))
