"""Caffe2's `layers.sparse_dropout_with_replacement`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.dropout": "SparseDropoutWithReplacement",
    "netgrad.training.layers.base": "ModelLayer",
})
