"""Caffe2's `layers.select_record_by_context`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.records": "SelectRecordByContext",
    "netgrad.training.layers.base": "ModelLayer",
})
