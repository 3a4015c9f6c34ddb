"""Caffe2's `layers.functional`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.functional": "Functional",
    "netgrad.training.layers.base": "ModelLayer",
})
