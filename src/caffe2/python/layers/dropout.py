"""Caffe2's `layers.dropout`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.dropout": "Dropout",
    "netgrad.training.layers.base": "ModelLayer",
})
