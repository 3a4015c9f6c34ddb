"""Caffe2's `layers.fc`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.dense": "FC get_fc_predictor_version",
    "netgrad.training.layers.base": "ModelLayer",
})
