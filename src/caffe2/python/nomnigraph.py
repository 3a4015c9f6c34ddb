"""Caffe2's `nomnigraph`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.tools.nomnigraph.nodes": """
        Annotation Data=NeuralNetData NeuralNetData NeuralNetOperator Operator=NeuralNetOperator""",
    "netgrad.tools.nomnigraph.graph": "Graph NNSubgraph",
    "netgrad.tools.nomnigraph.matching": "NNMatchGraph",
    "netgrad.tools.nomnigraph.module": "NNModule",
    "netgrad.tools.nomnigraph.rendering": "render",
}, {"C": "caffe2.python._import_c_extension", "caffe2_pb2": "netgrad.proto.caffe2_pb2", "core": "caffe2.python.core"})
