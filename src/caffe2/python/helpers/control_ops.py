"""Caffe2's `helpers.control_ops`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.helpers.control": "cond loop"})
