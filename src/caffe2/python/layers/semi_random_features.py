"""Caffe2's `layers.semi_random_features`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.random_features": "SemiRandomFeatures",
    "netgrad.training.layers.base": "ModelLayer",
})
