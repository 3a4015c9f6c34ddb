"""The zoo's nets are Caffe2's, operator by operator; and they learn."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from caffe2.python import model_helper, optimizer, workspace
from caffe2.python.models import resnet, shufflenet

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("zoo", HERE / "zoo.py")
zoo = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(zoo)


@pytest.mark.parametrize("name", zoo.NETS)
def test_net_is_that_of_caffe2(name):
    assert zoo.build(name) == (HERE / "zoo_nets" / f"{name}.txt").read_text().splitlines()


def test_a_residual_net_learns():
    rng = np.random.default_rng(0)
    model = model_helper.ModelHelper("small", arg_scope={"order": "NCHW", "use_cudnn": False})
    scores = resnet.create_resnext(model, "data", 3, 4, 18, 2, 4, no_loss=True)
    _, loss = model.net.SoftmaxWithLoss([scores, "label"], ["softmax", "loss"])
    model.AddGradientOperators([loss])
    optimizer.build_sgd(model, base_learning_rate=0.02)
    workspace.ResetWorkspace()
    workspace.FeedBlob("data", rng.standard_normal((8, 3, 20, 20)).astype(np.float32))
    workspace.FeedBlob("label", (np.arange(8) % 4).astype(np.int32))
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    losses = []
    for _ in range(6):
        workspace.RunNet(model.net)
        losses.append(float(workspace.FetchBlob("loss")))
    print(losses)
    assert losses[-1] < 0.5 * losses[0]


def test_shufflenet_scores_images():
    model = model_helper.ModelHelper("shuffle", arg_scope={"order": "NCHW", "use_cudnn": False})
    scores = shufflenet.create_shufflenet(model, "data", 3, 5, is_test=True, no_loss=True)
    workspace.ResetWorkspace()
    workspace.FeedBlob("data", np.ones((1, 3, 224, 224), np.float32))
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    found = workspace.FetchBlob(scores)
    assert found.shape == (1, 5) and np.isfinite(found).all()


def test_unknown_depth_is_refused_with_those_there_are():
    model = model_helper.ModelHelper("deep", arg_scope={"order": "NCHW"})
    with pytest.raises(ValueError, match="of 19 layers; there are 18, 34, 50, 101, 152, 200"):
        resnet.create_resnext(model, "data", 3, 10, 19, 1, 64)
    assert not model.net.Proto().op


def test_facades_are_the_zoo():
    from netgrad.training.zoo import resnet as ours

    assert resnet.ResNetBuilder is ours.ResNetBuilder and resnet.RESNEXT_STRIDES == [1, 2, 2, 2]
    assert callable(resnet.brew.fc)
