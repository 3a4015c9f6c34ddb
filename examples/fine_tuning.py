"""A net that knows the digits 0 to 4 is loaded from disk, its layers are frozen, and a new head learns 5 to 9.

What is loaded are two NetDefs, one that fills the parameters and one that predicts, as Caffe2's model zoo had them. The
new digits are learned from a handful of images of each.
"""

import numpy as np

import netgrad
from caffe2.python import brew, model_helper, optimizer, workspace
from caffe2.python.predictor import mobile_exporter
from netgrad.demo.digits import load_digits
from running import Run, start

PRETRAINING = 300  # steps
BATCH = 48
FEATURES = 128
EXAMPLES = 40  # of each new digit


def pretrain(run, digits):
    """Trains a net on some digits and leaves ``init_net.pb`` and ``predict_net.pb``."""
    def add_layers(model):
        brew.conv(model, "image", "conv", dim_in=1, dim_out=16, kernel=3, pad=1)
        brew.relu(model, "conv", "conv")
        brew.max_pool(model, "conv", "pool", kernel=2, stride=2)
        brew.relu(model, brew.fc(model, "pool", "features", 16 * 4 * 4, FEATURES), "features")
        return brew.softmax(model, brew.fc(model, "features", "scores", FEATURES, 5), "probability")

    model = model_helper.ModelHelper(name="pretrain")
    loss = model.net.AveragedLoss(model.net.LabelCrossEntropy([add_layers(model), "label"], "losses"), "loss")
    model.AddGradientOperators([loss])
    optimizer.build_adam(model, base_learning_rate=0.003)
    predict = model_helper.ModelHelper(name="five_digits", init_params=False)
    add_layers(predict)

    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net, input_blobs=["image", "label"])
    for _ in run.steps("before", PRETRAINING):
        train_on(model, digits, run.rng.integers(len(digits[1]), size=BATCH))
    init_net, predict_net = mobile_exporter.Export(workspace, predict.net, predict.GetAllParams())
    netgrad.save(init_net, run.out / "init_net.pb")
    netgrad.save(predict_net, run.out / "predict_net.pb")


def train_on(model, digits, chosen):
    images, labels = digits
    workspace.FeedBlob("image", images[chosen])
    workspace.FeedBlob("label", labels[chosen])
    workspace.RunNet(model.net)


def add_new_head(model, predict_net):
    """The loaded net up to its features, which no gradient passes, and a new head; returns its scores, (N, 5)."""
    old_head = {"scores", "probability"}
    model.net.Proto().op.extend(op for op in predict_net.Proto().op if not old_head & set(op.output))
    frozen = model.net.StopGradient("features", "features_frozen")
    return brew.fc(model, frozen, "new_scores", FEATURES, 5)


def fine_tuned_model(init_net, predict_net):
    model = model_helper.ModelHelper(name="fine_tune")
    model.param_init_net.AppendNet(init_net)
    _, loss = model.net.SoftmaxWithLoss([add_new_head(model, predict_net), "label"], ["softmax", "loss"])
    model.AddGradientOperators([loss])
    optimizer.build_adam(model, base_learning_rate=0.03)
    return model


def main(run: Run) -> None:
    learn, held_out = load_digits()
    known = learn.labels < 5
    pretrain(run, (learn.images[known], learn.labels[known]))

    workspace.ResetWorkspace()
    init_net, predict_net = (netgrad.load(run.out / f"{name}.pb") for name in ("init_net", "predict_net"))
    model = fine_tuned_model(init_net, predict_net)
    test = model_helper.ModelHelper(name="fine_tune_test", init_params=False)
    add_new_head(test, predict_net)
    run.say("gradients of:", ", ".join(map(str, model.param_to_grad)))
    few = np.concatenate([np.flatnonzero(learn.labels == digit)[:EXAMPLES] for digit in range(5, 10)])
    images, labels = learn.images[few], learn.labels[few] - 5

    workspace.RunNetOnce(model.param_init_net)
    before = {name: workspace.FetchBlob(name) for name in ("conv_w", "conv_b", "features_w", "features_b")}
    workspace.CreateNet(model.net, input_blobs=["image", "label"])
    for _ in run.steps():
        train_on(model, (images, labels), run.rng.permutation(len(labels))[:BATCH])
        run.record(loss=workspace.FetchBlob("loss"))

    unseen = held_out.labels >= 5
    workspace.FeedBlob("image", held_out.images[unseen])
    workspace.RunNetOnce(test.net)
    guesses = workspace.FetchBlob("new_scores").argmax(axis=1) + 5
    moved = max(abs(workspace.FetchBlob(name) - value).max() for name, value in before.items())
    run.figures(accuracy=(guesses == held_out.labels[unseen]).mean(), frozen_parameters_moved_by=moved)


if __name__ == "__main__":
    start(main, steps=250)
