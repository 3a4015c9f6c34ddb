"""Caffe2's `scope`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.graph.scope": """
        CurrentDeviceScope CurrentNameScope DeviceScope EmptyDeviceScope EmptyNameScope NameScope
        _NAMESCOPE_SEPARATOR _threadlocal_scope""",
}, {"caffe2_pb2": "netgrad.proto.caffe2_pb2"})
