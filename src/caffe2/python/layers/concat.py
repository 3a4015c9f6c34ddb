"""Caffe2's `layers.concat`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.joining": "Concat get_concatenated_feature_to_index",
    "netgrad.training.layers.base": "ModelLayer",
})
