"""Caffe2's `cnn`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.cnn": "CNNModelHelper",
    "netgrad.training.model_helper": "ModelHelper",
}, {
    "brew": "caffe2.python.brew",
    "caffe2_pb2": "netgrad.proto.caffe2_pb2",
    "workspace": "caffe2.python.workspace",
})
