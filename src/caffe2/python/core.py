"""Caffe2's `core`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.graph.blob": """
        BlobReference ScopedBlobReference ScopedName output_to_list _RectifyInputOutput _get_blob_ref""",
    "netgrad.graph.scope": "DeviceScope NameScope",
    "netgrad.graph.device": "DeviceOption IsGPUDeviceType device_equal device_option_equal",
    "netgrad.graph.operator": """
        CreateOperator CreatePythonOperator DataType GetIndexFromGradientList GradientSlice IsOperator IsOperatorWithEngine
        _RegisterPythonImpl""",
    "netgrad.autodiff.backward": "GradientRegistry IR",
    "netgrad.graph.net": "Net",
}, {
    "caffe2_pb2": "netgrad.proto.caffe2_pb2",
    "scope": "caffe2.python.scope",
    "utils": "caffe2.python.utils",
    "workspace": "caffe2.python.workspace",
})
