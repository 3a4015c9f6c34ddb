"""Two losses on one trunk: a code of sixteen numbers has to tell which digit it is, and what it looked like.

Both losses send gradients into the trunk, where the backward pass adds them up.
"""

import numpy as np

from caffe2.python import brew, model_helper, optimizer, workspace
from netgrad.demo.digits import load_digits
from running import Run, start

BATCH = 48
PIXELS = 64
CODE = 16
SHOWN = 8


def add_trunk(model):
    """From images to the code, (N, CODE)."""
    brew.relu(model, brew.fc(model, "image", "trunk", PIXELS, 64), "trunk")
    return brew.fc(model, "trunk", "code", 64, CODE)


def add_heads(model, code):
    """From the code to the scores of the digits, and to an image."""
    scores = brew.fc(model, brew.relu(model, code, "code_kept"), "scores", CODE, 10)
    drawn = brew.relu(model, brew.fc(model, code, "drawing", CODE, 64), "drawing")
    return scores, brew.fc(model, drawn, "drawn", 64, PIXELS)


def training_model():
    model = model_helper.ModelHelper(name="two_losses")
    scores, drawn = add_heads(model, add_trunk(model))
    _, digit_loss = model.net.SoftmaxWithLoss([scores, "label"], ["softmax", "digit_loss"])
    pixels = model.net.Flatten("image", "pixels")
    image_loss = model.net.AveragedLoss(model.net.SquaredL2Distance([drawn, pixels], "distances"), "image_loss")
    weighted = model.net.Scale(image_loss, "image_loss_weighted", scale=0.3)
    model.AddGradientOperators([digit_loss, weighted])
    optimizer.build_adam(model, base_learning_rate=0.003)
    return model


def main(run: Run) -> None:
    digits, held_out = load_digits()
    model = training_model()
    test = model_helper.ModelHelper(name="two_losses_test", init_params=False)
    add_heads(test, add_trunk(test))
    added_up = next(op for op in model.net.Proto().op if "code_grad" in op.output and op.type == "Sum")
    run.say(f"the trunk gets {added_up.output[0]} = {' + '.join(added_up.input)}")

    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net, input_blobs=["image", "label"])
    workspace.CreateNet(test.net)
    for _ in run.steps():
        batch = run.rng.choice(len(digits), BATCH, replace=False)
        workspace.FeedBlob("image", digits.images[batch])
        workspace.FeedBlob("label", digits.labels[batch])
        workspace.RunNet(model.net)
        run.record(digit_loss=workspace.FetchBlob("digit_loss"), image_loss=workspace.FetchBlob("image_loss"))

    workspace.FeedBlob("image", held_out.images)
    workspace.RunNet(test.net)
    drawn = workspace.FetchBlob("drawn").reshape(held_out.images.shape)

    def draw(figure):
        for k, axes in enumerate(figure.subplots(2, SHOWN).T):
            for place, image in zip(axes, (held_out.images[k, 0], drawn[k, 0])):
                place.imshow(image, cmap="gray_r", vmin=0, vmax=1)
                place.axis("off")
        figure.suptitle("held-out digits, and how they come out of sixteen numbers")

    run.picture("drawn.png", draw, size=(6, 2))
    spread = ((held_out.images - digits.images.mean(axis=0)) ** 2).mean()
    run.figures(accuracy=(workspace.FetchBlob("scores").argmax(axis=1) == held_out.labels).mean(),
                share_of_variance_drawn=1 - np.mean((drawn - held_out.images) ** 2) / spread)


if __name__ == "__main__":
    start(main, steps=600)
