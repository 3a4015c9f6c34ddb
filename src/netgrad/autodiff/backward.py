"""The public face of differentiation: `GetBackwardPass`, `add_gradient_operators`, `GradientRegistry`, `IR`."""

from __future__ import annotations

import difflib
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

from netgrad.autodiff import accumulate, encoding, python_rules, saving
from netgrad.autodiff.errors import (
    MissingOutputGradientError,
    MissingRuleError,
    NoGradientError,
    OverwrittenError,
    UnknownBlobError,
    YsTypeError,
    describe,
)
from netgrad.autodiff.forward import Forward
from netgrad.autodiff.rule_context import Cotangent, RuleContext
from netgrad.autodiff.verifier import Lost, Verifier, order_sums
from netgrad.autodiff.walk import Walk, counts_of
from netgrad.graph import scope
from netgrad.graph.blob import BlobReference
from netgrad.graph.operator import GradientSlice
from netgrad.graph.rules import GradientNotProvided, NoRule
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
def _no_collection() -> Iterator[None]:
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
    with _no_collection():
        walk = Walk(ops, wrt=None if wrt is None else _known_names(ops, wrt), fill_missing=save, bridge_devices=save,
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
    if lost and not save:
        raise _overwritten_error(walk, lost, gradients)
    while lost:
        moved = saving.put_aside(walk, verifier.fresh, lost, plan)
        gradients = {blob: (moved.get(g[0], g[0]), moved.get(g[1], g[1])) if isinstance(g, tuple) else moved.get(g, g)
                     for blob, g in gradients.items()}
        results = [v for g in gradients.values() for v in (g if isinstance(g, tuple) else (g,))]
        lost = verifier.run([*results, *given], plan.saved)
    return gradients


def _known_names(ops: Sequence[Any], wrt: Iterable[Any]) -> list[str]:
    names = _names(wrt)
    known = {name for op in ops for name in (*op.input, *op.output)}
    for name in names:
        if name not in known:
            raise _unknown(name, "wrt", known)
    return names


def _names(wrt: Iterable[Any]) -> list[str]:
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
        by = forward.producer[overwriter[value]]
        line = walk.line_of(by) if walk.line_of else None
        position = entry.readers[0]
        if position < 0:
            owner = next(b for b, g in gradients.items() if isinstance(g, tuple) and value in g)
            needs = f"the gradient of {owner!r} is"
        else:
            emitted = walk.emitted
            source = emitted.origins[position]
            origin = describe(forward.ops[source], source, walk.line_of(source) if walk.line_of else None)
            needs = f"Gradient operator {emitted.types[position]} of {origin} needs"
        lines.append(f"{needs} version {forward.version(value)} of {name!r}, but {describe(forward.ops[by], by, line)} "
                     f"overwrote it.\nHistory of {name!r}:\n{forward.history(name, walk.line_of)}")
    more = f"\n... and {len(lost) - 10} more." if len(lost) > 10 else ""
    return OverwrittenError("\n".join(lines) + more + "\nGive the operator that overwrites it another output name, or "
                            "let netgrad keep a copy: AddGradientOperators(ys, overwritten=\"save\").")


class GradientMap(MutableMapping[Any, Any]):
    """Blob -> its gradient, as `BlobReference` values or a `GradientSlice` of them; strings serve as keys.

    References are made when they are looked at. Two blobs may have the same gradient blob (a Sum passes its gradient
    on); `shared` lists them. `start` is the position in the net of the pass's first operator, where there is a net.
    """

    __slots__ = ("_refs", "_source", "explain", "start")

    def __init__(self, names: dict[str, Any] | BackwardPass, explain: Callable[[str], str] | None = None,
                 start: int | None = None) -> None:
        self._source: Any = names
        self.start = start
        self._refs: dict[str, Any] = {}
        self.explain = explain

    @property
    def _names(self) -> dict[str, Any]:
        if isinstance(self._source, BackwardPass):
            self._source = dict(self._source.gradients)
        return self._source  # type: ignore[no-any-return]

    def __getitem__(self, blob: Any) -> Any:
        key = str(blob)
        if key in self._refs:
            return self._refs[key]
        try:
            gradient = self._names[key]
        except KeyError:
            reason = f": {self.explain(key)}" if self.explain is not None else ""
            raise NoGradientError(f"{key!r} has no gradient{reason}") from None
        if isinstance(gradient, str):
            gradient = BlobReference(gradient)
        elif type(gradient) is tuple:
            gradient = GradientSlice(BlobReference(gradient[0]), BlobReference(gradient[1]))
        self._refs[key] = gradient
        return gradient

    def get(self, blob: Any, default: Any = None) -> Any:
        return self[blob] if blob in self else default  # noqa: SIM401 (this is `get`)

    def __contains__(self, blob: object) -> bool:
        return str(blob) in self._names

    def __setitem__(self, blob: Any, gradient: Any) -> None:
        self._names[str(blob)] = gradient
        self._refs[str(blob)] = gradient

    def __delitem__(self, blob: Any) -> None:
        del self._names[str(blob)]
        self._refs.pop(str(blob), None)

    def __iter__(self) -> Iterator[BlobReference]:
        return map(BlobReference, list(self._names))

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return repr({str(k): self[k] for k in self})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return {str(k): self[k] for k in self} == {str(k): v for k, v in other.items()}

    __hash__ = None  # type: ignore[assignment]

    @property
    def shared(self) -> dict[str, list[str]]:
        """Gradient blob -> the blobs that share it, where there is more than one."""
        users: dict[str, list[str]] = {}
        for blob in self:
            gradient = self[blob]
            for part in gradient if isinstance(gradient, GradientSlice) else (gradient,):
                users.setdefault(str(part), []).append(str(blob))
        return {gradient: blobs for gradient, blobs in users.items() if len(blobs) > 1}


class GradientRegistry:
    """Rules by operator type, and the backward pass of plain operator lists."""

    gradient_registry_ = python_rules.registered

    @classmethod
    def RegisterGradient(cls, op_type: str, override: bool = False) -> Callable[[Any], Any]:
        """Decorator: registers ``f(op, output_gradients) -> (operators, input_gradients)`` for an operator type.

        It takes effect for types without a rule of their own; with ``override=True`` for any.
        """

        def wrapper(function: Any) -> Any:
            python_rules.register(op_type, function, override=override)
            return function

        return wrapper

    @classmethod
    def GetGradientForOp(cls, op: Any, g_output: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The gradient operators of one operator, and the gradients of its inputs (None, name or `GradientSlice`).

        Raises:
            MissingRuleError: there is no rule, or it refused; the message says why.
        """
        ops, gradients = rule_of_one(op, [_given(g) for g in g_output])
        return ops, gradients

    @classmethod
    def GetBackwardPass(cls, operators: Sequence[Any], ys: Ys, ys_generate_gradient: bool = False,
                        **options: Any) -> tuple[list[Any], dict[Any, Any]]:
        """Gradient operators for a list of operators, and the map blob -> gradient name or slice.

        ``options`` are those of `build`. With ``overwritten="save"`` use `Net.AddGradientOperators`: saving changes the
        forward operators too.
        """
        if options.get("overwritten", "error") != "error":
            raise ValueError("GetBackwardPass cannot change the forward operators: use Net.AddGradientOperators to "
                             "save overwritten values")
        backward = build(operators, ys, **options)
        return backward.operators(), {blob: g if isinstance(g, str) else GradientSlice(*g)
                                      for blob, g in backward.gradients.items()}


GetBackwardPass = GradientRegistry.GetBackwardPass


def _given(gradient: Any) -> Any:
    if gradient is None or isinstance(gradient, GradientSlice):
        return gradient
    if isinstance(gradient, (list, tuple)):
        return GradientSlice(*gradient)
    return str(gradient)


def rule_of_one(op: Any, g_output: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Applies the rule of one operator outside of any net; see `GradientRegistry.GetGradientForOp`."""
    walk = Walk([op])
    walk.in_pass = False
    forward = walk.forward
    gos: list[Cotangent | None] = []
    for gradient in g_output:
        if isinstance(gradient, GradientSlice):
            gos.append((walk.new_value(str(gradient.indices)), walk.new_value(str(gradient.values))))
        else:
            gos.append(None if gradient is None else walk.new_value(str(gradient)))
    gos += [None] * (len(forward.outs[0]) - len(gos))
    context = RuleContext(walk, 0, op, gos)
    rule = python_rules.find(op.type)
    try:
        if rule is None:
            raise NoRule(python_rules.why_none(op.type))
        if problems := counts_of(op.type, len(op.input), len(op.output)):
            raise NoRule(f"it does not pass its schema: {'; '.join(problems)}")
        rule(context)
    except GradientNotProvided as missing:
        raise MissingOutputGradientError(
            f"no gradient for {describe(op)}: it needs the gradient of its output "
            f"{context.output_name(missing.output)!r}, which is not provided") from None
    except NoRule as reason:
        raise MissingRuleError(f"no gradient for {describe(op)}: {reason}") from None
    names = walk.names
    found: list[Any] = [None] * len(forward.ins[0])
    for k, gradient, _, _ in context.finish():
        if isinstance(gradient, tuple):
            found[k] = GradientSlice(names[gradient[0]], names[gradient[1]])
        else:
            found[k] = names[gradient]
    encoding.write_nets(context.emitted, names)
    return list(caffe2_pb2.NetDef.FromString(encoding.encode(context.emitted, names)).op), found


def add_gradient_operators(net: Any, ys: Ys, *, skip: int = 0, wrt: Iterable[Any] | None = None,
                           overwritten: str = "error", share_results: bool = True) -> GradientMap:
    """Derives the backward pass of a net's operators and appends it to the net; see `build` for the arguments.

    ``skip`` leaves the first operators out: what they write counts as given.
    """
    wrt = None if wrt is None else _names(wrt)
    with _no_collection():
        proto = net.Proto()
        ops = proto.op[skip:] if skip else proto.op
        protected: Iterable[str] = proto.external_input[:]
        if skip:
            protected = {*protected, *(name for op in proto.op[:skip] for name in (*op.input, *op.output))}
        backward = build(ops, ys, wrt=wrt, overwritten=overwritten, share_results=share_results,
                         protected=protected, line_of=_line_finder(net, skip))
        start = _append(net, backward, skip)
    return GradientMap(backward, explain=_explainer(net, backward.ys, wrt), start=start)


def _append(net: Any, backward: BackwardPass, skip: int) -> int:
    """Puts a finished pass into its net: changes to the forward operators first, then the gradient operators.

    Returns the position of the first gradient operator.
    """
    proto, provenance = net.Proto(), net._provenance
    sources: Sequence[int] = [k + skip if k >= 0 else -1 for k in backward.origins] if skip else backward.origins
    plan = backward.saving
    for index, op in plan.replaced.items():
        proto.op[index + skip].CopyFrom(op)
    for (index, position), name in plan.renames.items():
        proto.op[index + skip].output[position] = name
    if plan.copies:
        moved = _insert(proto, provenance, {index + skip: copies for index, copies in plan.copies.items()})
        sources = [moved[k] if k >= 0 else -1 for k in sources]
        net.refresh()
    start = len(proto.op)
    proto.MergeFromString(backward.wire)
    provenance.inherit(start, sources, backward.types, backward.first_output)
    return start


def _insert(proto: Any, provenance: Any, before: dict[int, list[Any]]) -> list[int]:
    """Inserts operators before given positions; returns the new position of every old operator."""
    ops = list(proto.op)
    moved: list[int] = []
    whole: list[Any] = []
    for position, op in enumerate(ops):
        for added in before.get(position, ()):
            origin = provenance.origin(len(whole), op) or (None, 0)
            provenance.insert(len(whole), added.type, added.output[0], *origin)
            whole.append(added)
        moved.append(len(whole))
        whole.append(op)
    kept = caffe2_pb2.NetDef(op=whole)
    del proto.op[:]
    proto.MergeFrom(kept)
    return moved


def _line_finder(net: Any, skip: int) -> Callable[[int], str | None]:
    def line_of(index: int) -> str | None:
        found = net.line_of(index + skip)
        return f"{found[0]}:{found[1]}" if found else None

    return line_of


def _explainer(net: Any, ys: list[str], wrt: list[str] | None) -> Callable[[str], str]:
    def explain(blob: str) -> str:
        from netgrad.autodiff.explanation import HAS, explain

        found = explain(net, blob, ys)
        if found.outcome == HAS and wrt is not None and blob not in wrt:
            return f"it was not asked for (wrt={wrt})"
        return str(found)

    return explain


class IR(NamedTuple):
    """Caffe2's intermediate representation, as far as scripts use it: tags, and the backward pass of its operators."""

    operators: Sequence[Any]

    def GetBackwardPass(self, ys: Ys) -> tuple[list[Any], dict[Any, Any]]:
        return GetBackwardPass(self.operators, ys)


IR.IS_AUTO_GEN_SUM_OPS_TAG = accumulate.AUTO_SUM_TAG  # type: ignore[attr-defined]
IR.ONLY_KEEP_IS_AUTO_GEN_SUM_OPS_TAG = accumulate.ONLY_KEEP_TAG  # type: ignore[attr-defined]
