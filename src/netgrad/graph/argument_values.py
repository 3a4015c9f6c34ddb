"""How Python values become arguments of an operator, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message

from netgrad.graph.arguments import Arg, ArgumentError, Bool, DType, Float, Floats, Int, Net, Nets, Str, Tensors
from netgrad.proto import caffe2_pb2


def plain(value: Any) -> Any:
    """Arrays as flat lists, NumPy numbers as Python's; everything else unchanged. Tells by behaviour, without NumPy."""
    if not hasattr(value, "dtype") or not hasattr(value, "tolist"):
        return value
    return value.reshape(-1).tolist() if hasattr(value, "__setitem__") else value.item()


def set_argument(argument: Any, key: str, value: Any) -> None:
    """Fills an empty ``Argument`` with a value: the field follows from the value's type.

    bool and int fill ``i``, float ``f``, strings ``s``, NetDefs ``n``, lists of one of these the repeated fields; other
    messages are serialized into ``s``. Mixed lists of integers and floats become floats.

    Raises:
        ArgumentError: the value has no place in an argument.
    """
    kind = type(value)
    if kind is int or kind is bool:
        try:
            argument.i = int(value)  # newer protobuf runtimes refuse a bool
        except ValueError:
            raise ArgumentError(f"argument {key!r}: {value} does not fit 64 bits") from None
    elif kind is float:
        argument.f = value
    elif kind is str:
        argument.s = value.encode("utf-8", "surrogateescape")
    else:
        _set_unusual(argument, key, value)


def _set_unusual(argument: Any, key: str, value: Any) -> None:
    value = plain(value)
    if isinstance(value, (bool, int, float, str)):
        # subclasses (IntEnum and the like) count as what they derive from
        base = next(t for t in (bool, int, float, str) if isinstance(value, t))
        set_argument(argument, key, base(value))
    elif isinstance(value, bytes):
        argument.s = value
    elif isinstance(value, caffe2_pb2.NetDef):
        argument.n.CopyFrom(value)
    elif isinstance(value, Message):
        argument.s = value.SerializeToString()
    elif isinstance(value, Iterable):
        _set_list(argument, key, [plain(v) for v in value])
    else:
        raise ArgumentError(
            f"argument {key!r} is {value!r}, a {type(value).__name__}; expected a number, a string, a NetDef or "
            f"a list of these")


def _set_list(argument: Any, key: str, values: list[Any]) -> None:
    def are(*kinds: type) -> bool:
        return all(isinstance(v, kinds) for v in values)

    if are(int):
        argument.ints.extend(map(int, values))
    elif are(int, float):
        argument.floats.extend(values)
    elif are(bytes, str):
        argument.strings.extend(v.encode("utf-8", "surrogateescape") if isinstance(v, str) else v for v in values)
    elif are(caffe2_pb2.NetDef):
        argument.nets.extend(values)
    elif are(Message):
        argument.strings.extend(v.SerializeToString() for v in values)
    else:
        kinds = ", ".join(sorted({type(v).__name__ for v in values}))
        raise ArgumentError(f"argument {key!r} is a list of {kinds}; expected numbers, strings or NetDefs, all "
                            f"of one kind")


def MakeArgument(key: str, value: Any) -> caffe2_pb2.Argument:
    """An argument of that name and value (see `set_argument`)."""
    argument = caffe2_pb2.Argument(name=key)
    set_argument(argument, key, value)
    return argument


#: for each declared kind, the field that a value of an exact type fills without further ado
_PLAIN_FIELDS: dict[type[Arg], dict[type, str]] = {
    Float: {float: "f", int: "f"},
    Int: {int: "i"},
    Bool: {int: "i"},
    DType: {int: "i"},
    Str: {bytes: "s"},
}


def plain_fields(declared: Arg) -> dict[type, str]:
    """The field of ``Argument`` that a value of each exact type fills, where it fits the declaration as it is."""
    return _PLAIN_FIELDS.get(type(declared), {})


def set_declared(argument: Any, declared: Arg, key: str, value: Any) -> bool:
    """Like `set_argument`, by the kind that the declaration states: an integer for a number becomes a float, and so on.

    Returns:
        Whether the value fits the declaration. One that does not is set as it is; the schema check names it.
    """
    if (isinstance(declared, Tensors) and isinstance(value, (list, tuple))
            and all(isinstance(v, caffe2_pb2.TensorProto) for v in value)):
        argument.tensors.extend(value)
        return True
    if isinstance(declared, (Net, Nets)) and hasattr(value, "Proto"):
        value = value.Proto()
    elif isinstance(declared, (Float, Floats)):
        value = _as_floats(value)
    set_argument(argument, key, value)
    try:
        declared.convert(argument)
    except (ValueError, RuntimeError):
        return False
    return True


def _as_floats(value: Any) -> Any:
    value = plain(value)
    if isinstance(value, int):
        return float(value)
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        values = [plain(v) for v in value]
        return [float(v) for v in values] if all(isinstance(v, (int, float)) for v in values) else values
    return value


def ArgsToDict(args: Iterable[Any]) -> dict[str, Any]:
    """Names and values of arguments; strings are bytes, empty arguments None, unnamed ones are skipped."""
    found: dict[str, Any] = {}
    for argument in args:
        if argument.HasField("name"):
            filled = [value for field, value in argument.ListFields() if field.name != "name"]
            found[argument.name] = filled[0] if filled else None
    return found
