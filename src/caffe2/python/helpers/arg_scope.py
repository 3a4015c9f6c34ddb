"""Caffe2's `helpers.arg_scope`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.helpers.arg_scope": "arg_scope get_current_scope"})
