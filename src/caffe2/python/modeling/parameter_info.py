"""Caffe2's `modeling.parameter_info`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.parameters": "ParameterInfo ParameterTags"})
