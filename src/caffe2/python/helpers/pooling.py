"""Caffe2's `helpers.pooling`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.helpers.pooling": "average_pool max_pool max_pool_with_index"})
