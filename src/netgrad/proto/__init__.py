"""The file formats: nets, plans, tensors and models as protobuf messages.

The messages are Caffe2's (`caffe2.NetDef` and so on, same numbers), under Caffe2's file names. A process can hold them
once, whichever of `netgrad.proto` and `caffe2.proto` asks first; both names lead to the same modules.
"""

from __future__ import annotations

import importlib.util
import os

# Caffe2's scripts ask for the implementation in C++, whose place another has taken; importing protobuf would fail
if (os.environ.get("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION") == "cpp"
        and importlib.util.find_spec("google.protobuf.pyext._message") is None):
    os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "upb"

try:
    from . import caffe2_legacy_pb2, caffe2_pb2, hsm_pb2, metanet_pb2, predictor_consts_pb2, prof_dag_pb2, torch_pb2
except (TypeError, KeyError) as conflict:  # of protobuf in C; of protobuf in Python, for a file of the same name
    raise ImportError(
        "netgrad.proto: another package of this process has registered its own definitions of Caffe2's protobuf "
        "messages, and protobuf allows only one; uninstall that package (an old torch wheel is one) or do not "
        f"import it beside netgrad ({type(conflict).__name__}: {' '.join(str(conflict).split())})"
    ) from None

from .files import FormatError, read_any, read_message, read_net, replace_file, write_net

__all__ = [
    "FormatError",
    "caffe2_legacy_pb2",
    "caffe2_pb2",
    "hsm_pb2",
    "metanet_pb2",
    "predictor_consts_pb2",
    "prof_dag_pb2",
    "read_any",
    "read_message",
    "read_net",
    "replace_file",
    "torch_pb2",
    "write_net",
]
