"""Operators changed in the protobuf between calls, as a third of all scripts do."""

import numpy as np
import pytest
from saved_models import feed_images, load, save_classifier

from caffe2.proto import caffe2_pb2
from caffe2.python import core, utils, workspace


@pytest.fixture
def predict(tmp_path):
    save_classifier(tmp_path)
    workspace.RunNetOnce(load(tmp_path / "init_net.pb"))
    return load(tmp_path / "predict_net.pb")


def run(net, blob):
    workspace.RunNetOnce(net)
    return workspace.FetchBlob(blob)


def test_a_net_is_cut_at_a_layer_and_given_another_head(predict):
    """pop, extend, and the external outputs, on the message itself."""
    feed_images()
    while predict.op[-1].output[0] != "fc1" or predict.op[-1].type == "Relu":
        predict.op.pop()
    del predict.external_output[:]
    predict.external_output.append("feature")
    predict.op.extend([core.CreateOperator("Tanh", ["fc1"], ["feature"])])
    net = core.Net(predict)
    feature = run(net, "feature")
    np.testing.assert_allclose(feature, np.tanh(workspace.FetchBlob("fc1")), rtol=1e-5)
    assert list(net.AddGradientOperators(["feature"])) and "prob" not in workspace.Blobs()


def test_types_arguments_and_names_are_changed_in_place(predict):
    data, _ = feed_images()
    net = core.Net(predict)
    first = run(net, "prob")
    op = next(op for op in net.Proto().op if op.type == "MaxPool")
    op.type = "AveragePool"
    averaged = run(net, "prob")
    assert np.abs(first - averaged).max() > 1e-4
    kernel = next(arg for arg in op.arg if arg.name == "kernel")
    kernel.i = 1
    op.arg.extend([utils.MakeArgument("pads", [0, 0, 0, 0])])
    run(net, "prob")
    np.testing.assert_array_equal(workspace.FetchBlob("pool1"), workspace.FetchBlob("conv1")[:, :, ::2, ::2])
    for op in net.Proto().op:
        op.input[:] = ["image" if name == "data" else name for name in op.input]
    net.Proto().external_input[:] = ["image" if n == "data" else n for n in net.Proto().external_input]
    workspace.FeedBlob("image", 2 * data)
    changed = run(net, "prob")
    workspace.FeedBlob("image", data)
    assert np.abs(run(net, "prob") - changed).max() > 1e-4
    assert str(net.AddGradientOperators(["prob"])["image"]) == "image_grad"


def test_operators_are_inserted_before_and_after_differentiation(predict):
    feed_images()
    net = core.Net(predict)
    scale = caffe2_pb2.OperatorDef(type="Scale", input=["data"], output=["scaled"])
    scale.arg.extend([utils.MakeArgument("scale", 0.5)])
    net.Proto().op.insert(0, scale)
    net.Proto().op[1].input[0] = "scaled"
    loss = net.AveragedLoss(net.LabelCrossEntropy(["prob", "label"], "xent"), "loss")
    gradients = net.AddGradientOperators([loss])
    assert str(gradients["data"]) == "data_grad"
    net.Proto().op.extend([core.CreateOperator("Scale", ["conv1_w_grad"], ["conv1_w_grad"], scale=3.0)])
    clipped = net.Clip(gradients["conv1_b"], "clipped", min=-0.001, max=0.001)
    tripled = run(net, "conv1_w_grad")
    assert np.abs(workspace.FetchBlob(clipped)).max() <= 0.001
    net.Proto().op.pop()
    net.Proto().op.pop()
    np.testing.assert_allclose(run(net, "conv1_w_grad") * 3, tripled, rtol=1e-5)


def test_a_created_net_that_is_patched_runs_as_it_is_now(predict, caplog):
    feed_images()
    net = core.Net(predict)
    workspace.CreateNet(net)
    workspace.RunNet(net)
    before = workspace.FetchBlob("prob")
    net.Proto().op[-1].type = "Sigmoid"
    del net.Proto().op[-1].arg[:]
    workspace.RunNet(net)
    assert "changed after CreateNet" in caplog.text
    np.testing.assert_allclose(workspace.FetchBlob("prob"), 1 / (1 + np.exp(-workspace.FetchBlob("pred"))), rtol=1e-5)
    assert np.abs(workspace.FetchBlob("prob") - before).max() > 1e-3


def test_a_message_is_built_from_nothing():
    """Operators added field by field, device options copied, the net used by name."""
    proto = caffe2_pb2.NetDef(name="by_hand")
    op = proto.op.add()
    op.type, op.name = "Scale", "first"
    op.input.extend(["x"])
    op.output.extend(["y"])
    argument = op.arg.add()
    argument.name, argument.f = "scale", 2.0
    again = proto.op.add()
    again.CopyFrom(op)
    again.input[0], again.output[0] = "y", "z"
    again.device_option.CopyFrom(core.DeviceOption(caffe2_pb2.CPU))
    proto.external_input.append("x")
    workspace.FeedBlob("x", np.ones(2, np.float32))
    workspace.CreateNet(proto)
    workspace.RunNet(proto.name)
    assert workspace.FetchBlob("z").tolist() == [4, 4]
    proto.op[1].arg[0].f = 5.0
    workspace.CreateNet(proto, overwrite=True)
    workspace.RunNet("by_hand")
    assert workspace.FetchBlob("z").tolist() == [10, 10]
