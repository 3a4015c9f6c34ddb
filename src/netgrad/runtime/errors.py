"""What can go wrong when nets are made and run.

Everything here is a `RuntimeError`, which is what Caffe2 raised. A kernel raises with one sentence; the executor adds
which operator of which net it was, its blobs, and the Python line that wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netgrad.graph import schema
from netgrad.graph.arguments import ArgumentError
from netgrad.graph.shapes import ShapeError


class NetError(RuntimeError):
    """A net, blob or workspace cannot be used as asked."""


class BlobNotFound(NetError, KeyError):
    """There is no blob of that name."""

    __str__ = RuntimeError.__str__


class BlobError(NetError, TypeError):
    """A blob cannot be fed or fetched like this."""


class NetNotFound(NetError):
    """There is no net of that name."""


class NetExists(NetError):
    """A net of that name exists already."""


class BackendError(NetError):
    """There is no such backend, or it cannot do what was asked."""


@dataclass(frozen=True)
class Place:
    """Where an operator stands.

    Attributes:
        type: the operator's type.
        position: its index in the net; None for an operator run on its own.
        net: the net's name.
        inputs, outputs: blobs, as "name: dtype (shape)" where that is known.
        line: the Python line that wrote the operator.
    """

    type: str
    position: int | None = None
    net: str = ""
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    line: str | None = None

    def __str__(self) -> str:
        if self.position is None:
            return f"operator {self.type}"
        return f"operator {self.position} ({self.type}) of net {self.net!r}"


class OperatorError(NetError):
    """An operator cannot be made or run.

    Attributes:
        sentence: what was found, what was expected, what to do.
        places: where; the innermost first (a net inside an operator has two).
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.places: list[Place] = []

    def at(self, place: Place) -> OperatorError:
        """This error, known to have happened at ``place``."""
        self.places.append(place)
        self.args = (str(self),)
        return self

    def __str__(self) -> str:
        if not self.places:
            return self.sentence
        inner = self.places[0]
        lines = [f"[enforce fail at {inner}] {self.sentence}"]
        if inner.inputs:
            lines.append(f"  inputs: {', '.join(inner.inputs)}")
        if inner.outputs:
            lines.append(f"  outputs: {', '.join(inner.outputs)}")
        if inner.line:
            lines.append(f"  written at {inner.line}")
        for outer in self.places[1:]:
            lines.append(f"  inside {outer}" + (f", written at {outer.line}" if outer.line else ""))
        return "\n".join(lines)


class UnknownOperator(OperatorError):
    """No operator of that type is declared."""


class NoKernel(OperatorError):
    """The operator is declared but cannot run."""


class NoDerivative(OperatorError):
    """A derivative was asked for through a kernel that does not have one, or that cannot be followed."""


class SchemaError(OperatorError, schema.SchemaError):
    """The operator breaks its declaration: counts, in-place use, names."""


class BadArgument(OperatorError, ArgumentError):
    """An argument is missing or has a value of the wrong kind."""


class MissingBlob(OperatorError):
    """An input does not exist or was never filled."""


class WrongKind(OperatorError, TypeError):
    """An input holds something else than the operator takes: strings, an opaque object."""


class DeviceError(OperatorError):
    """The operator asks for a device that there is not."""


class BadShape(OperatorError, ShapeError):
    """Shapes do not go together."""


class BadIndex(OperatorError, IndexError):
    """An index is out of range."""


class BadValue(OperatorError, ValueError):
    """An input or argument has a value that the operator cannot take."""


class BadOutput(OperatorError):
    """A kernel returned what its declaration does not allow."""


class KernelError(OperatorError):
    """A kernel failed in a way it did not foresee; the cause is chained."""


class OperatorFailed(OperatorError):
    """A kernel returned False: it ran, and says that it failed. ``RunNet(..., allow_fail=True)`` bears it."""


class NetBusy(NetError):
    """The net runs already."""


class Cancelled(NetError):
    """The run was cancelled."""


class UserFunctionFailed(Exception):
    """Carries what a user's Python function raised past the executor, which raises it as it was."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error
