"""Caffe2's `db_file_reader`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.data.files": "DBFileReader",
    "netgrad.data.dataset": "Dataset",
    "netgrad.data.readers": "Reader",
    "netgrad.graph.records": "from_column_list",
}, {"core": "caffe2.python.core", "scope": "caffe2.python.scope", "workspace": "caffe2.python.workspace"})
