"""Caffe2's `helpers.array_helpers`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.helpers.elementwise": "concat depth_concat"})
