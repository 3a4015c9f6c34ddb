"""Caffe2's `queue_util`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.data.queues": """
        Queue QueueWrapper close_queue dequeue enqueue logger _QueueReader=QueueReader _QueueWriter=QueueWriter""",
    "netgrad.control.task": "TaskGroup",
}, {"core": "caffe2.python.core", "dataio": "caffe2.python.dataio"})
