"""Caffe2's `task`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.control.task": """
        Cluster Node SetupNets Task TaskGroup TaskOutput TaskOutputList WorkspaceType add_setup_steps final_output
        get_setup_nets""",
    "netgrad.graph.records": "Field from_blob_list",
}, {"context": "caffe2.python.context", "core": "caffe2.python.core"})
