"""`netgrad.proto.prof_dag_pb2`, under Caffe2's name."""

import sys

from netgrad.proto import prof_dag_pb2

sys.modules[__name__] = prof_dag_pb2
