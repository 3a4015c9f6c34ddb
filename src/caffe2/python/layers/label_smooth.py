"""Caffe2's `layers.label_smooth`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.classification_losses": "LabelSmooth",
    "netgrad.training.layers.base": "ModelLayer",
})
