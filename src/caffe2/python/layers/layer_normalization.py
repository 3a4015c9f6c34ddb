"""Caffe2's `layers.layer_normalization`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.normalization": "LayerNormalization",
    "netgrad.training.layers.base": "ModelLayer",
})
