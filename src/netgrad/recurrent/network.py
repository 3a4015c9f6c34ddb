"""`recurrent_net`: a step net becomes an operator that runs it over a sequence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from netgrad.graph.blob import BlobReference
from netgrad.graph.operator import CreateOperator
from netgrad.proto import caffe2_pb2
from netgrad.recurrent.step_gradient import StepGradient

Triples = list[tuple[str, str, int]]


def recurrent_net(
    net: Any,
    cell_net: Any,
    inputs: Sequence[tuple[Any, Any]],
    initial_cell_inputs: Sequence[tuple[Any, Any]],
    links: Mapping[Any, Any],
    timestep: Any = None,
    scope: str | None = None,
    outputs_with_grads: Sequence[int] = (0,),
    recompute_blobs_on_backward: Iterable[Any] | None = None,
    forward_only: bool = False,
    overwritten: str = "error",
) -> tuple[BlobReference, ...]:
    """Writes a RecurrentNetwork operator, which runs a step net once per time step.

    Args:
        net: where the operator goes.
        cell_net: the step net.
        inputs: one pair: the step's input and the sequence (T, N, ...) whose rows it is.
        initial_cell_inputs: pairs of a state, by the name under which the step reads it, and the blob with its first
            value: (L, N, D), (N, D), or (D,) for all sequences alike.
        links: state -> what the step makes of it for the next one.
        timestep: the blob in which the step finds the time (int32, one element); "timestep" unless given.
        scope: where the states of all steps are named; a new name unless given.
        outputs_with_grads: positions of the outputs whose gradients flow back; in Caffe2 those of others are lost, and
            one that is missing is an error. Here what flows back is what there is.
        recompute_blobs_on_backward: blobs that the gradient computes anew, so that they need not be kept for each step.
        forward_only: without a gradient.
        overwritten: "error" refuses a step net that overwrites what its gradient needs; "save" changes it so that such
            values are kept.

    Returns:
        For each state the values of all steps, (T, N, D), and the last one, (1, N, D).

    Raises:
        AssertionError: there is not just one input.
        KeyError: a state is not linked.
        ValueError, RuntimeError: the step net cannot be differentiated.
    """
    if len(inputs) != 1:
        raise AssertionError(f"a recurrent network has one input sequence, not {len(inputs)}; concatenate them")
    prefix = f"{net.NextName('recurrent') if scope is None else scope}/"
    sequence, step_input = inputs[0][1], str(inputs[0][0])
    states = [str(state) for state, _ in initial_cell_inputs]
    firsts = [first for _, first in initial_cell_inputs]
    references_of = {str(state): output for state, output in links.items()}
    made = {state: str(output) for state, output in references_of.items()}
    if missing := [state for state in states if state not in made]:
        raise KeyError(f"links say nothing of {', '.join(missing)}: they name what a step makes of each state")
    step = cell_net.Proto()
    step.type = "simple"
    inside = {step_input, *states} | ({str(timestep)} if timestep is not None else set())
    references = [BlobReference(name) for name in step.external_input if name not in inside]

    forward: Triples = []
    aliases: Triples = []
    for state in states:
        rows = f"{prefix}{state}_states"
        forward += [(state, rows, 0), (made[state], rows, 1)]
        aliases += [(rows, made[state] + "_all", 1), (rows, made[state] + "_last", -1)]
    forward.append((step_input, str(sequence), 0))

    backward: dict[str, Any] = {}
    if not forward_only:
        recomputed = sorted({str(blob) for blob in recompute_blobs_on_backward or ()})
        gradient = StepGradient(cell_net, [made[state] for state in states], [*states, step_input], recomputed,
                                overwritten)
        flows = [*((f"{made[state]}_grad", state, f"{prefix}{state}_states_grad") for state in states),
                 (None, step_input, f"{sequence}_grad")]
        backward = _backward_arguments(gradient, step, references, 1 + len(firsts), flows, outputs_with_grads,
                                       recomputed)

    results = net.RecurrentNetwork(
        [sequence, *firsts, *references],
        [*(references_of[state] + suffix for state in states for suffix in ("_all", "_last")),
         prefix + "step_workspaces"],
        alias_src=[source for source, _, _ in aliases],
        alias_dst=[name for _, name, _ in aliases],
        alias_offset=[offset for _, _, offset in aliases],
        recurrent_states=[f"{prefix}{state}_states" for state in states],
        initial_recurrent_state_ids=list(range(1, 1 + len(firsts))),
        link_internal=[name for name, _, _ in forward],
        link_external=[name for _, name, _ in forward],
        link_offset=[offset for _, _, offset in forward],
        enable_rnn_executor=1,
        step_net=step,
        timestep="timestep" if timestep is None else str(timestep),
        **backward,
    )
    return tuple(results[:-1])


def _backward_arguments(gradient: StepGradient, step: Any, references: Sequence[Any], before: int,
                        flows: Iterable[tuple[str | None, str, str]], outputs_with_grads: Sequence[int],
                        recomputed: Sequence[str]) -> dict[str, Any]:
    """The arguments that say how the gradient runs.

    Args:
        gradient: the step net's.
        step: the step net.
        references: blobs outside that it reads.
        before: how many inputs of the operator come before them.
        flows: (gradient that a step is given, blob of the step net, rows of the gradient outside).
        outputs_with_grads, recomputed: of `recurrent_net`.
    """
    proto = gradient.net.Proto()
    found = gradient.gradient_of
    links: Triples = []
    for given, blob, rows in flows:
        if given is not None:
            links.append((given, rows, 1))
            proto.external_input.append(given)
        if blob in found:
            links.append((found[blob], rows, 0))
    proto.external_input.extend([*step.external_input, *step.external_output, *gradient.accumulated[1:]])
    with_gradient = [(before + k, str(found[name])) for k, name in enumerate(references) if name in found]
    arguments = {
        "param": [k for k, _ in with_gradient],
        "backward_link_internal": [name for name, _, _ in links],
        "backward_link_external": [rows for _, rows, _ in links],
        "backward_link_offset": [offset for _, _, offset in links],
        "outputs_with_grads": outputs_with_grads,
        "recompute_blobs_on_backward": recomputed,
        "param_grads": [name for _, name in with_gradient],
    }
    if len(proto.op):
        arguments["backward_step_net"] = proto
    return arguments


def set_rnn_executor_config(rnn_op: Any, num_threads: int | None = None, max_cuda_streams: int | None = None) -> None:
    """Notes on a recurrent operator how Caffe2's executor of step nets is to run it; netgrad has no such choices.

    Raises:
        AssertionError: the operator is no recurrent one.
    """
    if rnn_op.type not in ("RecurrentNetwork", "RecurrentNetworkGradient"):
        raise AssertionError(f"{rnn_op.type} is no recurrent operator; RecurrentNetwork or its gradient is expected")
    for name, value in (("num_threads", num_threads), ("max_cuda_streams", max_cuda_streams)):
        if value is not None:
            rnn_op.arg.append(caffe2_pb2.Argument(name=f"rnn_executor.{name}", i=value))


def retrieve_step_blobs(net: Any, prefix: str = "rnn") -> list[bytes]:
    """Copies what the steps of a net's recurrent operators left into the current workspace; returns the blobs' names.

    The blob ``x`` of the step at time t becomes ``<prefix>_x<t>``.
    """
    from netgrad.runtime.workspace import Workspace

    found: list[bytes] = []
    operators = [op for op in net.Proto().op if op.type == "RecurrentNetwork"]
    for count, op in enumerate(operators, start=1):
        names = f"{prefix}_{count}"
        workspace = Workspace.current
        workspace.run_operator(CreateOperator("RecurrentNetworkBlobFetcher", [op.output[-1]], [names], prefix=prefix))
        found += workspace.fetch_blob(names).tolist()
    return found
