"""Handwritten digits: a small convolutional net learns them, is tested, saved as a predictor and loaded again.

The net for training and the one for testing are built by one function and share their parameters.
"""

from caffe2.python import brew, model_helper, optimizer, workspace
from caffe2.python.predictor import predictor_exporter
from netgrad.demo.digits import load_digits
from running import Run, start

BATCH = 48


def add_layers(model, image):
    """Two convolutions and two fully connected layers; returns the scores, (N, 10)."""
    brew.conv(model, image, "conv1", dim_in=1, dim_out=16, kernel=3, pad=1)
    brew.relu(model, "conv1", "conv1")
    brew.max_pool(model, "conv1", "pool1", kernel=2, stride=2)
    brew.conv(model, "pool1", "conv2", dim_in=16, dim_out=32, kernel=3, pad=1)
    brew.relu(model, "conv2", "conv2")
    brew.max_pool(model, "conv2", "pool2", kernel=2, stride=2)
    brew.fc(model, "pool2", "hidden", dim_in=32 * 2 * 2, dim_out=64)
    brew.relu(model, "hidden", "hidden")
    return brew.fc(model, "hidden", "scores", dim_in=64, dim_out=10)


def training_model(steps):
    model = model_helper.ModelHelper(name="digits_train")
    softmax, loss = model.net.SoftmaxWithLoss([add_layers(model, "image"), "label"], ["softmax", "loss"])
    brew.accuracy(model, [softmax, "label"], "accuracy")
    model.AddGradientOperators([loss])
    optimizer.build_sgd(model, base_learning_rate=0.05, policy="step", stepsize=max(1, steps // 3), gamma=0.3,
                        momentum=0.9)
    return model


def test_model():
    model = model_helper.ModelHelper(name="digits_test", init_params=False)
    brew.softmax(model, add_layers(model, "image"), "softmax")
    brew.accuracy(model, ["softmax", "label"], "accuracy")
    return model


def predictor():
    model = model_helper.ModelHelper(name="digits_predict", init_params=False)
    brew.softmax(model, add_layers(model, "image"), "softmax")
    return model


def main(run: Run) -> None:
    digits, held_out = load_digits()
    train, test, predict = training_model(run.total), test_model(), predictor()

    workspace.RunNetOnce(train.param_init_net)
    workspace.CreateNet(train.net, input_blobs=["image", "label"])
    workspace.CreateNet(test.net)
    for _ in run.steps():
        batch = run.rng.choice(len(digits), BATCH, replace=False)
        workspace.FeedBlob("image", digits.images[batch])
        workspace.FeedBlob("label", digits.labels[batch])
        workspace.RunNet(train.net)
        run.record(loss=workspace.FetchBlob("loss"), accuracy=workspace.FetchBlob("accuracy"))

    workspace.FeedBlob("image", held_out.images)
    workspace.FeedBlob("label", held_out.labels)
    workspace.RunNet(test.net)
    accuracy = workspace.FetchBlob("accuracy")

    file = str(run.out / "digits.minidb")
    predictor_exporter.save_to_db("minidb", file, predictor_exporter.PredictorExportMeta(
        predict_net=predict.net, parameters=predict.GetAllParams(), inputs=["image"], outputs=["softmax"]))

    workspace.ResetWorkspace()
    loaded = predictor_exporter.prepare_prediction_net(file, "minidb")
    workspace.FeedBlob("image", held_out.images)
    workspace.RunNet(loaded)
    guesses = workspace.FetchBlob("softmax").argmax(axis=1)

    run.say(f"saved {file} and loaded it again")
    run.figures(accuracy=accuracy, accuracy_of_the_loaded_predictor=(guesses == held_out.labels).mean())


if __name__ == "__main__":
    start(main, steps=240)
