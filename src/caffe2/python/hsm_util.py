"""Caffe2's `hsm_util`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.word_trees": "create_hierarchy create_node_with_nodes create_node_with_words"},
       {"hsm_pb2": "netgrad.proto.hsm_pb2"})
