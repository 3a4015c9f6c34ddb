"""Caffe2's `layers.gather_record`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.records": "GatherRecord",
    "netgrad.training.layers.base": "ModelLayer",
})
