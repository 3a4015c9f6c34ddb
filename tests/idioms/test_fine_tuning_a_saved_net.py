"""A saved net appended to a model with AppendNet, given a new last layer, and trained on."""

import numpy as np
import pytest
from saved_models import feed_images, load, save_classifier

import netgrad
from caffe2.python import brew, core, model_helper, optimizer, workspace
from caffe2.python.modeling.parameter_info import ParameterTags


def build(folder, frozen):
    """The model: the saved net without its last two layers, then a new layer and a loss."""
    save_classifier(folder)
    predict = load(folder / "predict_net.pb")
    del predict.op[-2:]
    del predict.external_output[:]
    names = [name for name in predict.external_input if name not in ("data", "pred_w", "pred_b")]
    predict.external_input[:] = ["data", *names]

    model = model_helper.ModelHelper(name="fine_tuned")
    model.param_init_net.AppendNet(core.Net(load(folder / "init_net.pb")))
    model.net.AppendNet(core.Net(predict))
    if not frozen:
        for name in names:
            model.AddParameter(core.BlobReference(name, model.net),
                               ParameterTags.BIAS if name.endswith("_b") else ParameterTags.WEIGHT)
    features = model.StopGradient("fc1", "fc1_stop") if frozen else "fc1"
    scores = brew.fc(model, features, "new_scores", dim_in=10, dim_out=3)
    softmax, loss = model.net.SoftmaxWithLoss([scores, "label"], ["softmax", "loss"])
    brew.accuracy(model, [softmax, "label"], "accuracy")
    model.AddGradientOperators([loss])
    optimizer.build_sgd(model, base_learning_rate=0.02, policy="step", stepsize=50, gamma=0.9, momentum=0.9)
    return model, names


@pytest.mark.parametrize("frozen", [False, True])
def test_it_learns_and_only_what_it_should(tmp_path, frozen):
    netgrad.seed(0)
    model, saved = build(tmp_path, frozen)
    feed_images(12)
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    before = {name: workspace.FetchBlob(name) for name in saved}
    losses = []
    for _ in range(100):
        workspace.RunNet(model.net)
        losses.append(float(workspace.FetchBlob("loss")))
    assert losses[-1] < losses[0] * (0.8 if frozen else 0.5)
    for name in saved:
        assert np.array_equal(workspace.FetchBlob(name), before[name]) == frozen, name
    trained = {str(param) for param in model.GetParams()}
    assert trained == ({"new_scores_w", "new_scores_b"} if frozen else {"new_scores_w", "new_scores_b", *saved})


def test_both_nets_can_be_extracted_and_saved_again(tmp_path):
    model, _ = build(tmp_path, frozen=False)
    feed_images()
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    predictor, _ = model_helper.ExtractPredictorNet(model.net.Proto(), ["data"], ["new_scores"])
    (tmp_path / "tuned.pb").write_bytes(predictor.Proto().SerializeToString())
    again = load(tmp_path / "tuned.pb")
    assert [op.type for op in again.op] == ["Conv", "Relu", "MaxPool", "FC", "Relu", "FC"]
    scores = workspace.FetchBlob("new_scores")
    workspace.FeedBlob("new_scores", np.zeros(0, np.float32))
    workspace.RunNetOnce(again)
    assert workspace.FetchBlob("new_scores").shape == scores.shape
