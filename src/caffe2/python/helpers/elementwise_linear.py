"""Caffe2's `helpers.elementwise_linear`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.helpers.dense": "elementwise_linear"})
