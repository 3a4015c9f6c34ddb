"""Caffe2's `layers.position_weighted`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.list_weights": "PositionWeighted",
    "netgrad.training.layers.base": "ModelLayer",
})
