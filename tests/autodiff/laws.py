"""What must hold of every backward pass, checked by numbers: see `check`."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from random_nets import Case

from netgrad.autodiff.errors import DeviceMismatchError, MissingOutputGradientError, MissingRuleError, OverwrittenError
from netgrad.autodiff.explanation import of_backward_pass
from netgrad.autodiff.verification import verify
from netgrad.graph.arguments import value_of
from netgrad.graph.net import Net
from netgrad.graph.operator import CreateOperator, GradientSlice
from netgrad.proto import caffe2_pb2
from netgrad.runtime.workspace import Workspace

Values = dict[str, np.ndarray]


class Broken(AssertionError):
    """A law does not hold."""


def run(ops: Sequence[Any], feeds: Mapping[str, np.ndarray], backend: str = "numpy") -> Values:
    """All blobs after the operators, in float64 where the feeds are."""
    workspace = Workspace(backend=backend)
    for name, value in feeds.items():
        workspace.feed_blob(name, value)
    workspace.run_net_once(caffe2_pb2.NetDef(name="net", op=ops))
    return {name: workspace.fetch_blob(name) for name in workspace.names()}


class Function:
    """The sum of the ys times their cotangents, as a function of the blobs before the operators.

    Outputs of StopGradient are constants: they keep what they are at the point of evaluation.
    """

    def __init__(self, ops: Sequence[Any], feeds: Values, cotangents: Values) -> None:
        self.cotangents = cotangents
        self.feeds = dict(feeds)
        self.ops: list[Any] = []
        workspace = Workspace(backend="numpy")
        for name, value in feeds.items():
            workspace.feed_blob(name, value)
        for position, op in enumerate(ops):
            if op.type == "StopGradient":
                kept = f"__stopped_{position}"
                self.feeds[kept] = workspace.fetch_blob(op.input[0]).copy()
                self.ops.append(CreateOperator("Copy", [kept], list(op.output)))
            else:
                bare = caffe2_pb2.OperatorDef()
                bare.CopyFrom(op)
                bare.ClearField("device_option")
                self.ops.append(bare)
            workspace.run_operator(op)
        self.after = {name: workspace.fetch_blob(name) for name in workspace.names()}
        self.base = self._sum(self.after)

    def _sum(self, values: Values) -> float:
        return float(sum((values[y] * weight).sum() for y, weight in self.cotangents.items()))

    def at(self, blob: str, shift: np.ndarray, position: int | None = None) -> float:
        """The value where a feed, or what the operator at a position wrote to the blob, is shifted."""
        if position is None:
            return self._sum(run(self.ops, {**self.feeds, blob: self.feeds[blob] + shift}))
        add = CreateOperator("Add", [blob, "__shift"], [blob])
        ops = [*self.ops[: position + 1], add, *self.ops[position + 1 :]]
        return self._sum(run(ops, {**self.feeds, "__shift": shift}))

    def slope(self, blob: str, direction: np.ndarray, position: int | None = None) -> tuple[float, float] | None:
        """The derivative along a direction and its uncertainty; None next to a kink or a pole."""
        found = []
        for h in (1e-4, 5e-5):
            right, left = (self.at(blob, s * h * direction, position) for s in (1, -1))
            found.append((right - left) / (2 * h))
            curvature = abs(right - 2 * self.base + left) / h  # a kink leaves the difference of the one-sided slopes
            if not np.isfinite(curvature) or curvature > 1e-2 * (1 + abs(found[-1])):
                return None
        best = (4 * found[1] - found[0]) / 3
        noise = abs(found[1] - found[0]) + 1e-9 * (1 + abs(self.base))
        return None if noise > 1e-4 * (1 + abs(best)) else (best, noise)


def parts(gradient: Any) -> list[str]:
    """The blobs of a gradient of the map."""
    return [str(gradient.indices), str(gradient.values)] if isinstance(gradient, GradientSlice) else [str(gradient)]


def dense(gradient: Any, values: Values, shape: tuple[int, ...]) -> np.ndarray:
    """A gradient of the map, from the blobs after a run; zeros for None."""
    if gradient is None:
        return np.zeros(shape)
    if not isinstance(gradient, GradientSlice):
        return values[str(gradient)]
    whole = np.zeros(shape)
    indices, rows = values[str(gradient.indices)], values[str(gradient.values)]
    np.add.at(whole, indices.reshape(-1), rows.reshape(indices.size, *shape[1:]))
    return whole


def rows_of(gradient: Any, values: Values) -> tuple[int, ...] | None:
    """The least shape that a slice fits in; None if the gradient is dense."""
    if not isinstance(gradient, GradientSlice):
        return None
    indices, rows = values[str(gradient.indices)], values[str(gradient.values)]
    return (int(indices.max(initial=-1)) + 1, *rows.shape[indices.ndim :])


def targets(ops: Sequence[Any], feeds: Values, r: random.Random) -> list[tuple[str, int | None]]:
    """Blobs whose gradient is without doubt: feeds that are overwritten in place at most, and blobs written once."""
    writes: dict[str, int] = {}
    for op in ops:
        for name in op.output:
            writes[name] = writes.get(name, 0) + 1
    found: list[tuple[str, int | None]] = [
        (x, None)
        for x, value in feeds.items()
        if value.dtype == np.float64
        and not x.startswith("held")
        and any(x in op.input for op in ops)
        and all(x in op.input for op in ops if x in op.output)
    ]
    once = [
        (name, position)
        for position, op in enumerate(ops)
        for name in op.output
        if writes[name] == 1 and name not in feeds
    ]
    once = [(name, position) for name, position in once if not any(name in op.input for op in ops[: position + 1])]
    return found + r.sample(once, min(2, len(once)))


def check_numbers(
    ops: Sequence[Any],
    feeds: Values,
    cotangents: Values,
    gradients: Mapping[str, Any],
    values: Values,
    r: random.Random,
) -> int:
    """Compares gradients with finite differences along random directions; returns how many verdicts there were."""
    function = Function(ops, feeds, cotangents)
    numbers = np.random.default_rng(r.randrange(2**32))
    verdicts = 0
    for blob, position in targets(ops, feeds, r):
        at = feeds[blob] if position is None else function.after[blob]
        if at.dtype != np.float64:
            continue
        got = dense(gradients.get(blob), values, at.shape)
        if got.shape != at.shape:
            raise Broken(f"the gradient of {blob!r} has shape {got.shape}, the blob {at.shape}")
        direction = numbers.uniform(-1, 1, at.shape)
        estimate = function.slope(blob, direction, position)
        if estimate is None:
            continue
        verdicts += 1
        computed, size = float((got * direction).sum()), float(np.abs(got * direction).sum())
        if not abs(computed - estimate[0]) <= 1e-5 * (1 + size) + 10 * estimate[1]:
            raise Broken(
                f"the gradient of {blob!r} gives {computed:.9g} along a direction, finite differences {estimate[0]:.9g}"
            )
    return verdicts


# nets


def build(case: Case, r: random.Random) -> Any:
    """The case as a Net: through its methods, then edited by hand as the case says, looked up in between."""
    net = Net("net")
    if not case.edits:
        net.Proto().op.extend(case.ops)
    else:
        plan = [(op, list(op.output)) for op in case.ops]
        left_out = {k for kind, k in case.edits if kind == "insert"}
        renamed = {k for kind, k in case.edits if kind == "rename"}
        extra = {k for kind, k in case.edits if kind == "delete"}
        for k, (op, outputs) in enumerate(plan):
            if k in left_out:
                continue
            if k in extra:
                net.Copy([op.input[0]] if op.input else [], ["to_delete"])
            arguments = {a.name: value_of(a) for a in op.arg}
            if op.HasField("device_option"):
                arguments["device_option"] = op.device_option
            names = [f"{name}_old" if k in renamed else name for name in outputs]
            getattr(net, op.type)(list(op.input), names, **arguments)
            if r.random() < 0.3:
                net.NextName()
                net.BlobIsDefined(names[0] if names else "nothing")
        proto = net.Proto()
        for k in range(len(proto.op) - 1, -1, -1):
            if proto.op[k].output == ["to_delete"]:
                del proto.op[k]
        for k in sorted(left_out):  # repeated fields of messages have no insert
            tail = [caffe2_pb2.OperatorDef.FromString(op.SerializeToString()) for op in proto.op[k:]]
            del proto.op[k:]
            proto.op.extend([case.ops[k], *tail])
        for k in renamed:
            proto.op[k].output[:] = case.ops[k].output
    given = [name for name in case.feeds if name not in net.Proto().external_input]
    for name in given:
        net.AddExternalInput(name)
    return net


def ys_of(case: Case) -> Any:
    if all(g is None for g in case.ys.values()):
        return list(case.ys)
    return {y: GradientSlice(*g) if isinstance(g, tuple) else g for y, g in case.ys.items()}


def is_refusal(error: Exception, overwritten: str) -> bool:
    """Whether an error is one of the refusals that the way of asking allows."""
    if overwritten == "save":
        return False
    return isinstance(error, (OverwrittenError, DeviceMismatchError, MissingOutputGradientError)) or (
        isinstance(error, MissingRuleError) and "ZeroGradient" in str(error)
    )


def check(
    case: Case,
    r: random.Random,
    *,
    overwritten: str = "error",
    backend: str = "numpy",
    share_results: bool = True,
    wrt: bool = False,
    rewire: bool = False,
    again: bool = False,
    redo: bool = False,
) -> str:
    """Differentiates a case and checks all laws; returns "right", "refused", "nothing to check" or "no verdict".

    Raises:
        Broken: a law does not hold.
    """
    if not case.ys:
        return "nothing to check"
    net = build(case, r)
    untouched = net.Proto().SerializeToString(deterministic=True)
    try:
        gradients = net.AddGradientOperators(
            ys_of(case), skip=case.skip, overwritten=overwritten, share_results=share_results
        )
    except Exception as error:
        if net.Proto().SerializeToString(deterministic=True) != untouched:
            raise Broken("the net was changed by a call that raised") from error
        if is_refusal(error, overwritten):
            return "refused"
        raise Broken(f"{type(error).__name__}: {error}") from error
    gradients = {str(blob): gradient for blob, gradient in gradients.items()}
    whole = list(net.Proto().op)
    try:
        values = run(whole, case.feeds, backend)
    except Exception as error:
        raise Broken(f"the backward pass does not run: {error}") from error
    before = run(case.ops[: case.skip], case.feeds)
    ops = case.ops[case.skip :]
    check_unchanged(case, run(case.ops, case.feeds, backend), values)
    if not share_results:
        check_separate(gradients)
    verdicts = check_numbers(ops, before, case.cotangents, gradients, values, r)
    if not case.skip:
        check_verified(case, net, r, rewire and overwritten == "error" and share_results)
    if wrt and gradients:
        check_wrt(case, r, gradients, values, overwritten, share_results, backend)
    if redo and overwritten == "error" and share_results:
        check_done_again(case, net)
    if again:
        check_second_call(case, net, gradients, values, r, overwritten, backend)
    return "right" if verdicts else "no verdict"


def check_unchanged(case: Case, alone: Values, values: Values) -> None:
    """The backward pass leaves every forward blob and every given gradient as it was."""
    for name, value in {**case.feeds, **alone}.items():
        expected = alone.get(name, value)
        if not np.array_equal(values[name], expected, equal_nan=True):
            raise Broken(f"the backward pass changed {name!r} from {expected} to {values[name]}")


def check_separate(gradients: Mapping[str, Any]) -> None:
    owners: dict[str, str] = {}
    for blob, gradient in gradients.items():
        for part in parts(gradient):
            if part in owners:
                raise Broken(f"{owners[part]!r} and {blob!r} share {part!r} although results are not to be shared")
            owners[part] = blob


def check_verified(case: Case, net: Any, r: random.Random, rewire: bool) -> None:
    """`verify` finds nothing; and something once a read of a gradient operator sees another value."""
    ys = ys_of(case)
    findings = verify(net, ys)
    if findings:
        raise Broken(f"verify finds: {findings[0]}")
    if not rewire:
        return
    ops = list(net.Proto().op)
    reads = [
        (n, k) for n, op in enumerate(ops) if op.is_gradient_op or n >= len(case.ops) for k in range(len(op.input))
    ]
    r.shuffle(reads)
    for n, k in reads:
        now = run(ops[:n], case.feeds)
        meant = now[ops[n].input[k]]
        others = [
            name
            for name, value in now.items()
            if value.shape == meant.shape and value.dtype == meant.dtype and not np.array_equal(value, meant)
        ]
        if not others:
            continue
        changed = caffe2_pb2.NetDef(op=ops)
        changed.op[n].input[k] = r.choice(others)
        if not verify(changed, ys):
            raise Broken(
                f"verify does not see that operator {n} reads {changed.op[n].input[k]!r} instead of {ops[n].input[k]!r}"
            )
        return


def check_wrt(
    case: Case,
    r: random.Random,
    gradients: Mapping[str, Any],
    values: Values,
    overwritten: str,
    share_results: bool,
    backend: str,
) -> None:
    """With ``wrt`` the same numbers come out, by operators each of which leads to them."""
    wanted = r.sample(sorted(gradients), min(len(gradients), r.choice([1, 1, 2])))
    net = build(case, r)
    some = net.AddGradientOperators(
        ys_of(case), skip=case.skip, wrt=wanted, overwritten=overwritten, share_results=share_results
    )
    if {str(blob) for blob in some} != set(wanted):
        raise Broken(f"asked for {wanted}, got the gradients of {sorted(map(str, some))}")
    ops = list(net.Proto().op)
    now = run(ops, case.feeds, backend)
    for blob in wanted:
        full, part = gradients[blob], some[blob]
        shape = rows_of(part, now) or rows_of(full, values) or values[blob].shape
        sides = [dense(g, v, shape) for g, v in ((full, values), (part, now))]
        if sides[0].shape != sides[1].shape or not np.allclose(*sides, rtol=1e-9, atol=1e-12, equal_nan=True):
            raise Broken(f"with wrt={wanted} the gradient of {blob!r} is {sides[1]}, without it {sides[0]}")
    findings = verify(ops, ys_of(case), wrt=wanted) if not case.skip else []
    if findings:
        raise Broken(f"with wrt={wanted} verify finds: {findings[0]}")
    start = len(ops) - sum(map(of_backward_pass, ops))
    live = {part for g in some.values() for part in parts(g)}
    for op in reversed(ops[start:]):
        if live.isdisjoint(op.output):
            raise Broken(f"with wrt={wanted} {op.type} -> {list(op.output)} leads to nothing that is wanted")
        live.difference_update(op.output)
        live.update(op.input)


def check_done_again(case: Case, net: Any) -> None:
    """After its gradient operators were deleted by hand, a net is differentiated as it was the first time."""
    first = net.Proto().SerializeToString()
    del net.Proto().op[len(case.ops) :]
    net.AddGradientOperators(ys_of(case), skip=case.skip)
    if net.Proto().SerializeToString() != first:
        raise Broken("the pass is another one after the first was deleted by hand")


def check_second_call(
    case: Case, net: Any, first: Mapping[str, Any], values: Values, r: random.Random, overwritten: str, backend: str
) -> None:
    """A second pass over one net, of other ys: its own map is right, and the first one's still is."""
    written = list(dict.fromkeys(n for op in case.ops for n in op.output))
    base = run(case.ops, case.feeds)
    pool = [n for n in written if base[n].dtype == np.float64 and base[n].size and not n.startswith(("mean", "std"))]
    y = r.choice(pool)
    if r.random() < 0.3:  # an operator that is put between the forward net and the first pass by hand
        whole = list(net.Proto().op)
        at = r.choice([0, len(whole) - sum(map(of_backward_pass, whole)), len(whole)])
        blob = r.choice([n for n in case.feeds if at == 0] or list(base))
        edited = caffe2_pb2.NetDef(op=[*whole[:at], CreateOperator("Copy", [blob], ["put_in"]), *whole[at:]])
        del net.Proto().op[:]
        net.Proto().op.extend(edited.op)
    try:
        second = net.AddGradientOperators([y], overwritten=overwritten)
    except Exception as error:
        if is_refusal(error, overwritten) or isinstance(error, MissingRuleError):
            return
        raise Broken(f"second call for {y!r}: {type(error).__name__}: {error}") from error
    try:
        now = run(list(net.Proto().op), case.feeds, backend)
    except Exception as error:
        raise Broken(f"after a second call for {y!r} the net does not run: {error}") from error
    for blob, gradient in first.items():
        for part in parts(gradient):
            if not np.array_equal(values[part], now[part], equal_nan=True):
                raise Broken(
                    f"the second call for {y!r} changed {part!r}, the gradient of {blob!r}, from {values[part]} to "
                    f"{now[part]}"
                )
    check_unchanged(case, run(case.ops, case.feeds, backend), now)
    check_numbers(case.ops, case.feeds, {y: np.ones(base[y].shape)}, {str(b): g for b, g in second.items()}, now, r)


# smaller cases


def shrink(case: Case, fails: Any) -> Case:
    """A smaller case that still fails: operators and ys are left out one by one."""
    changed = True
    while changed:
        changed = False
        candidates = [
            replace(case, ops=case.ops[:k] + case.ops[k + 1 :], skip=0 if k < case.skip else case.skip)
            for k in reversed(range(len(case.ops)))
        ]
        candidates += [
            replace(
                case,
                ys={k: v for k, v in case.ys.items() if k != y},
                cotangents={k: v for k, v in case.cotangents.items() if k != y},
            )
            for y in case.ys
            if len(case.ys) > 1
        ]
        candidates += [replace(case, skip=0)] if case.skip else []
        candidates += [replace(case, edits=())] if case.edits else []
        for k, op in enumerate(case.ops):
            if op.HasField("device_option"):
                bare = caffe2_pb2.OperatorDef()
                bare.CopyFrom(op)
                bare.ClearField("device_option")
                candidates.append(replace(case, ops=[*case.ops[:k], bare, *case.ops[k + 1 :]]))
        for smaller in candidates:
            if fails(smaller):
                case, changed = smaller, True
                break
    used = {n for op in case.ops for n in op.input} | {
        n for g in case.ys.values() if g for n in (g if isinstance(g, tuple) else (g,))
    }
    return replace(case, feeds={name: v for name, v in case.feeds.items() if name in used})
