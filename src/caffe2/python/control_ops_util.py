"""Caffe2's `control_ops_util`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.control.operators": "add_if_op add_while_op get_external_blob_names",
}, {"core": "caffe2.python.core"})
