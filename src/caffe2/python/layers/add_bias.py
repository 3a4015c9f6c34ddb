"""Caffe2's `layers.add_bias`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.dense": "AddBias",
    "netgrad.training.layers.base": "ModelLayer",
})
