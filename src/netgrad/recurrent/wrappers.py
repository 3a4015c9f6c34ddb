"""Cells around cells: several layers, dropout, and the unrolled form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from netgrad.graph.blob import BlobReference
from netgrad.graph.device import DeviceOption
from netgrad.graph.scope import NameScope
from netgrad.proto import caffe2_pb2
from netgrad.recurrent.cells import ExtraInputs, RNNCell, as_reference, inside_scope
from netgrad.training import brew
from netgrad.training.sharing import ParameterSharing


class DropoutCell(RNNCell):
    """A cell whose output, but not its states, goes through dropout.

    Raises:
        AssertionError: ``is_test`` is not given.
    """

    def __init__(self, internal_cell: RNNCell, dropout_ratio: float | None = None, use_cudnn: bool = False,
                 **kwargs: Any) -> None:
        if "is_test" not in kwargs:
            raise AssertionError("a DropoutCell needs is_test=: True drops nothing, False is for training")
        self.internal_cell = internal_cell
        self.dropout_ratio = dropout_ratio
        self.is_test = kwargs.pop("is_test")
        self.use_cudnn = use_cudnn
        super().__init__(**kwargs)
        self.mask = 0

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        return self.internal_cell.prepare_input(model, input_blob)

    def get_output_state_index(self) -> int:
        return self.internal_cell.get_output_state_index()

    def get_state_names(self) -> Sequence[str]:
        return self.internal_cell.get_state_names()

    def get_output_dim(self) -> int:
        return self.internal_cell.get_output_dim()

    def _apply(self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any,
               extra_inputs: ExtraInputs = None) -> Any:
        return self.internal_cell._apply(model, input_t, seq_lengths, states, timestep, extra_inputs)

    def _prepare_output(self, model: Any, states: Any) -> Any:
        return self._dropped(model, self.internal_cell._prepare_output(model, states))

    def _prepare_output_sequence(self, model: Any, state_outputs: Any) -> Any:
        return self._dropped(model, self.internal_cell._prepare_output_sequence(model, state_outputs))

    def _dropped(self, model: Any, output: Any) -> Any:
        if not self.dropout_ratio or self.forward_only:
            return output
        with inside_scope(self.name):
            dropped = brew.dropout(model, output, f"{output}_with_dropout_mask{self.mask}",
                                   ratio=float(self.dropout_ratio), is_test=self.is_test, use_cudnn=self.use_cudnn)
        self.mask += 1
        return dropped


class MultiRNNCellInitializer:
    """First values of the states of several layers, each by its cell's initializer."""

    def __init__(self, cells: Sequence[RNNCell]) -> None:
        self.cells = cells

    def create_states(self, model: Any) -> list[Any]:
        states: list[Any] = []
        for i, cell in enumerate(self.cells):
            if cell.initializer is None:
                raise ValueError(f"the cell of layer {i} has no initializer: give initial_states, or it an initializer")
            with NameScope(f"layer_{i}"), inside_scope(cell.name):
                states.extend(cell.initializer.create_states(model))
        return states


class MultiRNNCell(RNNCell):
    """Layers of cells: the output of each is the input of the next.

    Args:
        cells: from the input to the output. They have to fit together, and to have names of their own or none.
        residual_output_layers: layers to whose output their input is added; not the first, whose input is prepared
            for all steps at once.
    """

    def __init__(self, cells: Sequence[RNNCell], residual_output_layers: Sequence[int] | None = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cells = cells
        self.residual_output_layers = [] if residual_output_layers is None else residual_output_layers
        self.state_names: list[str] = []
        outputs = []
        for i, cell in enumerate(cells):
            outputs.append(len(self.state_names) + cell.get_output_state_index())
            self.state_names.extend(map(self.layer_scoper(i), cell.get_state_names()))
        #: layers whose outputs add up to this cell's, and the positions of these among the states
        self.output_connected_layers: list[int] = []
        self.output_indices: list[int] = []
        for i in range(len(cells) - 1):
            if i + 1 in self.residual_output_layers:
                self.output_connected_layers.append(i)
                self.output_indices.append(outputs[i])
            else:
                self.output_connected_layers, self.output_indices = [], []
        self.output_connected_layers.append(len(cells) - 1)
        self.output_indices.append(outputs[-1])
        self.initializer = MultiRNNCellInitializer(cells)

    def layer_scoper(self, layer_id: int) -> Callable[[str], str]:
        return lambda name: f"{self.name}/layer_{layer_id}/{name}"

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        input_blob = as_reference(input_blob)
        with inside_scope(self.name):
            return self.cells[0].prepare_input(model, input_blob)

    def _layers(self, states: Sequence[Any], each: int = 1) -> list[Sequence[Any]]:
        """What belongs to each layer, of a list with so many entries for each state."""
        counts = [each * len(cell.get_state_names()) for cell in self.cells]
        if len(states) != sum(counts):
            raise ValueError(f"cell {self.name!r} has {sum(counts) // each} states; {len(states) // each} were given")
        starts = [sum(counts[:i]) for i in range(len(counts))]
        return [states[start:start + count] for start, count in zip(starts, counts)]

    def _apply(self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any,
               extra_inputs: ExtraInputs = None) -> Any:
        layer_input, seq_lengths, states, timestep, extra = (
            as_reference(input_t), as_reference(seq_lengths), [as_reference(state) for state in states],
            as_reference(timestep), [(as_reference(blob), size) for blob, size in extra_inputs or ()] or None)
        after: list[Any] = []
        for i, (cell, before) in enumerate(zip(self.cells, self._layers(states))):
            with inside_scope(self.name), NameScope(f"layer_{i}"):
                prepared = cell.prepare_input(model, layer_input) if i else layer_input
                made = cell._apply(model, prepared, seq_lengths, before, timestep, extra_inputs=None if i else extra)
                if i < len(self.cells) - 1:
                    output = cell._prepare_output(model, made)
                    if i and i in self.residual_output_layers:
                        output = brew.sum(model, [output, layer_input], self.scope(f"residual_output_{i}"))
                    layer_input = output
            after.extend(made)
        return after

    def get_state_names(self) -> Sequence[str]:
        return self.state_names

    def get_output_state_index(self) -> int:
        return sum(len(cell.get_state_names()) for cell in self.cells[:-1]) + self.cells[-1].get_output_state_index()

    def get_output_dim(self) -> int:
        return self.cells[-1].get_output_dim()

    def _prepare_output(self, model: Any, states: Any) -> Any:
        layers = self._layers(states)
        outputs = [self.cells[i]._prepare_output(model, layers[i]) for i in self.output_connected_layers]
        return self._summed(model, outputs, "residual_output")

    def _prepare_output_sequence(self, model: Any, state_outputs: Any) -> Any:
        layers = self._layers(state_outputs, 2)
        outputs = [self.cells[i]._prepare_output_sequence(model, layers[i]) for i in self.output_connected_layers]
        return self._summed(model, outputs, "residual_output_sequence")

    def _summed(self, model: Any, outputs: Sequence[Any], name: str) -> Any:
        return outputs[0] if len(outputs) == 1 else brew.sum(model, outputs, self.scope(name))


class UnrolledCell(RNNCell):
    """A cell over a sequence of known length, as ordinary operators instead of a RecurrentNetwork.

    Args:
        cell: the cell.
        T: the number of steps.
    """

    def __init__(self, cell: RNNCell, T: int) -> None:
        super().__init__(cell.name, cell.forward_only, cell.initializer)
        self.T = T
        self.cell = cell

    def apply_over_sequence(self, model: Any, inputs: Any, seq_lengths: Any = None, initial_states: Any = None,
                            outputs_with_grads: Sequence[int] | None = None) -> tuple[Any, tuple[Any, ...]]:
        """As `RNNCell.apply_over_sequence`; the first values have the shape of a step's, (1, N, D)."""
        if initial_states is None:
            raise ValueError("an unrolled cell needs initial_states, each (1, N, D)")
        inputs = self.cell.prepare_input(model, inputs)
        rows = model.net.Split(inputs, [f"{inputs}_timestep_{t}" for t in range(self.T)], axis=0)
        rows = [rows] if isinstance(rows, BlobReference) else rows
        seq_lengths = as_reference(seq_lengths)
        states: Sequence[Any] = [as_reference(state) for state in initial_states]
        history = []
        for t, row in enumerate(rows):
            step = f"timestep_{t}"
            with ParameterSharing({step: ""}), NameScope(step):
                timestep = model.param_init_net.ConstantFill(
                    [], "timestep", value=t, shape=[1], dtype=caffe2_pb2.TensorProto.INT32,
                    device_option=DeviceOption(caffe2_pb2.CPU))
                states = self.cell._apply(model=model, input_t=row, seq_lengths=seq_lengths, states=states,
                                          timestep=timestep)
            history.append(states)
        outputs: list[Any] = []
        for steps, last in zip(zip(*history), states):
            name = str(steps[0])[len("timestep_0/"):]
            outputs += [model.net.Concat(list(steps), [f"{name}_concat", f"{name}_concat_info"], axis=0)[0], last]
        if outputs_with_grads is None:
            outputs_with_grads = [2 * self.get_output_state_index()]
        for k in sorted(set(range(len(outputs))) - set(outputs_with_grads)):
            model.net.ZeroGradient(outputs[k], [])
        return self.cell._prepare_output_sequence(model, outputs), tuple(outputs)

    def get_state_names(self) -> Sequence[str]:
        return self.cell.get_state_names()

    def get_output_state_index(self) -> int:
        return self.cell.get_output_state_index()

    def get_output_dim(self) -> int:
        return self.cell.get_output_dim()
