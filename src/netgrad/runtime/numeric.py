"""Derivatives by finite differences, against those of the backward pass that netgrad writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netgrad.graph import registry
from netgrad.proto import caffe2_pb2
from netgrad.runtime import backends, random
from netgrad.runtime.workspace import Workspace

#: relative step sizes, tried in turn until the estimate agrees: small ones serve near kinks and poles
_STEPS = (1e-3, 1e-4, 1e-5, 1e-6)
_SHOWN = 5


class GradientMismatch(AssertionError):
    """The backward pass and finite differences disagree."""


def evaluate(ops: Any, feeds: Mapping[str, Any], fetch: Iterable[str] | None = None,
             backend: str | None = None) -> dict[str, Any]:
    """Runs operators in a workspace of their own.

    Args:
        ops: an OperatorDef, a list of them, a NetDef, or a Net.
        feeds: blob -> value.
        fetch: which blobs to return; all that the operators write unless given.

    Random operators draw the same numbers every time.
    """
    net = _net(ops)
    workspace = Workspace(backend=backend)
    for name, value in feeds.items():
        workspace.feed_blob(name, value)
    with random.seeded(0):
        workspace.run_net_once(net)
    names = dict.fromkeys(name for op in net.op for name in op.output) if fetch is None else fetch
    return {name: workspace.fetch_blob(name) for name in names}


def check_gradient(ops: Any, feeds: Mapping[str, Any], ys: Sequence[str] | None = None,
                   wrt: Sequence[str] | None = None, *, rtol: float = 1e-5, atol: float = 1e-6,
                   backend: str | None = None, subgradient: bool = False, order: int = 1,
                   overwritten: str = "error") -> dict[str, np.ndarray]:
    """Asserts that the backward pass of some operators is their derivative, in float64.

    The function is the sum of the ``ys``, each entry times a random weight. Its derivative by every entry of every
    ``wrt`` is estimated by central differences (extrapolated, several step sizes) and compared with what the backward
    pass computes. A blob to which the backward pass gives no gradient must have derivative zero.

    Args:
        ops: an OperatorDef, a list of them, a NetDef, or a Net.
        feeds: blob -> value; floating-point ones are cast to float64.
        ys: what is differentiated; unless given, all differentiable floating-point outputs that are not read again.
        wrt: by what; unless given, all floating-point feeds.
        rtol, atol: an entry agrees when the difference is at most atol + rtol times the larger of both numbers.
        backend: "numpy" or "torch"; unless given, every one that is installed.
        subgradient: at a kink, accept whatever lies between the derivatives of both sides.
        order: up to which derivative. The second is that of the first one's dense gradients (and the values of sparse
            ones), with respect to ``wrt`` and to the given gradients of ``ys``; and so on.
        overwritten: what to do with values that are overwritten before a gradient reads them, see `netgrad.backward`.

    Returns:
        The gradients of the (last) backend, of the first order: dense, by name of blob.

    Raises:
        GradientMismatch: with blob, index, both numbers, for the worst entries.
        ValueError: nothing is left to check.
    """
    problem = _Problem.of(_net(ops), feeds, ys, wrt, backend, overwritten)
    result: dict[str, np.ndarray] = {}
    for name in backends.available() if backend is None else (backend,):
        result = problem.gradients(name)
        misses = [miss for x in problem.wrt for miss in problem.compare(x, result[x], name, rtol, atol, subgradient)]
        if misses:
            misses.sort(key=lambda miss: -miss.badness)
            more = f"\n  ... and {len(misses) - _SHOWN} more" if len(misses) > _SHOWN else ""
            raise GradientMismatch(f"{problem.title} on {name}: {len(misses)} entries of the gradient are wrong\n  "
                                   + "\n  ".join(map(str, misses[:_SHOWN])) + more)
    if order > 1 and (again := problem.differentiated()) is not None:
        check_gradient(*again, rtol=rtol, atol=atol, backend=backend, subgradient=subgradient, order=order - 1,
                       overwritten=overwritten)
    return result


@dataclass(frozen=True)
class _Miss:
    """An entry on which both sides disagree."""

    blob: str
    index: tuple[int, ...]
    value: float
    computed: float
    estimated: float

    @property
    def badness(self) -> float:
        distance = abs(self.computed - self.estimated)
        return distance if np.isfinite(distance) else np.inf

    def __str__(self) -> str:
        where = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        return (f"d{self.blob}{where} is {self.computed:.9g}, finite differences give {self.estimated:.9g} "
                f"(at {self.blob}{where} = {self.value:.9g})")


@dataclass(frozen=True)
class _Problem:
    """A net, where it is evaluated, and the function of its outputs that is differentiated."""

    net: caffe2_pb2.NetDef
    feeds: dict[str, Any]
    weights: dict[str, np.ndarray]
    wrt: list[str]
    overwritten: str = "error"

    @classmethod
    def of(cls, net: caffe2_pb2.NetDef, feeds: Mapping[str, Any], ys: Sequence[str] | None,
           wrt: Sequence[str] | None, backend: str | None, overwritten: str) -> _Problem:
        own = {name: _widened(value) for name, value in feeds.items()}
        found = evaluate(net, own, None if ys is None else ys, backend)
        if ys is None:
            found = {name: value for name, value in found.items() if name in set(_differentiable(net))}
        rng = np.random.default_rng(0)
        weights = {y: rng.uniform(0.5, 1.5, value.shape) * rng.choice([-1.0, 1.0], value.shape)
                   for y, value in found.items() if _is_float(value)}
        by = [x for x, value in own.items() if _is_float(value)] if wrt is None else list(wrt)
        if not weights or not by:
            raise ValueError(f"nothing to check: floating-point outputs {list(weights)}, floating-point feeds {by}")
        if odd := [y for y in ys or () if y not in weights] + [x for x in by if not _is_float(own.get(x))]:
            raise ValueError(f"{', '.join(odd)}: not a floating-point tensor that is there")
        return cls(net, own, weights, by, overwritten)

    @property
    def title(self) -> str:
        return " and ".join(dict.fromkeys(op.type for op in self.net.op))

    def gradients(self, backend: str) -> dict[str, np.ndarray]:
        """What the backward pass computes, dense."""
        whole, gradients, cotangents = self._with_backward()
        wanted = {x: _parts(gradients[x]) for x in self.wrt if x in gradients}
        values = evaluate(whole, {**self.feeds, **cotangents}, [n for parts in wanted.values() for n in parts], backend)
        return {x: self._dense(x, [values[n] for n in wanted[x]] if x in wanted else []) for x in self.wrt}

    def _with_backward(self) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
        """The operators with their backward pass, blob -> gradient, and the given gradients of the ys."""
        from netgrad.autodiff import saving
        from netgrad.autodiff.backward import build

        ops = list(self.net.op)
        given = {y: f"{y}__cotangent" for y in self.weights}
        while taken := {name for op in ops for name in (*op.input, *op.output)} & set(given.values()):
            given = {y: f"{name}_{len(taken)}" for y, name in given.items()}
        backward = build(ops, dict(given), overwritten=self.overwritten)
        return ([*saving.changed(ops, backward.saving), *backward.operators()], backward.gradients,
                {given[y]: weight for y, weight in self.weights.items()})

    def differentiated(self) -> tuple[list[Any], dict[str, Any], list[str], list[str]] | None:
        """The problem of the next order: operators, feeds, ys, wrt; None where no gradient is computed."""
        whole, gradients, cotangents = self._with_backward()
        made = {name for op in whole for name in op.output}
        ys = dict.fromkeys(_parts(gradients[x])[-1] for x in self.wrt if x in gradients)
        computed = [y for y in ys if y in made]
        return (whole, {**self.feeds, **cotangents}, computed, [*self.wrt, *cotangents]) if computed else None

    def _dense(self, x: str, parts: list[np.ndarray]) -> np.ndarray:
        at = self.feeds[x]
        if len(parts) == 1:
            gradient = parts[0]
        else:
            gradient = np.zeros_like(at)
            if parts:
                np.add.at(gradient, parts[0], parts[1])
        if gradient.shape != at.shape or gradient.dtype != np.float64:
            raise GradientMismatch(f"{self.title}: the gradient of {x} is {gradient.dtype} {gradient.shape}; "
                                   f"{x} is {at.dtype} {at.shape}")
        return gradient

    def compare(self, x: str, computed: np.ndarray, backend: str, rtol: float, atol: float,
                subgradient: bool) -> Iterator[_Miss]:
        for index in np.ndindex(computed.shape):
            analytic = float(computed[index])
            best = np.nan
            for estimate in self._estimates(x, index, backend):
                if not abs(estimate - analytic) >= abs(best - analytic):
                    best = estimate
                if abs(estimate - analytic) <= atol + rtol * max(abs(estimate), abs(analytic)):
                    break
            else:
                if not (subgradient and self._between_sides(x, index, backend, analytic, rtol, atol)):
                    yield _Miss(x, index, float(self.feeds[x][index]), analytic, best)

    def _estimates(self, x: str, index: tuple[int, ...], backend: str) -> Iterator[float]:
        """Central differences with their first error term cancelled, for one step size after the other."""
        for step in _STEPS:
            h = step * max(1.0, abs(float(self.feeds[x][index])))
            wide, narrow = ((self._at(x, index, d, backend) - self._at(x, index, -d, backend)) / (2 * d)
                            for d in (h, h / 2))
            yield (4 * narrow - wide) / 3

    def _between_sides(self, x: str, index: tuple[int, ...], backend: str, analytic: float, rtol: float,
                       atol: float) -> bool:
        h = 1e-6
        middle = self._at(x, index, 0.0, backend)
        sides = sorted([(self._at(x, index, h, backend) - middle) / h, (middle - self._at(x, index, -h, backend)) / h])
        slack = atol + 10 * rtol * max(1.0, *map(abs, sides))
        return sides[0] - slack <= analytic <= sides[1] + slack

    def _at(self, x: str, index: tuple[int, ...], shift: float, backend: str) -> float:
        moved = np.array(self.feeds[x])
        moved[index] += shift
        values = evaluate(self.net, {**self.feeds, x: moved}, self.weights, backend)
        return float(sum(np.sum(values[y] * weight) for y, weight in self.weights.items()))


def _net(ops: Any) -> caffe2_pb2.NetDef:
    if hasattr(ops, "Proto"):
        ops = ops.Proto()
    if isinstance(ops, caffe2_pb2.NetDef):
        return ops
    return caffe2_pb2.NetDef(name="numeric", op=[ops] if isinstance(ops, caffe2_pb2.OperatorDef) else list(ops))


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _widened(value: Any) -> Any:
    if isinstance(value, (np.generic, float, list, tuple)):
        value = np.asarray(value)
    return value.astype(np.float64) if _is_float(value) else value


def _parts(gradient: str | tuple[str, str]) -> list[str]:
    return list(gradient) if isinstance(gradient, tuple) else [gradient]


def _differentiable(net: caffe2_pb2.NetDef) -> list[str]:
    """Outputs that a gradient can act on and that no later operator reads."""
    found: dict[str, bool] = {}
    for op in net.op:
        declaration = registry.find(op.type)
        for name in op.input:
            found.pop(name, None)
        for k, name in enumerate(op.output):
            slot = None if declaration is None else declaration.slot(declaration.outputs, k)
            found[name] = slot is None or slot.differentiable
    return [name for name, differentiable in found.items() if differentiable]
