"""A long short-term memory reads a text letter by letter, learns which letter comes next, and writes on by itself.

The text is netgrad's licence. States are carried from one stretch of the text to the next, as in Caffe2's char_rnn.
"""

from pathlib import Path

import numpy as np

from caffe2.python import brew, model_helper, optimizer, rnn_cell, workspace
from running import Run, start

TEXT = Path(__file__).parents[1] / "LICENSE"
HIDDEN = 96
STRETCH = 32  # letters between two updates
STREAMS = 24  # places of the text that are read side by side


def add_layers(model, letters, forward_only=False):
    """From letters, (T, N, letters), to scores of the next ones, (T N, letters).

    The model begins in the states ``hidden_before`` and ``cell_before`` and ends in the two that are returned.
    """
    states, hidden, _, cell = rnn_cell.LSTM(
        model, "letters", "lengths", ("hidden_before", "cell_before"), letters, HIDDEN, scope="lstm",
        forward_only=forward_only)
    flat, _ = model.net.Reshape(states, ["states_flat", "states_shape"], shape=[-1, HIDDEN])
    return brew.fc(model, flat, "scores", dim_in=HIDDEN, dim_out=letters), hidden, cell


def training_model(letters):
    model = model_helper.ModelHelper(name="char_lstm")
    scores, hidden, cell = add_layers(model, letters)
    _, loss = model.net.SoftmaxWithLoss([scores, "next"], ["softmax", "loss"])
    model.AddGradientOperators([loss])
    optimizer.build_adam(model, base_learning_rate=0.01, max_gradient_norm=5.0)
    # the next stretch begins where this one ends, once the backward pass has read where this one began
    model.net.Copy(hidden, "hidden_before")
    model.net.Copy(cell, "cell_before")
    return model


def sampling_model(letters):
    model = model_helper.ModelHelper(name="char_lstm_sample", init_params=False)
    scores, hidden, cell = add_layers(model, letters, forward_only=True)
    brew.softmax(model, scores, "probability")
    model.net.Copy(hidden, "hidden_before")
    model.net.Copy(cell, "cell_before")
    return model


def forget(streams):
    for state in ("hidden_before", "cell_before"):
        workspace.FeedBlob(state, np.zeros((1, streams, HIDDEN), np.float32))


def write(model, alphabet, begin, length, rng):
    """The text that the net writes after some letters that it is given."""
    one_hot = np.eye(len(alphabet), dtype=np.float32)
    forget(streams=1)
    workspace.FeedBlob("lengths", np.array([1], np.int32))
    text = begin
    for k in range(len(begin) + length - 1):
        workspace.FeedBlob("letters", one_hot[[[alphabet.index(text[k])]]])
        workspace.RunNet(model.net)
        if k + 1 == len(text):
            probability = workspace.FetchBlob("probability")[0].astype(np.float64) ** 1.5  # a little less daring
            text += alphabet[rng.choice(len(alphabet), p=probability / probability.sum())]
    return text


def main(run: Run) -> None:
    text = " ".join(TEXT.read_text().split())
    alphabet = sorted(set(text))
    numbers = np.array([alphabet.index(letter) for letter in text], np.int32)
    one_hot = np.eye(len(alphabet), dtype=np.float32)

    model, sampler = training_model(len(alphabet)), sampling_model(len(alphabet))
    workspace.RunNetOnce(model.param_init_net)
    forget(STREAMS)
    workspace.FeedBlob("lengths", np.full(STREAMS, STRETCH, np.int32))
    workspace.CreateNet(model.net, input_blobs=["letters", "next"])
    places = np.linspace(0, len(text), STREAMS, endpoint=False).astype(int)
    for step in run.steps():
        stretch = (places + step * STRETCH + np.arange(STRETCH + 1)[:, None]) % len(text)  # (STRETCH + 1, STREAMS)
        workspace.FeedBlob("letters", one_hot[numbers[stretch[:-1]]])
        workspace.FeedBlob("next", numbers[stretch[1:]].reshape(-1))
        workspace.RunNet(model.net)
        run.record(bits_per_letter=workspace.FetchBlob("loss") / np.log(2))

    workspace.CreateNet(sampler.net)
    written = write(sampler, alphabet, "You may ", 200, run.rng)
    run.say(f"it writes: {written}")
    (run.out / "written.txt").write_text(written + "\n")
    bits = run.history["bits_per_letter"]
    run.figures(bits_per_letter_at_first=bits[0], bits_per_letter=np.mean(bits[-10:]))


if __name__ == "__main__":
    start(main, steps=250)
