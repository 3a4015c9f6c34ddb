"""The verifier: every read of the backward pass sees the version that was meant.

It plays the operators once, keeping for each name the value that it holds. A read whose name holds another value than
the one meant is mended by renaming, as long as an emitted operator made one of the two; a forward value that a later
forward operator overwrote cannot be mended without changing the forward net, and is reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netgrad.autodiff.errors import OverwrittenError
from netgrad.graph import control, registry

if TYPE_CHECKING:
    from netgrad.autodiff.walk import Walk


@dataclass
class Lost:
    """A forward value that the backward pass needs and that was overwritten.

    Attributes:
        value: the forward value.
        readers: emitted operators (positions among the emitted ones) that need it; -1 stands for the returned map.
    """

    value: int
    readers: list[int] = field(default_factory=list)


class Names:
    """Hands out names that nothing in the net or the pass uses."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._counters: dict[str, int] = {}

    def fresh(self, name: str) -> str:
        count = self._counters.get(name, 0)
        while True:
            count += 1
            candidate = f"{name}_{count}"
            if candidate not in self._taken:
                self._counters[name] = count
                self._taken.add(candidate)
                return candidate

    def unused(self, name: str) -> str:
        """The name itself if it is free, else a fresh one."""
        if name in self._taken:
            return self.fresh(name)
        self._taken.add(name)
        return name


class Verifier:
    """One pass over the emitted operators, from what the names hold after the forward operators.

    Args:
        walk: the finished walk; its table of names is mended in place.
        protected: names that the pass must not write (the results of earlier passes over the same net).
    """

    def __init__(self, walk: Walk, protected: Iterable[str] = ()) -> None:
        self.walk = walk
        self.lost: dict[int, Lost] = {}
        self._fresh: Names | None = None
        self._protected = protected
        self._holds: dict[str, int] = {}
        #: emitted value -> the emitted value whose name it took
        self._displaced: dict[int, int] = {}
        self._makers: dict[int, int] | None = None
        self._sums = set(walk.sums)
        #: value of a given gradient -> the forward value whose gradient it is; a pass that would write over it as the
        #: gradient of an earlier, unrelated version of the same blob is refused
        self.given: dict[int, int] = {}

    @property
    def fresh(self) -> Names:
        if self._fresh is None:
            self._fresh = Names([*self.walk.names, *self._protected])
        return self._fresh

    def run(self, results: Iterable[int], saved: dict[str, int] | None = None) -> list[Lost]:
        """Plays the pass; returns the forward values that are needed and lost, in the order of discovery.

        Args:
            results: values that must be intact in the end (the gradients of the returned map, given gradients).
            saved: names under which forward values were put aside.
        """
        walk, names = self.walk, self.walk.names
        self.lost, self._displaced = {}, {}
        watched = self.watch()
        if not watched:
            return []
        forward_size, pinned, displaced = walk.forward.size, walk.pinned, self._displaced
        holds = self._holds = {**walk.forward.current, **walk.externals, **(saved or {})}
        for name in self._protected:
            holds.setdefault(name, 0)  # stands for "somebody else's"
        late = set(walk.externals.values())
        find = holds.get
        all_inputs, all_outputs = walk.emitted.inputs, walk.emitted.outputs
        for position, inputs in enumerate(all_inputs):
            if watched.isdisjoint(inputs) and watched.isdisjoint(all_outputs[position]):
                continue
            for k, value in enumerate(inputs):
                if value in watched and find(names[value]) != value:
                    self._mend(position, k, value)
            for k, value in enumerate(all_outputs[position]):
                before = find(names[value])
                if before is not None:
                    if value not in pinned and value != walk.unwanted and not self._follows(value, before) and (
                            before < forward_size or before in late or not self._may_overwrite(position, k, before)):
                        if before in self.given:
                            self._check_given(before)
                        self._rename(value, self.fresh.fresh(names[value]))
                    else:
                        displaced[value] = before
                holds[names[value]] = value
        for value in results:
            if value in watched and find(names[value]) != value:
                self._mend(-1, 0, value)
        return list(self.lost.values())

    def watch(self) -> set[int]:
        """Values whose name is not theirs alone. Reads of all others cannot go wrong: their name is written once."""
        walk = self.walk
        names, forward = walk.names, walk.forward
        # a Sum takes the name of a contribution that it alone reads: no harm in that
        made = [names[v] for v in range(forward.size, len(names)) if v not in walk.totals] if walk.totals else \
            names[forward.size:]
        unique = set(made)
        doubtful = {names[v] for v in forward.older}
        doubtful.update(unique.intersection(forward.current), unique.intersection(self._protected))
        if len(unique) < len(made):
            seen: set[str] = set()
            doubtful.update(name for name in made if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        return {v for v, name in enumerate(names) if name in doubtful} if doubtful else set()

    def _mend(self, position: int, k: int, value: int) -> None:
        """Makes a read see its value: by renaming, or not at all when a forward operator overwrote it."""
        walk = self.walk
        names, holds = walk.names, self._holds
        name = names[value]
        if value < walk.forward.size:
            if position < 0 or not self._shape_serves(position, k, value, holds.get(name)):
                self.lost.setdefault(value, Lost(value)).readers.append(position)
            return
        clobberers = []
        holder = holds.get(name)
        while holder is not None and holder != value and self._may_rename(holder):
            clobberers.append(holder)
            holder = self._displaced.get(holder)
        if holder != value:
            clobberers = [value]
        for changed in clobberers:
            if names[changed] == name:  # not yet renamed with one that it is tied to
                self._rename(changed, self.fresh.fresh(name))
                holds[names[changed]] = changed
        if holder == value:
            holds[name] = value

    def _rename(self, value: int, name: str) -> None:
        """Renames a value, and those that must have its name."""
        for each in self.walk.tied.get(value, (value,)):
            self.walk.names[each] = name

    def _follows(self, value: int, before: int) -> bool:
        """Whether a value is written over another one that it is tied to, as it must be."""
        return before in self.walk.tied.get(value, ())

    def _check_given(self, gradient: int) -> None:
        """Refuses a given gradient that bears the name which the gradient of another version of its blob would have."""
        walk = self.walk
        forward, value = walk.forward, self.given[gradient]
        blob, name = walk.names[value], walk.names[gradient]
        maker = forward.producer.get(value)
        older = forward.older.get(value)
        if name != walk.gradient_name(blob) or maker is None or older is None or older in forward.ins[maker]:
            return
        raise OverwrittenError(
            f"{name!r} is given as the gradient of version {forward.version(value)} of {blob!r}, and is what the "
            f"gradient of its version {forward.version(older)} would be called, which is another value.\n"
            f"History of {blob!r}:\n"
            f"{forward.history(blob, walk.line_of)}\nGive the gradient another name, or ask with overwritten=\"save\".")

    def _may_overwrite(self, position: int, output: int, operand: int) -> bool:
        """Whether an emitted operator may write an output over what its name holds: unless its schema forbids it."""
        emitted = self.walk.emitted
        if emitted.types[position] in control.TYPES:  # its nets read while they write
            return operand not in emitted.inputs[position] and operand not in emitted.outputs[position]
        declaration = registry.find(emitted.types[position])
        if position in self._sums:
            return emitted.inputs[position].count(operand) < 2  # in place on its first operand alone
        if declaration is None:
            return True
        return all(declaration.may_be_inplace(k, output)
                   for k, value in enumerate(emitted.inputs[position]) if value == operand)

    def _may_rename(self, value: int) -> bool:
        """Whether an emitted value may leave the name of the operand that it overwrites."""
        walk = self.walk
        if value < walk.forward.size or value in walk.pinned:
            return False
        if self._makers is None:
            self._makers = {v: n for n, row in enumerate(walk.emitted.outputs) for v in row}
        maker = self._makers.get(value)
        if maker is None:
            return False
        declaration = registry.find(walk.emitted.types[maker])
        required = declaration.inplace_required if declaration is not None else ()
        return all(o != walk.emitted.outputs[maker].index(value) for _, o in required)

    # shape-only reads

    def _shape_serves(self, position: int, k: int, value: int, holder: int | None) -> bool:
        """Whether the read needs only a shape, and what the name holds now has that shape for certain."""
        walk = self.walk
        emitted = walk.emitted
        declaration = registry.find(emitted.types[position])
        if holder is None or holder >= walk.forward.size or declaration is None:
            return False
        if declaration.shape_only is not None:
            from netgrad.autodiff.encoding import decode_rest
            from netgrad.graph.arguments import parse_arguments

            arguments = parse_arguments(decode_rest(emitted.rests[position]), declaration.argument_table)
            if k not in declaration.shape_only(arguments, len(emitted.inputs[position])):
                return False
        else:
            slot = declaration.slot(declaration.inputs, k)
            if slot is None or not slot.shape_only:
                return False
        return self._same_shape(value, holder)

    def _same_shape(self, value: int, newer: int) -> bool:
        """Whether in-place operators led from one version of a name to another without touching its shape."""
        from netgrad.graph.arguments import parse_arguments

        forward = self.walk.forward
        while newer != value:
            older = forward.older.get(newer)
            maker = forward.producer.get(newer)
            if older is None or maker is None:
                return False
            declaration = registry.find(forward.ops[maker].type)
            if declaration is None:
                return False
            if forward.producer.get(older) == maker:  # one operator wrote the name twice
                alike = declaration.outputs_alike
                arguments = parse_arguments(forward.ops[maker], declaration.argument_table)
                if alike is None or not alike(arguments, len(forward.ins[maker])):
                    return False
            elif older not in forward.ins[maker] or not declaration.inplace_keeps_shape or not \
                    declaration.may_be_inplace(forward.ins[maker].index(older), forward.outs[maker].index(newer)):
                return False
            newer = older
        return True


def order_sums(walk: Walk) -> None:
    """Sum may run in place on its first operand alone: the operand that shares the result's name goes first."""
    names = walk.names
    for position in walk.sums:
        result = names[walk.emitted.outputs[position][0]]
        terms = walk.emitted.inputs[position]
        for k, term in enumerate(terms):
            if names[term] == result:
                if k:
                    terms[0], terms[k] = terms[k], terms[0]
                break
