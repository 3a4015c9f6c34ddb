"""Caffe2's `layers.sampling_trainable_mixin`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.sampled": "SamplingTrainableMixin",
})
