"""Caffe2's `text_file_reader`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.data.files": "TextFileReader",
    "netgrad.data.readers": "Reader",
    "netgrad.graph.record_values": "data_type_for_dtype",
    "netgrad.graph.records": "Scalar Struct",
}, {"core": "caffe2.python.core"})
