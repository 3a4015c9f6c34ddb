"""Caffe2's `layers.feature_sparse_to_dense`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.feature_sparse_to_dense": "FeatureSparseToDense",
    "netgrad.training.layers.base": "ModelLayer",
})
