"""Caffe2's `layers.tags`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.tags": "TagContext Tags",
})
