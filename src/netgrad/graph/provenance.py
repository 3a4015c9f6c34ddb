"""Where operators come from: for each, the code object and instruction of the user's line that wrote it.

A whole stack for each operator would cost more than the operator. One instruction costs a tenth of a microsecond and
names the line that people look for; line numbers are computed when somebody asks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any

_ours: dict[CodeType, bool] = {}
_source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_packages = tuple(os.path.join(_source, package, "") for package in ("netgrad", "caffe2"))


def is_ours(code: CodeType) -> bool:
    """Whether code belongs to netgrad or its `caffe2` facade."""
    known = _ours.get(code)
    if known is None:
        known = _ours[code] = code.co_filename.startswith(_packages)
    return known


def caller(depth: int = 1) -> tuple[CodeType | None, int]:
    """Code object and instruction offset of the innermost frame outside netgrad."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and is_ours(frame.f_code):
        frame = frame.f_back
    return (frame.f_code, frame.f_lasti) if frame is not None else (None, 0)


def place(code: CodeType | None, offset: int) -> tuple[str, int]:
    """File and line of an instruction."""
    if code is None:
        return "<unknown>", 0
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= offset < end:
            return code.co_filename, number or line
    return code.co_filename, line


class Provenance:
    """The origins of a net's operators, by position. An origin counts only while its operator is still the one it was
    recorded for (same type, same first output): operators moved or replaced by hand lose theirs."""

    __slots__ = ("codes", "offsets", "outputs", "spans", "types")

    def __init__(self) -> None:
        self.codes: list[CodeType | None] = []
        self.offsets: list[int] = []
        self.types: list[str] = []
        self.outputs: list[str] = []
        #: whole backward passes: first position, and for each operator its source, type and first output
        self.spans: list[tuple[int, Sequence[int], Sequence[str], Callable[[int], str]]] = []

    def record(self, position: int, type: str, output: str, code: CodeType | None, offset: int) -> None:
        """Notes who wrote the operator at a position, which is the next one or a replaced one."""
        missing = position - len(self.codes)
        if missing:
            self._resize(missing, position)
        self.codes.append(code)
        self.offsets.append(offset)
        self.types.append(type)
        self.outputs.append(output)

    def _resize(self, missing: int, position: int) -> None:
        if missing > 0:
            self.codes.extend([None] * missing)
            self.offsets.extend([0] * missing)
            self.types.extend([""] * missing)
            self.outputs.extend([""] * missing)
        else:
            for column in (self.codes, self.offsets, self.types, self.outputs):
                del column[position:]

    def inherit(
        self, start: int, sources: Sequence[int], types: Sequence[str], first_output: Callable[[int], str],
    ) -> None:
        """Operators that follow from a position on (gradients) come from where those at ``sources`` do; -1: unknown."""
        self.spans.append((start, sources, types, first_output))

    def take(self, position: int, op: Any, other: Provenance, source: int, original: Any) -> None:
        """The operator at a position is a copy of the one at ``source`` in another net, whose origin it shares."""
        code, offset = other.origin(source, original) or (None, 0)
        self.record(position, op.type, op.output[0] if op.output else "", code, offset)

    def insert(self, position: int, type: str, output: str, code: CodeType | None, offset: int) -> None:
        """Notes an operator that was put between others."""
        if position <= len(self.codes):
            self.codes.insert(position, code)
            self.offsets.insert(position, offset)
            self.types.insert(position, type)
            self.outputs.insert(position, output)

    def source(self, position: int, op: Any) -> int | None:
        """The position of the forward operator that a gradient operator belongs to; None where there is none."""
        output = op.output[0] if op.output else ""
        for start, sources, types, first_output in self.spans:
            k = position - start
            if 0 <= k < len(sources) and sources[k] >= 0 and types[k] == op.type and first_output(k) == output:
                return sources[k]
        return None

    def origin(self, position: int, op: Any) -> tuple[CodeType, int] | None:
        """Code and instruction that wrote the operator at a position, if it is still the one that was noted."""
        source = self.source(position, op)
        if source is not None:
            while (further := self._of_span(source)) is not None:  # the gradient of a gradient
                source = further
            code = self.codes[source] if source < len(self.codes) else None
            return None if code is None else (code, self.offsets[source])
        if position >= len(self.codes):
            return None
        code = self.codes[position]
        output = op.output[0] if op.output else ""
        if code is None or self.types[position] != op.type or self.outputs[position] != output:
            return None
        return code, self.offsets[position]

    def _of_span(self, position: int) -> int | None:
        for start, sources, _, _ in self.spans:
            if 0 <= position - start < len(sources):
                source = sources[position - start]
                return source if source >= 0 else None
        return None

    def line_of(self, position: int, op: Any) -> tuple[str, int, str] | None:
        """File, line and function that wrote the operator at a position; None where that is not known (any more)."""
        origin = self.origin(position, op)
        return (*place(*origin), origin[0].co_name) if origin else None
