"""Caffe2's `layers.uniform_sampling`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.sampled": "UniformSampling",
    "netgrad.training.layers.base": "ModelLayer",
})
