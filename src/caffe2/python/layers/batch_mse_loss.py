"""Caffe2's `layers.batch_mse_loss`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.regression_losses": "BatchMSELoss",
    "netgrad.training.layers.base": "ModelLayer",
})
