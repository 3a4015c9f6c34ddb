"""Caffe2's `layers.fc_with_bootstrap`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.bootstrap": "FCWithBootstrap get_fc_predictor_version",
    "netgrad.training.layers.base": "ModelLayer",
})
