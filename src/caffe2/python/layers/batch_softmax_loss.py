"""Caffe2's `layers.batch_softmax_loss`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.classification_losses": "BatchSoftmaxLoss",
    "netgrad.training.layers.base": "ModelLayer",
})
