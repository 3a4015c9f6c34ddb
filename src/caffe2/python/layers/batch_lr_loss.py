"""Caffe2's `layers.batch_lr_loss`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.logistic_loss": "BatchLRLoss",
    "netgrad.training.layers.base": "ModelLayer",
})
