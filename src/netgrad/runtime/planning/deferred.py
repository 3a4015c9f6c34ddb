"""The pass that leaves gradients out until somebody looks at them.

The gradient of the data, which comes with that of the first layer's weights, is seldom read: half of the work there.
And the gradient of a fully connected layer's weights is read by nothing but their update: W + lr dY^T X is one product
with a sum, and the gradient itself need never be there. A blob that was left out is computed when it is looked at
(`Blobs`), from what was there when its operator ran. Those arrays are held until then, and so nobody writes into them
(`is_held_once`): weights from which a gradient may yet be computed are updated into a new array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.pending import Blobs
from netgrad.runtime.planning.bfloat16 import Lower
from netgrad.runtime.planning.draft import Draft
from netgrad.runtime.planning.fused import Fused
from netgrad.runtime.planning.updates import Update
from netgrad.runtime.steps import Step, bound

_NAME = "deferred"
#: gradient operators whose last output, the gradient of the data, may be left out; and how many outputs come before it
_LAYERS = {"FCGradient": (2,), **dict.fromkeys(("ConvGradient", "Conv1DGradient", "Conv2DGradient", "Conv3DGradient"),
                                               (1, 2))}


class Later:
    """One output of an operator, computed from the inputs that it had."""

    __slots__ = ("inputs", "output", "step")

    def __init__(self, step: Step, inputs: Sequence[Any], output: int) -> None:
        self.step = step
        self.inputs = tuple(inputs)
        self.output = output

    def __call__(self) -> Any:
        with self.step.backend.running():
            results = self.step.kernel(*self.inputs, *self.step.absent)
        return results[self.output]


class WithoutLast(Fused):
    """An operator whose last output is computed when somebody looks at it."""

    __slots__ = ("array_type", "blobs", "inputs", "output", "rest", "step")

    def __init__(self, step: Step, rest: Step, position: int, blobs: Blobs) -> None:
        super().__init__([step], [position])
        self.step = step
        self.rest = rest
        self.blobs = blobs
        self.array_type = step.array_type
        self.inputs = step.inputs
        self.output = step.outputs[-1]

    def run(self) -> None:
        blobs, array_type = self.blobs, self.array_type
        values = [blobs.get(name) for name in self.inputs]
        for value in values:
            if type(value) is not array_type:
                return self.run_plainly()
        self.rest.run()
        blobs.defer(self.output, Later(self.step, values, len(self.step.outputs) - 1))
        return None

    def without_storage(self) -> Iterator[tuple[int, int]]:
        yield self.positions[0], len(self.step.outputs) - 1


class LayerGradient(Fused):
    """FCGradient whose dW, and perhaps dX, is computed when somebody looks at it, or within the update."""

    __slots__ = ("array_type", "blobs", "defers_dX", "gradient", "names", "outputs", "step")

    def __init__(self, step: Step, position: int, blobs: Blobs, gradient: Callable[..., Any], defers_dX: bool) -> None:
        super().__init__([step], [position])
        self.step = step
        self.blobs = blobs
        self.array_type = step.array_type
        self.names = step.inputs
        self.outputs = step.outputs
        self.gradient = gradient
        self.defers_dX = defers_dX

    def run(self) -> None:
        blobs, array_type = self.blobs, self.array_type
        values = [blobs.get(name) for name in self.names]
        for value in values:
            if type(value) is not array_type:
                return self.run_plainly()
        has_dX = len(self.outputs) == 3
        found = self.gradient(*values, has_dX and not self.defers_dX)
        if found is None:
            return self.run_plainly()
        dW, blobs[self.outputs[1]], dX = found
        blobs.defer(self.outputs[0], dW)
        if dX is not None:
            blobs[self.outputs[2]] = dX
        elif has_dX:
            blobs.defer(self.outputs[2], Later(self.step, values, 2))
        return None

    def without_storage(self) -> Iterator[tuple[int, int]]:
        yield self.positions[0], 0
        if self.defers_dX:
            yield self.positions[0], 2


def apply(draft: Draft) -> None:
    blobs = draft.workspace.values
    if not isinstance(blobs, Blobs):
        return
    gradient = _layer_gradient(draft.backend.name)
    for position in range(len(draft.entries)):
        step = draft.plain(position)
        if step is None or step.binding.type not in _LAYERS or "" in step.outputs or \
                len(set(step.outputs)) < len(step.outputs):
            continue
        last = _without_data_gradient(draft, position, step)
        type, arguments = step.binding.type, step.binding.arguments
        usual = type == "FCGradient" and arguments["axis"] == arguments["axis_w"] == 1
        if usual and gradient is not None and not isinstance(step.kernel, Lower) and _only_updates(draft, position):
            what = f"FCGradient: {step.outputs[0]} within the update"
            what += f", {step.outputs[2]} when fetched" if last else ""
            draft.put(LayerGradient(step, position, blobs, gradient, last), _NAME, what)
        elif last and (rest := _without_last(draft, step)) is not None:
            draft.put(WithoutLast(step, rest, position, blobs), _NAME, f"{type}: {step.outputs[-1]} when fetched")


def _layer_gradient(backend: str) -> Callable[..., Any] | None:
    if backend != "torch":
        return None
    from netgrad.runtime.backends.torch.products import layer_gradient

    return layer_gradient


def _without_data_gradient(draft: Draft, position: int, step: Step) -> bool:
    """Whether it makes the gradient of the data, and nothing reads that."""
    if len(step.outputs) - 1 not in _LAYERS[step.binding.type]:
        return False
    if len(step.outputs) == 2 and step.binding.type != "FCGradient" and not step.binding.arguments.get("no_bias"):
        return False  # the last is the gradient of the bias
    value = draft.liveness.writes[position][-1]
    return value is not None and not value.read


def _only_updates(draft: Draft, position: int) -> bool:
    """Whether the gradient of the weights is read by nothing, or by one weighted sum in place, as its second term."""
    value = draft.liveness.writes[position][0]
    if value is None or len(value.read) > 1:
        return False
    for reader in value.read:
        home = draft.homes.get(reader)
        names = draft.plan.reference[reader].inputs
        if not isinstance(home, Update) or home.products is None or names.index(value.blob) != 2 or \
                names.count(value.blob) > 1:
            return False
    return True


def _without_last(draft: Draft, step: Step) -> Step | None:
    """The step of the same operator without its last output."""
    definition = caffe2_pb2.OperatorDef()
    definition.CopyFrom(step.binding.definition)
    del definition.output[-1]
    try:
        rest = Step(bound(definition, draft.backend), draft.backend, draft.workspace)
    except OperatorError:
        return None
    if (wrapped := getattr(step.kernel, "of", None)) is not None:
        rest.kernel = wrapped(rest.kernel)
    return rest
