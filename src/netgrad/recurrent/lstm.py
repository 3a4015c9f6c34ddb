"""Cells: the simple recurrent one, long short-term memories and their normalized and multiplicative kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.recurrent.cells import ExtraInputs, RNNCell, ones, project, with_extra_inputs, zeros
from netgrad.training import brew


class LSTMInitializer:
    """First values of a long short-term memory's states: parameters (D,), zeros to begin with."""

    def __init__(self, hidden_size: int) -> None:
        self.hidden_size = hidden_size

    def create_states(self, model: Any) -> list[Any]:
        return [model.create_param(param_name=name, initializer=zeros(), shape=[self.hidden_size])
                for name in ("initial_hidden_state", "initial_cell_state")]


class BasicRNNCell(RNNCell):
    """h = f(W h_prev + b + W_i x + b_i), with f tanh or relu.

    Raises:
        RuntimeError: another activation.
    """

    def __init__(self, input_size: int, hidden_size: int, forget_bias: float, memory_optimization: bool,
                 drop_states: bool = False, initializer: Any = None, activation: str | None = None,
                 **kwargs: Any) -> None:
        super().__init__(initializer=initializer, **kwargs)
        self.drop_states = drop_states
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.activation = activation
        if activation not in ("relu", "tanh"):
            raise RuntimeError(f"BasicRNNCell with unknown activation function {activation!r}; give relu or tanh")

    def apply_override(self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any,
                       extra_inputs: ExtraInputs = None) -> Any:
        before = states[0]
        gates = project(model, before, "gates_t", self.hidden_size, self.hidden_size)
        brew.sum(model, [gates, input_t], gates)
        masked = seq_lengths is not None
        name = "hidden_t_unmasked" if masked and not self.forward_only else "hidden_t"
        hidden = (model.net.Tanh if self.activation == "tanh" else model.net.Relu)(gates, name)
        if masked:
            hidden = self._where_alive(model.net, hidden, before, seq_lengths, timestep)
        return (hidden,)

    def _where_alive(self, net: Any, hidden: Any, before: Any, seq_lengths: Any, timestep: Any) -> Any:
        """The new state of sequences that go on; the old one, or zeros, of those that have ended."""
        now = net.CopyFromCPUInput(timestep, "timestep_gpu")
        going_on = net.GT([seq_lengths, now], "valid_b", broadcast=1)
        ended = net.LE([seq_lengths, now], "invalid_b", broadcast=1)
        valid = net.Cast(going_on, "valid", to="float")
        invalid = net.Cast(ended, "invalid", to="float")
        if not self.forward_only:
            valid, invalid = net.StopGradient(valid, "valid_fixed"), net.StopGradient(invalid, "invalid_fixed")
        new = net.Mul([hidden, valid], "hidden_valid", broadcast=1, axis=1)
        if self.drop_states:
            return new
        old = net.Mul([before, invalid], "hidden_invalid", broadcast=1, axis=1)
        return net.Add([new, old], "hidden_t")

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        return project(model, input_blob, self.scope("i2h"), self.input_size, self.hidden_size)

    def get_state_names(self) -> Sequence[str]:
        return (self.scope("hidden_t"),)

    def get_output_dim(self) -> int:
        return self.hidden_size


class LSTMCell(RNNCell):
    """A long short-term memory (see the operator LSTMUnit); the input's part of the gates is computed beforehand.

    Args:
        input_size, hidden_size: dimensions of input and states.
        forget_bias: added to the forget gate.
        memory_optimization: the gates are computed anew for the gradient, not kept.
        drop_states: states of sequences that have ended become 0.
        initializer: of the states' first values; zeros, trained, unless given.
    """

    def __init__(self, input_size: int, hidden_size: int, forget_bias: float, memory_optimization: bool,
                 drop_states: bool = False, initializer: Any = None, **kwargs: Any) -> None:
        super().__init__(initializer=initializer or LSTMInitializer(hidden_size=hidden_size), **kwargs)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.forget_bias = float(forget_bias)
        self.memory_optimization = memory_optimization
        self.drop_states = drop_states
        self.gates_size = 4 * hidden_size

    def apply_override(self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any,
                       extra_inputs: ExtraInputs = None) -> Any:
        source, width = with_extra_inputs(model, states[0], self.hidden_size, extra_inputs,
                                          "gates_concatenated_input_t")
        gates = project(model, source, "gates_t", width, self.gates_size)
        brew.sum(model, [gates, input_t], gates)
        return self._unit(model, states, gates, seq_lengths, timestep, ["hidden_state", "cell_state"],
                          sequence_lengths=seq_lengths is not None)

    def _unit(self, model: Any, states: Any, gates: Any, seq_lengths: Any, timestep: Any, names: Sequence[str],
              **arguments: Any) -> Any:
        """The new states from the gates; `names` are theirs."""
        if seq_lengths is None:
            arguments["sequence_lengths"] = False
        lengths = [] if seq_lengths is None else [seq_lengths]
        hidden, cell = model.net.LSTMUnit([*states, gates, *lengths, timestep], list(names),
                                          forget_bias=self.forget_bias, drop_states=self.drop_states, **arguments)
        model.net.AddExternalOutputs(*self._declared(hidden, cell))
        if self.memory_optimization:
            self.recompute_blobs = [gates]
        return hidden, cell

    def _declared(self, hidden: Any, cell: Any) -> tuple[Any, Any]:
        """The order in which the step net declares its outputs."""
        return hidden, cell

    def get_input_params(self) -> dict[str, str]:
        """Names of the parameters of the input's part."""
        return {"weights": self.scope("i2h") + "_w", "biases": self.scope("i2h") + "_b"}

    def get_recurrent_params(self) -> dict[str, str]:
        """Names of the parameters of the hidden state's part."""
        return {"weights": self.scope("gates_t") + "_w", "biases": self.scope("gates_t") + "_b"}

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        return project(model, input_blob, self.scope("i2h"), self.input_size, self.gates_size)

    def get_state_names_override(self) -> Sequence[str]:
        return ["hidden_t", "cell_t"]

    def get_output_dim(self) -> int:
        return self.hidden_size


class LayerNormLSTMCell(LSTMCell):
    """`LSTMCell` whose gates are normalized. Source: Ba et al. 2016, https://arxiv.org/abs/1607.06450."""

    def _apply(self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any,
               extra_inputs: ExtraInputs = None) -> Any:
        source, width = with_extra_inputs(model, states[0], self.hidden_size, extra_inputs,
                                          self.scope("gates_concatenated_input_t"))
        gates = project(model, source, self.scope("gates_t"), width, self.gates_size)
        brew.sum(model, [gates, input_t], gates)
        gates = normalized(self, model)
        return self._unit(model, states, gates, seq_lengths, timestep, self.get_state_names())


def normalized(cell: LSTMCell, model: Any) -> Any:
    """The cell's gates, normalized over their last dimension."""
    return brew.layer_norm(model, cell.scope("gates_t"), cell.scope("gates_t_norm"), dim_in=cell.gates_size, axis=-1)[0]


class MILSTMCell(LSTMCell):
    """`LSTMCell` in which input and hidden state multiply: gates = alpha x u + beta1 u + beta2 x + b, u = W h + c.

    Source: Wu et al. 2016, https://arxiv.org/abs/1606.06630.
    """

    def _apply(self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any,
               extra_inputs: ExtraInputs = None) -> Any:
        source, width = with_extra_inputs(model, states[0], self.hidden_size, extra_inputs,
                                          self.scope("gates_concatenated_input_t"))
        before = project(model, source, self.scope("prev_t"), width, self.gates_size)
        alpha, beta1, beta2, bias = (
            model.create_param(self.scope(name), shape=[self.gates_size], initializer=initializer())
            for name, initializer in (("alpha", ones), ("beta1", ones), ("beta2", ones), ("b", zeros)))
        name = self.scope("alpha_by_input_t_plus_beta_h")
        factor = model.net.ElementwiseLinear([input_t, alpha, beta1], name, axis=2)
        product = model.net.Mul([factor, before], name + "_by_prev_t")
        rest = model.net.ElementwiseLinear([input_t, beta2, bias], self.scope("beta_i_by_input_t_plus_b"), axis=2)
        gates = self._finished(model, brew.sum(model, [product, rest], self.scope("gates_t")))
        names = [self.scope("hidden_t_intermediate"), self.scope("cell_t")]
        return self._unit(model, states, gates, seq_lengths, timestep, names)

    def _finished(self, model: Any, gates: Any) -> Any:
        return gates

    def _declared(self, hidden: Any, cell: Any) -> tuple[Any, Any]:
        return cell, hidden


class LayerNormMILSTMCell(MILSTMCell):
    """`MILSTMCell` whose gates are normalized."""

    def _finished(self, model: Any, gates: Any) -> Any:
        return normalized(self, model)
