"""Caffe2's `layers.adaptive_weight`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.adaptive_weight": "AdaptiveWeight",
    "netgrad.training.layers.base": "ModelLayer",
})
