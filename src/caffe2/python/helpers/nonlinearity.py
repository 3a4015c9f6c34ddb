"""Caffe2's `helpers.nonlinearity`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.helpers.elementwise": "prelu relu tanh"})
