"""Caffe2's `dataio`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.data.readers": "Pipe PipedReaderBuilder Reader ReaderBuilder Writer",
    "netgrad.data.limits": """
        CompositeReader CompositeReaderBuilder CountUntil CounterReader ReaderWithDelay ReaderWithLimit
        ReaderWithLimitBase ReaderWithTimeLimit""",
    "netgrad.graph.records": "Field Struct from_blob_list",
}, {"core": "caffe2.python.core", "np": "numpy"})
