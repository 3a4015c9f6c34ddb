"""Caffe2's `layers.homotopy_weight`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.weighting": "HomotopyWeight",
    "netgrad.training.layers.base": "ModelLayer",
})
