"""The `Rule` that gradient functions receive: references are values of the walk's table, names come from its policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from netgrad.autodiff import encoding
from netgrad.autodiff.encoding import Emitted
from netgrad.graph.arguments import value_of
from netgrad.graph.rules import GradientNotProvided, NoRule, Ref

if TYPE_CHECKING:
    from netgrad.autodiff.walk import Walk

#: a gradient: a value, or (indices, values) of a slice
Cotangent = int | tuple[int, int]


class RuleContext:
    """One forward operator in the midst of the walk; what its rule emits is committed when the rule has returned."""

    __slots__ = ("_arguments", "_gi", "_latest", "_parts", "_unwritten", "copy_arguments", "copy_device", "copy_engine",
                 "devices", "emitted", "gos", "index", "ins", "op", "outs", "set_directly", "used", "walk")

    def __init__(self, walk: Walk, index: int, op: Any, gos: list[Cotangent | None]) -> None:
        self.walk = walk
        self.index = index
        self.op = op
        self.ins = walk.forward.ins[index]
        self.outs = walk.forward.outs[index]
        self.gos = gos
        #: outputs whose gradients the rule looked at
        self.used: set[int] = set()
        self.emitted = Emitted()
        #: emitted operator -> its device option, where a user's rule chose one
        self.devices: dict[int, Any] | None = None
        self.copy_arguments = self.copy_engine = self.copy_device = True
        #: input -> its gradient as last written
        self._gi: dict[int, int] = {}
        self._parts: dict[tuple[int, str], int] = {}
        #: scratch values that nothing has written yet
        self._unwritten: set[int] = set()
        #: reference -> the value that its last writing made
        self._latest: dict[int, int] = {}
        #: input -> gradient that was set rather than computed
        self.set_directly: dict[int, Cotangent] = {}
        self._arguments: dict[str, Any] | None = None

    # what the rule may ask

    @property
    def type(self) -> str:
        return str(self.op.type)

    @property
    def num_inputs(self) -> int:
        return len(self.ins)

    @property
    def num_outputs(self) -> int:
        return len(self.outs)

    @property
    def in_pass(self) -> bool:
        return self.walk.in_pass

    @property
    def saves(self) -> bool:
        return self.walk.save

    def _parsed(self) -> dict[str, Any]:
        if self._arguments is None:
            self._arguments = {a.name: value_of(a) for a in self.op.arg}
        return self._arguments

    def arg(self, name: str, default: Any = None) -> Any:
        value = self._parsed().get(name)
        return default if value is None else value

    def has_arg(self, name: str) -> bool:
        return name in self._parsed()

    def argument_names(self) -> list[str]:
        return list(self._parsed())

    def input_name(self, k: int) -> str:
        return self.walk.names[self.ins[k]]

    def output_name(self, k: int) -> str:
        return self.walk.names[self.outs[k]]

    def I(self, k: int) -> Ref:  # noqa: E743
        return self.ins[k]

    def O(self, k: int) -> Ref:  # noqa: E743
        return self.outs[k]

    def has_GO(self, k: int) -> bool:
        return self.gos[k] is not None

    def is_sparse_GO(self, k: int) -> bool:
        return isinstance(self.gos[k], tuple)

    def GO(self, k: int) -> Ref:
        self.used.add(k)
        gradient = self.gos[k]
        if isinstance(gradient, int):
            if gradient < self.walk.forward.size and (gradient in self.ins or gradient in self.outs):
                return -1 - self.num_inputs - k  # the caller gave a forward blob: writing over it changes no operand
            return gradient
        if gradient is None:
            if not self.walk.save:
                raise GradientNotProvided(k)
            return self._zeros(k)
        dense = self.walk.new_value(self.walk.gradient_name(self.output_name(k)))
        self._append("SparseToDense", [*gradient, self.outs[k]], [dense], {}, copy=False)
        self.gos[k] = dense
        return dense

    def GO_or_zeros(self, k: int) -> Ref:
        self.used.add(k)
        return self._zeros(k) if self.gos[k] is None else self.GO(k)

    def _zeros(self, k: int) -> Ref:
        zeros = self.walk.new_value(self.walk.gradient_name(self.output_name(k)))
        self._append("ConstantFill", [self.outs[k]], [zeros], {"value": 0.0}, copy=False)
        self.gos[k] = zeros
        return zeros

    def GO_slice(self, k: int) -> tuple[Ref, Ref]:
        self.used.add(k)
        gradient = self.gos[k]
        if gradient is None:
            raise GradientNotProvided(k)
        if isinstance(gradient, int):
            raise self.fail(f"the gradient of output {self.output_name(k)} is dense, a slice is expected")
        return gradient

    def wants(self, k: int) -> bool:
        return self.walk.wanted is None or self.walk.wanted[self.ins[k]]

    # what it may make

    def GI(self, k: int) -> Ref:
        """As an output reference in `emit` it is a new value; as an input the last one written."""
        return -1 - k  # resolved by `emit`, which knows on which side it stands

    def GI_indices(self, k: int) -> Ref:
        return self._slice_part(k, "_indices")

    def GI_values(self, k: int) -> Ref:
        return self._slice_part(k, "_values")

    def _slice_part(self, k: int, suffix: str) -> Ref:
        if (k, suffix) not in self._parts:
            self._parts[k, suffix] = self.temp(self.input_name(k) + "_grad" + suffix)
        return self._parts[k, suffix]

    def temp(self, name: str) -> Ref:
        value = self.walk.new_value(name)
        self._unwritten.add(value)
        return value

    def outside(self, name: str) -> Ref:
        return self.walk.external(name)

    def set_GI(self, k: int, value: Ref) -> None:
        self.set_directly[k] = self._read(value)

    def set_GI_slice(self, k: int, indices: Ref, values: Ref) -> None:
        self.set_directly[k] = (self._read(indices), self._read(values))

    def fail(self, reason: str) -> NoRule:
        return NoRule(reason)

    def emit(self, type: str, inputs: Sequence[Ref], outputs: Sequence[Ref], **arguments: Any) -> None:
        read = [self._read(ref) for ref in inputs]
        self._append(type, read, [self._written(ref) for ref in outputs], arguments)

    def _read(self, ref: Ref) -> int:
        """The value that a reference stands for when read now."""
        if ref >= 0:
            if not self.walk.names[ref] and ref in self.outs:
                raise NoRule(f"its rule reads its output {self.outs.index(ref)}, which has no name because nobody "
                             "asked for it; ask for it, too (with wrt)")
            return self._latest.get(ref, ref)
        if ref < -self.num_inputs:
            return self._latest.get(ref, self._given(ref))
        if -1 - ref not in self._gi:
            raise NoRule(f"its rule reads the gradient of input {-1 - ref} before writing it")
        return self._gi[-1 - ref]

    def _given(self, ref: Ref) -> int:
        """The gradient of an output that is one of the operator's own operands or results."""
        gradient = self.gos[-1 - self.num_inputs - ref]
        assert isinstance(gradient, int)
        return gradient

    def _written(self, ref: Ref) -> int:
        """The value that writing a reference makes; it keeps the name."""
        if ref < -self.num_inputs:
            self._latest[ref] = value = self.walk.new_value(self.walk.names[self._given(ref)])
            return value
        if ref < 0:
            k = -1 - ref
            name = self.input_name(k) + "_grad"
            value = self.walk.new_value(name)
            if name in self.walk.externals:
                self.walk.pinned.add(value)
            before = self._gi.get(k)
            if before is not None:
                rewritten = self.walk.rewritten
                rewritten[value] = [*rewritten.get(before, ()), before]
            self._gi[k] = value
            return value
        if ref in self._unwritten:
            self._unwritten.remove(ref)
            return ref
        self._latest[ref] = value = self.walk.new_value(self.walk.names[ref])
        if (ref in self.ins or ref in self.outs) and ref not in self.gos:
            self.walk.pinned.add(value)
        return value

    def _append(self, type: str, inputs: list[int], outputs: list[int], arguments: dict[str, Any], *,
                copy: bool = True) -> None:
        rest = encoding.argument_fields(arguments) if arguments else ""
        rest += self.walk.copied(self.op, copy and self.copy_arguments, self.copy_device, self.copy_engine)
        self.emitted.add(type, inputs, outputs, rest + encoding.IS_GRADIENT, self.index)

    def through_nets(self) -> None:
        from netgrad.autodiff.control_rules import RULES

        RULES[self.type](self)

    def through_kernel(self) -> None:
        from netgrad.autodiff import kernel_rule

        kernel_rule.apply(self)

    # what came of it

    def finish(self) -> list[tuple[int, Cotangent, bool | tuple[bool, bool], Any]]:
        """(input, gradient, computed here?, device) of each gradient: computed ones in order of writing, then others.

        What only unwanted gradients need is dropped.
        """
        if self.walk.wanted is not None:
            self._gi = {k: v for k, v in self._gi.items() if self.wants(k)}
            self.set_directly = {k: g for k, g in self.set_directly.items() if self.wants(k)}
            self._prune()
        made_by = {v: n for n, row in enumerate(self.emitted.outputs) for v in row}
        found: list[tuple[int, Cotangent, bool | tuple[bool, bool], Any]] = [
            (k, v, True, self._device(made_by.get(v))) for k, v in self._gi.items()]
        passed: list[tuple[int, Cotangent, bool | tuple[bool, bool], Any]] = []
        for k, gradient in sorted(self.set_directly.items()):
            if isinstance(gradient, int):
                passed.append((k, gradient, False, self._device(None)))
                continue
            here = (gradient[0] in made_by, gradient[1] in made_by)
            maker = made_by.get(gradient[1], made_by.get(gradient[0]))
            (found if any(here) else passed).append((k, gradient, here, self._device(maker)))
        return found + passed

    def _device(self, record: int | None) -> Any:
        if record is not None and self.devices is not None:
            return self.devices.get(record)
        return self.op.device_option if self.op.HasField("device_option") else None

    def _prune(self) -> None:
        """Drops operators whose results nobody wants, and unnames outputs that nobody wants."""
        walk = self.walk
        needed = set(self._gi.values())
        for gradient in self.set_directly.values():
            needed.update(gradient if isinstance(gradient, tuple) else (gradient,))
        emitted = self.emitted
        kept: list[int] = []
        for position in range(len(emitted) - 1, -1, -1):
            outputs = emitted.outputs[position]
            if not any(v in needed or v in walk.pinned for v in outputs):
                continue
            needed.update(emitted.inputs[position])
            if emitted.rests[position].__class__ is str and emitted.types[position] != "Do":
                named = [walk.unwanted if walk.names[v].endswith("_grad") and v not in needed else v for v in outputs]
                emitted.outputs[position] = walk.without_optional_tail(emitted.types[position], named)
            kept.append(position)
        emitted.keep(kept[::-1])
