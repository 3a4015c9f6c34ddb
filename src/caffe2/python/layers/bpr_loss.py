"""Caffe2's `layers.bpr_loss`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.ranking_losses": "BPRLoss",
    "netgrad.training.layers.base": "ModelLayer",
})
