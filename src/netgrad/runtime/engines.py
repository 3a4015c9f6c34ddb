"""Which engines to prefer for operators that name none: Caffe2's preferences, per operator type and for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from netgrad.proto import caffe2_pb2

#: operator type -> engines, the preferred first
_per_type: dict[str, tuple[str, ...]] = {}
_for_all: tuple[str, ...] = ()
#: grows with every change, so that what was bound before is bound anew
generation = 0


def preferred(type: str) -> tuple[str, ...]:
    """The engines to try for an operator of that type that names none."""
    return _per_type.get(type, ()) + _for_all


def SetPerOpEnginePref(per_op_engine_pref: Mapping[int, Mapping[str, Sequence[str]]]) -> None:
    """Sets the engines to prefer, as {device type: {operator type: engines}}; earlier ones are forgotten."""
    global generation
    generation += 1
    _per_type.clear()
    for by_type in per_op_engine_pref.values():
        for type, engines in by_type.items():
            _per_type[type] = _per_type.get(type, ()) + tuple(engines)


def SetGlobalEnginePref(global_engine_pref: Mapping[int, Sequence[str]]) -> None:
    """Sets the engines to prefer for all operators, as {device type: engines}."""
    global generation, _for_all
    generation += 1
    _for_all = tuple(dict.fromkeys(engine for engines in global_engine_pref.values() for engine in engines))


def SetEnginePref(per_op_engine_pref: Mapping[int, Mapping[str, Sequence[str]]],
                  global_engine_pref: Mapping[int, Sequence[str]]) -> None:
    """Both at once; empty ones clear."""
    SetPerOpEnginePref(per_op_engine_pref)
    SetGlobalEnginePref(global_engine_pref)


def SetOpEnginePref(op_type: str, op_pref: Mapping[int, Sequence[str]]) -> None:
    """Sets the engines to prefer for one operator type, as {device type: engines}."""
    global generation
    generation += 1
    _per_type[op_type] = tuple(dict.fromkeys(engine for engines in op_pref.values() for engine in engines))


def engines_of(definition: caffe2_pb2.OperatorDef) -> tuple[str, ...]:
    """The engines to try for an operator, in order: its own, else the preferred ones."""
    return tuple(filter(None, definition.engine.split(","))) or preferred(definition.type)
