"""Caffe2's `layers`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers": "model_layer_subcls",
    "netgrad.training.layers.discovery": "find_subclasses_recursively import_recursive",
}, {"layers": "caffe2.python.layers.layers"})
