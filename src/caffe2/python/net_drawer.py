"""Caffe2's `net_drawer`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.tools.graphviz": """
        BLOB_STYLE GetBlobNodeProducer GetGraphInJson GetGraphPngSafe GetOpNodeProducer GetOperatorMapForPlan
        GetPlanGraph GetPydotGraph GetPydotGraphMinimal OP_STYLE logger""",
}, {"caffe2_pb2": "netgrad.proto.caffe2_pb2", "utils": "caffe2.python.utils"})
