"""Caffe2's `record_queue`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.data.record_queues": "RecordQueue _QueueReader=RecordQueueReader _QueueWriter=RecordQueueWriter",
    "netgrad.data.readers": "Reader Writer",
    "netgrad.graph.records": "Field Struct from_column_list",
}, {"core": "caffe2.python.core"})
