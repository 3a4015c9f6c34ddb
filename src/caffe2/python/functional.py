"""Caffe2's `functional`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.tools.functional": "Functional"})
