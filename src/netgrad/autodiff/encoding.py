"""From emitted records to wire format.

A record is (type, input values, output values, rest, forward operator). Writing thousands of operators field by field
through the protobuf library costs more than deriving them; the format is simple enough to write as text (one character
per byte) and merge in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from netgrad.proto import caffe2_pb2

# tags of OperatorDef: (field number << 3) | wire type
_INPUT, _OUTPUT, _TYPE, _ARG, _DEVICE, _ENGINE = "\x0a", "\x12", "\x22", "\x2a", "\x32", "\x3a"
IS_GRADIENT = "\x48\x01"
_NET_OP = "\x12"


class Record(NamedTuple):
    """One emitted operator. ``rest`` is its type, arguments, device, engine and flag, encoded."""

    type: str
    inputs: list[int]
    outputs: list[int]
    rest: str
    #: the forward operator that it belongs to; -1 for the fill of a y
    origin: int


def varint(number: int) -> str:
    out = []
    while number > 127:
        out.append(chr(number & 127 | 128))
        number >>= 7
    out.append(chr(number))
    return "".join(out)


def wire_text(data: bytes) -> str:
    return data.decode("latin-1")


def _field(tag: str, text: str) -> str:
    return tag + varint(len(text)) + text


def sized(name: str) -> str:
    """A string with its length in front."""
    text = name if name.isascii() else wire_text(name.encode("utf-8", "surrogatepass"))
    return varint(len(text)) + text


@lru_cache(maxsize=4096)
def type_field(type: str) -> str:
    return _TYPE + sized(type)


def _argument(name: str, value: Any) -> str:
    argument = caffe2_pb2.Argument(name=name)
    if isinstance(value, caffe2_pb2.NetDef):
        argument.n.CopyFrom(value)
    elif isinstance(value, (bool, int)):
        argument.i = int(value)
    elif isinstance(value, float):
        argument.f = value
    elif isinstance(value, (str, bytes)):
        argument.s = value.encode() if isinstance(value, str) else value
    elif value and isinstance(value[0], float):
        argument.floats.extend(value)
    elif value and isinstance(value[0], (str, bytes)):
        argument.strings.extend(v.encode() if isinstance(v, str) else v for v in value)
    else:
        argument.ints.extend(value)
    return _field(_ARG, wire_text(argument.SerializeToString()))


@lru_cache(maxsize=4096)
def _kept_argument(name: str, kind: type, value: Any) -> str:
    return _argument(name, value)


def argument_fields(arguments: dict[str, Any]) -> str:
    """Encoded arguments; single values are remembered."""
    out = []
    for name, value in arguments.items():
        if isinstance(value, (int, float, str)):
            out.append(_kept_argument(name, type(value), value))
        else:
            out.append(_argument(name, value))
    return "".join(out)


_scratch = caffe2_pb2.OperatorDef


def copied_arguments(op: Any) -> str:
    """The arguments of an operator, encoded."""
    holder = _scratch()
    holder.arg.MergeFrom(op.arg)
    return wire_text(holder.SerializeToString())


def device_field(device: Any) -> str:
    return _field(_DEVICE, wire_text(device.SerializeToString()))


def engine_field(engine: str) -> str:
    return _ENGINE + sized(engine)


def rest_of(op: Any) -> str:
    """All of an OperatorDef but its inputs and outputs, encoded (for operators that users' rules made)."""
    holder = _scratch()
    holder.CopyFrom(op)
    holder.ClearField("input")
    holder.ClearField("output")
    return wire_text(holder.SerializeToString())


def decode_rest(rest: str) -> Any:
    """An OperatorDef with what ``rest`` holds: everything but inputs and outputs."""
    return caffe2_pb2.OperatorDef.FromString(rest.encode("latin-1"))


def encode(records: Sequence[Record], names: Sequence[str]) -> bytes:
    """The records as the wire format of a NetDef that holds just these operators."""
    if names and max(map(len, names)) < 128 and all(map(str.isascii, names)):
        coded = [chr(len(name)) + name for name in names]
    else:
        coded = list(map(sized, names))
    chunks = []
    add = chunks.append
    for _, inputs, outputs, rest, _ in records:
        if len(inputs) == 1:
            text = _INPUT + coded[inputs[0]] + _OUTPUT + _OUTPUT.join([coded[v] for v in outputs]) + rest if outputs \
                else _INPUT + coded[inputs[0]] + rest
        else:
            text = (_INPUT + _INPUT.join([coded[v] for v in inputs]) if inputs else "") + \
                (_OUTPUT + _OUTPUT.join([coded[v] for v in outputs]) if outputs else "") + rest
        size = len(text)
        add(_NET_OP)
        add(chr(size) if size < 128 else chr(size & 127 | 128) + chr(size >> 7) if size < 16384 else varint(size))
        add(text)
    return "".join(chunks).encode("latin-1")
