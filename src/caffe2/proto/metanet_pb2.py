"""`netgrad.proto.metanet_pb2`, under Caffe2's name."""

import sys

from netgrad.proto import metanet_pb2

sys.modules[__name__] = metanet_pb2
