"""`netgrad.proto.predictor_consts_pb2`, under Caffe2's name."""

import sys

from netgrad.proto import predictor_consts_pb2

sys.modules[__name__] = predictor_consts_pb2
