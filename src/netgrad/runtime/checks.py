"""Checks of what operators compute, for those who ask for them by a flag (`netgrad.runtime.flags`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from netgrad.runtime import flags
from netgrad.runtime.blobs import Strings
from netgrad.runtime.errors import BadValue
from netgrad.runtime.steps import Step

_INVALID = "caffe2_operator_throw_if_fp_exceptions"
_OVERFLOW = "caffe2_operator_throw_if_fp_overflow_exceptions"


def wanted() -> bool:
    """Whether any check is asked for."""
    return flags.is_set(_INVALID) or flags.is_set(_OVERFLOW)


def run(step: Step) -> None:
    """Runs an operator; raises `BadValue` where it makes infinities or NaNs of finite inputs and a flag forbids it.

    Caffe2 looks at the processor's floating-point exceptions; what can be seen on every backend is what they leave.
    """
    if not wanted():
        return step.run()
    blobs = step.blobs
    finite = not _odd(step, (blobs.get(name) for name in step.inputs if name))
    step.run()
    if finite and (bad := _odd(step, (blobs.get(name) for name in step.outputs if name))):
        raise BadValue(f"it makes {bad} of finite inputs, and the flag {_INVALID} forbids that")
    return None


def _odd(step: Step, values: Iterable[Any]) -> str:
    """What is not finite in some blobs; empty where all is."""
    for value in values:
        if isinstance(value, step.array_type) and not isinstance(value, Strings):
            array = step.backend.to_numpy(value)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                return "NaN" if np.isnan(array).any() else "an infinity"
    return ""
