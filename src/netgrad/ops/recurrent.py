"""Recurrent networks, their cells, and the decoding of sequences."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Bool, Float, Int, Ints, Net, Str, Strs
from netgrad.graph.declaration import In, Operator, Out, between
from netgrad.graph.example import Example
from netgrad.graph.rules import Rule, forbidden, through_nets
from netgrad.graph.shapes import ShapeError, same_as
from netgrad.ops._arrays import one_number, require_shape
from netgrad.ops._logistic import sigmoid


class RecurrentNetwork(Operator):
    """Runs a step net once per time step, linking states from one step to the next."""

    inputs = [In("input", "(T, N, D)"), In("states and parameters", variadic=True, optional=True)]
    outputs = [Out("outputs", "all states, the last ones, and the step workspaces", variadic=True)]
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
    effects = {"blobs", "nets"}

    def kernel(xp: Any, *, op: Any) -> Any:
        return op.inside.run()

    def gradient(op: Rule) -> None:
        if not op.arg("backward_link_internal"):
            raise op.fail("it was built forward-only (its argument backward_link_internal is empty): build it with "
                          "forward_only=False")
        declared = list(op.arg("outputs_with_grads") or [])
        used = declared
        if op.in_pass:  # else the caller names a gradient for every output, whether there is one or not
            flowing = [k for k in range(op.num_outputs) if op.has_GO(k)]
            used = [k for k in declared if k in flowing] + [k for k in flowing if k not in declared]
        names = [op.output_name(k) for k in range(op.num_outputs - 1)]
        more: dict[str, Any] = {} if used == declared else {"outputs_given": used}
        shown = list(op.arg("alias_dst") or [])
        if names != shown and not {*shown, *(op.arg("recurrent_states") or [])}.isdisjoint(names):
            more["forward_outputs"] = names
        gradients = [0, *(op.arg("param") or []), *(op.arg("initial_recurrent_state_ids") or [])]
        op.emit("RecurrentNetworkGradient",
                [*map(op.GO, used), *map(op.I, range(op.num_inputs)), *map(op.O, range(op.num_outputs))],
                [op.GI(k) for k in gradients], **more)


class RecurrentNetworkGradient(Operator):
    """Gradients of RecurrentNetwork: the step net's backward pass, from the last step to the first."""

    inputs = [In("gradients, inputs, outputs", "of the forward operator", variadic=True, optional=True)]
    outputs = [Out("gradients", "of the input, the parameters, the first states", variadic=True, optional=True)]
    arguments = [*RecurrentNetwork.arguments,
                 Ints("outputs_given", None, "positions of outputs whose gradients are inputs, where these are others "
                                             "than outputs_with_grads"),
                 Strs("forward_outputs", None, "names of the forward operator's outputs, where these are others than "
                                               "alias_dst")]
    internal = True
    effects = {"blobs", "nets"}
    gradient = through_nets

    def kernel(xp: Any, *, op: Any) -> Any:
        return op.inside.run()


class RecurrentNetworkBlobFetcher(Operator):
    """Copies the blobs of every step's workspace out, under a prefix, and says their names."""

    inputs = [In("ScratchWorkspaceBlob", "the last output of RecurrentNetwork")]
    outputs = [Out("blob_names", "strings")]
    arguments = [Str("prefix", "rnn")]
    gradient = forbidden()
    effects = {"blobs"}
    host = True

    def kernel(xp: Any, ScratchWorkspaceBlob: Any, *, prefix: str, op: Any) -> Any:
        fetched = {f"{prefix}_{name}{t}": value for t, local in ScratchWorkspaceBlob.local.items()
                   for name, value in local.items()}
        for name, value in fetched.items():
            op.workspace.values[name] = value
        return xp.asarray([name.encode("utf-8") for name in fetched], dtype=object)


class rnn_internal_apply_link(Operator):
    """Makes a step's blob a view of a window of the blob of all steps."""

    inputs = [In("timestep", "(1,), int32", differentiable=False), In("external", "(T, ...)")]
    outputs = [Out("internal", "a window of external"), Out("external", "the input")]
    arguments = [Int("offset", -1), Int("window", -1)]
    inplace_required = {(1, 1)}
    effects = {"blobs"}
    shares = {(1, 0), (1, 1)}

    def kernel(xp: Any, timestep: Any, external: Any, *, offset: int, window: int) -> Any:
        start = int(timestep[0]) + offset
        stop = start + max(window, 1)
        if start < 0 or stop > external.shape[0]:
            raise ValueError(f"rows {start} to {stop - 1} are linked, of {external.shape[0]}; correct the offset")
        return external[start:stop], external


class rnn_internal_accumulate_gradient_input(Operator):
    """Adds this step's row of an output's gradient to its place in the gradient of the state."""

    inputs = [In("timestep", "(1,), int32", differentiable=False), In("output gradient", "(T, ...)"),
              In("gradient", "of the state")]
    outputs = [Out("gradient", "the input", variadic=True)]
    arguments = [Int("offset", -1)]
    inplace_required = {(2, 0)}
    internal = True
    effects = {"blobs"}

    def kernel(xp: Any, timestep: Any, step: Any, gradient: Any, *, offset: int, op: Any) -> Any:
        t = int(timestep[0])
        row = t + offset
        if not (0 <= t < step.shape[0] and 0 <= row < gradient.shape[0]):
            raise ValueError(f"row {t} of {step.shape[0]} is added to row {row} of {gradient.shape[0]}; correct the "
                             "offset")
        added = gradient[row:row + 1] + xp.reshape(step[t:t + 1], (1, *gradient.shape[1:]))
        total = xp.concat([gradient[:row], added, gradient[row + 1:]], axis=0)
        return (total, *(added for _ in range(op.num_outputs - 1)))


def _alive(xp: Any, lengths: Any, timestep: Any, rows: int) -> Any:
    """(N, 1): which sequences have not ended at this step; None where there are no lengths, and all go on."""
    if lengths is None:
        return None
    require_shape("the sequence lengths", lengths, (rows,), ", one per sequence")
    now = one_number(xp, "the timestep", xp.astype(timestep, lengths.dtype))
    return xp.expand_dims(lengths > now, axis=1)


def _where_alive(xp: Any, alive: Any, x: Any, otherwise: Any = None) -> Any:
    """``x`` for sequences that go on, and for those that have ended ``otherwise``, or 0; what is not chosen is not read
    into the result, whatever it holds."""
    if alive is None:
        return x
    return xp.where(alive, x, xp.zeros_like(x) if otherwise is None else otherwise)


def states_of(hidden: Any) -> tuple[int, int]:
    """How many states there are in a hidden state (1, N, D) or (N, D), and how wide they are."""
    if hidden.ndim not in (2, 3) or (hidden.ndim == 3 and hidden.shape[0] != 1):
        raise ShapeError(f"the hidden state has shape {tuple(hidden.shape)}, expected (1, N, D): one step")
    return hidden.shape[-2], hidden.shape[-1]


def _gates(xp: Any, gates: Any, hidden: Any, count: int) -> list[Any]:
    """The gates of a cell, each (N, D)."""
    rows, width = states_of(hidden)
    require_shape("the gates", gates, (*hidden.shape[:-1], count * width), f", {count} gates for each state")
    flat = xp.reshape(gates, (rows, count * width))
    return [flat[:, k * width:(k + 1) * width] for k in range(count)]


def _split_lengths(rest: tuple[Any, ...], sequence_lengths: bool, after: int) -> tuple[Any, tuple[Any, ...]]:
    """The sequence lengths (None without) and the operands after them."""
    if sequence_lengths and len(rest) <= after:
        raise ValueError("the sequence lengths are missing; give them, or sequence_lengths=0")
    return (rest[0], rest[1:]) if len(rest) > after else (None, rest)


CELL = (
    Bool("drop_states", False, "states of ended sequences become 0, not kept"),
    Bool("sequence_lengths", True, "there is an input of sequence lengths"),
)


class LSTMUnit(Operator):
    """One step of a long short-term memory, from gates that are already sums: input, forget, output, candidate.

    Source: Hochreiter and Schmidhuber 1997.
    """

    inputs = [In("hidden_prev", "(1, N, D), float"), In("cell_prev", "like hidden_prev"), In("gates", "(1, N, 4 D)"),
              In("seq_lengths or timestep", "(N,), int32, or (1,), int32", differentiable=False),
              In("timestep", "(1,), int32", optional=True, differentiable=False)]
    outputs = [Out("hidden", "like hidden_prev"), Out("cell", "like hidden_prev")]
    arguments = [Float("forget_bias", 0.0, "added to the forget gate"), *CELL]
    shape = same_as(0, 1)
    example = Example(
        {"hidden_prev": [[[0.5]]], "cell_prev": [[[0.2]]], "gates": [[[0.1, 0.2, 0.3, 0.4]]], "seq_lengths": [1],
         "timestep": [0]},
        {"hidden": [[[0.172287]]], "cell": [[[0.309432]]]})

    def kernel(xp: Any, hidden_prev: Any, cell_prev: Any, gates: Any, *rest: Any, forget_bias: float, drop_states: bool,
               sequence_lengths: bool) -> Any:
        lengths, (timestep,) = _split_lengths(rest, sequence_lengths, 1)
        require_shape("the cell", cell_prev, hidden_prev.shape, ", the hidden state's")
        i, f, o, g = _gates(xp, gates, hidden_prev, 4)
        alive = _alive(xp, lengths if sequence_lengths else None, timestep, i.shape[0])
        before = xp.reshape(cell_prev, i.shape)
        cell = sigmoid(xp, f + forget_bias) * before + sigmoid(xp, i) * xp.tanh(g)
        hidden = sigmoid(xp, o) * xp.tanh(cell)
        hidden = _where_alive(xp, alive, hidden, None if drop_states else xp.reshape(hidden_prev, i.shape))
        cell = _where_alive(xp, alive, cell, None if drop_states else before)
        return xp.reshape(hidden, hidden_prev.shape), xp.reshape(cell, hidden_prev.shape)

    def gradient(op: Rule) -> None:
        lengths = bool(op.arg("sequence_lengths", 1))
        if lengths and op.num_inputs < 5:
            raise op.fail("with sequence_lengths (the default) it has five inputs, the lengths before the timestep")
        op.emit("LSTMUnitGradient",
                [*map(op.I, range(5 if lengths else 4)), op.O(0), op.O(1), op.GO(0), op.GO(1)],
                [op.GI(0), op.GI(1), op.GI(2)])


class LSTMUnitGradient(Operator):
    """Gradients of LSTMUnit for the states and the gates."""

    inputs = [In("hidden_prev"), In("cell_prev"), In("gates"),
              In("seq_lengths", "absent without sequence_lengths", differentiable=False),
              In("timestep", differentiable=False), In("hidden"), In("cell"), In("dhidden", "float"),
              In("dcell", optional=True)]
    outputs = [Out("dhidden_prev", "like hidden_prev"), Out("dcell_prev"), Out("dgates", "like gates")]
    arguments = [Float("forget_bias", 0.0), *CELL]
    internal = True
    shape = same_as(0, 1, 2)
    example = Example(
        {"hidden_prev": [[[0.5]]], "cell_prev": [[[0.2]]], "gates": [[[0.1, 0.2, 0.3, 0.4]]], "seq_lengths": [1],
         "timestep": [0], "hidden": [[[0.172287]]], "cell": [[[0.309432]]], "dhidden": [[[1.0]]], "dcell": [[[1.0]]]},
        {"dhidden_prev": [[[0.0]]], "dcell_prev": [[[0.837271]]],
         "dgates": [[[0.144283, 0.0753822, 0.073318, 0.684017]]]})

    def shape_only(arguments: Any, count: int) -> set[int]:
        return {0, count - 4}

    def kernel(xp: Any, hidden_prev: Any, cell_prev: Any, gates: Any, *rest: Any, forget_bias: float, drop_states: bool,
               sequence_lengths: bool) -> Any:
        lengths, (timestep, _hidden, cell, dhidden, dcell) = _split_lengths(rest, sequence_lengths, 5)
        for name, x in (("the cell", cell_prev), ("the new cell", cell), ("the gradient of the hidden state", dhidden),
                        ("the gradient of the cell", dcell)):
            require_shape(name, x, hidden_prev.shape, ", the hidden state's")
        i, f, o, g = _gates(xp, gates, hidden_prev, 4)
        alive = _alive(xp, lengths if sequence_lengths else None, timestep, i.shape[0])
        dh, dc, before, now = (xp.reshape(x, i.shape) for x in (dhidden, dcell, cell_prev, cell))
        i, f, o = sigmoid(xp, i), sigmoid(xp, f + forget_bias), sigmoid(xp, o)
        g, squashed = xp.tanh(g), xp.tanh(now)
        alive_dh = _where_alive(xp, alive, dh)
        through = _where_alive(xp, alive, dc) + alive_dh * o * (1 - squashed * squashed)
        dgates = xp.concat([through * g * i * (1 - i), through * before * f * (1 - f),
                            alive_dh * squashed * o * (1 - o), through * i * (1 - g * g)], axis=1)
        zero = xp.zeros_like(dh)
        dhidden_prev = zero if drop_states else _where_alive(xp, alive, zero, dh)
        dcell_prev = _where_alive(xp, alive, through * f, None if drop_states else dc)
        return (xp.reshape(dhidden_prev, hidden_prev.shape), xp.reshape(dcell_prev, cell_prev.shape),
                xp.reshape(dgates, gates.shape))


class GRUUnit(Operator):
    """One step of a gated recurrent unit, from gates that are already sums: reset, update, candidate.

    Source: Cho et al. 2014, https://arxiv.org/abs/1406.1078.
    """

    inputs = [In("hidden_prev", "(1, N, D), float"), In("gates", "(1, N, 3 D)"),
              In("seq_lengths or timestep", "(N,), int32, or (1,), int32", differentiable=False),
              In("timestep", "(1,), int32", optional=True, differentiable=False)]
    outputs = [Out("hidden", "like hidden_prev")]
    arguments = [*CELL]
    shape = same_as(0)
    example = Example(
        {"hidden_prev": [[[0.5]]], "gates": [[[0.1, 0.2, 0.3]]], "seq_lengths": [1], "timestep": [0]},
        {"hidden": [[[0.406056]]]},
        wrt=("hidden_prev", "gates"))

    def kernel(xp: Any, hidden_prev: Any, gates: Any, *rest: Any, drop_states: bool, sequence_lengths: bool) -> Any:
        lengths, (timestep,) = _split_lengths(rest, sequence_lengths, 1)
        _reset, z, candidate = _gates(xp, gates, hidden_prev, 3)
        alive = _alive(xp, lengths if sequence_lengths else None, timestep, z.shape[0])
        before, z = xp.reshape(hidden_prev, z.shape), sigmoid(xp, z)
        hidden = z * before + (1 - z) * xp.tanh(candidate)
        hidden = _where_alive(xp, alive, hidden, None if drop_states else before)
        return xp.reshape(hidden, hidden_prev.shape)

    def gradient(op: Rule) -> None:
        lengths = bool(op.arg("sequence_lengths", 1))
        if lengths and op.num_inputs < 4:
            raise op.fail("with sequence_lengths (the default) it has four inputs, the lengths before the timestep")
        op.emit("GRUUnitGradient", [*map(op.I, range(4 if lengths else 3)), op.O(0), op.GO(0)], [op.GI(0), op.GI(1)])


class GRUUnitGradient(Operator):
    """Gradients of GRUUnit for the state and the gates; the reset gate acts before, so that its gradient is 0."""

    inputs = [In("hidden_prev"), In("gates"),
              In("seq_lengths", "absent without sequence_lengths", differentiable=False),
              In("timestep", differentiable=False),
              In("hidden"), In("dhidden", "float", optional=True)]
    outputs = [Out("dhidden_prev", "like hidden_prev"), Out("dgates", "like gates")]
    arguments = [*CELL]
    internal = True
    shape = same_as(0, 1)
    example = Example(
        {"hidden_prev": [[[0.5]]], "gates": [[[0.1, 0.2, 0.3]]], "seq_lengths": [1], "timestep": [0],
         "hidden": [[[0.406056]]], "dhidden": [[[1.0]]]},
        {"dhidden_prev": [[[0.549834]]], "dgates": [[[0.0, 0.0516536, 0.411964]]]})

    def shape_only(arguments: Any, count: int) -> set[int]:
        return {count - 2}

    def kernel(xp: Any, hidden_prev: Any, gates: Any, *rest: Any, drop_states: bool, sequence_lengths: bool) -> Any:
        lengths, (timestep, _hidden, dhidden) = _split_lengths(rest, sequence_lengths, 3)
        require_shape("the gradient of the hidden state", dhidden, hidden_prev.shape, ", the state's")
        _reset, z, candidate = _gates(xp, gates, hidden_prev, 3)
        alive = _alive(xp, lengths if sequence_lengths else None, timestep, z.shape[0])
        z, candidate = sigmoid(xp, z), xp.tanh(candidate)
        before, dh = xp.reshape(hidden_prev, z.shape), xp.reshape(dhidden, z.shape)
        through = _where_alive(xp, alive, dh)
        dgates = xp.concat([xp.zeros_like(z), through * (before - candidate) * z * (1 - z),
                            through * (1 - z) * (1 - candidate * candidate)], axis=1)
        dprev = _where_alive(xp, alive, through * z, None if drop_states else dh)
        return xp.reshape(dprev, hidden_prev.shape), xp.reshape(dgates, gates.shape)
