"""From operators and what is to be differentiated to a finished backward pass: walk, verify, save, encode."""

from __future__ import annotations

import difflib
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from netgrad.autodiff import encoding, saving
from netgrad.autodiff.errors import (
    OverwrittenError,
    UnknownBlobError,
    YsTypeError,
    describe,
)
from netgrad.autodiff.forward import Forward
from netgrad.autodiff.rule_context import Cotangent
from netgrad.autodiff.verifier import Lost, Verifier, order_sums
from netgrad.autodiff.walk import Walk
from netgrad.graph import scope
from netgrad.graph.blob import BlobReference
from netgrad.graph.operator import GradientSlice
from netgrad.proto import caffe2_pb2

Ys = Sequence[Any] | Mapping[Any, Any]
OVERWRITTEN = ("error", "save")


class BackwardPass:
    """A finished backward pass.

    Attributes:
        wire: the gradient operators as the wire format of a NetDef.
        saving: changes to the forward operators that it relies on.
    """

    def __init__(self, walk: Walk, gradients: dict[str, Cotangent] | None, plan: saving.Plan) -> None:
        emitted, names = walk.emitted, walk.names
        self._walk = walk
        self._gradients = gradients
        if walk.has_nets:
            encoding.write_nets(emitted, names)
        self.wire = encoding.encode(emitted, names)
        self.saving = plan
        #: for each gradient operator the position of the forward operator it belongs to; -1 for fills of ys
        self.origins = emitted.origins
        self.types = emitted.types
        self.ys = walk.ys
        walk.release()

    def first_output(self, position: int) -> str:
        row = self._walk.emitted.outputs[position]
        return self._walk.names[row[0]] if row else ""

    def operators(self) -> list[Any]:
        """The gradient operators as OperatorDefs."""
        return list(caffe2_pb2.NetDef.FromString(self.wire).op)

    @cached_property
    def gradients(self) -> dict[str, str | tuple[str, str]]:
        """Blob name -> name of its gradient, or (indices, values) of a slice."""
        names = self._walk.names
        found = self._walk.gradient_map() if self._gradients is None else self._gradients
        return {blob: names[g] if g.__class__ is int else (names[g[0]], names[g[1]])  # type: ignore[index]
                for blob, g in found.items()}


@contextmanager
def no_collection() -> Iterator[None]:
    """Tens of thousands of small lists are made and none is garbage: the collector would only walk them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def build(ops: Sequence[Any], ys: Ys, *, wrt: Iterable[Any] | None = None, overwritten: str = "error",
          share_results: bool = True, protected: Iterable[str] = (),
          line_of: Callable[[int], str | None] | None = None) -> BackwardPass:
    """Derives the backward pass of a list of operators.

    Args:
        ops: the forward OperatorDefs, in order.
        ys: what is differentiated: a list (each gradient is ones) or a dict blob -> given gradient (a name, a
            `GradientSlice`, or None: ones).
        wrt: blobs whose gradients are wanted; None: all. With it only what leads to them is computed.
        overwritten: "error" refuses a pass that needs a value which was overwritten; "save" has such values copied
            (see `BackwardPass.saving`), supplies zeros for missing output gradients and bridges devices.
        share_results: whether several blobs of the map may have one and the same gradient blob, as in Caffe2.
        protected: further names that must not be written.
        line_of: position of an operator -> the Python line that wrote it.

    Raises:
        YsTypeError: ``ys`` is neither list nor dict.
        UnknownBlobError: a y or a ``wrt`` does not occur in the operators.
        MissingRuleError: operators on the path have no gradient; all of them are named.
        OverwrittenError: see ``overwritten``.
        ValueError: the output of a StopGradient is read by nobody; ``overwritten`` is neither word.
    """
    if overwritten not in OVERWRITTEN:
        raise ValueError(f"overwritten must be one of {', '.join(OVERWRITTEN)}, not {overwritten!r}")
    save = overwritten == "save"
    with no_collection():
        walk = Walk(ops, wrt=None if wrt is None else _known_names(ops, wrt), save=save,
                    line_of=line_of)
        _check_stops(walk.forward)
        given = start(walk, ys)
        walk.run()
        verifier = Verifier(walk, protected)
        if not save:
            verifier.given = given
        gradients: dict[str, Cotangent] | None = None
        plan = saving.Plan(replaced=walk.replaced)
        if not share_results or verifier.watch():
            gradients = walk.gradient_map()
            if not share_results:
                _separate(walk, gradients, given)
            gradients = verified(walk, verifier, gradients, given, plan, save)
        order_sums(walk)
        return BackwardPass(walk, gradients, plan)


def verified(walk: Walk, verifier: Verifier, gradients: dict[str, Cotangent], given: Iterable[int], plan: saving.Plan,
             save: bool) -> dict[str, Cotangent]:
    """Lets the verifier mend names and, if wanted, puts overwritten values aside; returns the map as it then is."""
    results = [v for g in gradients.values() for v in (g if isinstance(g, tuple) else (g,))]
    lost = verifier.run([*results, *given], plan.saved)
    overwritten = set(walk.forward.older.values())
    while lost:
        if not save or any(entry.value not in overwritten for entry in lost):
            raise _overwritten_error(walk, lost, gradients)
        moved = saving.put_aside(walk, verifier.fresh, lost, plan)
        gradients = {blob: (moved.get(g[0], g[0]), moved.get(g[1], g[1])) if isinstance(g, tuple) else moved.get(g, g)
                     for blob, g in gradients.items()}
        results = [v for g in gradients.values() for v in (g if isinstance(g, tuple) else (g,))]
        lost = verifier.run([*results, *given], plan.saved)
    return gradients


def _known_names(ops: Sequence[Any], wrt: Iterable[Any]) -> list[str]:
    names = names_of(wrt)
    known = {name for op in ops for name in (*op.input, *op.output)}
    for name in names:
        if name not in known:
            raise _unknown(name, "wrt", known)
    return names


def names_of(wrt: Iterable[Any]) -> list[str]:
    return [str(w) for w in ([wrt] if isinstance(wrt, (str, BlobReference)) else wrt)]


def _unknown(name: str, role: str, known: Iterable[str]) -> UnknownBlobError:
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    hint = f"; did you mean {', '.join(map(repr, near))}?" if near else ""
    return UnknownBlobError(f"the blob {name!r} in {role} does not occur in these operators{hint}")


def _check_stops(forward: Forward) -> None:
    """A StopGradient whose output's name no operator reads stops nothing, and was surely meant to."""
    stops = [forward.producer[value] for value in forward.unread
             if forward.types[forward.producer[value]] == "StopGradient"] if "StopGradient" in forward.types else []
    if stops:
        read = {forward.names[v] for row in forward.ins for v in row}
        for index in stops:
            op = forward.ops[index]
            if op.output[0] not in read:
                raise ValueError(
                    f"the output of {describe(op, index)} is read by no operator, so that it stops nothing: let the "
                    "operators that come after it read its output, or remove it")


def start(walk: Walk, ys: Ys) -> dict[int, int]:
    """Enters the ys; returns the values of given gradients, each with the forward value that it belongs to."""
    if not isinstance(ys, (list, dict)):
        raise YsTypeError(f"ys should either be a list or a dict, not {type(ys).__name__}")
    forward = walk.forward
    wanted = dict.fromkeys(ys) if isinstance(ys, list) else ys
    entries: list[tuple[int, Any, str]] = []
    seen: dict[str, Any] = {}
    for y, gradient in wanted.items():
        name = _resolve(forward, y)
        if name in seen:
            continue
        seen[name] = gradient
        entries.append((forward.current[name], gradient, _fill_name(y, name)))
    walk.ys = list(seen)
    given: dict[int, int] = {}
    prepared: list[tuple[int, Any, str]] = []
    for value, gradient, fill_name in entries:
        if isinstance(gradient, GradientSlice):
            gradient = (_outside(forward, str(gradient.indices)), _outside(forward, str(gradient.values)))
            given.update(dict.fromkeys(gradient, value))
        elif gradient is not None:
            gradient = _outside(forward, str(gradient))
            given[gradient] = value
        prepared.append((value, gradient, fill_name))
    device = scope.CurrentDeviceScope()
    rest = encoding.argument_fields({"value": 1.0}) + (encoding.device_field(device) if device is not None else "")
    initial: list[Any] = []
    for value, gradient, fill_name in prepared:
        if gradient is None:
            ones = walk.new_value(fill_name)
            walk.emitted.add("ConstantFill", [value], [ones], rest, -1)
            initial.append((value, ones, True, device))
        else:
            initial.append((value, gradient, False, device))
    walk.start(initial)
    return given


def _resolve(forward: Forward, y: Any) -> str:
    """The name that a y stands for: itself, or, for a plain string in a name scope, the scoped one."""
    name = str(y)
    if not isinstance(y, BlobReference) and (prefix := scope.CurrentNameScope()) and prefix + name in forward.current:
        return prefix + name
    if name not in forward.current:
        raise _unknown(name, "ys", forward.current)
    return name


def _fill_name(y: Any, name: str) -> str:
    prefix = scope.CurrentNameScope()
    return (prefix + str(y) if isinstance(y, BlobReference) or prefix + str(y) == name else name) + "_autogen_grad"


def _outside(forward: Forward, name: str) -> int:
    """The value of a blob named by the caller: what it holds after the forward operators, or an external one."""
    known = forward.current.get(name)
    return forward.add_external(name) if known is None else known


def _separate(walk: Walk, gradients: dict[str, Cotangent], given: Iterable[int]) -> None:
    """Gives every blob of the map a gradient of its own: what is shared is copied."""
    seen = set(given)
    for blob, gradient in gradients.items():
        parts = gradient if isinstance(gradient, tuple) else (gradient,)
        own = []
        for part in parts:
            if part in seen or part < walk.forward.size:
                copy = walk.new_value(walk.gradient_name(blob))
                walk.emitted.add("Copy", [part], [copy], encoding.IS_GRADIENT, -1)
                part = copy
            seen.add(part)
            own.append(part)
        gradients[blob] = (own[0], own[1]) if len(own) == 2 else own[0]


def _overwritten_error(walk: Walk, lost: list[Lost], gradients: dict[str, Cotangent]) -> OverwrittenError:
    """Names every value that is needed and gone: who needs it, who overwrote it, and what to do."""
    forward = walk.forward
    overwriter = {older: newer for newer, older in forward.older.items()}
    lines = []
    for entry in lost[:10]:
        value = entry.value
        name = walk.names[value]
        if value in overwriter:
            by = forward.producer[overwriter[value]]
            culprit = describe(forward.ops[by], by, walk.line_of(by) if walk.line_of else None)
        else:
            culprit = "a gradient operator, which must write just this name,"
        position = entry.readers[0]
        if position < 0:
            owner = next(b for b, g in gradients.items() if isinstance(g, tuple) and value in g)
            needs = f"the gradient of {owner!r} is"
        else:
            emitted = walk.emitted
            source = emitted.origins[position]
            origin = describe(forward.ops[source], source, walk.line_of(source) if walk.line_of else None)
            needs = f"Gradient operator {emitted.types[position]} of {origin} needs"
        lines.append(f"{needs} version {forward.version(value)} of {name!r}, but {culprit} "
                     f"overwrote it.\nHistory of {name!r}:\n{forward.history(name, walk.line_of)}")
    more = f"\n... and {len(lost) - 10} more." if len(lost) > 10 else ""
    return OverwrittenError("\n".join(lines) + more + "\nGive the operator that overwrites it another output name, or "
                            "let netgrad keep a copy: AddGradientOperators(ys, overwritten=\"save\"), "
                            "netgrad.backward(..., overwritten=\"save\"), or --overwritten save on the command line.")
