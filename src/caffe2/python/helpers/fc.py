"""Caffe2's `helpers.fc`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.helpers.dense": "fc fc_decomp fc_prune fc_sparse packed_fc"})
