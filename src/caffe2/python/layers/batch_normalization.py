"""Caffe2's `layers.batch_normalization`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.normalization": "BatchNormalization",
    "netgrad.training.layers.base": "ModelLayer",
})
