"""Caffe2's `helpers.dropout`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.helpers.dense": "dropout"})
