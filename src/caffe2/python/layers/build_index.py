"""Caffe2's `layers.build_index`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.hashing": "MapToRange",
    "netgrad.training.layers.base": "ModelLayer",
})
