"""Caffe2's `layers.constant_weight`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.weighting": "ConstantWeight",
    "netgrad.training.layers.base": "ModelLayer",
})
