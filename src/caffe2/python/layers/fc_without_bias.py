"""Caffe2's `layers.fc_without_bias`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.dense": "FCWithoutBias",
    "netgrad.training.layers.base": "ModelLayer",
})
