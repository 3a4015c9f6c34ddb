"""Caffe2's `layers.sparse_feature_hash`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.hashing": "SparseFeatureHash",
    "netgrad.training.layers.base": "ModelLayer",
})
