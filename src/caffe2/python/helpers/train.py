"""Caffe2's `helpers.train`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.helpers.bookkeeping": "accuracy add_weight_decay iter"})
