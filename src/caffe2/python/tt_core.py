"""Caffe2's `tt_core`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.tools.tensor_train": "init_tt_cores matrix_to_tt tt_svd"})
