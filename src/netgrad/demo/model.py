"""The net of the demo, in the manner of LeNet, and its training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from netgrad.demo.digits import Digits
from netgrad.graph.blob import BlobReference
from netgrad.runtime.workspace import Workspace
from netgrad.training import brew
from netgrad.training.model_helper import ModelHelper
from netgrad.training.optimizers.build import build_adam

BATCH = 48
RATE = 0.004
DECAY = 0.8


def add_layers(model: ModelHelper, image: str, is_test: bool) -> BlobReference:
    """Two convolutions, two fully connected layers; returns the scores, [N, 10]."""
    brew.conv(model, image, "conv1", dim_in=1, dim_out=20, kernel=3, pad=1)
    brew.relu(model, "conv1", "conv1")
    brew.max_pool(model, "conv1", "pool1", kernel=2, stride=2)
    brew.conv(model, "pool1", "conv2", dim_in=20, dim_out=50, kernel=3, pad=1)
    brew.relu(model, "conv2", "conv2")
    brew.max_pool(model, "conv2", "pool2", kernel=2, stride=2)
    brew.fc(model, "pool2", "fc1", dim_in=50 * 2 * 2, dim_out=128)
    brew.relu(model, "fc1", "fc1")
    brew.dropout(model, "fc1", "fc1_kept", ratio=0.5, is_test=is_test)
    return brew.fc(model, "fc1_kept", "scores", dim_in=128, dim_out=10)  # type: ignore[no-any-return]


def training_model() -> tuple[ModelHelper, int]:
    """The model with its backward pass and updates; and how many operators its forward pass has."""
    model = _model("digits")
    scores = add_layers(model, "image", is_test=False)
    softmax, loss = model.net.SoftmaxWithLoss([scores, "label"], ["softmax", "loss"])
    brew.accuracy(model, [softmax, "label"], "accuracy")
    forward = len(model.net.Proto().op)
    model.AddGradientOperators([loss])
    return model, forward


def prediction_model() -> ModelHelper:
    """The layers alone, with probabilities at the end; its parameters are those of the training model."""
    model = _model("digits_predict", init_params=False)
    brew.softmax(model, add_layers(model, "image", is_test=True), "probability")
    model.net.AddExternalOutput(model.net.GetBlobRef("probability"))
    return model


def _model(name: str, init_params: bool = True) -> ModelHelper:
    model = ModelHelper(name, init_params=init_params)
    model.arg_scope.clear()  # what it says about image order and cuDNN are the defaults anyway
    return model


def add_updates(model: ModelHelper, steps_per_epoch: int) -> None:
    """Adam, with a rate that falls from epoch to epoch."""
    build_adam(model, RATE, policy="step", stepsize=steps_per_epoch, gamma=DECAY)


@dataclass
class Progress:
    """One step of training: the batch's loss, and, after each epoch, the share of held-out digits that were right."""

    epoch: int
    step: int
    loss: float
    held_out: float | None = None


class Trainer:
    """Trains in a workspace of its own."""

    def __init__(
        self,
        model: ModelHelper,
        predictor: ModelHelper,
        digits: Digits,
        held_out: Digits,
        backend: str | None,
        seed: int,
    ) -> None:
        self.model = model
        self.predictor = predictor
        self.digits = digits
        self.held_out = held_out
        self.rng = np.random.default_rng(seed)
        self.workspace = Workspace(backend=backend)
        self.workspace.run_net_once(model.param_init_net)
        self._feed(next(digits.batches(BATCH, np.random.default_rng(seed))))
        self.workspace.create_net(model.net)
        self.workspace.create_net(predictor.net)

    @property
    def steps_per_epoch(self) -> int:
        return len(self.digits) // BATCH

    def _feed(self, batch: Digits) -> None:
        self.workspace.feed_blob("image", batch.images)
        self.workspace.feed_blob("label", batch.labels)

    def train(self, epochs: int) -> Iterator[Progress]:
        """Goes through the digits ``epochs`` times, step by step."""
        name = self.model.net.Name()
        for epoch in range(1, epochs + 1):
            for step, batch in enumerate(self.digits.batches(BATCH, self.rng), 1):
                self._feed(batch)
                self.workspace.run_net(name)
                last = step == self.steps_per_epoch
                yield Progress(epoch, step, float(self.workspace.fetch_blob("loss")), self.accuracy() if last else None)

    def probabilities(self) -> np.ndarray:
        """What the net makes of the held-out digits: float32 [N, 10]."""
        self.workspace.feed_blob("image", self.held_out.images)
        self.workspace.run_net(self.predictor.net.Name())
        return self.workspace.fetch_blob("probability")  # type: ignore[no-any-return]

    def accuracy(self) -> float:
        """The share of held-out digits that the net gets right."""
        return float((self.probabilities().argmax(axis=1) == self.held_out.labels).mean())

    def parameters(self) -> dict[str, np.ndarray]:
        return {str(param): self.workspace.fetch_blob(param) for param in self.model.GetAllParams("")}
