"""The file formats: nets, plans, tensors and models as protobuf messages.

The messages are Caffe2's (`caffe2.NetDef` and so on, same numbers), under Caffe2's file names. A process can hold them
once, whichever of `netgrad.proto` and `caffe2.proto` asks first; both names lead to the same modules.
"""

from __future__ import annotations

try:
    from . import caffe2_legacy_pb2, caffe2_pb2, hsm_pb2, metanet_pb2, predictor_consts_pb2, prof_dag_pb2, torch_pb2
except TypeError as conflict:
    raise ImportError(
        "netgrad.proto: another package of this process has already registered its own definitions of Caffe2's protobuf "
        "messages, and protobuf allows only one; import netgrad (or caffe2) before it, or uninstall it (an old torch "
        f"wheel brings such a package) [protobuf: {str(conflict).strip().splitlines()[0]}]"
    ) from None

__all__ = [
    "caffe2_legacy_pb2",
    "caffe2_pb2",
    "hsm_pb2",
    "metanet_pb2",
    "predictor_consts_pb2",
    "prof_dag_pb2",
    "torch_pb2",
]
