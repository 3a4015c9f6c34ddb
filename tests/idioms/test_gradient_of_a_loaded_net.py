"""A NetDef from a file, differentiated with respect to its input: saliency and adversarial examples."""

import numpy as np
import pytest
from saved_models import feed_images, load, save_classifier

from caffe2.python import core, workspace


@pytest.fixture
def net(tmp_path):
    save_classifier(tmp_path)
    workspace.RunNetOnce(load(tmp_path / "init_net.pb"))
    net = core.Net("attack")
    net.Proto().CopyFrom(load(tmp_path / "predict_net.pb"))
    net.Proto().name = "attack"
    return net


def loss_at(net, data):
    workspace.FeedBlob("data", data)
    workspace.RunNet(net)
    return float(workspace.FetchBlob("loss"))


def test_the_gradient_of_the_input_is_the_derivative_and_a_step_along_it_fools_the_net(net):
    data, _ = feed_images()
    xent = net.LabelCrossEntropy(["prob", "label"], "xent")
    loss = net.AveragedLoss(xent, "loss")
    gradients = net.AddGradientOperators([loss])
    assert str(gradients["data"]) == "data_grad"
    workspace.CreateNet(net)
    before = loss_at(net, data)
    gradient = workspace.FetchBlob(gradients["data"])
    assert gradient.shape == data.shape
    for index in [(0, 0, 2, 3), (3, 0, 7, 0), (5, 0, 4, 4)]:
        step = np.zeros_like(data)
        step[index] = 1e-2
        difference = (loss_at(net, data + step) - loss_at(net, data - step)) / 2e-2
        np.testing.assert_allclose(gradient[index], difference, rtol=5e-2, atol=1e-4)
    assert loss_at(net, data + 0.1 * np.sign(gradient)) > before * 1.1


def test_the_gradient_of_one_score(net):
    """A mask as given gradient chooses the class, without a loss."""
    data, _ = feed_images(2)
    gradients = net.AddGradientOperators({"prob": "mask"})
    workspace.FeedBlob("mask", np.eye(3, dtype=np.float32)[[1, 1]])
    workspace.RunNetOnce(net)
    saliency = workspace.FetchBlob(gradients["data"])
    step = 1e-2 * saliency / np.abs(saliency).max()
    before = workspace.FetchBlob("prob")[:, 1]
    workspace.FeedBlob("data", data + step)
    workspace.RunNetOnce(net)
    gained = workspace.FetchBlob("prob")[:, 1] - before
    np.testing.assert_allclose(gained, (saliency * step).sum((1, 2, 3)), rtol=5e-2)
