"""Caffe2's `layers.blob_weighted_sum`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.weighting": "BlobWeightedSum",
    "netgrad.training.layers.base": "ModelLayer",
})
