"""Caffe2's `layers.merge_id_lists`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.records": "MergeIdLists",
    "netgrad.training.layers.base": "ModelLayer",
})
