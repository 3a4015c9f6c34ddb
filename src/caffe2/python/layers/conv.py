"""Caffe2's `layers.conv`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.convolution": "Conv",
    "netgrad.training.layers.base": "ModelLayer",
})
