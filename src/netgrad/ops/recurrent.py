"""Recurrent networks and their cells."""

from __future__ import annotations

from netgrad.graph.arguments import Bool, Int, Ints, Net, Str, Strs
from netgrad.graph.declaration import In, Operator, Out, between
from netgrad.graph.rules import Rule


class RecurrentNetwork(Operator):
    """Runs a step net once per time step, linking states from one step to the next."""

    inputs = [In("input", "(T, N, D)"), In("states and parameters", variadic=True, optional=True)]
    outputs = [Out("outputs", variadic=True), Out("step_workspaces", "kept for the gradient", differentiable=False)]
    num_inputs = between(1, None)
    num_outputs = between(2, None)
    arguments = [
        Net("step_net"), Net("backward_step_net"), Str("timestep", "timestep"), Strs("recurrent_states", ()),
        Ints("initial_recurrent_state_ids", ()), Strs("alias_src", ()), Strs("alias_dst", ()), Ints("alias_offset", ()),
        Strs("link_internal", ()), Strs("link_external", ()), Ints("link_offset", ()), Ints("link_window", ()),
        Strs("backward_link_internal", ()), Strs("backward_link_external", ()), Ints("backward_link_offset", ()),
        Ints("param", (), "positions of inputs that are parameters"), Strs("param_grads", ()),
        Ints("outputs_with_grads", (), "positions of outputs whose gradients flow back"),
        Strs("recompute_blobs_on_backward", ()), Bool("enable_rnn_executor", False), Int("rnn_executor_debug", 0),
    ]
    effects = {"blobs"}

    def gradient(op: Rule) -> None:
        with_gradient = op.arg("outputs_with_grads") or []
        if not with_gradient:
            raise op.fail("its argument outputs_with_grads is empty: it was built forward-only")
        gradients = [0, *(op.arg("param") or []), *(op.arg("initial_recurrent_state_ids") or [])]
        op.emit("RecurrentNetworkGradient",
                [*map(op.GO, with_gradient), *map(op.I, range(op.num_inputs)), *map(op.O, range(op.num_outputs))],
                [op.GI(k) for k in gradients])
