"""`netgrad.proto.torch_pb2`, under Caffe2's name."""

import sys

from netgrad.proto import torch_pb2

sys.modules[__name__] = torch_pb2
