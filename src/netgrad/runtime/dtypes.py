"""Names and ``TensorProto.DataType`` numbers of dtypes, the same for every backend."""

from __future__ import annotations

from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import BackendError

_T = caffe2_pb2.TensorProto

#: dtype name -> number on the wire
NUMBERS: dict[str, caffe2_pb2.TensorProto.DataType] = {
    "float32": _T.FLOAT, "int32": _T.INT32, "string": _T.STRING, "bool": _T.BOOL, "uint8": _T.UINT8, "int8": _T.INT8,
    "uint16": _T.UINT16, "int16": _T.INT16, "int64": _T.INT64, "float16": _T.FLOAT16, "float64": _T.DOUBLE,
}
#: number on the wire -> dtype name
NAMES: dict[int, str] = {number: name for name, number in NUMBERS.items()}
NAMES[_T.BYTE] = "uint8"

#: the format's own names ("FLOAT") -> number
WIRE_NAMES: dict[str, int] = dict(_T.DataType.items())


def name_of(number_or_name: int | str) -> str:
    """The dtype name of a `TensorProto.DataType` number, or of a name of either world ("FLOAT", "float32")."""
    if isinstance(number_or_name, str):
        if number_or_name in WIRE_NAMES:
            return name_of(WIRE_NAMES[number_or_name])
        return number_or_name
    if number_or_name not in NAMES:
        known = ", ".join(f"{number} ({name})" for number, name in sorted(NAMES.items()))
        raise BackendError(f"{number_or_name} is no data type that tensors can have; there are {known}")
    return NAMES[number_or_name]


def number_of(name: str) -> caffe2_pb2.TensorProto.DataType:
    """The `TensorProto.DataType` number of a dtype name; raises where the file format has none (bfloat16, uint32)."""
    if name not in NUMBERS:
        raise BackendError(f"Caffe2's file format has no number for dtype {name}; cast to one of {', '.join(NUMBERS)}")
    return NUMBERS[name]
