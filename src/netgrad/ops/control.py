"""Control flow: conditions, loops, scopes. Nets are arguments."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import ArgumentError, Bool, Int, Ints, Net, Strs
from netgrad.graph.declaration import ANY_PAIR, In, Operator, Out, between
from netgrad.graph.example import Example
from netgrad.graph.rules import forbidden, no_gradient, through_nets
from netgrad.graph.shapes import TensorType
from netgrad.ops._arrays import require_shape, require_size


def _there(net: Any, argument: str) -> Any:
    """A net that an operator cannot do without."""
    if net is None:
        raise ArgumentError(f"argument {argument!r} holds no net; give it one")
    return net


class If(Operator):
    """Runs one of two nets, by a condition, on the blobs around it."""

    inputs = [In("condition", "a single bool"), In("blobs", "whatever the nets read", variadic=True, optional=True)]
    outputs = [Out("blobs", "whatever the nets write", variadic=True, optional=True)]
    arguments = [Net("then_net"), Net("else_net", None, "may be absent")]
    inplace = ANY_PAIR
    effects = {"blobs", "nets"}
    gradient = through_nets

    def kernel(xp: Any, *, op: Any) -> None:
        body, otherwise = _there(op.nets.get("then_net"), "then_net"), op.nets.get("else_net")
        if op.truth(0):
            body.run()
        elif otherwise is not None:
            otherwise.run()


class AsyncIf(If):
    """If, for executors that run operators side by side."""


class While(Operator):
    """Runs cond_net and then loop_net, again and again, while the condition is true."""

    inputs = [In("condition", "a single bool"), In("blobs", "whatever the nets read", variadic=True, optional=True)]
    outputs = [Out("blobs", "whatever the nets write", variadic=True, optional=True)]
    arguments = [Net("loop_net"), Net("cond_net", None, "computes the condition anew; may be absent")]
    inplace = ANY_PAIR
    effects = {"blobs", "nets"}
    gradient = through_nets

    def kernel(xp: Any, *, op: Any) -> None:
        condition, body = op.nets.get("cond_net"), _there(op.nets.get("loop_net"), "loop_net")
        while True:
            if condition is not None:
                condition.run()
            if not op.truth(0):
                return
            body.run()


class ONNXWhile(Operator):
    """A loop as ONNX has it: a body run up to max_trip_count times, while its condition holds.

    The body's external inputs are the round (int64 scalar), the condition, and the carried values; its external outputs
    the condition, the carried values, and values of each round, which are concatenated along the first axis.
    """

    inputs = [In("max_trip_count", "a single int64"), In("first_iter_condition", "a single bool"),
              In("initial", "first values of the loop-carried blobs", variadic=True, optional=True)]
    outputs = [Out("final", "last values of the loop-carried blobs, then those of all rounds", variadic=True,
                   optional=True)]
    arguments = [
        Net("body"),
        Bool("has_trip_count", False, "max_trip_count counts"), Bool("has_cond", False, "the condition counts"),
        Bool("save_scopes", False, "means nothing here"),
        Bool("disable_scopes", False, "run in the outer workspace"),
        Int("num_loop_carried_deps", -1, "all inputs but the first two unless given"),
    ]
    inplace = ANY_PAIR
    shares = {(i, o) for i in range(2, 34) for o in range(32)}  # what the body passes on
    effects = {"blobs", "nets"}

    def kernel(xp: Any, max_trip_count: Any, first_iter_condition: Any, *initial: Any, has_trip_count: bool,
               has_cond: bool, num_loop_carried_deps: int, op: Any) -> Any:
        count = len(initial) if num_loop_carried_deps < 0 else num_loop_carried_deps
        carried, rest = list(initial[:count]), initial[count:]
        rounds: list[list[Any]] = [[] for _ in range(op.num_outputs - count)]
        most = int(max_trip_count) if has_trip_count else None
        condition = first_iter_condition
        trip = 0
        while (most is None or trip < most) and (not has_cond or bool(condition)):
            number = xp.asarray(trip, dtype=xp.int64)
            condition, *made = _there(op.inside, "body").run(number, condition, *carried, *rest)
            carried = made[:count]
            for seen, value in zip(rounds, made[count:]):
                seen.append(value if value.ndim else xp.reshape(value, (1,)))
            trip += 1
        stacked = [xp.concat(seen) if seen else xp.zeros((0,), dtype=xp.int32) for seen in rounds]
        return (*carried, *stacked)


class Do(Operator):
    """Runs a net in a workspace of its own whose blobs are bound to blobs outside."""

    inputs = [In("blobs", "blobs from outside, then the workspaces' blob", variadic=True)]
    outputs = [Out("blobs", "blobs written outside, then the workspaces' blob", variadic=True)]
    arguments = [
        Net("net"), Strs("inner_blobs", (), "names inside"),
        Ints("outer_blobs_idx", (), "which inputs or outputs they are"),
        Strs("saved_fwd_blobs", (), "of a gradient: what it reads in the workspace that the forward operator left"),
        Bool("reuse_workspace", False, "one workspace for all runs, not a stack of them"),
        Bool("copy_external_blobs", False, "the workspace keeps the values of bound blobs, too"),
    ]
    inplace = ANY_PAIR
    effects = {"blobs", "nets"}
    gradient = through_nets

    def kernel(xp: Any, *, op: Any) -> None:
        _there(op.inside, "net").run()


class CreateScope(Operator):
    """An empty stack of workspaces, for Do."""

    outputs = [Out("scope", "opaque")]
    gradient = forbidden()
    effects = {"state"}
    host = True

    def kernel(xp: Any) -> Any:
        from netgrad.runtime.nested import ScopeStack

        return ScopeStack()


class CopyScope(Operator):
    """A copy of a stack of workspaces: what takes runs off the one leaves them on the other.

    Empty where there is no stack: a branch that was not taken made none. Backward passes that save put it before the
    gradients of an earlier pass, which take the runs off.
    """

    inputs = [In("scope", "opaque")]
    outputs = [Out("copy", "opaque")]
    gradient = no_gradient
    effects = {"state", "nets"}
    internal = True
    host = True

    def kernel(xp: Any, *, op: Any) -> Any:
        from netgrad.runtime.nested import ScopeStack

        scope = op.workspace.values.get(op.inputs[0])
        return ScopeStack() if scope is None else scope.copy()


class HasScope(Operator):
    """Whether a stack of workspaces holds any."""

    inputs = [In("scope", "opaque")]
    outputs = [Out("has", "(1,), bool")]
    gradient = forbidden()
    host = True

    def shape(scope: TensorType) -> TensorType:
        return TensorType("bool", (1,))

    def kernel(xp: Any, scope: Any) -> Any:
        return xp.asarray([bool(scope.runs)])


class Conditional(Operator):
    """Each row of the output comes from DataT or from DataF, by a condition per row."""

    inputs = [In("Condition", "(N,), bool"), In("DataT", "(N, ...)"), In("DataF", "like DataT")]
    outputs = [Out("DataO", "like DataT")]
    gradient = no_gradient
    example = Example({"Condition": [True, False], "DataT": [1.0, 2.0], "DataF": [3.0, 4.0]}, {"DataO": [1.0, 4.0]})

    def shape(Condition: TensorType, DataT: TensorType, DataF: TensorType) -> TensorType:
        return DataT

    def kernel(xp: Any, Condition: Any, DataT: Any, DataF: Any) -> Any:
        require_shape("DataF", DataF, DataT.shape, ", DataT's")
        require_size("the condition", Condition, DataT.shape[0], ", one per row")
        return xp.where(xp.reshape(Condition, (-1, *(1 for _ in DataT.shape[1:]))), DataT, DataF)


class AsyncNetBarrier(Operator):
    """The outputs are the inputs; an executor waits for all of them here."""

    inputs = [In("blobs", variadic=True)]
    outputs = [Out("blobs", "the inputs", variadic=True)]
    arguments = [Int("cross_device", 0, "1: across devices, too")]
    inplace = {(k, k) for k in range(64)}
    inplace_keeps_shape = True
    shares = {(k, k) for k in range(64)}
    num_inputs = between(1, None)
    gradient = forbidden()
    example = Example({"X": [1.0]}, {"X": [1.0]})

    def shape(*blobs: TensorType, **_: Any) -> tuple[TensorType, ...]:
        return blobs

    def kernel(xp: Any, *blobs: Any) -> Any:
        return tuple(blobs)
