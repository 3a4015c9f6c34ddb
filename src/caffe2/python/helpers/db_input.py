"""Caffe2's `helpers.db_input`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.helpers.data": "db_input"})
