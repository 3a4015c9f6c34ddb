"""Caffe2's `layers.random_fourier_features`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.random_features": "RandomFourierFeatures",
    "netgrad.training.layers.base": "ModelLayer",
})
