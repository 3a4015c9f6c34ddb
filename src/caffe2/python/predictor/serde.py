"""Caffe2's `predictor.serde`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.persist.meta_nets": "deserialize_protobuf_struct serialize_protobuf_struct"})
