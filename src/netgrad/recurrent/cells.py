"""`RNNCell`: one step of a recurrent network, and how it becomes a network over a sequence."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from netgrad.graph.blob import BlobReference, ScopedBlobReference
from netgrad.graph.scope import NameScope
from netgrad.recurrent.network import recurrent_net
from netgrad.training import brew
from netgrad.training.initializers import Initializer
from netgrad.training.model_helper import ModelHelper

#: (blob, its last dimension): inputs of a cell besides the sequence's
ExtraInputs = Sequence[tuple[Any, int]] | None


def as_reference(blob: Any) -> Any:
    """A blob by reference, so that later name scopes leave it alone; None stays None."""
    if blob is None or isinstance(blob, BlobReference):
        return blob
    if isinstance(blob, str):
        return ScopedBlobReference(blob)
    raise TypeError(f"a blob is given by its name or as a BlobReference, not as {blob!r}, a {type(blob).__name__}")


@contextmanager
def inside_scope(name: str | None) -> Iterator[None]:
    """A name scope, or none."""
    with NameScope(name or ""):
        yield


class RNNCell:
    """Base of cells. A subclass says what one step computes, `apply_override`, and how its states are called,
    `get_state_names_override`; it may compute what depends on the input alone beforehand, `prepare_input`.

    Attributes:
        name: scope of all that the cell makes.
        recompute_blobs: what the gradient computes anew instead of keeping it for each step.
        forward_only: without a gradient.
        initializer: makes the states' first values where none are given.
    """

    def __init__(self, name: str | None = None, forward_only: bool = False, initializer: Any = None) -> None:
        self.name: Any = name
        self.recompute_blobs: list[Any] = []
        self.forward_only = forward_only
        self.initializer = initializer

    def scope(self, name: str) -> str:
        """A name inside the cell's scope."""
        return name if self.name is None else f"{self.name}/{name}"

    def apply_over_sequence(
        self, model: Any, inputs: Any, seq_lengths: Any = None, initial_states: Any = None,
        outputs_with_grads: Sequence[int] | None = None,
    ) -> tuple[Any, tuple[Any, ...]]:
        """Runs the cell over a sequence (T, N, D).

        Args:
            model: where the operators and parameters go.
            inputs: the sequence.
            seq_lengths: (N,) int32, the length of each sequence of the batch; None: all have T steps.
            initial_states: the states' first values; by the cell's initializer unless given.
            outputs_with_grads: positions among the states' results whose gradients flow back; by default the output's.

        Returns:
            The output of all steps, and for each state the values of all steps and the last one.

        Raises:
            ValueError: neither states nor an initializer are given, or not as many states as the cell has.
        """
        if initial_states is None:
            if self.initializer is None:
                raise ValueError(f"cell {self.name!r} has no initializer: give it one, or give initial_states")
            with NameScope(self.name):
                initial_states = self.initializer.create_states(model)
        prepared = self.prepare_input(model, inputs)
        step = ModelHelper(name=self.name, param_model=model)
        input_t, timestep = step.net.AddScopedExternalInputs("input_t", "timestep")
        names = self.get_state_names()
        if len(initial_states) != len(names):
            raise ValueError(f"cell {self.name!r} has the states {', '.join(names)}; {len(initial_states)} first "
                             "values were given")
        before = _as_tuple(step.net.AddScopedExternalInputs(*(f"{name}_prev" for name in names)))
        after = self._apply(model=step, input_t=input_t, seq_lengths=seq_lengths, states=before, timestep=timestep)
        declared = set(step.net.Proto().external_output)
        for state in after:
            if str(state) not in declared:
                step.net.AddExternalOutput(state)
        if outputs_with_grads is None:
            outputs_with_grads = [2 * self.get_output_state_index()]
        results = recurrent_net(
            net=model.net, cell_net=step.net, inputs=[(input_t, prepared)],
            initial_cell_inputs=list(zip(before, initial_states)), links=dict(zip(before, after)), timestep=timestep,
            scope=self.name, outputs_with_grads=outputs_with_grads, recompute_blobs_on_backward=self.recompute_blobs,
            forward_only=self.forward_only,
        )
        return self._prepare_output_sequence(model, results), results

    def apply(self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any) -> tuple[Any, Any]:
        """One step in the model's own net: its output, and the new states."""
        input_t = self.prepare_input(model, input_t)
        states = self._apply(model, input_t, seq_lengths, states, timestep)
        return self._prepare_output(model, states), states

    def _apply(self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any,
               extra_inputs: ExtraInputs = None) -> Any:
        """`apply_override` inside the cell's scope; what it is given keeps the names of the scope outside."""
        arguments = self._rectify_apply_inputs(input_t, seq_lengths, states, timestep, extra_inputs)
        with inside_scope(self.name):
            return self.apply_override(model, *arguments)

    def _rectify_apply_inputs(self, input_t: Any, seq_lengths: Any, states: Any, timestep: Any,
                              extra_inputs: ExtraInputs) -> list[Any]:
        arguments = [as_reference(input_t), as_reference(seq_lengths),
                     None if states is None else [as_reference(state) for state in states], as_reference(timestep)]
        if "extra_inputs" in inspect.signature(self.apply_override).parameters:
            arguments.append([(as_reference(blob), size) for blob, size in extra_inputs] if extra_inputs else None)
        return arguments

    def apply_override(self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any,
                       extra_inputs: ExtraInputs = None) -> Any:
        """One step: writes its operators, returns the new states.

        Args:
            model: the step's.
            input_t: (1, N, D), as `prepare_input` left it.
            seq_lengths: (N,), or None.
            states: the previous ones, each (1, N, D).
            timestep: (1,) int32; with the lengths it says which sequences have ended.
            extra_inputs: more inputs, as they are; from a cell around this one.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what a step computes: define apply_override")

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        """What the steps read, computed from the whole sequence (T, N, D), or from one step's input (1, N, D)."""
        return input_blob

    def get_output_state_index(self) -> int:
        """Which of the states is the output."""
        return 0

    def get_state_names(self) -> Sequence[str]:
        """Names of the states, inside the cell's scope."""
        return [self.scope(name) for name in self.get_state_names_override()]

    def get_state_names_override(self) -> Sequence[str]:
        """Names of the states."""
        raise NotImplementedError(f"{type(self).__name__} does not name its states: define get_state_names_override")

    def get_output_dim(self) -> int:
        """The last dimension of the output."""
        raise NotImplementedError(f"{type(self).__name__} does not say how wide its output is: define get_output_dim")

    def _prepare_output(self, model: Any, states: Any) -> Any:
        """The output of a step, from its states."""
        return states[self.get_output_state_index()]

    def _prepare_output_sequence(self, model: Any, state_outputs: Any) -> Any:
        """The output of all steps, from what `recurrent_net` returns."""
        return state_outputs[2 * self.get_output_state_index()]


def _as_tuple(blobs: Any) -> tuple[Any, ...]:
    return (blobs,) if isinstance(blobs, BlobReference) else tuple(blobs)


def zeros() -> Initializer:
    return Initializer(operator_name="ConstantFill", value=0.0)


def ones() -> Initializer:
    return Initializer(operator_name="ConstantFill", value=1.0)


def project(model: Any, blob: Any, name: str, dim_in: int, dim_out: int) -> Any:
    """A fully connected layer on the last dimension of (T, N, dim_in)."""
    return brew.fc(model, blob, name, dim_in=dim_in, dim_out=dim_out, axis=2)


def with_extra_inputs(model: Any, hidden: Any, width: int, extra_inputs: ExtraInputs, name: str) -> tuple[Any, int]:
    """The hidden state with further inputs beside it, and how wide that is."""
    if extra_inputs is None:
        return hidden, width
    blobs = [hidden, *(blob for blob, _ in extra_inputs)]
    return brew.concat(model, blobs, name, axis=2), width + sum(size for _, size in extra_inputs)
