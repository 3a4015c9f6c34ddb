"""Operators on tensors of strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.graph.arguments import Int, Str
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example
from netgrad.graph.rules import forbidden
from netgrad.graph.shapes import TensorType, same_as
from netgrad.ops._strings import string_array


class _Test(Operator, abstract=True):
    """What the tests of strings share."""

    inputs = [In("strings", "any shape")]
    outputs = [Out("bools", "like strings, bool")]
    host = True
    gradient = forbidden("strings have no gradient")

    def shape(strings: TensorType, **_: Any) -> TensorType:
        return strings.with_dtype("bool")


def _tested(xp: Any, strings: Any, test: Callable[[bytes], bool]) -> Any:
    return xp.reshape(xp.asarray([test(s) for s in strings.reshape(-1)], dtype=xp.bool), strings.shape)


class StringStartsWith(_Test):
    """Does each string begin with the prefix?"""

    arguments = [Str("prefix", "")]
    example = Example({"strings": ["cat", "dog"]}, {"bools": [True, False]}, {"prefix": "c"})

    def kernel(xp: Any, strings: Any, *, prefix: str) -> Any:
        return _tested(xp, strings, lambda s: s.startswith(prefix.encode("utf-8", "surrogateescape")))


class StringEndsWith(_Test):
    """Does each string end with the suffix?"""

    arguments = [Str("suffix", "")]
    example = Example({"strings": ["cat", "dog"]}, {"bools": [True, False]}, {"suffix": "at"})

    def kernel(xp: Any, strings: Any, *, suffix: str) -> Any:
        return _tested(xp, strings, lambda s: s.endswith(suffix.encode("utf-8", "surrogateescape")))


class StringEquals(_Test):
    """Is each string the text?"""

    arguments = [Str("text", "")]
    example = Example({"strings": ["cat", "dog"]}, {"bools": [True, False]}, {"text": "cat"})

    def kernel(xp: Any, strings: Any, *, text: str) -> Any:
        return _tested(xp, strings, lambda s: s == text.encode("utf-8", "surrogateescape"))


class StringPrefix(Operator):
    """The first ``length`` bytes of each string."""

    inputs = [In("strings", "any shape")]
    outputs = [Out("prefixes", "like strings")]
    arguments = [Int("length", 3, "in bytes")]
    shape = same_as(0)
    host = True
    gradient = forbidden("strings have no gradient")
    example = Example({"strings": ["cat", "dog"]}, {"prefixes": ["ca", "do"]}, {"length": 2})

    def kernel(xp: Any, strings: Any, *, length: int) -> Any:
        return string_array([s[:max(length, 0)] for s in strings.reshape(-1)], strings.shape)


class StringSuffix(Operator):
    """The last ``length`` bytes of each string."""

    inputs = [In("strings", "any shape")]
    outputs = [Out("suffixes", "like strings")]
    arguments = [Int("length", 3, "in bytes")]
    shape = same_as(0)
    host = True
    gradient = forbidden("strings have no gradient")
    example = Example({"strings": ["cat", "dog"]}, {"suffixes": ["at", "og"]}, {"length": 2})

    def kernel(xp: Any, strings: Any, *, length: int) -> Any:
        return string_array([s[max(0, len(s) - max(length, 0)):] for s in strings.reshape(-1)], strings.shape)


def _written(element: Any) -> bytes:
    if isinstance(element, bytes):
        return element
    if isinstance(element, float):
        return f"{element:g}".encode()
    return str(int(element)).encode()


class StringJoin(Operator):
    """The elements of each row (or, with axis 1, of each column) in one string, a delimiter behind each."""

    inputs = [In("input", "1-D or 2-D: numbers or strings")]
    outputs = [Out("strings", "1-D")]
    arguments = [Str("delimiter", ","), Int("axis", 0, "0: a string per row; 1: one per column")]
    host = True
    gradient = forbidden("strings have no gradient")
    example = Example({"input": [[1.0, 2.0], [3.0, 4.0]]}, {"strings": ["1,2,", "3,4,"]})

    def shape(input: TensorType, *, axis: int, **_: Any) -> TensorType:
        return TensorType("string", None if input.dims is None else (input.dims[axis],))

    def kernel(xp: Any, input: Any, *, delimiter: str, axis: int) -> Any:
        if input.ndim not in (1, 2) or axis not in range(input.ndim):
            raise ValueError(f"the input has shape {input.shape} and axis is {axis}: expected one or two dimensions")
        rows = input.T if axis else input.reshape(input.shape[0], -1)
        end = delimiter.encode("utf-8", "surrogateescape")
        return string_array([b"".join(_written(x) + end for x in row.tolist()) for row in rows], (len(rows),))
