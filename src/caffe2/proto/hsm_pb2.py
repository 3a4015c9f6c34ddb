"""`netgrad.proto.hsm_pb2`, under Caffe2's name."""

import sys

from netgrad.proto import hsm_pb2

sys.modules[__name__] = hsm_pb2
