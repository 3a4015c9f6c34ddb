"""How little has to change for a digit to be misread: images are moved along the gradient of the loss by the image.

The attack is a net like any other: the classifier, its backward pass down to the image alone, and four operators more.
Source: Goodfellow, Shlens, Szegedy 2014, https://arxiv.org/abs/1412.6572 (the fast gradient sign method).
"""

import numpy as np

import netgrad
from caffe2.python import brew, model_helper, optimizer, workspace
from netgrad.demo.digits import load_digits
from running import Run, start

BATCH = 48
STRENGTH = 0.15  # of 1, the difference of black and white
SHOWN = 6


def add_layers(model, image):
    """A convolution and two fully connected layers; returns the scores, (N, 10)."""
    brew.conv(model, image, "conv", dim_in=1, dim_out=16, kernel=3, pad=1)
    brew.relu(model, "conv", "conv")
    brew.max_pool(model, "conv", "pool", kernel=2, stride=2)
    brew.relu(model, brew.fc(model, "pool", "hidden", 16 * 4 * 4, 64), "hidden")
    return brew.fc(model, "hidden", "scores", 64, 10)


def add_loss(model, image):
    return model.net.SoftmaxWithLoss([add_layers(model, image), "label"], ["softmax", "loss"])[1]


def training_model():
    model = model_helper.ModelHelper(name="classifier")
    model.AddGradientOperators([add_loss(model, "image")])
    optimizer.build_adam(model, base_learning_rate=0.003)
    return model


def attacking_net():
    """From ``image`` and ``label`` to ``attacked``: each pixel moved by STRENGTH to where the loss rises."""
    model = model_helper.ModelHelper(name="attack", init_params=False)
    loss = add_loss(model, "image")
    gradient = netgrad.backward(model.net, loss, wrt="image")["image"]
    step = model.net.Scale(model.net.Sign(gradient, "direction"), "step", scale=STRENGTH)
    moved = model.net.Add(["image", step], "moved")
    model.net.Clip(moved, "attacked", min=0.0, max=1.0)
    return model.net


def reading_net():
    model = model_helper.ModelHelper(name="read", init_params=False)
    add_layers(model, "image")
    return model.net


def main(run: Run) -> None:
    digits, held_out = load_digits()
    model, attack, read = training_model(), attacking_net(), reading_net()
    run.say(f"the attack: {len(attack.Proto().op)} operators, of which "
            f"{sum(op.is_gradient_op for op in attack.Proto().op)} are its backward pass")

    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net, input_blobs=["image", "label"])
    for _ in run.steps():
        batch = run.rng.choice(len(digits), BATCH, replace=False)
        workspace.FeedBlob("image", digits.images[batch])
        workspace.FeedBlob("label", digits.labels[batch])
        workspace.RunNet(model.net)
        run.record(loss=workspace.FetchBlob("loss"))

    def guesses(images):
        workspace.FeedBlob("image", images)
        workspace.RunNet(read)
        return workspace.FetchBlob("scores").argmax(axis=1)

    workspace.CreateNet(read)
    workspace.FeedBlob("image", held_out.images)
    workspace.FeedBlob("label", held_out.labels)
    workspace.RunNetOnce(attack)
    attacked = workspace.FetchBlob("attacked")
    noise = STRENGTH * run.rng.choice([-1, 1], held_out.images.shape).astype(np.float32)
    noisy = np.clip(held_out.images + noise, 0, 1)
    clean, fooled = guesses(held_out.images), guesses(attacked)

    def draw(figure):
        chosen = np.flatnonzero((clean == held_out.labels) & (fooled != held_out.labels))[:SHOWN]
        for k, column in zip(chosen, figure.subplots(2, SHOWN).T):
            for axes, images, said in zip(column, (held_out.images, attacked), (clean, fooled)):
                axes.imshow(images[k, 0], cmap="gray_r", vmin=0, vmax=1)
                axes.set_title(str(said[k]))
                axes.axis("off")

    run.picture("attacked.png", draw, size=(6, 2.4))
    run.figures(accuracy=(clean == held_out.labels).mean(),
                accuracy_with_noise=(guesses(noisy) == held_out.labels).mean(),
                accuracy_under_attack=(fooled == held_out.labels).mean())


if __name__ == "__main__":
    start(main, steps=240)
