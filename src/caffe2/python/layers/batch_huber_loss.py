"""Caffe2's `layers.batch_huber_loss`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.regression_losses": "BatchHuberLoss",
    "netgrad.training.layers.base": "ModelLayer",
})
