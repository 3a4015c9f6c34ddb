"""Caffe2's `dataset`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.data.dataset": """
        Const Dataset execution_step_with_progress _DatasetRandomReader=RandomizedReader _DatasetReader=DatasetReader
        _DatasetWriter=DatasetWriter""",
    "netgrad.data.readers": "Reader Writer",
    "netgrad.graph.record_values": "InitEmptyRecord",
    "netgrad.graph.records": "Struct from_blob_list from_column_list",
}, {"core": "caffe2.python.core", "np": "numpy", "workspace": "caffe2.python.workspace"})
