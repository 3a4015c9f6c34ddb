"""Caffe2's `predictor_constants`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.proto.constants": "predictor_constants",
}, {
    "predictor_consts": "netgrad.proto.predictor_consts_pb2",
})
