"""Preferences among engines: which implementations of an operator to try, for operators that name none themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: device type -> operator type -> engines, best first
_per_operator: dict[int, dict[str, list[str]]] = {}
#: device type -> engines for all operators, best first
_everywhere: dict[int, list[str]] = {}


def preferred_engines(op_type: str, device_type: int) -> list[str]:
    """The engines to try, best first: those for the operator type, else those for all."""
    return _per_operator.get(device_type, {}).get(op_type) or _everywhere.get(device_type, [])


def SetPerOpEnginePref(preferences: Mapping[int, Mapping[str, Iterable[str]]]) -> None:
    """Replaces the preferences of single operators: device type -> operator type -> engines."""
    _per_operator.clear()
    for device, operators in preferences.items():
        _per_operator[device] = {op: list(engines) for op, engines in operators.items()}


def SetGlobalEnginePref(preferences: Mapping[int, Iterable[str]]) -> None:
    """Replaces the preferences for all operators: device type -> engines."""
    _everywhere.clear()
    _everywhere.update({device: list(engines) for device, engines in preferences.items()})


def SetEnginePref(per_op: Mapping[int, Mapping[str, Iterable[str]]], everywhere: Mapping[int, Iterable[str]]) -> None:
    """Replaces both."""
    SetPerOpEnginePref(per_op)
    SetGlobalEnginePref(everywhere)


def SetOpEnginePref(op_type: str, preferences: Mapping[int, Iterable[str]]) -> None:
    """Sets the preferences of one operator: device type -> engines."""
    for device, engines in preferences.items():
        _per_operator.setdefault(device, {})[op_type] = list(engines)
