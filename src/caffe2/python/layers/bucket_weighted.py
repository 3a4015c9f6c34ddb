"""Caffe2's `layers.bucket_weighted`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.list_weights": "BucketWeighted",
    "netgrad.training.layers.base": "ModelLayer",
})
