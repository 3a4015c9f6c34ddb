"""Caffe2's `layer_model_helper`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layer_model": "LayerModelHelper",
    "netgrad.training.parameters": "ParameterInfo",
    "netgrad.training.sharing": "parameter_sharing_context",
}, {
    "core": "caffe2.python.core",
    "layers": "caffe2.python.layers.layers",
    "model_helper": "caffe2.python.model_helper",
    "schema": "caffe2.python.schema",
})
