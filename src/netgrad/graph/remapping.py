"""Renaming of blobs inside operators, nets in their arguments included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from netgrad.proto import caffe2_pb2

RemapFunction = Callable[[Any, str, Mapping[str, str]], None]


def _replace(names: Any, remap: Mapping[str, Any]) -> None:
    new = [str(remap.get(name, name)) for name in names]
    del names[:]
    names.extend(new)


def remap_input(op: Any, blob_name_remapping: Mapping[str, Any]) -> None:
    """Renames inputs of an operator."""
    _replace(op.input, blob_name_remapping)


def remap_operator(op: Any, blob_remap: Mapping[str, Any], prefix: str, functions: Mapping[str, RemapFunction]) -> None:
    """Renames inputs and outputs of an operator, and by ``functions[type]`` what its arguments name."""
    _replace(op.input, blob_remap)
    _replace(op.output, blob_remap)
    if op.type in functions:
        functions[op.type](op, prefix, blob_remap)


def remap_net(net: caffe2_pb2.NetDef, blob_remap: Mapping[str, Any], name: str) -> None:
    """Renames blobs in a whole NetDef and gives it another name."""
    net.name = name
    for op in net.op:
        remap_operator(op, blob_remap, f"{name}/" if name else "", DEFAULT_REMAP_FUNCS)
    _replace(net.external_input, blob_remap)
    _replace(net.external_output, blob_remap)


def remap_proto(argument: Any, blob_remap: Mapping[str, Any]) -> None:
    """Renames blobs in the net of an argument."""
    remap_net(argument.n, blob_remap, "cloned_sub_net")


def recurrent_network_op_remap(op: Any, prefix: str, blob_remap: Mapping[str, Any]) -> None:
    """Renames the blobs that arguments of RecurrentNetwork and its gradient name: lists of strings, the time step, and
    the step nets."""

    def renamed(name: bytes) -> bytes:
        text = name.decode("utf-8")
        return str(blob_remap.get(text, text)).encode("utf-8")

    for argument in op.arg:
        if argument.strings:
            new = [renamed(name) for name in argument.strings]
            del argument.strings[:]
            argument.strings.extend(new)
        elif argument.name == "timestep":
            argument.s = renamed(argument.s)
        elif argument.name.endswith("step_net"):
            remap_proto(argument, blob_remap)


#: the arguments of control operators that hold nets
CONTROL_NETS: Mapping[str, tuple[str, ...]] = {
    "If": ("then_net", "else_net"),
    "AsyncIf": ("then_net", "else_net"),
    "While": ("loop_net", "cond_net"),
}


def control_op_remap(op: Any, prefix: str, blob_remap: Mapping[str, Any]) -> None:
    """Renames the blobs in the nets of If and While."""
    for argument in op.arg:
        if argument.name in CONTROL_NETS.get(op.type, ("loop_net", "cond_net")):
            if not argument.HasField("n"):
                raise AssertionError(f"{op.type}: argument {argument.name!r} holds no net")
            remap_net(argument.n, blob_remap, argument.n.name + "_remapped")


#: how the arguments of each operator type are renamed
DEFAULT_REMAP_FUNCS: dict[str, RemapFunction] = {
    "RecurrentNetwork": recurrent_network_op_remap,
    "RecurrentNetworkGradient": recurrent_network_op_remap,
    "If": control_op_remap,
    "While": control_op_remap,
    "AsyncIf": control_op_remap,
}
