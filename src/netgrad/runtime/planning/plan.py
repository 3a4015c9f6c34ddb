"""The contract of plans, and the plain plan: one step per operator, in order.

A plan is made once, by CreateNet, and run many times. Whatever it does inside, after a run every blob can be fetched
with the value that the reference executor, which this plan is, would have left in it.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from netgrad.graph.control import made_within
from netgrad.graph.shapes import TensorType
from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import MissingBlob, OperatorError
from netgrad.runtime.planning.fused import Fused
from netgrad.runtime.planning.liveness import Liveness
from netgrad.runtime.steps import Step, bound

if TYPE_CHECKING:
    from netgrad.runtime.planning.draft import Note
    from netgrad.runtime.workspace import Workspace


class CannotPlan(Exception):
    """Carries the error of an operator that cannot be made, and its position."""

    def __init__(self, position: int, error: OperatorError) -> None:
        super().__init__(position, error)
        self.position = position
        self.error = error


class Plan:
    """What runs of a net.

    Attributes:
        definition: the net.
        reference: the plain steps, one for each operator, in order: what runs where somebody watches.
        steps: what runs else; the same, unless passes put other steps in their place.
        positions: for each step, the position in the net at which it stands.
        notes: what passes did.
    """

    def __init__(self, definition: caffe2_pb2.NetDef, workspace: Workspace, reference: Sequence[Step]) -> None:
        self.definition = definition
        self.workspace = workspace
        self.reference = list(reference)
        self.steps: list[Step | Fused] = list(reference)
        self.positions: Sequence[int] = range(len(reference))
        self.notes: Sequence[Note] = ()

    def blamed(self, k: int) -> int:
        """The position of the operator that an error in step ``k`` is blamed on."""
        step = self.steps[k]
        return step.blamed if isinstance(step, Fused) else self.positions[k]

    @functools.cached_property
    def liveness(self) -> Liveness:
        """The lives of the net's values, found when first asked for."""
        return Liveness(self.definition.op)

    @functools.cached_property
    def types(self) -> dict[str, TensorType]:
        """Shapes and dtypes after a run, as far as declarations tell them from what the workspace holds now."""
        from netgrad.runtime.inference import infer, type_of

        made: set[str] = set()
        read = []
        for op in self.definition.op:
            read += [name for name in op.input if name and name not in made]
            made.update(op.output)
        values = self.workspace.values
        known = {name: type_of(values[name]) for name in read if name in values}
        return infer(self.definition.op, known, self.definition.name)

    def on_host(self, position: int) -> bool:
        """Whether an operator runs on the host whatever its device is: strings, opaque blobs, Python."""
        return self.reference[position].binding.host


def plain(definition: caffe2_pb2.NetDef, workspace: Workspace, known: Collection[str] | None = ()) -> Plan:
    """The plan that does just what the net says.

    Args:
        known: names that may be read besides the blobs that are there; None: any.

    Raises:
        CannotPlan: with the error of the first operator that cannot be made.
    """
    backend, blobs = workspace.backend, workspace.values
    readable = set(known or ())
    steps = []
    for position, operator in enumerate(definition.op):
        try:
            binding = bound(inherit(operator, definition), backend)
            for name in binding.inputs:
                if name and name not in readable and name not in blobs and known is not None:
                    raise MissingBlob(_missing(name, definition.op[:position]))
            steps.append(Step(binding, backend, workspace, None if known is None else readable))
        except OperatorError as error:
            raise CannotPlan(position, error) from None
        readable.update(binding.outputs)
    return Plan(definition, workspace, steps)


def _missing(name: str, before: Sequence[caffe2_pb2.OperatorDef]) -> str:
    for position, operator in enumerate(before):
        if made_within(operator, name):
            return (f"there is no blob {name!r} here: what operator {position} ({operator.type}) makes of that name "
                    "stays inside it; give the blob a first value before that operator")
    return (f"there is no blob {name!r}: it is neither in the workspace nor made by an earlier operator; feed it, or "
            "correct the name")


def inherit(operator: caffe2_pb2.OperatorDef, net: caffe2_pb2.NetDef) -> caffe2_pb2.OperatorDef:
    """The operator with the net's device option, where it has none of its own."""
    if not net.HasField("device_option") or operator.HasField("device_option"):
        return operator
    copy = caffe2_pb2.OperatorDef()
    copy.CopyFrom(operator)
    copy.device_option.CopyFrom(net.device_option)
    return copy
