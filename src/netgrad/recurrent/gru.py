"""The gated recurrent unit."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from netgrad.recurrent.cells import ExtraInputs, RNNCell, project
from netgrad.recurrent.layers import _LSTM


class GRUCell(RNNCell):
    """A gated recurrent unit (see the operator GRUUnit); the input's part of the gates is computed beforehand.

    Args:
        input_size, hidden_size: dimensions of input and state.
        forget_bias, memory_optimization: without effect.
        drop_states: states of sequences that have ended become 0.
        linear_before_reset: the reset gate acts on W h + b, as in cuDNN, not on h.
    """

    def __init__(self, input_size: int, hidden_size: int, forget_bias: float, memory_optimization: bool,
                 drop_states: bool = False, linear_before_reset: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.forget_bias = float(forget_bias)
        self.memory_optimization = memory_optimization
        self.drop_states = drop_states
        self.linear_before_reset = linear_before_reset

    # A GRU runs its step net, on every backend. The GRU of torch is another one unless linear_before_reset is set (its
    # reset gate acts on the product), and runs on the CPU as a loop of operators; and it takes the input before the
    # product with its weights, where the operator is given what comes after.
    def _apply(self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any,
               extra_inputs: ExtraInputs = None) -> Any:
        net, before = model.net, states[0]

        def linear(blob: Any, name: str) -> Any:
            return project(model, blob, self.scope(name), self.hidden_size, self.hidden_size)

        input_reset, input_update, input_output = net.Split(
            [input_t], [self.scope(f"input_t_{gate}") for gate in ("reset", "update", "output")], axis=2)
        reset, update = linear(before, "reset_gate_t"), linear(before, "update_gate_t")
        reset = net.Sum([reset, input_reset], self.scope("reset_gate_t"))
        opened = net.Sigmoid(reset, self.scope("reset_gate_t_sigmoid"))
        if self.linear_before_reset:
            output = net.Mul([opened, linear(before, "output_gate_t")], self.scope("output_gate_t_mul"))
        else:
            output = linear(net.Mul([opened, before], self.scope("modified_hidden_t_prev")), "output_gate_t")
        update = net.Sum([update, input_update], self.scope("update_gate_t"))
        output = net.Sum([output, input_output], self.scope("output_gate_t_summed"))
        gates, _ = net.Concat([reset, update, output], [self.scope("gates_t"), self.scope("_gates_t_concat_dims")],
                              axis=2)
        lengths = [] if seq_lengths is None else [seq_lengths]
        hidden = net.GRUUnit([before, gates, *lengths, timestep], list(self.get_state_names()),
                             forget_bias=self.forget_bias, drop_states=self.drop_states,
                             sequence_lengths=seq_lengths is not None)
        net.AddExternalOutputs(hidden)
        return (hidden,)

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        return project(model, input_blob, self.scope("i2h"), self.input_size, 3 * self.hidden_size)

    def get_state_names(self) -> Sequence[str]:
        return (self.scope("hidden_t"),)

    def get_output_dim(self) -> int:
        return self.hidden_size


GRU = functools.partial(_LSTM, GRUCell)
