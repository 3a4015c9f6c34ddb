"""Whether two operators say the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from netgrad.proto import caffe2_pb2


def OpAlmostEqual(op_a: Any, op_b: Any, ignore_fields: str | Iterable[str] | None = None) -> bool:
    """Whether two OperatorDefs agree in all fields but some."""
    ignored = [ignore_fields] if isinstance(ignore_fields, str) else list(ignore_fields or ())
    one, other = caffe2_pb2.OperatorDef(), caffe2_pb2.OperatorDef()
    for copy, op in ((one, op_a), (other, op_b)):
        copy.CopyFrom(op)
        for field in ignored:
            copy.ClearField(field)
    # text tells NaN from NaN no more
    return one == other or str(one) == str(other)
