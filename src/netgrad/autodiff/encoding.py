"""Emitted operators as columns of values, and from there to wire format.

Writing thousands of operators field by field through the protobuf library costs more than deriving them; the format is
simple enough to write as text (one character per byte) and merge in one call.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

from netgrad.proto import caffe2_pb2

# tags of OperatorDef: (field number << 3) | wire type
_INPUT, _OUTPUT, _TYPE, _ARG, _DEVICE, _ENGINE = "\x0a", "\x12", "\x22", "\x2a", "\x32", "\x3a"
IS_GRADIENT = "\x48\x01"
_EMPTY_NAME = "\x1a\x00"
_NET_OP = "\x12"
#: operators encoded at a time: what they take stays in the cache
_BLOCK = 1024


class Emitted:
    """Emitted operators, a column for each of their parts.

    Attributes:
        types: operator types.
        inputs, outputs: the values that each reads and writes.
        rests: type, arguments, device, engine and flag of each, encoded; or an object whose ``text(names)`` is that,
            where it depends on what values are called.
        origins: the forward operator that each belongs to; -1 for the fill of a y.
    """

    __slots__ = ("inputs", "origins", "outputs", "rests", "types")

    def __init__(self) -> None:
        self.types: list[str] = []
        self.inputs: list[list[int]] = []
        self.outputs: list[list[int]] = []
        self.rests: list[Any] = []
        self.origins: list[int] = []

    def __len__(self) -> int:
        return len(self.types)

    def add(self, type: str, inputs: list[int], outputs: list[int], rest: str, origin: int) -> None:
        """Appends an operator; ``rest`` holds its arguments, device and engine, without its type."""
        self.types.append(type)
        self.inputs.append(inputs)
        self.outputs.append(outputs)
        self.rests.append(type_field(type) + rest)
        self.origins.append(origin)

    def add_whole(self, type: str, inputs: list[int], outputs: list[int], rest: Any, origin: int) -> None:
        """Appends an operator whose ``rest`` holds everything, its type too."""
        self.types.append(type)
        self.inputs.append(inputs)
        self.outputs.append(outputs)
        self.rests.append(rest)
        self.origins.append(origin)

    def extend(self, other: Emitted) -> None:
        self.types += other.types
        self.inputs += other.inputs
        self.outputs += other.outputs
        self.rests += other.rests
        self.origins += other.origins

    def keep(self, positions: Sequence[int]) -> None:
        """Drops all but the operators at these positions."""
        columns: tuple[list[Any], ...] = (self.types, self.inputs, self.outputs, self.rests, self.origins)
        for column in columns:
            column[:] = [column[k] for k in positions]


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
    """The type, after a name that is set but empty: what Caffe2's own operators have."""
    return _EMPTY_NAME + _TYPE + sized(type)


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
def _kept_argument(name: str, kind: Hashable, value: Any) -> str:
    return _argument(name, value)


def argument_fields(arguments: dict[str, Any]) -> str:
    """Encoded arguments; single values are remembered."""
    out = []
    for name, value in arguments.items():
        if isinstance(value, (int, float, str)):
            kind: Any = type(value)
            out.append(_kept_argument(name, kind, value))
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
    """All of an OperatorDef but its inputs, outputs and type, encoded (for operators that users' rules made)."""
    holder = _scratch()
    holder.CopyFrom(op)
    holder.ClearField("type")
    holder.ClearField("input")
    holder.ClearField("output")
    return wire_text(holder.SerializeToString())


def decode_rest(rest: str) -> Any:
    """An OperatorDef with what ``rest`` holds: everything but inputs and outputs."""
    return caffe2_pb2.OperatorDef.FromString(rest.encode("latin-1"))


def write_nets(emitted: Emitted, names: Sequence[str]) -> None:
    """Encodes what depends on final names: the nets of control flow."""
    emitted.rests[:] = [rest if rest.__class__ is str else rest.text(names) for rest in emitted.rests]


def encode(emitted: Emitted, names: Sequence[str]) -> bytes:
    """The operators as the wire format of a NetDef that holds nothing else; `write_nets` must have been called."""
    if not names or max(map(len, names)) > 127 or not "".join(names).isascii():
        return _encode_any(emitted, list(map(sized, names)))
    blocks: list[bytes] = []
    chunks: list[str] = []
    add = chunks.append
    for inputs, outputs, rest in zip(emitted.inputs, emitted.outputs, emitted.rests):
        if len(chunks) == _BLOCK:
            blocks.append("".join(chunks).encode("latin-1"))
            chunks.clear()
        count = len(outputs)  # the commonest counts are spelled out: they take half of the time that way
        if count == 1:
            name = names[outputs[0]]
            rest = f"{_OUTPUT}{chr(len(name))}{name}{rest}"
        elif count == 3:
            name, other, third = names[outputs[0]], names[outputs[1]], names[outputs[2]]
            rest = (f"{_OUTPUT}{chr(len(name))}{name}{_OUTPUT}{chr(len(other))}{other}"
                    f"{_OUTPUT}{chr(len(third))}{third}{rest}")
        else:
            rest = "".join([f"{_OUTPUT}{chr(len(name))}{name}" for name in [names[v] for v in outputs]]) + rest
        count = len(inputs)
        if count == 2:
            name, other = names[inputs[0]], names[inputs[1]]
            text = f"{_INPUT}{chr(len(name))}{name}{_INPUT}{chr(len(other))}{other}{rest}"
        elif count == 3:
            name, other, third = names[inputs[0]], names[inputs[1]], names[inputs[2]]
            text = (f"{_INPUT}{chr(len(name))}{name}{_INPUT}{chr(len(other))}{other}"
                    f"{_INPUT}{chr(len(third))}{third}{rest}")
        else:
            text = "".join([f"{_INPUT}{chr(len(name))}{name}" for name in [names[v] for v in inputs]]) + rest
        size = len(text)
        add(f"{_NET_OP}{chr(size)}{text}" if size < 128 else
            f"{_NET_OP}{chr(size & 127 | 128)}{chr(size >> 7)}{text}" if size < 16384 else
            _NET_OP + varint(size) + text)
    blocks.append("".join(chunks).encode("latin-1"))
    return b"".join(blocks)


def _encode_any(emitted: Emitted, coded: Sequence[str]) -> bytes:
    """The same for names of any length and alphabet, each coded with its length in front."""
    chunks = []
    for inputs, outputs, rest in zip(emitted.inputs, emitted.outputs, emitted.rests):
        text = "".join([*(_INPUT + coded[v] for v in inputs), *(_OUTPUT + coded[v] for v in outputs), rest])
        chunks.append(_NET_OP + varint(len(text)) + text)
    return "".join(chunks).encode("latin-1")
