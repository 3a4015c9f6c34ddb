"""Caffe2's protobuf modules: the very modules of `netgrad.proto`, under Caffe2's names."""

from caffe2.proto import (
    caffe2_legacy_pb2,
    caffe2_pb2,
    hsm_pb2,
    metanet_pb2,
    predictor_consts_pb2,
    prof_dag_pb2,
    torch_pb2,
)

__all__ = [
    "caffe2_legacy_pb2",
    "caffe2_pb2",
    "hsm_pb2",
    "metanet_pb2",
    "predictor_consts_pb2",
    "prof_dag_pb2",
    "torch_pb2",
]
