"""Caffe2's `layers.batch_sigmoid_cross_entropy_loss`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.classification_losses": "BatchSigmoidCrossEntropyLoss",
    "netgrad.training.layers.base": "ModelLayer",
})
