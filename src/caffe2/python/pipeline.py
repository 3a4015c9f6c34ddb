"""Caffe2's `pipeline`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.data.pipeline": "DEFAULT_QUEUE_CAPACITY pipe pipe_and_output",
    "netgrad.data.processing": """
        NetProcessor Output ProcessingReader make_processor normalize_processor_output processor_name""",
    "netgrad.data.readers": "Reader Writer",
    "netgrad.control.net_builder": "NetBuilder ops",
    "netgrad.control.task": "Node Task TaskGroup",
    "netgrad.graph.records": "Field as_record",
}, {"core": "caffe2.python.core", "queue_util": "caffe2.python.queue_util"})
