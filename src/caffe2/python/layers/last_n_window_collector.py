"""Caffe2's `layers.last_n_window_collector`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.collecting": "LastNWindowCollector",
    "netgrad.training.layers.base": "ModelLayer",
})
