"""`netgrad.proto.caffe2_legacy_pb2`, under Caffe2's name."""

import sys

from netgrad.proto import caffe2_legacy_pb2

sys.modules[__name__] = caffe2_legacy_pb2
