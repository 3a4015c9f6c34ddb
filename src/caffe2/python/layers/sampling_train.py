"""Caffe2's `layers.sampling_train`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.sampled": "SamplingTrain",
    "netgrad.training.layers.base": "ModelLayer",
})
