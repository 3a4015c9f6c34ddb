"""Operators and nets in a few words."""

from __future__ import annotations

from netgrad.proto import caffe2_pb2


def op(type: str, inputs: str = "", outputs: str = "", **arguments: float | int | str) -> caffe2_pb2.OperatorDef:
    """An OperatorDef; names separated by blanks."""
    definition = caffe2_pb2.OperatorDef(type=type, input=inputs.split(), output=outputs.split())
    for name, value in arguments.items():
        field = "f" if isinstance(value, float) else "i" if isinstance(value, int) else "s"
        argument = definition.arg.add(name=name)
        setattr(argument, field, value.encode() if isinstance(value, str) else value)
    return definition


def net(name: str, *ops: caffe2_pb2.OperatorDef) -> caffe2_pb2.NetDef:
    return caffe2_pb2.NetDef(name=name, op=ops)
