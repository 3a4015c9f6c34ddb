"""Errors told where they happened: the operator, its place in the net, its blobs, the Python line that wrote it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from netgrad.graph import registry
from netgrad.graph.arguments import ArgumentError
from netgrad.graph.shapes import ShapeError
from netgrad.proto import caffe2_pb2
from netgrad.runtime.blobs import describe
from netgrad.runtime.errors import (
    BadArgument,
    BadShape,
    BadValue,
    KernelError,
    OperatorError,
    Place,
    UserFunctionFailed,
    WrongKind,
)

#: file, line and function that wrote the operator at a position
Origins = Callable[[int], tuple[str, int, str] | None]


def place_of(definition: caffe2_pb2.OperatorDef, blobs: Mapping[str, Any], position: int | None = None, net: str = "",
             origins: Origins | None = None) -> Place:
    """Where an operator stands, with all that its error message tells."""
    line = None
    if origins is not None and position is not None:
        with contextlib.suppress(IndexError):  # the net lost operators since it was created
            if origin := origins(position):
                line = f"{origin[0]}:{origin[1]} in {origin[2]}"
    return Place(definition.type, position, net,
                 [describe(n, blobs[n]) if n in blobs else f"{n}: not there" for n in definition.input],
                 list(definition.output), line)


#: what kernels raise with a sentence for the user, the narrower kinds first
_FORESEEN: dict[type[Exception], type[OperatorError]] = {
    ArgumentError: BadArgument, ShapeError: BadShape, ValueError: BadValue, NotImplementedError: KernelError}


#: torch says with a RuntimeError of these words that memory does not suffice
_OUT_OF_MEMORY = ("can't allocate memory", "Storage size calculation overflowed")


#: what array libraries raise, and what it means where a kernel leaves the check to them
_LIBRARIES_SAY: list[tuple[str, type[OperatorError], str]] = [
    (r"tuple index out of range|too many indices|of unsized object|not enough values to unpack|Dimension out of range|"
     r"is out of bounds for array of dimension|does not match rank", BadShape, "an input has too few dimensions"),
    (r"not implemented for '|does not support bool|with a bool tensor|numpy boolean|for the input types|contain a loop|"
     r"Cannot cast|Expected dtype|on a bool|two bool tensors|(must be|are not) of integer|tensors used as indices|"
     r"[Ss]ame dtype|expected scalar type",
     WrongKind, "this cannot be computed with inputs of such dtypes; put Cast before it, or feed others"),
    (r"broadcast|must match|[Ss]izes of tensors|cannot reshape|is invalid for input of size|mismatch in its core dim|"
     r"shapes cannot be multiplied|did not match indexed array|input array dimensions", BadShape,
     "the sizes of the inputs do not go together"),
]


def located(error: Exception, place: Place) -> BaseException:
    """The exception to raise for what an operator's binding or kernel raised at ``place``.

    Errors of the executor and of kernels get the place; what a user's Python function raised stays what it is, with the
    place as a note; anything else is wrapped, and chained where it was unforeseen.
    """
    if isinstance(error, UserFunctionFailed):
        error.error.add_note(f"in {place}")
        return error.error
    if isinstance(error, OperatorError):
        return error.at(place)
    for kind, ours in _FORESEEN.items():
        if isinstance(error, kind):
            return ours(str(error)).at(place)
    if isinstance(error, MemoryError) or any(words in str(error) for words in _OUT_OF_MEMORY):
        return BadValue(f"there is not enough memory ({error}): are sizes and arguments what they should be?").at(place)
    words = f"{type(error).__name__}: {error}"
    kind, sentence = next(((kind, sentence) for pattern, kind, sentence in _LIBRARIES_SAY if re.search(pattern, words)),
                          (KernelError, "cannot compute with these inputs and arguments"))
    found = kind(f"{sentence} ({words}){_expected(place.type)}")
    found.__cause__ = error
    return found.at(place)


def _expected(type: str) -> str:
    """What the operator takes, in the words of its declaration."""
    declaration = registry.find(type)
    slots = declaration.inputs if declaration is not None else ()
    told = "; ".join(f"{slot.name}: {slot.doc}" if slot.doc else slot.name for slot in slots)
    return f"\n  expected: {told}" if told else ""


def raise_located(error: Exception, place: Place) -> NoReturn:
    found = located(error, place)
    raise found from found.__cause__
