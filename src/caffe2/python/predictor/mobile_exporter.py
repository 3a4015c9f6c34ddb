"""Caffe2's `predictor.mobile_exporter`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.persist.mobile": "Export add_tensor"}, {
    "caffe2_pb2": "netgrad.proto.caffe2_pb2",
    "core": "caffe2.python.core",
    "utils": "caffe2.python.utils",
})
