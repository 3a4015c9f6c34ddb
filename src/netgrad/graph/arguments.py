"""The kinds of argument an operator may declare, and how their values are read from an OperatorDef.

An argument of the wire format has a name and one filled field (``i``, ``f``, ``s``, ``ints`` and so on). A declaration
says which kind it expects; reading is lenient where nothing can be lost (an integer where a float is meant, a single
value where a list is meant) and refuses the rest by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any


class ArgumentError(ValueError, RuntimeError):
    """An argument is missing or has a value of the wrong kind. Also a RuntimeError, which is what Caffe2 raised."""


class _Required:
    """The default of an argument that has none."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()


@dataclass(frozen=True)
class Arg:
    """One declared argument.

    Attributes:
        name: its name in the OperatorDef.
        default: the value when it is absent; `REQUIRED` when there is none.
        doc: one sentence for the catalogue.
        as_: the keyword under which kernels and shape functions receive it, where `name` is taken by an input.
    """

    name: str
    default: Any = None
    doc: str = ""
    as_: str = ""

    #: what the value is, for messages
    kind = "value"

    @property
    def keyword(self) -> str:
        return self.as_ or self.name

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    def convert(self, argument: Any) -> Any:
        """The Python value of a wire argument; raises ValueError when its field does not fit this kind."""
        raise NotImplementedError


_FIELD_KINDS = {
    "f": "a number", "i": "an integer", "s": "a string", "t": "a tensor", "n": "a net",
    "floats": "a list of numbers", "ints": "a list of integers", "strings": "a list of strings",
    "tensors": "a list of tensors", "nets": "a list of nets", "qtensors": "a list of quantized tensors",
}


def _fields(argument: Any) -> str:
    filled = [_FIELD_KINDS.get(descriptor.name, descriptor.name) for descriptor, _ in argument.ListFields()
              if descriptor.name != "name"]
    return " and ".join(filled) or "nothing"


def _scalar(argument: Any, fields: Iterable[str], cast: Callable[[Any], Any]) -> Any:
    for field in fields:
        if argument.HasField(field):
            return cast(getattr(argument, field))
    raise ValueError(f"holds {_fields(argument)}")


def _list(argument: Any, repeated: Iterable[str], single: Iterable[str], cast: Callable[[Any], Any]) -> list[Any]:
    for field in repeated:
        values = getattr(argument, field)
        if len(values):
            return [cast(v) for v in values]
    for field in single:
        if argument.HasField(field):
            return [cast(getattr(argument, field))]
    if _fields(argument) == "nothing":
        return []  # an empty list leaves no trace on the wire
    raise ValueError(f"holds {_fields(argument)}")


def _whole(value: float) -> int:
    if not math.isfinite(value):
        raise ValueError(f"holds {value}")
    if value != int(value):
        raise ValueError(f"holds the fraction {value}")
    return int(value)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


class Int(Arg):
    """An integer."""

    kind = "an integer"

    def convert(self, argument: Any) -> int:
        return int(_scalar(argument, ("i", "f"), _whole))


class Bool(Arg):
    """A truth value."""

    kind = "a truth value"

    def convert(self, argument: Any) -> bool:
        return bool(_scalar(argument, ("i", "f"), bool))


class Float(Arg):
    """A number."""

    kind = "a number"

    def convert(self, argument: Any) -> float:
        return float(_scalar(argument, ("f", "i"), float))


class Str(Arg):
    """A string."""

    kind = "a string"

    def convert(self, argument: Any) -> str:
        return str(_scalar(argument, ("s",), _text))


class DType(Arg):
    """A value of ``TensorProto.DataType``, given as the number or as its name; kernels receive the number."""

    kind = "a data type"

    def convert(self, argument: Any) -> int:
        if argument.HasField("s"):
            from netgrad.proto import caffe2_pb2

            name = _text(argument.s).upper()
            if name in caffe2_pb2.TensorProto.DataType.keys():  # noqa: SIM118 (no dictionary)
                return int(caffe2_pb2.TensorProto.DataType.Value(name))
            raise ValueError(f"holds the unknown data type {name!r}")
        return int(_scalar(argument, ("i", "f"), _whole))


class Ints(Arg):
    """A list of integers."""

    kind = "a list of integers"

    def convert(self, argument: Any) -> list[int]:
        return _list(argument, ("ints", "floats"), ("i", "f"), _whole)


class Floats(Arg):
    """A list of numbers."""

    kind = "a list of numbers"

    def convert(self, argument: Any) -> list[float]:
        return _list(argument, ("floats", "ints"), ("f", "i"), float)


class Strs(Arg):
    """A list of strings."""

    kind = "a list of strings"

    def convert(self, argument: Any) -> list[str]:
        return _list(argument, ("strings",), ("s",), _text)


class Net(Arg):
    kind = "a net"

    def convert(self, argument: Any) -> Any:
        if argument.HasField("s"):  # old files hold the text form
            from google.protobuf import text_format

            from netgrad.proto import caffe2_pb2

            try:
                return text_format.Parse(_text(argument.s), caffe2_pb2.NetDef())
            except text_format.ParseError as error:
                raise ValueError(f"holds text that is no NetDef: {error}") from None
        if len(argument.ListFields()) <= 1:  # a name alone: the net was taken out (extracting a predictor does so)
            return None
        return _scalar(argument, ("n",), lambda net: net)


class Nets(Arg):
    kind = "a list of nets"

    def convert(self, argument: Any) -> list[Any]:
        return _list(argument, ("nets",), ("n",), lambda net: net)


class Tensors(Arg):
    kind = "a list of tensors"

    def convert(self, argument: Any) -> list[Any]:
        return _list(argument, ("tensors",), ("t",), lambda tensor: tensor)


class Any_(Arg):
    """An argument whose kind depends on another one (``ConstantFill``'s value): kernels receive what is there."""

    kind = "a value"

    def convert(self, argument: Any) -> Any:
        return value_of(argument)


def value_of(argument: Any) -> Any:
    """The Python value of a wire argument, whatever field it fills; None when it fills none."""
    for descriptor, value in argument.ListFields():
        if descriptor.name == "name":
            continue
        if descriptor.name == "s":
            return _text(value)
        if descriptor.name == "strings":
            return [_text(v) for v in value]
        if descriptor.name in ("i", "f", "t", "n"):
            return value
        return list(value)
    return None


#: Arguments that brew and old scripts put on every operator; they steer engines that are gone and mean nothing here.
UNIVERSAL = frozenset({
    "order", "use_cudnn", "cudnn_exhaustive_search", "ws_nbytes_limit", "exhaustive_search", "deterministic",
    "shared_buffer", "float16_compute", "is_test", "engine", "use_grad_hack", "net_position", "debug_info",
    "enable_tensor_core", "broadcast", "op_type", "input_device_option", "parallel_execution", "cudnn_state",
    "run_once", "freeze_bias",
})


def parse_arguments(definition: Any, declared: Mapping[str, Arg]) -> dict[str, Any]:
    """The declared arguments of an OperatorDef by keyword, defaults filled in.

    Raises:
        ArgumentError: one is missing, given twice, or of the wrong kind; the message names it.
    """
    given: dict[str, Any] = {}
    for argument in definition.arg:
        if given.setdefault(argument.name, argument) != argument:
            raise ArgumentError(f"argument {argument.name!r} is given twice, with different values; leave one")
    values = {}
    for name, arg in declared.items():
        if name in given:
            try:
                values[arg.keyword] = arg.convert(given[name])
            except ValueError as error:
                raise ArgumentError(f"argument {name!r} should be {arg.kind}, but {error}") from None
        elif arg.required:
            raise ArgumentError(f"argument {name!r} ({arg.kind}) is required and not given")
        else:
            values[arg.keyword] = arg.default
    return values
