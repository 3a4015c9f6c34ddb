"""Caffe2's `models.shufflenet`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.zoo.shufflenet": "OUTPUT_CHANNELS ShuffleNetV2Builder create_shufflenet",
}, {"brew": "caffe2.python.brew"})
