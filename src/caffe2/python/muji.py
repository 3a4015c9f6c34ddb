"""Caffe2's `muji`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.parallel.allreduce": """
        Allreduce Allreduce2 Allreduce4 Allreduce4Group2 Allreduce8 AllreduceFallback OnCPU OnGPU""",
}, {"caffe2_pb2": "netgrad.proto.caffe2_pb2", "workspace": "caffe2.python.workspace"})
