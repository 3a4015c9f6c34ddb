"""Caffe2's `layers.split`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.joining": "Split",
    "netgrad.training.layers.base": "ModelLayer",
})
