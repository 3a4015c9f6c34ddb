"""Caffe2's `layers.reservoir_sampling`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.collecting": "ReservoirSampling",
    "netgrad.training.layers.base": "ModelLayer",
})
